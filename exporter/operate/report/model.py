"""The facts of a report: what the tables, the log and the topics' ends say. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from exporter.core.standing import TableStanding
from exporter.display.concerns import Concern
from offsets.ranges import TopicPartition

if TYPE_CHECKING:
    from exporter.operate.dead_letters.listing import DeadLetterCount


@dataclass(frozen=True)
class Happened:
    """One commit. outcome: with rows, empty marker, or what else was done.

    oldest_ms: Kafka time of the oldest record that it brought, ms since 1970; None if it brought none, or does not say.
    """

    at_ms: int
    event_type: str
    outcome: str
    rows: int = 0
    oldest_ms: int | None = None


@dataclass(frozen=True)
class FailedCommit:
    """One partition's part of a commit that was begun and never landed. offsets: first and last; owner: the task."""

    at_ms: int
    event_type: str
    tp: TopicPartition
    offsets: tuple[int, int]
    rows: int
    owner: str


@dataclass(frozen=True)
class DayFiles:
    """The live files of one table and event day; day: the first of a month that has no days, - of a table without."""

    event_type: str
    day: str
    files: int
    bytes: int


@dataclass(frozen=True)
class Facts:
    """All that the page tells. failed: None if it is not known. notes: what could not be asked or is left out.

    due: files that maintenance would join now, and their bytes, by partition of a table. late_secs: if nothing was
    committed for so long, nothing is.
    """

    app: str
    root: str
    made_at: datetime
    places: Sequence[TableStanding] = ()
    happened: Sequence[Happened] = ()
    days: Sequence[DayFiles] = ()
    dead_letters: Sequence[DeadLetterCount] = ()
    notes: Sequence[Concern] = ()
    failed: Sequence[FailedCommit] | None = None
    due: Sequence[tuple[int, int]] = ()
    late_secs: float = 300.0
