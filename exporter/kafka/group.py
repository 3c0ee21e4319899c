"""Membership in the consumer group: which partitions are this task's, as the group sees it.

One thread owns a consumer that never fetches: everything assigned is paused and sought in the
callback, which only notes what changed. A partition that is about to be revoked is held back for
a moment, so that the loop may commit what it has read of it. What the group says narrows the
window in which two tasks work on one partition; the compare-and-set of the commit closes it (FENCE).
"""

from __future__ import annotations

import itertools
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import KafkaError

from exporter.errors import DependencyUnreachable
from exporter.faults import Fault, point
from exporter.kafka.assignment import Assigned, AssignmentChange, Leaving, Revoked
from exporter.kafka.client import CLOSE_TIMEOUT_MS, commit_offsets, opened
from exporter.kafka.topics import EXPORTER, TopicReader, partitions_of
from exporter.log import get_logger, silence
from exporter.log_events import Event
from offsets.ranges import TopicPartition
from offsets.selection import is_spare

log = get_logger(__name__)

POLL_MS = 500
POLL_INTERVAL_MS = 60_000
"""How long the others wait for this member to rejoin; a revocation may take half of it."""
ROLL_POLL_SECS = 0.05


class _Assignor(CooperativeStickyAssignor):  # type: ignore[misc]
    """Remembers the topics that it had to leave out.

    A leader that knows no metadata of a topic yet gives its partitions to nobody, and nobody would ever ask for them:
    the client (3.0.12) joins again only if its metadata change afterwards, and misses it if they did meanwhile. It
    warns of them at nearly every start; here they are taken care of.
    """

    def __init__(self) -> None:
        super().__init__()
        silence("kafka.coordinator.assignors.sticky")
        self.left_out: frozenset[str] = frozenset()

    def assign(self, cluster: Any, members: Any) -> Any:
        members = list(members)
        topics = {topic for member in members for topic in member.metadata.topics}
        self.left_out = frozenset(topic for topic in topics if cluster.partitions_for_topic(topic) is None)
        return super().assign(cluster, members)


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Runs on the client's IO thread: pause, seek, note, and a bounded wait; nothing that blocks or raises."""

    def __init__(
        self, consumer: Any, changes: queue.SimpleQueue[AssignmentChange], wake: Callable[[], None], roll_secs: float
    ) -> None:
        self._consumer = consumer
        self._changes = changes
        self._wake = wake
        self._roll_secs = roll_secs
        self._ownership = itertools.count(1)
        self._closing = False

    def close(self) -> None:
        """Stop waiting for anybody; callable from every thread."""
        self._closing = True

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Told at one go, so that the loop recovers all of them by one reading of the tables."""
        partitions = list(assigned)
        for partition in partitions:
            point(Fault.IN_REBALANCE)
            self._consumer.pause(partition)
            self._consumer.seek(partition, 0)
        for partition in partitions:
            self._changes.put(Assigned(_ours(partition), next(self._ownership)))
        self._wake()

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Heartbeats go on while this waits for the loop, because it sleeps in the client's own event loop."""
        partitions = list(revoked)
        if partitions and not self._closing:
            rolled, deadline = threading.Event(), time.monotonic() + self._roll_secs
            self._changes.put(Leaving(frozenset(map(_ours, partitions)), rolled))
            self._wake()
            point(Fault.IN_REBALANCE)
            while not (rolled.is_set() or self._closing or time.monotonic() >= deadline):
                await self._consumer._net.sleep(ROLL_POLL_SECS)  # the client has no public way to await
        self._note(partitions, lost=False)

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._note(lost, lost=True)

    def _note(self, partitions: Iterable[Any], lost: bool) -> None:
        for partition in partitions:
            self._changes.put(Revoked(_ours(partition), lost))
        self._wake()


