"""What is asked of the values of one event type, whatever says them: columns, event type and event time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.core.routing import Routing
from exporter.formats.cased import Spelling
from exporter.formats.marks import declared_only, has_evolved
from exporter.formats.said import SaidType

Path = tuple[str, ...]
A = TypeVar("A", bound="Asked")


@dataclass(frozen=True)
class Asked:
    """What one routing configuration asks for, before any value is known.

    said: of the event type. schema: all columns that are returned. read: those that are filled, with their marks:
    without what nobody declared where unknown fields are not kept. route, time: where the event type and the event time
    stand in a value, if they do. policy: for unknown fields. spelling: of the columns, if fields fill them whose names
    differ by case only; such a field is called as its column is before anything here looks at it.
    """

    said: SaidType
    schema: pa.Schema
    read: pa.Schema
    route: Path | None
    time: Path | None
    unit: str
    policy: Literal["rescue", "ignore", "dead_letter"]
    spelling: Spelling | None

    @classmethod
    def of(cls: type[A], event_type: str, schema: pa.Schema, routing: Routing, **more: Any) -> A:
        """schema: columns as formats/schema.py makes them. more: what else a format asks."""
        time, kind = routing.event_time, routing.type_from
        drops = routing.unknown_fields != "rescue" and has_evolved(schema)
        spelling = Spelling.of(schema) if routing.ignores_case(event_type) else None
        as_is = spelling or Spelling({})
        return cls(
            SaidType(event_type, routing),
            schema,
            declared_only(schema) if drops else schema,
            tuple(as_is.path(kind.name.split("."))) if kind.kind == "json" else None,
            tuple(as_is.path(time.path.split("."))) if time.kind == "json" else None,
            time.unit,
            routing.unknown_fields,
            spelling,
            **more,
        )

    @property
    def time_type(self) -> pa.DataType:
        """The type of an event time as it is sent."""
        return US if self.unit == "iso" else pa.int64()

    @property
    def keeps_all(self) -> bool:
        """Whether a record has no column, so that all of it is kept as unknown."""
        return len(self.read) == 0
