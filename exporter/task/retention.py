"""Partitions of which Kafka has deleted what was not read yet (protocol 5.4, 5.5).

    a gap is seen ── no round is begun; what is staged is not lost and is committed
                  ── then the partition is recovered: start-up finds the gap in the tables, and decides

Belongs to the loop's thread.
"""

from __future__ import annotations

from collections import defaultdict

from exporter.core.writers import Writers
from exporter.kafka.topics import TopicReader
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.known import KnownTables
from exporter.protocol.truncation import check_truncation
from exporter.task.ends import Bounds
from offsets.gaps import find_gaps
from offsets.positions import Position
from offsets.ranges import TopicPartition

log = get_logger(__name__)


class Retention:
    """One task's. gapped: partitions that have a gap before what would be read next."""

    def __init__(self, *, topics: TopicReader, known: KnownTables) -> None:
        self._topics = topics
        self._known = known
        self.gapped: set[TopicPartition] = set()

    def check(self, bounds: Bounds, writers: Writers) -> None:
        """Check identity, truncation and gaps. Raises InvariantBroken, BrokerSilent."""
        greatest = {tp: most for tp, (_, most) in bounds.items()}
        self._known.check_topics(greatest)
        check_truncation(self._topics, greatest)
        frontiers: dict[TopicPartition, dict[str, Position]] = defaultdict(dict)
        for key, writer in writers.items():
            frontiers[key.tp][key.event_type] = Position(writer.epoch, writer.frontier)
        gaps = find_gaps(frontiers, self._topics.first_offsets(frontiers.keys()), {})
        for gap in gaps:
            log.warning(Event.RETENTION_GAP, table=gap.event_type, partition=str(gap.tp), offsets=str(gap.offsets))
        self.gapped = {gap.tp for gap in gaps}

    def tick(self, writers: Writers, idle: bool) -> set[TopicPartition]:
        """The partitions that are to be recovered: all that they had staged is committed.

        idle: whether no round and no commit is under way.
        """
        if not self.gapped or not idle:
            return set()
        if any(w.covered != w.frontier for key, w in writers.items() if key.tp in self.gapped):
            return set()
        level, self.gapped = self.gapped, set()
        return level
