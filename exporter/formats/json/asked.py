"""What is read of the values of one event type: its columns, the event type and the event time. On Spark executors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.core.routing import Routing
from exporter.formats.asked import Asked
from exporter.formats.json.leaves import LargeNumbers, LongTimes, Means, leaf_of
from exporter.formats.json.shapes import Struct, free_maps, graft, struct_of
from exporter.formats.marks import has_evolved, holds_json, is_evolved


@dataclass(frozen=True)
class JsonAsked(Asked):
    """maps_as_objects: see Tuning. cutter: of long timestamps. large: see LargeNumbers. strict_times: see Routing."""

    maps_as_objects: bool = True
    cutter: LongTimes = field(default_factory=LongTimes)
    large: LargeNumbers = field(default_factory=LargeNumbers)
    strict_times: bool = False

    @classmethod
    def by(cls, event_type: str, schema: pa.Schema, routing: Routing, maps_as_objects: bool) -> JsonAsked:
        """What a routing configuration asks for. Columns that nobody declared are never in the way of anything."""
        more = {"maps_as_objects": maps_as_objects, "strict_times": routing.strict_times}
        asked = cls.of(event_type, schema, routing, **more)
        for path, needed in ((asked.route, pa.string()), (asked.time, asked.time_type)):
            if path and has_evolved(asked.read):
                asked = replace(asked, read=pa.schema(_making_way(asked.read, path, needed, False)))
        return asked

    def shape(self, long: bool, as_sent: bool = False) -> Struct:
        """The columns with the route and event-time fields made known. long: timestamps are read as text.

        as_sent: of values whose JSON columns are not lifted. Raises ConfigError if a declared column is in the way of
        the route or event-time field.
        """
        means = Means(self.cutter if long else None, self.large, as_sent, self.strict_times)
        root = struct_of(self.read, means)
        if self.route:
            graft(root, self.route, leaf_of(pa.string(), means), pa.types.is_string, "the event type")
        if self.time and self.unit == "iso":
            graft(root, self.time, leaf_of(US, means), pa.types.is_timestamp, "the event time as text")
        elif self.time:
            graft(root, self.time, leaf_of(pa.int64(), means), pa.types.is_integer, f"the event time in {self.unit}")
        if self.maps_as_objects:
            free_maps(root)
        return root


def _making_way(fields: Iterable[pa.Field], path: Sequence[str], needed: pa.DataType, evolved: bool) -> list[pa.Field]:
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
