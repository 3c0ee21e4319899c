"""The schema of a table as Spark JSON: made, and evolved by new columns and, if that is asked for, wider ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA, KAFKA_COLUMN, KAFKA_TYPE
from exporter.arrow.spark_types import fields_of, type_of
from exporter.column.spark_json import name_of, scalar_of, struct_of, text_of
from exporter.column.types import JSON, Field, ListType, MapType, ScalarType, StructType, Type, all_nullable, parts
from exporter.core.columns import EVENT_TIME, clashes, folded
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
        fields = [*fields_of(DEAD_LETTER_SCHEMA)]
    else:
        fields = [Field(KAFKA_COLUMN, type_of(KAFKA_TYPE)), _TIME]
        fields += [Field(one.name, all_nullable(one.type)) for one in struct_of(declared_json).fields]
        fields.append(Field("_rescued", ScalarType("string")))
    fields += [Field(column.name, scalar_of(column.type)) for column in spec.time_columns]
    return text_of(StructType(tuple(fields)))


_TIME = Field(EVENT_TIME, ScalarType("timestamp"))


def with_event_time(table_json: str) -> str:
    """A table's schema with `_event_time` behind `_kafka`; unchanged text if it has a column of that name."""
    table = struct_of(table_json)
    timed = _with_event_time(table)
    return table_json if timed is table else text_of(timed)


def _with_event_time(table: StructType) -> StructType:
    names = [one.name for one in table.fields]
    if any(folded(name) == EVENT_TIME for name in names):
        return table
    at = names.index("_kafka") + 1 if "_kafka" in names else 0
    return replace(table, fields=(*table.fields[:at], _TIME, *table.fields[at:]))


