"""What Spark SQL has to know of values that it does not read, told in one pass over the records of the topics.

    value ── one reading for each format ── `told`: by configuration, whether it is whole, its event type and time

Rows in, the same rows with one column more out. Knows no driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.operate.audit.expected.expected import by_spark
from exporter.operate.audit.readers.reader import NoValue, Refused, Sent, Undecided
from exporter.operate.audit.readers.reading import NOTHING, Headers, Readings, event_time_of, event_type_of
from offsets.ranges import TopicPartition

TOLD_DDL = "array<struct<whole: boolean, doubtful: boolean, empty: boolean, event_type: string, time: bigint>>"
"""By the index of a configuration; null for one whose format Spark reads, and of values that are null.

whole: it can be a good record. doubtful: that cannot be said. empty: it says that there is no value. time: microseconds
since 1970."""
_ONE = pa.struct([
    ("whole", pa.bool_()), ("doubtful", pa.bool_()), ("empty", pa.bool_()), ("event_type", pa.string()),
    ("time", pa.int64()),
])  # fmt: skip
_TOLD = pa.list_(_ONE)
_REFUSED = {"whole": False, "doubtful": False, "empty": False, "event_type": None, "time": None}
_UNDECIDED = {**_REFUSED, "doubtful": True}
_EMPTY = {**_REFUSED, "empty": True}


def telling(
    routings: Sequence[Routing],
    schemas: Mapping[str, KnownSchemas],
    bytes_max: int,
    replayed: Mapping[TopicPartition, int] = NOTHING,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of mapInArrow. schemas: by the name of a registry. bytes_max: longer values are not looked at.

    replayed: as in Reading.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        teller = _Teller(routings, Readings(schemas, replayed), bytes_max)
        for batch in batches:
            names = ("value", "topic", "partition", "offset", "headers")
            rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
            told = pa.array([teller.told(*row) for row in rows], _TOLD)
            yield pa.RecordBatch.from_arrays([*batch.columns, told], names=[*batch.schema.names, "told"])

    return run


class _Teller:
    """Judges values by each configuration, reading each by each format once."""

    def __init__(self, routings: Sequence[Routing], readings: Readings, bytes_max: int) -> None:
        self._routings = routings
        self._readings = readings
        self._bytes_max = bytes_max
        self._forms: dict[str, list[ValueFormat]] = {}

    def told(
        self, value: bytes | None, topic: str, partition: int, offset: int, headers: Headers
    ) -> list[dict[str, Any] | None] | None:
        """One entry for each configuration."""
        if value is None:
            return None
        if topic not in self._forms:
            self._forms[topic] = [one.format_of(topic) for one in self._routings]
        seen: dict[tuple[ValueFormat, str], Sent | Refused | None] = {}
        found: list[dict[str, Any] | None] = []
        for form, routing in zip(self._forms[topic], self._routings, strict=True):
            if by_spark(form):
                found.append(None)
                continue
            key = (form, routing.registry)
            if key not in seen:
                seen[key] = self._read(key, value, TopicPartition(topic, partition), offset, headers)
            found.append(_entry(seen[key], routing, form))
        return found

    def _read(
        self, key: tuple[ValueFormat, str], value: bytes, tp: TopicPartition, offset: int, headers: Headers
    ) -> Sent | Refused | None:
        if len(value) > self._bytes_max:
            return None
        try:
            return self._readings.of(*key).read(value, tp, offset, headers)
        except Refused as refused:
            return refused
        except (Undecided, RecursionError):
            return None


def _entry(sent: Sent | Refused | None, routing: Routing, form: ValueFormat) -> dict[str, Any]:
    """What is told of a value by one configuration; None: it cannot be read here."""
    if not isinstance(sent, Sent):
        return _UNDECIDED if sent is None else _EMPTY if isinstance(sent, NoValue) else _REFUSED
    source, time = routing.type_from, routing.event_time
    inside = source.kind in ("json", "schema", "source")
    return {
        "whole": True,
        "doubtful": False,
        "empty": False,
        "event_type": event_type_of(sent, source) if inside else None,
        "time": event_time_of(sent, time, form.envelope) if time.kind == "json" else None,
    }
