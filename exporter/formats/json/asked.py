"""What is read of the values of one event type: its columns, the event type and the event time. On Spark executors."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.core.routing import Routing
from exporter.formats.json.leaves import LongTimes, leaf_of
from exporter.formats.json.shapes import Struct, free_maps, graft, struct_of


@dataclass(frozen=True)
class Asked:
    """route, time: where the event type and the event time stand in a value, if they do. cutter: of long timestamps.

    maps_as_objects: see Tuning.
    """

    event_type: str
    schema: pa.Schema
    route: list[str] | None
    time: list[str] | None
    unit: str
    maps_as_objects: bool
    cutter: LongTimes = field(default_factory=LongTimes)

    @classmethod
    def by(cls, event_type: str, schema: pa.Schema, routing: Routing, maps_as_objects: bool) -> Asked:
        """What a routing configuration asks for."""
        time, kind = routing.event_time, routing.type_from
        return cls(
            event_type,
            schema,
            kind.name.split(".") if kind.kind == "json" else None,
            time.path.split(".") if time.kind == "json" else None,
            time.unit,
            maps_as_objects,
        )

    def shape(self, long: bool) -> Struct:
        """The declared columns with the route and event-time fields made known. long: timestamps are read as text.

        Raises ConfigError if a declared column is in the way of the route or event-time field.
        """
        cutter = self.cutter if long else None
        root = struct_of(self.schema, cutter)
        if self.route:
            graft(root, self.route, leaf_of(pa.string(), cutter), pa.types.is_string, "the event type")
        if self.time and self.unit == "iso":
            graft(root, self.time, leaf_of(US, cutter), pa.types.is_timestamp, "the event time as text")
        elif self.time:
            graft(root, self.time, leaf_of(pa.int64(), cutter), pa.types.is_integer, f"the event time in {self.unit}")
        if self.maps_as_objects:
            free_maps(root)
        return root
