"""One fresh reading of the log and of every table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import LogCleaned
from exporter.wal.check import Logged
from offsets.crosscheck import PartitionState
from offsets.names import table_folder
from offsets.ranges import TopicPartition
from offsets.table_log import TableView


@dataclass(frozen=True)
class Reading:
    """One fresh reading: the log, the views, the dead letters' last, and what each table says per partition.

    logged: None if there is no log, or it need not answer and does not. unproven: tables whose own log was cleaned up
    beyond what has been looked at, which the write-ahead log has to prove.
    """

    views: Mapping[str, TableView]
    states: Mapping[TopicPartition, Mapping[str, PartitionState]]
    logged: Logged | None = None
    unproven: Mapping[str, LogCleaned] = field(default_factory=dict)

    @property
    def letters(self) -> TableView | None:
        return self.views.get(DEAD_LETTERS)


def unread_tables(views: Mapping[str, TableView]) -> set[str]:
    """Folders of the tables that the dead letters list and that were not read."""
    letters = views.get(DEAD_LETTERS)
    return set(letters.listed_tables() if letters else ()) - {table_folder(name) for name in views}
