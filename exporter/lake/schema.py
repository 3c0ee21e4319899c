"""The schema of a table as Spark JSON: made, and evolved by new columns and, if that is asked for, wider ones. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA, KAFKA_COLUMN, KAFKA_TYPE
from exporter.arrow.spark_types import as_json, json_field
from exporter.core.columns import EVENT_TIME, JSON_TEXT, all_nullable, clashes, folded
from exporter.core.specs import own_spec
from exporter.errors import ConfigError, Widened
from exporter.lake import widening
from exporter.lake.fillable import unfillable
from offsets.partitions import DAY, Spec
from offsets.table_log import TableView


def table_schema(declared_json: str | None, spec: Spec = DAY) -> str:
    """Spark schema JSON of a table: `_kafka`, `_event_time`, the declared columns, `_rescued`, those of the spec.

    None: of the dead letters, whose records need have no event time.
    """
    if declared_json is None:
        fields = [json_field(one.name, as_json(one.type)) for one in DEAD_LETTER_SCHEMA]
    else:
        fields = [json_field(KAFKA_COLUMN, as_json(KAFKA_TYPE)), json_field(EVENT_TIME, "timestamp")]
        fields += [_as_stored(field) for field in json.loads(declared_json)["fields"]]
        fields.append(json_field("_rescued", "string"))
    fields += [json_field(column.name, column.type) for column in spec.time_columns]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def _as_stored(field: Mapping[str, Any]) -> dict[str, Any]:
    """A declared column as a table has it: what is said of it goes, but for where it holds JSON."""
    stored = json_field(field["name"], all_nullable(field["type"]))
    kept = {key: value for key, value in field.get("metadata", {}).items() if key == JSON_TEXT}
    return {**stored, "metadata": kept}


def with_event_time(table_json: str) -> str:
    """A table's schema with `_event_time` behind `_kafka`; unchanged text if it has a column of that name."""
    table = json.loads(table_json)
    timed = _with_event_time(table)
    return table_json if timed is table else json.dumps(timed, separators=(",", ":"))


def _with_event_time(table: Any) -> Any:
    names = [field["name"] for field in table["fields"]]
    if any(folded(name) == EVENT_TIME for name in names):
        return table
    at = names.index("_kafka") + 1 if "_kafka" in names else 0
    fields = [*table["fields"][:at], json_field(EVENT_TIME, "timestamp"), *table["fields"][at:]]
    return {**table, "fields": fields}


def keeps_event_time(table_json: str) -> bool:
    """False of a table with another column of that name, from before it was the exporter's; it stays so."""
    called_so = [field for field in json.loads(table_json)["fields"] if folded(field["name"]) == EVENT_TIME]
    return all((field["name"], field["type"]) == (EVENT_TIME, "timestamp") for field in called_so)


_NTZ = '"timestamp_ntz"'
_NTZ_FEATURE = "timestampNtz"
"""A type that only a table with this feature may have: Delta turns it on by itself for a table that is made with it."""


@dataclass(frozen=True)
class SchemaChange:
    """What a table needs to hold what is declared, in one change of its metadata.

    schema_json: Spark schema JSON; None if it is to stay. properties: to be set with it. added: the new columns and
    the new fields in columns, by their paths. widened: those that get a wider type, as a person reads it.
    """

    schema_json: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()


def schema_change(view: TableView, declared_json: str | None, widens: bool) -> SchemaChange:
    """declared_json: as table_schema() gives it; None for a table that is not declared.

    Columns of the table that are not declared stay. widens: whether columns may get the wider types that are declared.
    Raises ConfigError, for all columns at once, where one has another type, for no type is ever changed silently, and
    for a new column that readers would take for one that the table has.
    """
    if declared_json is None:
        return SchemaChange()
    table, merge = json.loads(view.schema_json), _Merge(widens, frozenset(view.partition_columns))
    merged = merge.tables(table, json.loads(declared_json))
    if merge.unfit:
        raise ConfigError.of(merge.unfit, "columns of the settings do not fit the table")
    text = json.dumps(merged, separators=(",", ":"))
    asked = {widening.ENABLED: "true"} if merge.widened else {}
    if _NTZ in text and _NTZ_FEATURE not in view.writer_features:
        asked[f"delta.feature.{_NTZ_FEATURE}"] = "supported"
    return SchemaChange(
        text if merged != table else None,
        {name: value for name, value in asked.items() if view.properties.get(name) != value},
        tuple(merge.added),
        tuple(merge.widened),
    )


_KEPT = (
    "declare the type that the table has: values that it cannot hold stay in the dead letters, whole; or leave "
    "the column out: new values are then kept in `_rescued`, whatever they are"
)
_WIDENING = (
    "`type_widening = true` gives the table's column the wider type, with Delta's type widening: from then on delta-rs "
    "1.6, and DuckDB over it, refuses the whole table. Or "
)


