"""What reads the records of one task: a router per format of values, a decoder per format and event type, a shaper per
event type that needs one.

Runs on Spark executors. Made when the first record needs one. Routers and decoders hold nothing of a record, and to
make them takes as long as to read thousands: those of a worker's last task serve the next one, if it is to read alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.core.columns import JsonText
from exporter.core.order import StagingOrder
from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.executor.route import Router
from exporter.formats.decoder import Decoder
from exporter.shape.shaper import Shaper


class _Alike(NamedTuple):
    """All that routers and decoders are made of."""

    routing: Routing
    schemas: KnownSchemas
    columns: Mapping[str, str]
    json_text: JsonText


class _Made:
    """What was made for tasks that read alike."""

    last: _Made | None = None
    """Of this worker."""

    def __init__(self, alike: _Alike) -> None:
        self.alike = alike
        self.routers: dict[ValueFormat, Router] = {}
        self.decoders: dict[tuple[ValueFormat, str], Decoder] = {}

    @classmethod
    def of(cls, order: StagingOrder) -> _Made:
        """Those of the task before, if these are the same."""
        decoded = {name: one.decoded for name, one in order.tables.items() if one.decoded is not None}
        alike = _Alike(order.routing, order.schemas, decoded, order.to.options.json_text)
        if cls.last is None or cls.last.alike != alike:
            cls.last = cls(alike)
        return cls.last


class TaskReaders:
    """The readers of one task, each made once."""

    def __init__(self, order: StagingOrder) -> None:
        self._order = order
        self._made = _Made.of(order)
        self._forms: dict[str, ValueFormat] = {}
        self._shapers: dict[str, Shaper | None] = {}

    def form(self, topic: str) -> ValueFormat:
        """How the values of a topic are written."""
        if topic not in self._forms:
            self._forms[topic] = self._order.routing.format_of(topic)
        return self._forms[topic]

    def router(self, topic: str) -> Router:
        """What finds the event types of a topic's records."""
        form = self.form(topic)
        if form not in self._made.routers:
            self._made.routers[form] = Router(self._order.routing, topic, self._order.schemas)
        return self._made.routers[form]

    def decoder(self, name: str, topic: str) -> Decoder:
        """What decodes a topic's records of one event type."""
        key = (self.form(topic), name)
        if key not in self._made.decoders:
            columns, json_text = self._order.target(name).decoded, self._order.to.options.json_text
            self._made.decoders[key] = Decoder.of(
                name, self._order.routing, columns, json_text, topic=topic, schemas=self._order.schemas
            )
        return self._made.decoders[key]

    def shaper(self, name: str) -> Shaper | None:
        """What the settings make of the decoded rows of one event type; None if that is nothing."""
        if name not in self._shapers:
            routing = self._order.routing
            shape, constants = routing.shape_by_type.get(name), routing.constants
            self._shapers[name] = Shaper(shape, constants) if shape is not None or constants else None
        return self._shapers[name]
