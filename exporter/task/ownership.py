"""Which partitions are this task's, and in what state: the group's changes in, what follows from them out.

    Assigned ──> owned, waits ── reading begins ──> being read ── result ──> recovered (it has writers)
                   ^                                    │ asked for again, or the reading came to nothing
                   └────────────────────────────────────┘
    Leaving  ──> still owned, on its way out: `rolled` is set once all that was read of it is committed
    Revoked  ──> not owned; its writers are dropped

Each assignment brings an ownership epoch: what was begun under another one is stale (protocol 1.3, 3.1, 5.3). Belongs
to the loop's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from exporter.core.writers import Writers
from exporter.kafka.assignment import Assigned, AssignmentChange, Leaving, Revoked
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.totals import Totals
from exporter.never import assert_never
from offsets.ranges import TopicPartition

log = get_logger(__name__)


class Ownership:
    """The partitions of one task.

    owned: partition -> ownership epoch. leaving: partition -> set once it may be taken away.
    """

    def __init__(self, *, totals: Totals, drop: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]):
        """drop: forgets all that is held of some partitions; the staged rows that are lost with it, by partition."""
        self._totals = totals
        self._drop = drop
        self.owned: dict[TopicPartition, int] = {}
        self.leaving: dict[TopicPartition, threading.Event] = {}
        self._waiting: set[TopicPartition] = set()
        self._reading: dict[TopicPartition, int] = {}
        self._read_at_first = 0

    @property
    def staying(self) -> dict[TopicPartition, int]:
        """The partitions that are ours and not about to be taken away, with their ownership epochs."""
        return {tp: ownership for tp, ownership in self.owned.items() if tp not in self.leaving}

    @property
    def unrecovered(self) -> set[TopicPartition]:
        """What is owned and has no writers: it waits for a reading, or is being read."""
        return self._waiting | self._reading.keys()

    @property
    def waiting(self) -> list[TopicPartition]:
        """What the next reading is for."""
        return sorted(self._waiting - self.leaving.keys())

    def take(self, changes: Iterable[AssignmentChange]) -> None:
        """What has happened since the last iteration, in order."""
        changes = [*changes]
        assigned: dict[TopicPartition, int] = {}
        dropped = dict(self._drop({change.tp for change in changes if not isinstance(change, Leaving)}))
        for change in changes:
            match change:
                case Leaving():
                    self.leaving |= dict.fromkeys(change.tps, change.rolled)
                case Assigned():
                    self._gone(change.tp, assigned)
                    assigned[change.tp] = change.ownership
                    self._totals.rebalances["assigned"] += 1
                    log.info(Event.PARTITION_ASSIGNED, partition=str(change.tp))
                case Revoked():
                    self._gone(change.tp, assigned)
                    self._totals.rebalances["lost" if change.lost else "revoked"] += 1
                    rows = dropped.pop(change.tp, 0)
                    log.info(Event.PARTITION_REVOKED, partition=str(change.tp), lost=change.lost, dropped_rows=rows)
                case _:
                    assert_never(change)
        self.owned |= assigned
        self.read_again(assigned)

    def _gone(self, tp: TopicPartition, assigned: dict[TopicPartition, int]) -> None:
        """Whatever was known of the partition is of an ownership that is over."""
        for of_partition in (self.owned, self.leaving, self._reading, assigned):
            of_partition.pop(tp, None)
        self._waiting.discard(tp)

    def read_again(self, tps: Iterable[TopicPartition]) -> None:
        """Recover these, as far as they are ours; a reading of them that is under way counts for nothing."""
        self._waiting |= self.owned.keys() & set(tps)

    def begin_reading(self) -> dict[TopicPartition, int]:
        """The partitions that wait and are not leaving are being read from now on; with their ownership epochs."""
        self._reading = {tp: self.owned[tp] for tp in self.waiting}
        self._waiting -= self._reading.keys()
        self._read_at_first = len(self._reading)
        return dict(self._reading)

    @property
    def reading_is_whole(self) -> bool:
        """Whether all partitions of the reading are as they were when it began."""
        return len(self._counting()) == self._read_at_first

    def end_reading(self, came_to_nothing: bool = False) -> dict[TopicPartition, int]:
        """What of the reading counts: partitions that are still ours under the same ownership, were not asked for again
        and are staying. All others that are ours wait for the next one.
        """
        read, counts = self._reading, {} if came_to_nothing else self._counting()
        self._reading = {}
        self.read_again(read.keys() - counts.keys())
        return counts

    def _counting(self) -> dict[TopicPartition, int]:
        return {tp: own for tp, own in self._reading.items() if tp not in self._waiting and tp not in self.leaving}

    def let_go(self, writers: Writers) -> None:
        """Tell the group that a leaving partition is committed as far as it was read."""
        waiting = {self.leaving[tp] for tp in self.unsaved(writers)}
        for rolled in set(self.leaving.values()) - waiting:
            rolled.set()

    def unsaved(self, writers: Writers) -> set[TopicPartition]:
        """The leaving partitions of which something that was read is still to be committed."""
        if not self.leaving:
            return set()
        open_ = {key.tp for key, w in writers.items() if w.claim is not None or w.covered != w.frontier}
        return self.leaving.keys() & open_
