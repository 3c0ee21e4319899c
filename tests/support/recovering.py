"""Start-up over given tables, as a task begins it: for tests that have no settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.core.outcome import Committer
from exporter.core.routing import Routing
from exporter.core.writers import Writer, WriterKey
from exporter.kafka.topics import EARLIEST, FirstPosition
from exporter.protocol.known import KnownTables
from exporter.protocol.recover import Recovery
from exporter.wal.check import LogCheck
from exporter.wal.journal import Journal
from offsets.ranges import TopicPartition


def recovery_of(
    lake: Any,
    topics: Any,
    routing: Routing,
    committer: Any,
    first_position: FirstPosition = EARLIEST,
    journal: Journal | None = None,
) -> Recovery:
    """One that has nothing to drain with, and stops at a gap."""
    return Recovery(
        lake=lake,
        topics=topics,
        routing=routing,
        committer=committer,
        log_check=LogCheck(lake, journal or Journal()),
        drain=None,
        first_position=first_position,
        on_gap="stop",
    )


class Started:
    """A task at its start: what it knows, and how it recovers partitions."""

    def __init__(
        self, lake: Any, topics: Any, routing: Routing, committer: Committer, first_position: FirstPosition = EARLIEST
    ) -> None:
        self.recovery = recovery_of(lake, topics, routing, committer, first_position)
        self.known = KnownTables(app=lake.app, routing=routing, topics=topics, committer=committer)

    def recover(self, ownership: Mapping[TopicPartition, int]) -> dict[WriterKey, Writer]:
        """The writers of some partitions, each with its ownership epoch."""
        found = self.recovery.recover(ownership, unchanged=self.known.unchanged, tell=self.known.tell)
        return self.known.take(found, ownership)
