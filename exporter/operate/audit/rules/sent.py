"""Records as filters and computed columns see them. Knows no driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.operate.audit.readers.reader import Refused, Undecided
from exporter.operate.audit.readers.reading import Readings
from exporter.operate.audit.rules.values import Unsure
from offsets.ranges import TopicPartition

RECORD = ("topic", "partition", "offset", "timestamp", "key", "headers", "value")
"""What is looked at of a record. timestamp: microseconds since 1970."""


def record_of(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    """One row of the topic's."""
    found = {name: batch.column(name)[row] for name in RECORD}
    return {name: one.value if name == "timestamp" else one.as_py() for name, one in found.items()}


class Documents:
    """Their values; Unsure in place of one of which nothing can be said. bytes_max: longer ones are not looked at."""

    def __init__(self, routings: Sequence[Routing], readings: Readings, bytes_max: int) -> None:
        self._routings = routings
        self._readings = readings
        self._bytes_max = bytes_max

    def of(self, number: int, record: Mapping[str, Any]) -> Any:
        """By the configuration of this index."""
        value, routing = record["value"], self._routings[number]
        if value is None or len(value) > self._bytes_max:
            return Unsure
        reading = self._readings.of(routing.format_of(record["topic"]), routing.registry)
        try:
            tp = TopicPartition(record["topic"], record["partition"])
            sent = reading.read(value, tp, record["offset"], record["headers"])
        except (Refused, Undecided, RecursionError):
            return Unsure
        return sent.document if sent.comparable else Unsure

    def text_at(self, number: int, record: Mapping[str, Any], path: str) -> str | None:
        """The text at a dotted path; None of what is none."""
        found = self.of(number, record)
        for name in path.split("."):
            found = found.get(name) if type(found) is dict else None
        return found if type(found) is str else None