class Membership:
    """The group thread. `changes()` hands what happened to the loop; `ownership` epochs rise with each assignment."""

    def __init__(
        self,
        client_options: Mapping[str, Any],
        group: str,
        reader: TopicReader,
        session_timeout_ms: int,
        refresh_secs: float,
        wake: Callable[[], None],
        roll_secs: float = 0.0,
    ) -> None:
        """refresh_secs: how soon new partitions and topics are noticed. roll_secs: how long a revocation may wait for
        the loop. Raises DependencyUnreachable.
        """
        self._group = group
        self._reader = reader
        self._queue: queue.SimpleQueue[AssignmentChange] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._wake = wake
        self.failure: BaseException | None = None
        self.trouble = ""
        self._assignor = _Assignor()
        try:
            self._consumer = opened(
                KafkaConsumer,
                **client_options,
                group_id=group,
                client_id=f"{EXPORTER}{socket.gethostname()}",
                enable_auto_commit=False,
                auto_offset_reset="none",
                partition_assignment_strategy=[self._assignor],
                session_timeout_ms=session_timeout_ms,
                heartbeat_interval_ms=max(200, min(3_000, session_timeout_ms // 6)),
                max_poll_interval_ms=max(POLL_INTERVAL_MS, session_timeout_ms),
                metadata_max_age_ms=max(100, int(refresh_secs * 1000)),
                reconnect_backoff_max_ms=2_000,
                request_timeout_ms=10_000,
            )
        except KafkaError as error:
            raise DependencyUnreachable(
                f"cannot join group {group} at {client_options['bootstrap_servers']}: {error}",
                "check `brokers` and [kafka_client]",
            ) from error
        self._listener = _Listener(self._consumer, self._queue, wake, min(roll_secs, POLL_INTERVAL_MS / 2000))
        if reader.topics.pattern:
            self._consumer.subscribe(pattern=reader.topics.anchored, listener=self._listener)
        else:
            self._consumer.subscribe(list(reader.topics.names), listener=self._listener)
        self._thread = threading.Thread(target=self._run, name="group", daemon=True)
        self._thread.start()

    def changes(self) -> list[AssignmentChange]:
        """What has happened since the last call, in order."""
        seen: list[AssignmentChange] = []
        while True:
            try:
                seen.append(self._queue.get_nowait())
            except queue.Empty:
                return seen

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> str:
        """Best effort, for lag tools only (traps 5); what went wrong, or empty."""
        return commit_offsets(self._consumer, next_offsets)

    def is_spare(self) -> bool:
        """True if the group is at rest, all partitions are with other members and none with this one."""
        member = self._consumer.group_metadata().member_id
        if not member or self._consumer.assignment():
            return False
        assignments = self._reader.assignments(self._group)
        return is_spare(member, assignments, partitions_of(self._reader.identities()))

    def waits(self) -> bool:
        """False: the group hands partitions over by itself."""
        return False

    def close(self) -> None:
        """Leave the group; the others take over at once."""
        self._stop.set()
        self._listener.close()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._consumer.poll(timeout_ms=POLL_MS)
                self._join_to_the_end()
                self.trouble = ""
            except KafkaError as error:
                self.trouble = f"{type(error).__name__}: {error}"
                log.warning(Event.GROUP_POLL_FAILED, error=self.trouble)
                self._stop.wait(1.0)
            except Exception as error:  # noqa: BLE001 - whatever ends the thread must reach the loop
                self.failure = error
                self._wake()
                return
        self._consumer.close(timeout_ms=CLOSE_TIMEOUT_MS)

    def _join_to_the_end(self) -> None:
        """Let the client join again where it would leave it at that; it has no public way to ask for it.

        It forgets a join that a poll began and did not await to its end, if by then it sees no reason to join any
        more: it owns nothing, sends no heartbeats and spins. And once a leader knows the topics for which it had
        assigned nothing, the group is to assign again.
        """
        coordinator, left_out = self._consumer._coordinator, self._assignor.left_out
        forgotten = coordinator.rejoining and not coordinator.need_rejoin()
        known = all(self._consumer._cluster.partitions_for_topic(topic) is not None for topic in left_out)
        if left_out and known:
            self._assignor.left_out = frozenset()
        if forgotten or (left_out and known):
            coordinator.request_rejoin()


def _ours(partition: Any) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
