"""What is read of the values of one event type: its columns, the event type and the event time. On Spark executors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.core.routing import Routing
from exporter.formats.cased import Spelling
from exporter.formats.json.leaves import LargeNumbers, LongTimes, Means, leaf_of
from exporter.formats.json.shapes import Struct, free_maps, graft, struct_of
from exporter.formats.marks import declared_only, has_evolved, holds_json, is_evolved
from exporter.formats.said import SaidType


@dataclass(frozen=True)
class JsonAsked:
    """said: of the event type. route, time: where the event type and the event time stand in a value, if they do.
    cutter: of long timestamps.

    schema: the columns that are read; those that nobody declared are marked. maps_as_objects: see Tuning. large: see
    LargeNumbers. strict_times: see Routing.
    """

    said: SaidType
    schema: pa.Schema
    route: list[str] | None
    time: list[str] | None
    unit: str
    maps_as_objects: bool
    cutter: LongTimes = field(default_factory=LongTimes)
    large: LargeNumbers = field(default_factory=LargeNumbers)
    strict_times: bool = False

    @classmethod
    def by(cls, event_type: str, schema: pa.Schema, routing: Routing, maps_as_objects: bool) -> JsonAsked:
        """What a routing configuration asks for. Columns that nobody declared are never in the way of anything."""
        time, kind = routing.event_time, routing.type_from
        if routing.unknown_fields != "rescue" and has_evolved(schema):
            schema = declared_only(schema)
        spelling = Spelling.of(schema) if routing.ignores_case(event_type) else Spelling({})
        asked = cls(
            SaidType(event_type, routing),
            schema,
            spelling.path(kind.name.split(".")) if kind.kind == "json" else None,
            spelling.path(time.path.split(".")) if time.kind == "json" else None,
            time.unit,
            maps_as_objects,
            strict_times=routing.strict_times,
        )
        for path, needed in ((asked.route, pa.string()), (asked.time, asked.time_type)):
            if path and has_evolved(asked.schema):
                asked = replace(asked, schema=pa.schema(_making_way(asked.schema, path, needed, False)))
        return asked

    @property
    def time_type(self) -> pa.DataType:
        """The type of an event time as it is sent."""
        return US if self.unit == "iso" else pa.int64()

    def shape(self, long: bool, as_sent: bool = False) -> Struct:
        """The columns with the route and event-time fields made known. long: timestamps are read as text.

        as_sent: of values whose JSON columns are not lifted. Raises ConfigError if a declared column is in the way of
        the route or event-time field.
        """
        means = Means(self.cutter if long else None, self.large, as_sent, self.strict_times)
        root = struct_of(self.schema, means)
        if self.route:
            graft(root, self.route, leaf_of(pa.string(), means), pa.types.is_string, "the event type")
        if self.time and self.unit == "iso":
            graft(root, self.time, leaf_of(US, means), pa.types.is_timestamp, "the event time as text")
        elif self.time:
            graft(root, self.time, leaf_of(pa.int64(), means), pa.types.is_integer, f"the event time in {self.unit}")
        if self.maps_as_objects:
            free_maps(root)
        return root


def _making_way(fields: Iterable[pa.Field], path: list[str], needed: pa.DataType, evolved: bool) -> list[pa.Field]:
    """The fields without the one that nobody declared and that is in the way of what is needed at a path."""
    name, *below = path
    kept = []
    for one in fields:
        free = evolved or is_evolved(one)
        if one.name != name:
            kept.append(one)
        elif below and pa.types.is_struct(one.type):
            inside = _making_way(one.type, below, needed, free)
            if inside:
                kept.append(one.with_type(pa.struct(inside)))
        elif not free or (not below and one.type == needed and not holds_json(one)):
            kept.append(one)
    return kept
