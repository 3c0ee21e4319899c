"""The columns that tables are to have: planned by the loop, added by the commit of the first files that have them.

    foresee  what is known of records before any has come, of a schema that their writers have registered, say
    accept   a table as it is now, with what is known beforehand of its records
    grow     the columns that follow from what a round has seen beside them
    is_news  whether what was staged lacks a column that it could have had
    outgrown the columns of which a schema that was met says a wider type than the table has

A plan is no promise: nothing is written for it. It ends with the task, or where another one was faster; then what was
seen is seen again. No verdict depends on it (VERDICT). Belongs to the loop's thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from exporter.column.spark_json import struct_of
from exporter.column.types import Field, ScalarType, StructType
from exporter.core.columns import NO_COLUMNS
from exporter.core.evolve import Evolution, Evolutions, grown, known_beforehand
from exporter.core.evolved import combined, has_evolved, union
from exporter.core.named_growth import NamedGrowth, naming_of
from exporter.core.order import TableTarget
from exporter.core.record_columns import BEFORE, CDC, RecordColumns, has_cdc
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.schemas import SchemaColumns
from exporter.core.seen import Seen
from exporter.core.specs import Specs, table_spec
from exporter.lake.promoting import Outgrown, promoted, widest
from exporter.lake.record_fields import record_fields, with_record_fields
from exporter.lake.schema import has_plain_time, keeps_event_time, table_schema, takes_plain_times
from offsets.table_log import TableView

PLANS_KEPT = 8
"""Plans of a table that are remembered: files that were staged for them may not be committed yet."""
FILES = "schema files"
SETTINGS = "settings"
"""Where fields come from: schemas of the settings; the event type and the event time stand in them."""


@dataclass(frozen=True)
class Foreseen:
    """Columns that are known before any record. origin: who knows them."""

    fields: Sequence[Field]
    origin: str


class PlannedColumns:
    """Of one task.

    outgrown: event type -> the columns of its plan of which a schema says a wider type.
    """

    def __init__(
        self,
        routing: Routing,
        evolutions: Evolutions,
        specs: Specs | None = None,
        record_columns: RecordColumns | None = None,
        columns: SchemaColumns | None = None,
        of_record: bool = True,
    ) -> None:
        """specs: of the tables that are to be made; by day without. record_columns: what all have of the record.

        of_record: whether tables get columns of the record.

        columns: that follow from schemas of the settings.
        """
        self._of_record = of_record
        self._record_columns = record_columns or RecordColumns()
        self._changing: set[str] = set()
        self.evolutions = evolutions
        self._columns = columns
        self._plain_times: set[str] = set()
        self._specs = specs or Specs()
        self._routing = routing
        self._schemas: dict[str, str] = {}
        self._fixed: dict[str, Sequence[str]] = {}
        self._namings: dict[str, NamedGrowth | None] = {}
        self._by_fingerprint: dict[str, dict[str, str]] = defaultdict(dict)
        self._told = Foreseen(_beforehand(routing), SETTINGS)
        self._foreseen: dict[str, list[Foreseen]] = {}
        self.outgrown: dict[str, tuple[Outgrown, ...]] = {}

    def of_record(self, name: str) -> Sequence[Field]:
        """The columns of a type's table that hold something of the record.

        That of what was done to a row is one where the format of the type's values has an envelope. Where topics differ
        in that, it is planned when the first record of the type comes from one that has.
        """
        if not self._of_record:
            return []
        found = self.may_have(name)
        is_told = has_cdc(self._routing, name) is not None or name in self._changing
        return found if is_told else [one for one in found if one.name not in (CDC, BEFORE)]

    def may_have(self, name: str) -> Sequence[Field]:
        """Those that a type's table has or may get."""
        return record_fields(self._record_columns, self._routing, name)

    def changes(self, name: str) -> None:
        """A record of the type has come in an envelope."""
        self._changing.add(name)

    def foresee(self, name: str, fields: Sequence[Field], origin: str) -> None:
        """Give a type that grows these columns too, from the next table that is accepted, grown or made on.

        origin: where they are from, for EVOLVED. What the table has as another type stays as it is there.
        """
        known = self._foreseen_of(name)
        known[:] = [replace(one, fields=widest(one.fields, [fields])) for one in known]
        known.append(Foreseen(widest(fields, [one.fields for one in known]), origin))
        self._look_for_outgrown(name)

    def accept(self, name: str, view: TableView) -> TableTarget:
        """Stage for the table as it is now. Files of before it was made may be of it, without what is planned."""
        self._look_at(name, view)
        self._by_fingerprint[name][view.fingerprint] = view.schema_json
        return self._plan(name, view, self._seeded(name, view.schema_json))

    def grow(self, name: str, view: TableView, seen: Seen) -> TableTarget:
        """Stage for more columns than the table has now, or than were planned."""
        evolution = self.evolutions.of(name)
        self._look_at(name, view)
        base = union(view.schema_json, self._schemas.get(name, view.schema_json)) or view.schema_json
        return self._plan(name, view, self._grown(name, self._seeded(name, base), seen, evolution))

    def to_make(self, name: str, seen: Seen) -> str:
        """The schema of a table that does not exist yet."""
        schema = self._seeded(name, table_schema(self._routing.columns_of(name), self._specs.of(name)))
        return self._grown(name, schema, seen, self.evolutions.of(name))

    def is_news(self, name: str, fingerprint: str, seen: Seen) -> bool:
        """Whether columns follow from what was seen in files that were staged for this fingerprint."""
        schema, evolution = self.schema_of(name, fingerprint), self.evolutions.of(name)
        return bool(schema) and self._grown(name, schema, seen, evolution) is not schema

    def lacks(self, name: str, fingerprint: str) -> bool:
        """Whether files that were staged for this fingerprint lack a column that is known beforehand."""
        schema = self.schema_of(name, fingerprint)
        return bool(schema) and self._seeded(name, schema) is not schema

    def schema_of(self, name: str, fingerprint: str) -> str:
        """The table's schema that a fingerprint was of; empty if that is not known any more."""
        return self._by_fingerprint[name].get(fingerprint, "")

    def promoted(self, name: str, view: TableView) -> str:
        """The table's schema with the wider types that the schemas of its records say; its own if there are none."""
        return promoted(view.schema_json, self._fields_of(name), view.partition_columns)[0]

    def is_narrow(self, name: str, fingerprint: str) -> bool:
        """Whether files that were staged for this fingerprint have a column of a type that was outgrown."""
        schema = self.schema_of(name, fingerprint)
        return bool(schema) and bool(promoted(schema, self._fields_of(name))[1])

    def _look_for_outgrown(self, name: str) -> None:
        """Of a table that is known."""
        if name in self._schemas and self.evolutions.of(name) is not None:
            self.outgrown[name] = promoted(self._schemas[name], self._fields_of(name), self._fixed.get(name, ()))[1]

    def _fields_of(self, name: str) -> list[Sequence[Field]]:
        """The fields of each schema that is known beforehand, as the table calls them."""
        named = self._named(name)
        return [one.fields if named is None else named.fields(one.fields) for one in self._foreseen_of(name)]

    def _plan(self, name: str, view: TableView, schema: str) -> TableTarget:
        fingerprint = view.fingerprint if schema == view.schema_json else view.fingerprint_with(schema)
        self._schemas[name], self._fixed[name] = schema, view.partition_columns
        self._look_for_outgrown(name)
        plans = self._by_fingerprint[name]
        plans.pop(fingerprint, None)
        plans[fingerprint] = schema
        while len(plans) > PLANS_KEPT:
            del plans[next(iter(plans))]
        return replace(target_of(self._routing, name, view, schema), fingerprint=fingerprint)

    def _seeded(self, name: str, schema: str) -> str:
        if name != DEAD_LETTERS:
            schema = with_record_fields(schema, self.of_record(name))
        if self.evolutions.of(name) is None:
            return schema
        for foreseen in self._foreseen_of(name):
            fields = [one for one in foreseen.fields if name not in self._plain_times or not has_plain_time(one.type)]
            named = self._named(name)
            schema = known_beforehand(schema, fields if named is None else named.fields(fields), foreseen.origin)
        return schema

    def _grown(self, name: str, schema: str, seen: Seen, evolution: Evolution | None) -> str:
        """The schema with the columns that follow from what was seen; the same text if none does."""
        if evolution is None:
            return schema
        named = self._named(name)
        return grown(schema, seen if named is None else named.seen(seen), evolution)

    def _named(self, name: str) -> NamedGrowth | None:
        """None of a type whose columns are called as the fields that fill them."""
        if name not in self._namings:
            self._namings[name] = naming_of(self._routing, name)
        return self._namings[name]

    def _foreseen_of(self, name: str) -> list[Foreseen]:
        """What is known beforehand of a type: of its schema, if the settings have it, before the rest."""
        if name not in self._foreseen:
            fields = self._columns.of_type(name) if self._columns is not None else ()
            self._foreseen[name] = [Foreseen(fields, FILES), self._told] if fields else [self._told]
        return self._foreseen[name]

    def _look_at(self, name: str, view: TableView) -> None:
        """A table that has no feature for times without a zone gets no column of them: its commit could not add both.

        Their values stay in `_rescued`.
        """
        if takes_plain_times(view):
            self._plain_times.discard(name)
        else:
            self._plain_times.add(name)


