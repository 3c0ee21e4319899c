"""The greatest times of what a task reads of each partition, if they are asked for (protocol 4.12).

Runs on Spark executors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from exporter.core.valid_through import ALL, Basis, latest
from offsets.ranges import TopicPartition


class GreatestTimes:
    """Of one task. By record time: of all records of a partition; by event time: of each type's rows."""

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self._times: dict[TopicPartition, dict[str, int]] = {}

    def read(self, tp: TopicPartition, timestamps: pa.Array) -> None:
        """Kafka's timestamps of records that are routed; null for those that no table can hold."""
        if self._basis == "record":
            self._take(tp, ALL, timestamps)

    def staged(self, name: str, tp: TopicPartition, times: pa.Array | pa.ChunkedArray) -> None:
        """Event times of rows of an event type."""
        if self._basis == "event":
            self._take(tp, name, times)

    def rows(self) -> Iterator[dict[str, Any]]:
        """What the manifest says of it."""
        for tp, times in self._times.items():
            yield {"topic": tp.topic, "partition": tp.partition, "times": json.dumps(times)}

    def _take(self, tp: TopicPartition, name: str, times: pa.Array | pa.ChunkedArray) -> None:
        greatest = pc.max(times.cast(US).cast(pa.int64())).as_py()
        if greatest is not None:
            self._times[tp] = latest(self._times.get(tp, {}), {name: greatest // 1000})
