"""The offset that the consumer group is told, for lag tools: the last step of ORDER, best effort, read back by nobody.

    the least position + 1 of each partition, where it has changed ── in a thread, one call at a time ──> the group

What could not be told is told again with the next one. All is told again once a minute: what another task said before
it lost a partition may arrive last. Belongs to the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from exporter import threads
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.log_events import Event
from offsets.ranges import TopicPartition

log = get_logger(__name__)

PAUSE_SECS = 1.0
AGAIN_SECS = 60.0

NextOffsets = Mapping[TopicPartition, int]


class GroupOffset:
    """Tells the consumer group how far the tables are, for tools that show lag."""

    def __init__(self, *, commit: Callable[[NextOffsets], str], wake: Callable[[], None]) -> None:
        """commit: tells the group; returns what went wrong, or an empty text. wake: called when an answer is there."""
        self._commit = commit
        self._wake = wake
        self._sending: Future[str] | None = None
        self._sent: dict[TopicPartition, int] = {}
        self._sent_at = self._anew_at = float("-inf")
        self._pool = threads.pool(1, "group-offset")

    @property
    def is_settled(self) -> bool:
        """Whether no call is under way."""
        return self._sending is None

    def tick(self, now: float, next_offsets: Callable[[], NextOffsets], hurry: Callable[[], bool]) -> None:
        """Take the answer of the last call; tell what has changed, at most once in PAUSE_SECS unless there is a hurry.

        Both are asked only if they are needed. now: monotonic seconds.
        """
        if self._sending is not None:
            if not self._sending.done():
                return
            error, self._sending = self._sending.result(), None
            point(Fault.AFTER_GROUP_OFFSET)
            if error:
                self._sent.clear()
                log.info(Event.GROUP_OFFSET_NOT_COMMITTED, error=error)
                return
        if now - self._sent_at < PAUSE_SECS and not hurry():
            return
        if now - self._anew_at >= AGAIN_SECS:
            self._sent.clear()
            self._anew_at = now
        changed = {tp: offset for tp, offset in next_offsets().items() if self._sent.get(tp) != offset}
        if changed:
            point(Fault.BEFORE_GROUP_OFFSET)
            self._sent_at = now
            self._sent |= changed
            self._sending = self._pool.submit(self._commit, changed)
            self._sending.add_done_callback(lambda _: self._wake())

    def close(self) -> None:
        """Begin no other call; one under way is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