def target_of(routing: Routing, name: str, view: TableView, schema: str = "") -> TableTarget:
    """A type's table as rows are staged for it. schema: as it is to be; as it is now, if empty."""
    decoded = _decoded(routing, name, schema or view.schema_json)
    return TableTarget(view.fingerprint, table_spec(view), decoded, keeps_event_time(view.schema_json))


def _decoded(routing: Routing, name: str, schema: str) -> str | None:
    """What is decoded for a table of this schema, where that is more than what is declared."""
    if name == DEAD_LETTERS or not has_evolved(schema):
        return None
    named = naming_of(routing, name)
    return combined(routing.decoded_of(name), schema) if named is None else named.decoded(schema)


def _beforehand(routing: Routing) -> tuple[Field, ...]:
    """The fields of a value in which the event type and the event time stand: they are in no `_rescued`."""
    time, route = routing.event_time, routing.type_from
    paths = [(route.name, "string")] if route.kind == "json" else []
    if time.kind == "json":
        paths.append((time.path, "timestamp" if time.unit == "iso" else "long"))
    schema = NO_COLUMNS
    for path, kind in paths:
        schema = known_beforehand(schema, [_nested(path.split("."), kind)], SETTINGS)
    return struct_of(schema).fields


def _nested(path: list[str], kind: str) -> Field:
    name, *rest = path
    return Field(name, StructType((_nested(rest, kind),)) if rest else ScalarType(kind))
