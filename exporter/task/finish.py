"""When a task is done: told to stop, or a run with an end that has come to it.

    told to stop     nothing is under way, everything that was read is committed, or the budget is over
    with an end      all partitions are exported to their frozen ends, those of other tasks by these
    with an end, and a table or a partition that was given up:   everything else first, then an error names them

Belongs to the loop's thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.core.writers import Writer, Writers
from exporter.errors import BrokerSilent, FoundProblem
from exporter.kafka.assignment import Assignment
from exporter.monitor.outages import KAFKA
from exporter.monitor.watch import Watch
from exporter.task.ends import Ends
from exporter.task.others import Others
from exporter.task.ownership import Ownership
from exporter.task.settling import SPARED_FAILS
from offsets.ranges import TopicPartition

ROUNDS_FAIL = "its rounds fail again and again"
"""How it is told that a partition is stuck in this way."""
PARKED_MAX = 3
"""A run with an end gives a type up that was parked so often in a row."""


@dataclass(kw_only=True, eq=False, repr=False)
class Finish:
    """One task's. poll_secs: between two questions whether there is nothing for this task."""

    with_an_end: bool
    ends: Ends
    ownership: Ownership
    membership: Assignment
    others: Others
    watch: Watch
    poll_secs: float

    def __post_init__(self) -> None:
        self._spare_looked_at = float("-inf")

    def read_through(self, writers: Writers) -> bool:
        """True if each of the writers that are not given up has integrated everything to its partition's frozen end.

        False for a run without an end.
        """
        ends, hopeless, owned = self.ends.frozen, self.watch.hopeless, self.ownership.owned
        if not writers or self.ownership.unrecovered or ends is None or not owned.keys() <= ends.keys():
            return False
        return all(w.frontier >= ends[key.tp] - 1 or given_up(w) or key.tp in hopeless for key, w in writers.items())

    def stopped(self, now: float, stop_at: float, writers: Writers, idle: bool) -> bool:
        """Whether a task that was told to stop may leave. idle: nothing is under way, nothing is left to be told."""
        settled = all(writer.covered == writer.frontier for writer in writers.values() if writer.parked is None)
        return (idle and settled) or now >= stop_at

    def done(self, now: float, writers: Writers, idle: bool, told: bool) -> bool:
        """Whether a run with an end is at its end. told: whether the group has been told all.

        Raises FoundProblem for what it could not export.
        """
        if not self.with_an_end or not idle or self.membership.waits():
            return False
        hopeless = self.watch.hopeless
        if undrained := hopeless.keys() & self.ownership.unrecovered:
            raise left_out((), {tp: hopeless[tp] for tp in undrained})
        if not self.ownership.owned:
            return self._is_spare(now) and self._all_is_done(now)
        if (ends := self.ends.frozen) is None or not self.read_through(writers):
            return False
        behind = [writer for key, writer in writers.items() if writer.covered < ends[key.tp] - 1]
        waited_for = [w for w in behind if not given_up(w) and not (w.key.tp in hopeless and w.covered == w.frontier)]
        if waited_for or not told:
            return False
        if behind or hopeless:
            raise left_out(behind, hopeless)
        return self._all_is_done(now)

    def _all_is_done(self, now: float) -> bool:
        """True if what is not this task's has come to the frozen ends as well, where a group shares the topics."""
        ends = self.ends.frozen
        try:
            return ends is not None and self.others.finished(self.ownership.owned, ends, now)
        except BrokerSilent as error:
            self.watch.outages.seen(KAFKA, error.message, now)
            return False

    def _is_spare(self, now: float) -> bool:
        """True if nothing is this task's and nothing will be: there are more tasks than partitions."""
        if now - self._spare_looked_at < self.poll_secs:
            return False
        self._spare_looked_at = now
        try:
            return self.membership.is_spare()
        except BrokerSilent as error:
            self.watch.outages.seen(KAFKA, error.message, now)
            return False


def given_up(writer: Writer) -> bool:
    """True for a parked type that a run with an end does not wait for any longer."""
    return writer.parked is not None and writer.failures >= PARKED_MAX


def left_out(writers: Iterable[Writer], unread: Mapping[TopicPartition, str]) -> FoundProblem:
    """What a run with an end could not export: every table, with its partitions and its reason.

    unread: partitions that cannot be read on, and why.
    """
    by_table: dict[str, list[Writer]] = defaultdict(list)
    for writer in sorted(writers, key=lambda one: one.key):
        if writer.key.tp not in unread:
            by_table[writer.key.event_type].append(writer)
    lines = []
    for name, behind in by_table.items():
        reason = next((one.parked.reason for one in behind if one.parked is not None), "")
        since = ", ".join(f"{one.key.tp} from {one.covered + 1} on" for one in behind)
        lines.append(f"table {name} cannot be written: {reason}; offsets that were not exported: {since}")
    for tp, error in sorted(unread.items()):
        lines.append(f"{tp} cannot be read on, {error}")
    hints = ["correct it (`exporter check` names what is asked for)"] * bool(by_table)
    damaged = [error.startswith((ROUNDS_FAIL, SPARED_FAILS)) for error in unread.values()]
    hints += ["see whether a replica is whole, else `exporter repair --skip`"] * any(damaged)
    hints += ["register the schemas, or see `unknown_schema_id`"] * (not all(damaged))
    return FoundProblem("\n  ".join(lines), f"everything else was; {'; '.join(hints)}; and run again")