@dataclass
class _Merge:
    """A table's schema with what is declared laid over it, all as parsed JSON. What does not fit is collected.

    widens: whether a column may get a wider type. fixed: the top-level columns that may not, for partition values are
    texts that stay.
    """

    widens: bool = False
    fixed: frozenset[str] = frozenset()
    unfit: list[ConfigError] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    widened: list[str] = field(default_factory=list)

    def tables(self, table: Any, declared: Any) -> Any:
        """The table's schema with what it lacks."""
        wanted = [one for one in declared["fields"] if one["name"] != EVENT_TIME]
        base = table if wanted == declared["fields"] else _with_event_time(table)
        if base is not table:
            self.added.append(EVENT_TIME)
        merged = {**base, "fields": self._fields(base["fields"], wanted, "")}
        alike = set(clashes(merged["fields"])) - set(clashes(table["fields"])) if merged != table else set()
        for one, other in sorted(alike):
            self.unfit.append(ConfigError(
                f"the table has a column {one}, which readers cannot tell from {other}",
                "declare it by the name that the table has (a field that is written otherwise then goes to "
                "`_rescued`), or give the new column another one",
            ))  # fmt: skip
        return merged

    def _fields(self, have: list[Any], want: list[Any], path: str) -> list[Any]:
        """The fields of a struct. path: of the struct, with a dot behind it."""
        wanted = {one["name"]: one for one in want}
        merged = [self._field(f, wanted[f["name"]], path + f["name"]) if f["name"] in wanted else f for f in have]
        known = {f["name"] for f in have}
        new = [f for f in want if f["name"] not in known]
        self.added.extend(path + f["name"] for f in new)
        return [*merged, *new]

    def _field(self, have: Any, want: Any, path: str) -> Any:
        changes: list[dict[str, str]] = []
        unfit = len(self.unfit)
        kind = self._type(have["type"], want["type"], _Place(have, path, changes))
        if len(self.unfit) == unfit and _json_places(have) != _json_places(want):
            found, declared = ("JSON", "plain ones") if _json_places(have) else ("plain ones", "JSON")
            self.unfit.append(ConfigError(
                f"the texts of column {path} are {found} in the table and {declared} in the settings",
                "declare JSON or STRING as the table has it, or leave the column out: new values are then kept in "
                "`_rescued`, whatever they are",
            ))  # fmt: skip
        if not changes:
            return {**have, "type": kind}
        metadata = have.get("metadata", {})
        changed = {**metadata, widening.CHANGES: [*metadata.get(widening.CHANGES, ()), *changes]}
        return {**have, "type": kind, "metadata": changed}

    def _type(self, have: Any, want: Any, at: _Place) -> Any:
        """`have` with the fields of `want` added, or `want` where it is to be that."""
        if isinstance(have, dict) and isinstance(want, dict) and have.get("type") == want.get("type"):
            if have["type"] == "struct":
                return {**have, "fields": self._fields(have["fields"], want["fields"], f"{at.shown}.")}
            parts = [part for part in ("elementType", "keyType", "valueType") if part in have]
            return {**have, **{part: self._type(have[part], want[part], at.inside(part)) for part in parts}}
        if have == want:
            return have
        wider = widening.is_wider(have, want) and at.shown not in self.fixed and "key" not in at.within
        if wider and self.widens:
            at.changes.append(widening.change(have, want, at.within))
            self.widened.append(f"{at.shown} from {have} to {want}")
            return want
        kind = Widened if isinstance(want, str) and want in widening.before(at.field, at.within) else ConfigError
        self.unfit.append(kind(
            f"column {at.shown} is {_shown(have)} in the table and {_shown(want)} in the settings",
            f"{_WIDENING}{_KEPT}" if wider else _KEPT,
        ))  # fmt: skip
        return have


@dataclass(frozen=True)
class _Place:
    """A type in a field of a struct. path: of the field. within: the way from the field to the type.

    changes: of types in the field, grows.
    """

    field: Mapping[str, Any]
    path: str
    changes: list[dict[str, str]]
    within: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return ".".join((self.path, *self.within))

    def inside(self, part: str) -> _Place:
        """part: key of a list's or a map's type that has a type in it."""
        return replace(self, within=(*self.within, part.removesuffix("Type")))


def _json_places(field: Mapping[str, Any]) -> set[str]:
    """Where a field holds JSON texts (JSON_TEXT)."""
    return set(filter(None, field.get("metadata", {}).get(JSON_TEXT, "").split(",")))


def refuses(view: TableView, declared_json: str | None, widened: bool = True) -> str:
    """Why files that fit what is declared cannot be put into a table, with what to do; empty if they can.

    The table is as users have altered it since it was made to hold that, or without `_event_time`, which a start adds
    where it can: files have it anyway, and readers go by the table. declared_json: as table_schema() gives it;
    None for a table that is not declared. widened: whether a column that a user has widened is a reason too.
    """
    reasons: list[str] = []
    if declared_json is not None:
        table = json.loads(view.schema_json)
        merge = _Merge()
        merged = merge.tables(table, json.loads(declared_json))
        reasons += [error.message for error in merge.unfit if widened or not isinstance(error, Widened)]
        declared = {field["name"] for field in json.loads(declared_json)["fields"]}
        if (spec := own_spec(view)) and (unknown := [name for name in spec.identity if name not in declared]):
            reasons.append(f"it is cut by {', '.join(unknown)}, and no such column is declared")
        known = _with_event_time(table)["fields"]
        lacking = [field["name"] for field in merged["fields"] if field not in known]
        if lacking and not reasons:
            columns = f"column{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}"
            reasons.append(f"it lacks {columns}, which the settings declare (renamed? ALTER TABLE ... ADD COLUMNS)")
    return "; ".join(filter(None, (*reasons, unfillable(view))))


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("type", kind))


def holds_just(view: TableView, schema_json: str, spec: Spec = DAY) -> bool:
    """True if files that fit schema and spec fit the table: no further columns, constraints or column mapping."""
    same = json.loads(view.schema_json) == json.loads(schema_json) and view.partition_columns == spec.column_names
    return same and not any(prop.startswith(("delta.constraints.", "delta.columnMapping.")) for prop in view.properties)


def has_plain_time(field: Mapping[str, Any]) -> bool:
    """Whether a field of a Spark schema, as parsed JSON, is or holds a time without a zone (TIMESTAMP_NTZ)."""
    return _NTZ in json.dumps(field)


def takes_plain_times(view: TableView) -> bool:
    """Whether columns of such times can be added to a table, which needs a feature of it."""
    return _NTZ_FEATURE in view.writer_features or _NTZ in view.schema_json