def keeps_event_time(table_json: str) -> bool:
    """False of a table with another column of that name, from before it was the exporter's; it stays so."""
    called_so = [one for one in struct_of(table_json).fields if folded(one.name) == EVENT_TIME]
    return all((one.name, one.type) == (EVENT_TIME, _TIME.type) for one in called_so)


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
    table, merge = struct_of(view.schema_json), _Merge(widens, frozenset(view.partition_columns))
    merged = merge.tables(table, struct_of(declared_json))
    if merge.unfit:
        raise ConfigError.of(merge.unfit, "columns of the settings do not fit the table")
    asked = {widening.ENABLED: "true"} if merge.widened else {}
    if has_plain_time(merged) and _NTZ_FEATURE not in view.writer_features:
        asked[f"delta.feature.{_NTZ_FEATURE}"] = "supported"
    return SchemaChange(
        text_of(merged) if merged != table else None,
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
    """A table's schema with what is declared laid over it. What does not fit is collected.

    widens: whether a column may get a wider type. fixed: the top-level columns that may not, for partition values are
    texts that stay.
    """

    widens: bool = False
    fixed: frozenset[str] = frozenset()
    unfit: list[ConfigError] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    widened: list[str] = field(default_factory=list)

    def tables(self, table: StructType, declared: StructType) -> StructType:
        """The table's schema with what it lacks."""
        wanted = tuple(one for one in declared.fields if one.name != EVENT_TIME)
        base = table if wanted == declared.fields else _with_event_time(table)
        if base is not table:
            self.added.append(EVENT_TIME)
        merged = self._struct(base, wanted, "")
        alike = set(clashes(merged.fields)) - set(clashes(table.fields)) if merged != table else set()
        for one, other in sorted(alike):
            self.unfit.append(ConfigError(
                f"the table has a column {one}, which readers cannot tell from {other}",
                "declare it by the name that the table has (a field that is written otherwise then goes to "
                "`_rescued`), or give the new column another one",
            ))  # fmt: skip
        return merged

    def _struct(self, have: StructType, want: Sequence[Field], path: str) -> StructType:
        """path: of the struct, with a dot behind it."""
        wanted, known = {one.name: one for one in want}, have.named
        merged = [self._field(one, wanted[one.name], path) if one.name in wanted else one for one in have.fields]
        new = [one for one in want if one.name not in known]
        self.added.extend(path + one.name for one in new)
        return replace(have, fields=(*merged, *new))

    def _field(self, have: Field, want: Field, path: str) -> Field:
        at = _Place(have, path + have.name, [])
        kind = self._type(have.type, want.type, at)
        noted = {widening.CHANGES: [*have.metadata.get(widening.CHANGES, ()), *at.changes]} if at.changes else {}
        return replace(have, type=kind, metadata={**have.metadata, **noted})

    def _type(self, have: Type, want: Type, at: _Place) -> Type:
        """`have` with the fields of `want` added, or `want` where it is to be that."""
        if isinstance(have, StructType) and isinstance(want, StructType):
            return self._struct(have, want.fields, f"{at.shown}.")
        if isinstance(have, ListType) and isinstance(want, ListType):
            return replace(have, inner=self._type(have.inner, want.inner, at.inside(have.step)))
        if isinstance(have, MapType) and isinstance(want, MapType):
            key = self._type(have.key, want.key, at.inside("key"))
            return replace(have, key=key, inner=self._type(have.inner, want.inner, at.inside(have.step)))
        if have == want:
            return have
        wider = widening.is_wider(have, want) and at.shown not in self.fixed and "key" not in at.within
        if wider and self.widens:
            at.changes.append(widening.change(have, want, at.within))
            self.widened.append(f"{at.shown} from {name_of(have)} to {name_of(want)}")
            return want
        if (have, want) in ((JSON, ScalarType("string")), (ScalarType("string"), JSON)):
            found, declared = ("JSON", "plain ones") if have == JSON else ("plain ones", "JSON")
            self.unfit.append(ConfigError(
                f"the texts of column {at.path} are {found} in the table and {declared} in the settings",
                "declare JSON or STRING as the table has it, or leave the column out: new values are then kept in "
                "`_rescued`, whatever they are",
            ))  # fmt: skip
            return have
        kind = Widened if name_of(want) in widening.before(at.field, at.within) else ConfigError
        self.unfit.append(kind(
            f"column {at.shown} is {name_of(have)} in the table and {name_of(want)} in the settings",
            f"{_WIDENING}{_KEPT}" if wider else _KEPT,
        ))  # fmt: skip
        return have


@dataclass(frozen=True)
class _Place:
    """A type in a field of a struct. path: of the field. within: the way from the field to the type.

    changes: of types in the field, grows.
    """

    field: Field
    path: str
    changes: list[dict[str, str]]
    within: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return ".".join((self.path, *self.within))

    def inside(self, step: str) -> _Place:
        return replace(self, within=(*self.within, step))


def refuses(view: TableView, declared_json: str | None, widened: bool = True) -> str:
    """Why files that fit what is declared cannot be put into a table, with what to do; empty if they can.

    The table is as users have altered it since it was made to hold that, or without `_event_time`, which a start adds
    where it can: files have it anyway, and readers go by the table. declared_json: as table_schema() gives it;
    None for a table that is not declared. widened: whether a column that a user has widened is a reason too.
    """
    reasons: list[str] = []
    if declared_json is not None:
        table, declared = struct_of(view.schema_json), struct_of(declared_json)
        merge = _Merge()
        merged = merge.tables(table, declared)
        reasons += [error.message for error in merge.unfit if widened or not isinstance(error, Widened)]
        names = declared.named
        if (spec := own_spec(view)) and (unknown := [name for name in spec.identity if name not in names]):
            reasons.append(f"it is cut by {', '.join(unknown)}, and no such column is declared")
        known = _with_event_time(table).fields
        lacking = [one.name for one in merged.fields if one not in known]
        if lacking and not reasons:
            columns = f"column{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}"
            reasons.append(f"it lacks {columns}, which the settings declare (renamed? ALTER TABLE ... ADD COLUMNS)")
    return "; ".join(filter(None, (*reasons, unfillable(view))))


def holds_just(view: TableView, schema_json: str, spec: Spec = DAY) -> bool:
    """True if files that fit schema and spec fit the table: no further columns, constraints or column mapping."""
    same = struct_of(view.schema_json) == struct_of(schema_json) and view.partition_columns == spec.column_names
    return same and not any(prop.startswith(("delta.constraints.", "delta.columnMapping.")) for prop in view.properties)


def has_plain_time(kind: Type) -> bool:
    """Whether a type is or holds a time without a zone (TIMESTAMP_NTZ)."""
    return ScalarType("timestamp_ntz") in parts(kind)


def takes_plain_times(view: TableView) -> bool:
    """Whether columns of such times can be added to a table, which needs a feature of it."""
    return _NTZ_FEATURE in view.writer_features or has_plain_time(struct_of(view.schema_json))
