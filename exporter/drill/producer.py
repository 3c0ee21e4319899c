"""Who writes to the topic while a drill goes on: mixed types, days out of order, some records bad.

Each record's key names the table that it must come to, for whoever checks; the exporter never looks at it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import DependencyUnreachable

TYPES = {
    "order": "id BIGINT, amount DECIMAL(12,2), note STRING",
    "click": "id BIGINT, page STRING",
    "payment": "id BIGINT, ok BOOLEAN",
}
"""Declared event types and their columns; type in `type`, event time as ISO text in `at`."""

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
"""Kafka timestamp of all records: in the past for every clock."""
BAD_EVERY = 17
PACE_SECS = 0.1
FLUSH_SECS_MAX = 60.0


class DrillRecord(NamedTuple):
    """What is written. key: the table that it belongs to."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


def good(kind: str, number: int, table: str = "") -> DrillRecord:
    """A record of a type, declared or not, up to four days before its Kafka timestamp."""
    filled: dict[str, dict[str, Any]] = {
        "order": {"amount": f"{number}.25", "note": f"n{number}"},
        "click": {"page": f"/p/{number % 7}"},
        "payment": {"ok": number % 2 == 0},
    }
    at = NOON - timedelta(days=number * 7 % 5)
    value = {"type": kind, "at": at.isoformat(), "id": number, **filled.get(kind, {})}
    return record_of(table or kind, json.dumps(value).encode())


def bad(number: int) -> DrillRecord:
    """A record that must become a dead letter, in one way after the other."""
    values = (
        b'{"type": "order", "at": "2026-01-31T12:00:00Z", "id": "many"}',
        None,
        b'{"type": "order", "at": ',
        b'{"type": "click", "id": 1}',
        b'{"at": "2026-01-31T12:00:00Z"}',
        b'{"type": "payment", "at": "50000-01-01T00:00:00Z", "id": 1}',
        b"\xff\xfe",
    )
    return record_of(DEAD_LETTERS, values[number % len(values)])


def mixed(number: int) -> DrillRecord:
    """The n-th record of the usual load: orders, clicks and payments, some bad."""
    if number % BAD_EVERY == BAD_EVERY - 1:
        return bad(number // BAD_EVERY)
    return good(("order", "click", "order", "order", "click", "payment")[number % 6], number)


def poisoned(number: int) -> DrillRecord:
    """Every tenth record is bad."""
    return bad(number // 10) if number % 10 == 9 else good(("order", "click", "payment")[number % 3], number)


def record_of(table: str, value: bytes | None) -> DrillRecord:
    """One that has to come to this table."""
    return DrillRecord(table.encode(), value, int(NOON.timestamp() * 1000))


class Load:
    """A thread that writes `per_sec` records a second, in turn to each partition, while it is started."""

    def __init__(
        self,
        options: Mapping[str, Any],
        topic: str,
        partitions: int,
        per_sec: int,
        make: Callable[[int], DrillRecord] = mixed,
    ) -> None:
        """options: of kafka-python's producer. make: the n-th record."""
        self._topic = topic
        self._partitions = partitions
        self._per_sec = per_sec
        self.make = make
        self.written = 0
        self._failed: list[BaseException] = []
        self._enough = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            self._producer = KafkaProducer(**options, linger_ms=20, max_block_ms=60_000)
        except KafkaError as error:
            raise DependencyUnreachable(f"the drill cannot write to {topic}: {error!r}", "check the broker") from error

    def burst(self, count: int) -> None:
        """Write so many now, and return when the broker has them all."""
        for _ in range(count):
            self._write()
        self.flush()

    def write(self, record: DrillRecord, partition: int = 0) -> None:
        """One record more, in between."""
        self._producer.send(
            self._topic, record.value, record.key, partition=partition, timestamp_ms=record.timestamp_ms
        ).add_errback(self._failed.append)

    def start(self) -> None:
        """Begin to write at a steady rate, in a thread."""
        self._enough.clear()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write no more; all that was written is acknowledged. Raises DependencyUnreachable if it is not."""
        self._enough.set()
        if self._thread is not None:
            self._thread.join(FLUSH_SECS_MAX)
            self._thread = None
        self.flush()

    def flush(self) -> None:
        """Raises DependencyUnreachable if a record was not acknowledged."""
        try:
            self._producer.flush(FLUSH_SECS_MAX)
        except KafkaError as error:
            self._failed.append(error)
        if self._failed:
            raise DependencyUnreachable(f"records were not written: {self._failed[0]!r}", "check that the broker runs")

    def close(self) -> None:
        """End without waiting for anything."""
        self._enough.set()
        if self._thread is not None:
            self._thread.join(FLUSH_SECS_MAX)
        self._producer.close(timeout=2)

    def _run(self) -> None:
        while not self._enough.wait(PACE_SECS):
            try:
                for _ in range(max(1, int(self._per_sec * PACE_SECS))):
                    self._write()
            except KafkaError as error:
                self._failed.append(error)
                return

    def _write(self) -> None:
        number, self.written = self.written, self.written + 1
        self.write(self.make(number), number % self._partitions)
