"""A fixed assignment: which partitions are this task's stands in the settings, and no group is joined.

Nothing but the compare-and-set keeps two tasks with the same share apart (FENCE). New partitions and
topics are looked for every so often, in the loop's own thread; group offsets are still written for lag
tools, as a group without members allows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from exporter.clock import monotonic
from exporter.errors import BrokerSilent, ConfigError, DependencyUnreachable
from exporter.kafka.assignment import Assigned, AssignmentChange, Revoked
from exporter.kafka.client import CLOSE_TIMEOUT_MS, commit_offsets, opened
from exporter.kafka.topics import TopicReader, partitions_of
from exporter.log import get_logger
from exporter.log_events import Event
from offsets.ranges import TopicPartition
from offsets.selection import Share

log = get_logger(__name__)


class StaticAssignment:
    """An Assignment without a group. What is held is assigned once, what comes later when it is noticed."""

    def __init__(
        self,
        client_options: Mapping[str, Any],
        group: str,
        reader: TopicReader,
        share: Share,
        refresh_secs: float,
        clock: Callable[[], float] = monotonic,
        leased: bool = False,
    ) -> None:
        """group: under which offsets are written. leased: the partitions are leased as well (wal/leased.py).

        Raises ConfigError for a listed partition that no topic has.
        """
        self._reader = reader
        self._share = share
        self._refresh_secs = refresh_secs
        self._clock = clock
        self._ownership = itertools.count(1)
        self._held: set[TopicPartition] = set()
        self._next_look = float("-inf")
        self.failure: BaseException | None = None
        self.trouble = ""
        there = {tp.partition for tp in partitions_of(reader.identities())}
        if there and (absent := sorted(share.listed - there)):
            raise ConfigError(f"no topic has a partition {absent[0]}", "correct `partitions`")
        try:
            self._consumer = opened(
                KafkaConsumer,
                **client_options, group_id=group, enable_auto_commit=False, request_timeout_ms=10_000
            )
        except KafkaError as error:
            raise DependencyUnreachable(
                f"no broker answers at {client_options['bootstrap_servers']}: {error}",
                "check `brokers` and [kafka_client]",
            ) from error
        if not leased:
            log.warning(
                Event.STATIC_ASSIGNMENT,
                partitions=str(share),
                advice="no group and no lease keeps tasks apart: give each partition to one task; of two, the "
                "compare-and-set of the commits lets one go on at a time",
            )

    def changes(self) -> list[AssignmentChange]:
        """What has become this task's since the last call, and which of it is there no more."""
        if self._clock() < self._next_look:
            return []
        self._next_look = self._clock() + self._refresh_secs
        try:
            there = partitions_of(self._reader.identities())
        except BrokerSilent as error:
            log.warning(Event.BROKER_SILENT, error=error.message)
            self._next_look = self._clock() + min(1.0, self._refresh_secs)
            return []
        mine = {tp for tp in there if self._share.holds(tp.partition)}
        gone, new = sorted(self._held - mine), sorted(mine - self._held)
        self._held = mine
        return [*(Revoked(tp, lost=True) for tp in gone), *(Assigned(tp, next(self._ownership)) for tp in new)]

    def is_spare(self) -> bool:
        """True if a look has found nothing that the share holds."""
        return self._next_look > float("-inf") and not self._held

    def waits(self) -> bool:
        """False: whatever the share names is worked on at once."""
        return False

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> str:
        """Best effort, for lag tools only (traps 5); what went wrong, or empty."""
        return commit_offsets(self._consumer, next_offsets)

    def close(self) -> None:
        self._consumer.close(timeout_ms=CLOSE_TIMEOUT_MS)
