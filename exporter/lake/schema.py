"""The schema of a table as Spark JSON: made, and evolved without changing a type. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA, KAFKA_COLUMN, KAFKA_TYPE
from exporter.arrow.spark_types import as_json, json_field
from exporter.core.columns import EVENT_TIME, JSON_TEXT, clashes
from exporter.errors import ConfigError, Widened
from exporter.lake.fillable import unfillable
from offsets.partitions import DAY, Spec
from offsets.table_log import TableView


def _all_nullable(kind: Any) -> Any:
    """A Spark type (parsed JSON), everything in it nullable: the decoder enforces what is required."""
    if isinstance(kind, dict):
        kind = {key: _all_nullable(value) for key, value in kind.items()}
        for flag in ("nullable", "containsNull", "valueContainsNull"):
            if flag in kind:
                kind[flag] = True
        return kind
    return [_all_nullable(item) for item in kind] if isinstance(kind, list) else kind


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
    stored = json_field(field["name"], _all_nullable(field["type"]))
    kept = {key: value for key, value in field.get("metadata", {}).items() if key == JSON_TEXT}
    return {**stored, "metadata": kept}


def with_event_time(table_json: str) -> str:
    """A table's schema with `_event_time` behind `_kafka`; unchanged text if it has a column of that name."""
    table = json.loads(table_json)
    timed = _with_event_time(table)
    return table_json if timed is table else json.dumps(timed, separators=(",", ":"))


def _with_event_time(table: Any) -> Any:
    names = [field["name"] for field in table["fields"]]
    if any(name.lower() == EVENT_TIME for name in names):
        return table
    at = names.index("_kafka") + 1 if "_kafka" in names else 0
    fields = [*table["fields"][:at], json_field(EVENT_TIME, "timestamp"), *table["fields"][at:]]
    return {**table, "fields": fields}


def untimed(views: Mapping[str, TableView]) -> frozenset[str]:
    """The event types whose table has another column of that name, from before it was the exporter's; it stays so."""
    return frozenset(name for name, view in views.items() if not _keeps_event_time(view.schema_json))


def _keeps_event_time(table_json: str) -> bool:
    called_so = [field for field in json.loads(table_json)["fields"] if field["name"].lower() == EVENT_TIME]
    return all((field["name"], field["type"]) == (EVENT_TIME, "timestamp") for field in called_so)


def evolved_schema(table_json: str, declared_json: str) -> str:
    """The table's schema with the declared columns that it lacks, at every level; unchanged text if it lacks none.

    Both are Spark schema JSON; declared_json as table_schema() gives it. Columns of the table that are not
    declared stay. Raises ConfigError, for all columns at once, where one has another type, for no type is ever changed
    silently, and for a new column that readers would take for one that the table has.
    """
    table = json.loads(table_json)
    merged, unfit = _merged(table, json.loads(declared_json))
    if unfit:
        raise ConfigError.of(unfit, "columns of the settings do not fit the table")
    return table_json if merged == table else json.dumps(merged, separators=(",", ":"))


def _merged(table: Any, declared: Any) -> tuple[Any, list[ConfigError]]:
    """The table's schema with what it lacks, and which columns do not fit; all as parsed JSON."""
    unfit: list[ConfigError] = []
    wanted = [field for field in declared["fields"] if field["name"] != EVENT_TIME]
    base = table if wanted == declared["fields"] else _with_event_time(table)
    merged = _merge_types(base, {**declared, "fields": wanted}, "", frozenset(), unfit)
    alike = set(clashes(merged["fields"])) - set(clashes(table["fields"])) if merged != table else set()
    for one, other in sorted(alike):
        unfit.append(ConfigError(
            f"the table has a column {one}, which readers cannot tell from {other}",
            "declare it by the name that the table has (a field that is written otherwise then goes to `_rescued`), or "
            "give the new column another one",
        ))  # fmt: skip
    return merged, unfit


def _merge_types(have: Any, want: Any, path: str, before: frozenset[str], unfit: list[ConfigError]) -> Any:
    """`have` with the fields of `want` added; both are Spark types as parsed JSON.

    before: the types that the column, or a part of it, had before it was widened. unfit: gets what does not fit.
    """
    if isinstance(have, dict) and isinstance(want, dict) and have.get("type") == want.get("type"):
        if have["type"] == "struct":
            return {**have, "fields": _merge_fields(have["fields"], want["fields"], path, unfit)}
        merged = dict(have)
        for part in ("elementType", "keyType", "valueType"):
            if part in have:
                name = part.removesuffix("Type")
                merged[part] = _merge_types(have[part], want[part], f"{path}.{name}", before, unfit)
        return merged
    if have != want:
        kind = Widened if isinstance(want, str) and want in before else ConfigError
        unfit.append(kind(
            f"column {path.lstrip('.')} is {_shown(have)} in the table and {_shown(want)} in the settings",
            "declare the type that the table has: values that it cannot hold stay in the dead letters, whole; or leave "
            "the column out: new values are then kept in `_rescued`, whatever they are",
        ))  # fmt: skip
    return have


def _merge_fields(have: list[Any], want: list[Any], path: str, unfit: list[ConfigError]) -> list[Any]:
    wanted = {field["name"]: field for field in want}
    merged = [_merge_field(f, wanted[f["name"]], path, unfit) if f["name"] in wanted else f for f in have]
    known = {f["name"] for f in have}
    return [*merged, *(f for f in want if f["name"] not in known)]


def _merge_field(have: Any, want: Any, path: str, unfit: list[ConfigError]) -> Any:
    path, before = f"{path}.{have['name']}", len(unfit)
    kind = _merge_types(have["type"], want["type"], path, _before(have), unfit)
    if len(unfit) == before and _json_places(have) != _json_places(want):
        found, declared = ("JSON", "plain ones") if _json_places(have) else ("plain ones", "JSON")
        unfit.append(ConfigError(
            f"the texts of column {path.lstrip('.')} are {found} in the table and {declared} in the settings",
            "declare JSON or STRING as the table has it, or leave the column out: new values are then kept in "
            "`_rescued`, whatever they are",
        ))  # fmt: skip
    return {**have, "type": kind}


def _json_places(field: Mapping[str, Any]) -> set[str]:
    """Where a field holds JSON texts (JSON_TEXT)."""
    return set(filter(None, field.get("metadata", {}).get(JSON_TEXT, "").split(",")))


def _before(column: Mapping[str, Any]) -> frozenset[str]:
    """Source: the Delta protocol, 'Type Widening'."""
    return frozenset(change["fromType"] for change in column.get("metadata", {}).get("delta.typeChanges", ()))


def refuses(view: TableView, declared_json: str | None, widened: bool = True) -> str:
    """Why files that fit what is declared cannot be put into a table, with what to do; empty if they can.

    The table is as users have altered it since it was made to hold that, or without `_event_time`, which a start adds
    where it can: files have it anyway, and readers go by the table. declared_json: as table_schema() gives it;
    None for a table that is not declared. widened: whether a column that a user has widened is a reason too.
    """
    reasons: list[str] = []
    if declared_json is not None:
        table = json.loads(view.schema_json)
        merged, unfit = _merged(table, json.loads(declared_json))
        reasons += [error.message for error in unfit if widened or not isinstance(error, Widened)]
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
