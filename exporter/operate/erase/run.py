"""`exporter erase`: what is found of a subject, and that it goes from all tables of the app (ERASED, protocol 4.16).

    search ── where its records stood is recorded, in one commit ── table by table: it is told, then the rows go

Whoever ends behind the record has erased: the next turn of maintenance does the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

from exporter.arrow.own_columns import PLACES
from exporter.core.subject import DataSubject
from exporter.errors import DependencyUnreachable
from exporter.faults import Fault, point
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader, partitions_of
from exporter.lake.lake import Lake
from exporter.lake.settling import Failed, Moved
from exporter.lake.views import views_of
from exporter.operate.erase.left import LeftInTable, LeftOfErasures
from exporter.operate.maintain.run import at_work, limits_of
from exporter.protocol.erasures import Erasures
from exporter.settings.model import Settings

if TYPE_CHECKING:
    from exporter.operate.maintain.step import MaintenanceStep


TRIES_MAX = 5
"""Erasures that are recorded at once are rare, and each of them is one commit."""


@dataclass(frozen=True)
class FoundSubject:
    """rows: event type -> rows in which the subject stands, of the tables that have some. records: that these are of.

    unseen: dead letters whose values are no text. topics: how many of the records each has had. erasure: its number; 0
    where nothing was erased. steps: what became of each table.
    """

    rows: Mapping[str, int]
    records: int
    unseen: int
    topics: Mapping[str, int]
    erasure: int = 0
    steps: Sequence[MaintenanceStep] = field(default_factory=tuple)


@dataclass(frozen=True)
class ErasureStatus:
    """erasures: how many there were. topics: erased records that each still has. silent: why Kafka was not asked."""

    erasures: int
    tables: Sequence[LeftInTable]
    topics: Mapping[str, int]
    silent: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left in any file or log of the tables."""
        return not any(one.is_something for one in self.tables)


def status(settings: Settings) -> ErasureStatus:
    """What is left of all erasures; nothing is written. Raises ExporterError."""
    with at_work(settings) as (lake, _):
        left = LeftOfErasures(lake)
        tables, topics, silent = [*left.tables()], dict[str, int](), ""
        try:
            reader = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
            try:
                topics = left.records(reader, partitions_of(reader.identities()))
            finally:
                reader.close()
        except DependencyUnreachable as error:
            silent = error.message
        return ErasureStatus(left.everything.number, tables, topics, silent)


def erase(
    settings: Settings, subject: DataSubject, apply: bool, told: Callable[[MaintenanceStep], None]
) -> FoundSubject:
    """Search all tables; with `apply` the records that were found are erased. Raises ExporterError."""
    from exporter.operate.maintain.maintain import Maintenance
    from exporter.operate.maintain.step import each_told

    with at_work(settings) as (lake, stopped):
        work = Maintenance(lake, limits_of(settings), stopped)
        rows, unseen, places = _searched(lake, subject)
        number = 0
        if apply and places.num_rows:
            number = _recorded(lake, places)
            point(Fault.AFTER_ERASURE)
        steps = each_told(work.erase(work.tables([]), apply), told)
    topics = Counter[str](places.column("topic").to_pylist())
    return FoundSubject(rows, places.num_rows, unseen, topics, number, steps)


def _recorded(lake: Lake, places: pa.Table) -> int:
    """The number of the erasure. Raises ExporterError."""
    for _ in range(TRIES_MAX):
        try:
            return Erasures(lake).add(places, datetime.now(timezone.utc))
        except Failed as failed:
            raise failed.cause() from failed
        except Moved as moved:
            faster = moved
    raise DependencyUnreachable(f"nothing was erased: {faster}", "another erasure is at work: start it again")


def _searched(lake: Lake, subject: DataSubject) -> tuple[dict[str, int], int, pa.Table]:
    """Rows of each table that has some, dead letters that nobody can read, and where all the records stood."""
    from exporter.operate.erase.searching import SubjectSearch

    search, found = SubjectSearch(lake, subject), dict[str, pa.Table]()
    for name, view in views_of(lake):
        places = search.places(name, view)
        if places is not None and (some := places.toArrow()).num_rows:
            found[name] = some.cast(PLACES)
    everywhere = pa.concat_tables([PLACES.empty_table(), *found.values()])
    each = everywhere.group_by(PLACES.names).aggregate([])
    return {name: some.num_rows for name, some in found.items()}, search.unseen.value, each
