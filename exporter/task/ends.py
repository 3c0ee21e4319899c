"""Where the partitions end, and through where a run with an end has to come (protocol 3.4, 3.5, 5.4).

    look ── readable ends (last stable offsets)          what rounds may read to
         ── high watermarks                              what there is: lag counts to them
         ── now and then, or where an end went back:     is it the same topic, with all that was not read?

A run with an end keeps the first ends that it saw, of all partitions of its topics, before open transactions. Belongs
to the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.errors import BrokerSilent
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.outages import KAFKA
from offsets.ranges import TopicPartition

if TYPE_CHECKING:
    from exporter.kafka.topics import TopicReader
    from exporter.monitor.watch import Watch

log = get_logger(__name__)

CHECK_SECS = 30.0

Bounds = Mapping[TopicPartition, tuple[int, int]]
"""The least and the greatest position of each partition."""


@dataclass(kw_only=True, eq=False, repr=False)
class Ends:
    """One task's.

    readable: partition -> the offset after the last record that may be read. goals: the same, as lag counts to it.
    frozen: of a run with an end, once it has looked; None before, and of one without an end.

    others: all partitions of the topics, whoever has them. check: that the topics are the known ones and whole.

    look_secs: between two looks.
    """

    topics: TopicReader
    watch: Watch
    others: Callable[[], Collection[TopicPartition]]
    check: Callable[[Bounds], None]
    look_secs: float
    with_an_end: bool

    def __post_init__(self) -> None:
        self._looked_at = self._checked_at = float("-inf")
        self.readable: Mapping[TopicPartition, int] = {}
        self.goals: Mapping[TopicPartition, int] = {}
        self.frozen: Mapping[TopicPartition, int] | None = None

    def look_again(self, check: bool = False) -> None:
        """Look at the next iteration, and check if asked to."""
        self._looked_at = float("-inf")
        if check:
            self._checked_at = float("-inf")

    def tick(self, now: float, owned: Collection[TopicPartition], bounds: Callable[[], Bounds]) -> bool:
        """Look, if it is time and there is something to look at; whether that was done.

        owned: this task's partitions. bounds: asked only when it looks. Raises what `check` raises; a silent broker is
        an outage that the watch is told of.
        """
        freezing = self.with_an_end and self.frozen is None
        if now - self._looked_at < self.look_secs or not (owned or freezing):
            return False
        self._looked_at = now
        try:
            asked = {*owned, *(self.others() if freezing else ())}
            last = self.topics.high_watermarks(asked)  # first: what is not readable after it is held back
            ends = self.topics.end_offsets(asked)
            at = bounds()
            went_back = any(ends.get(tp, most + 1) <= most for tp, (_, most) in at.items())
            if went_back or now - self._checked_at >= CHECK_SECS:
                self.check(at)
                self._checked_at = now
        except BrokerSilent as error:
            self.watch.outages.seen(KAFKA, error.message, now)
            return False
        last = {tp: max(end, last[tp]) for tp, end in ends.items()}
        self.watch.ends_read(last, now, ends)
        if self.with_an_end:
            self.frozen = self._frozen(ends, last)
            self.readable = self.goals = {tp: self.frozen[tp] for tp in ends if tp in owned}
        else:
            self.readable, self.goals = dict(ends), last
        return True

    def _frozen(
        self, ends: Mapping[TopicPartition, int], last: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The ends at which this run ends: the first ones seen, before open transactions.

        They are of all partitions of the topics, for in a group any may become this task's.
        """
        frozen = self.frozen if self.frozen is not None else {}
        new = {tp: end for tp, end in ends.items() if tp not in frozen}
        for tp, end in sorted(new.items()):
            if end < last[tp]:
                log.info(Event.TRANSACTION_OPEN, partition=str(tp), reads_to=end - 1, last_offset=last[tp] - 1)
        return {**frozen, **new}
