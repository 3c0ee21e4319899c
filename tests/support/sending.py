"""A to_kafka job without Spark, in a process of its own that can be killed: real transactions, real progress, a source
that is made up, in parts that grow.

    main(), with <bootstrap> <app> <topic> <rows>    exits as `exporter derive run` does
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

from exporter.derive import to_kafka, to_kafka_source
from exporter.derive.target import new_owner
from exporter.derive.to_kafka import Surroundings, ToKafkaJob
from exporter.derive.to_kafka_rows import RowPlace, RowToSend
from exporter.derive.to_kafka_source import ByOffset
from exporter.derive.to_kafka_topic import TargetTopic
from exporter.errors import ExporterError
from exporter.settings.derive_to_kafka import ToKafkaTable
from offsets.cursors import NOTHING, Cursor, slices
from offsets.positions import Position
from offsets.ranges import TopicPartition

JOB = "out"
SOURCES = [TopicPartition("in", partition) for partition in range(3)]
STEP = 200
"""Rows that each run finds more than the one before."""


def key_of(number: int) -> bytes:
    return str(number % 17).encode()


def row_of(number: int) -> RowToSend:
    place = RowPlace(SOURCES[number % 3], 0, number // 3)
    value = None if number % 23 == 0 else str(number).encode()
    return RowToSend(place, key_of(number), value, (("n", str(number).encode()),))


def rows_of(count: int) -> list[RowToSend]:
    """In the order of a source."""
    return sorted(map(row_of, range(count)), key=lambda row: row.place)


@dataclass
class Made:
    """A source at one version, as Pinned is: so many rows."""

    count: int

    @property
    def now(self) -> Cursor:
        rows = rows_of(self.count)
        return Cursor({row.place.tp: Position(0, row.place.at) for row in rows if row.place.tp}, {}, self.count, "made")

    def has_new(self, since: Cursor) -> bool:
        return bool(slices(since, self.now))

    def require_kept(self, since: Cursor, job: str) -> None:
        """It takes nothing back."""

    def rows(self, since: Cursor = NOTHING, until: Cursor | None = None) -> list[RowToSend]:
        """Those between two cursors, in order."""
        new = {one.tp: one for one in slices(since, until or self.now)}
        return [
            row for row in rows_of(self.count)
            if row.place.tp in new and new[row.place.tp].after < row.place.at <= new[row.place.tp].through
        ]  # fmt: skip


class SendingJob(ToKafkaJob):
    """A job whose source has `count` rows, and finds STEP more of them in each run."""

    def __init__(self, kafka: str, app: str, topic: str, count: int, **settings: Any) -> None:
        lines = {"kind": "to_kafka", "source": "made", "topic": topic, "key": "k", "partitions": 2, "rows_max": 7}
        table = ToKafkaTable.model_validate({**lines, **settings})
        target = TargetTopic({"bootstrap_servers": [kafka]}, app, JOB, table)
        around = Surroundings(mock.Mock(app=app), mock.Mock(), {}, new_owner())
        super().__init__(JOB, table, around, target, mock.Mock())
        self.count, self.seen = count, 0

    def _source(self, version: int | None = None) -> Any:
        self.seen = min(self.count, self.seen + STEP)
        view = mock.Mock(version=self.seen)
        return ByOffset(Made(self.seen), view)  # type: ignore[arg-type]

    def _shape(self, source: Any, texts: bool | None = None) -> Any:
        return mock.Mock(shaped=lambda rows, place: rows)

    def through(self) -> None:
        """Run until all rows are sent."""
        while self.seen < self.count:
            self.run()


def without_spark() -> Any:
    """Instead of what needs a JVM."""
    return mock.patch.multiple(to_kafka, streamed=iter), mock.patch.object(to_kafka_source, "by_offset", lambda _: ())


def main() -> None:
    kafka, app, topic, count = sys.argv[1:]
    streams, orders = without_spark()
    with streams, orders:
        try:
            SendingJob(kafka, app, topic, int(count)).through()
        except ExporterError as error:
            print(error, flush=True)
            sys.exit(error.exit_code)
