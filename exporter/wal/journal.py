"""The commit path's side of the write-ahead log: what is begun before a Delta commit and settled after it (ORDER).

    begin ── started ──> the Delta commit ──> settle ── completed or failed ──> only then the group offset

What the log could not be told is owed to it: noted in a queue that the loop empties (keeper.py) and pays later. A
commit that stands is never taken back for it. `required`: nothing with files is offered while the log is out of reach.
`best_effort`: commits go on, and what they did is recorded later. Nothing here decides whether a commit landed.
"""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from exporter.clock import monotonic
from exporter.errors import InvariantBroken
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.log_events import Event
from offsets import Invariant
from offsets.intents import Intent, WalMismatch, WalUnreachable, WriteAheadLog
from offsets.ranges import TopicPartition

log = get_logger(__name__)

SAY_SECS = 60.0
"""How often an outage is told."""


@dataclass(frozen=True)
class Landing:
    """An intent whose commit is in the table, as this version. logged: whether it may have been written as started."""

    intent: Intent
    version: int
    logged: bool = True


@dataclass
class _Begun:
    """The intents of one offer that are not settled yet. logged: as in Landing."""

    intents: dict[TopicPartition, Intent]
    logged: bool


class Journal:
    """One process's writes to the log of one app. Used by the commit threads; `down` is a flag that any may set."""

    def __init__(self, wal: WriteAheadLog | None = None, required: bool = True, owner: str = "", routing: str = ""):
        """wal None: there is no log, and nothing is ever written or waited for. owner: unique for this process."""
        self.wal = wal
        self.required = required
        self.owner = owner
        self.routing = routing
        self.down = False
        self.owed: queue.SimpleQueue[tuple[Sequence[Landing], Sequence[Intent]]] = queue.SimpleQueue()
        self._open: dict[str, dict[str, _Begun]] = defaultdict(dict)
        self._said_at = float("-inf")

    @property
    def on(self) -> bool:
        return self.wal is not None

    @property
    def holds_commits(self) -> bool:
        """True while nothing with files may be offered."""
        return self.on and self.required and self.down

    @property
    def settles_any(self) -> bool:
        """True while it waits for what became of an offer."""
        return any([*self._open.values()])

    def begin(self, event_type: str, intents: Sequence[Intent]) -> str:
        """Write them as started, before they are offered under one commit id; why nothing may be offered, or empty."""
        if self.wal is None or not intents:
            return ""
        point(Fault.BEFORE_WAL_STARTED)
        commit_id = intents[0].commit_id
        # While it is down each call would wait for its time-out; the keeper alone asks whether it answers again.
        tried = not self.down
        if not (tried and self._start(intents)) and self.required:
            if tried:
                self.owed.put(((), intents))  # they may have been written all the same, and are never offered
            return "the write-ahead log cannot be reached"
        self._open[event_type][commit_id] = _Begun({intent.key.tp: intent for intent in intents}, tried)
        point(Fault.AFTER_WAL_STARTED)
        return ""

    def _start(self, intents: Sequence[Intent]) -> bool:
        try:
            with self.asking():
                if self.wal is not None:
                    self.wal.start(intents)
        except WalUnreachable:
            return False
        return True

    def settle(
        self,
        event_type: str,
        landed: Mapping[tuple[TopicPartition, str], int],
        failed: Sequence[tuple[TopicPartition, str]],
    ) -> None:
        """Tell the log what became of offers that are resolved; one that is not stays started.

        landed: (partition, commit id) -> table version. failed: never landed, and this process will not offer them
        again. Both may name offers that had no files and hence no intent.
        """
        if self.wal is None:
            return
        landings = [
            Landing(taken[0], version, taken[1])
            for at, version in landed.items()
            if (taken := self._take(event_type, *at))
        ]
        dead = [taken[0] for at in failed if (taken := self._take(event_type, *at)) and taken[1]]
        if not landings and not dead:
            return
        point(Fault.BEFORE_WAL_COMPLETED)
        if self.down or not self.pay(landings, dead):
            self.owed.put((landings, dead))
        point(Fault.AFTER_WAL_COMPLETED)

    def under_way(self, event_type: str, tp: TopicPartition) -> set[str]:
        """The ids of the offers that this process settles itself. Callable from every thread."""
        return {commit_id for commit_id, begun in [*self._open.get(event_type, {}).items()] if tp in begun.intents}

    def keep_only(self, held: Mapping[tuple[str, TopicPartition], Collection[str]]) -> None:
        """Leave what became of all other offers to the check, as if another process had begun them (protocol 5.1).

        held: (event type, partition) -> ids of the offers that a claim has. To be called while no commit is under way.
        """
        for event_type, tp, commit_id in self._begun():
            if commit_id not in held.get((event_type, tp), ()):
                self._take(event_type, tp, commit_id)

    def let_go(self, tps: Container[TopicPartition]) -> None:
        """The same of all offers of some partitions: they are read anew, and no claim has any of them."""
        for event_type, tp, commit_id in self._begun():
            if tp in tps:
                self._take(event_type, tp, commit_id)

    def _begun(self) -> list[tuple[str, TopicPartition, str]]:
        """What is begun and not settled; commits of other partitions may be under way beside this."""
        return [
            (event_type, tp, commit_id)
            for event_type, offers in [*self._open.items()]
            for commit_id, begun in [*offers.items()]
            for tp in [*begun.intents]
        ]

    def _take(self, event_type: str, tp: TopicPartition, commit_id: str) -> tuple[Intent, bool] | None:
        """The intent, which is not open any more from now on, and whether the log has it; None if there was none."""
        begun = self._open[event_type].get(commit_id)
        intent = begun.intents.pop(tp, None) if begun is not None else None
        if begun is not None and not begun.intents:
            self._open[event_type].pop(commit_id, None)
        return None if begun is None or intent is None else (intent, begun.logged)

    def pay(self, landings: Sequence[Landing], failed: Sequence[Intent]) -> bool:
        """Write what became of intents; False if the log is out of reach. Raises InvariantBroken if it contradicts."""
        if self.wal is None:
            return True
        by_version: dict[int, list[Intent]] = defaultdict(list)
        for landing in landings:
            by_version[landing.version].append(landing.intent)
        try:
            with self.asking():
                for version, intents in sorted(by_version.items()):
                    self.wal.complete(intents, version)
                if failed:
                    self.wal.fail(failed)
        except WalUnreachable:
            return False
        return True

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around calls of the log: one that does not answer is noted. Raises WalUnreachable, InvariantBroken."""
        try:
            yield
        except WalUnreachable as error:
            self.unreachable(error)
            raise
        except WalMismatch as error:
            raise contradiction(error) from error

    def unreachable(self, error: WalUnreachable) -> None:
        """Note it, and say so once a minute."""
        self.down = True
        now = monotonic()
        if now - self._said_at < SAY_SECS:
            return
        self._said_at = now
        advice = "commits with files are held back until it answers" if self.required else "commits go on without it"
        if error.table_missing:
            advice += "; its table is missing: `exporter check --create-wal` makes it"
        log.warning(Event.WAL_UNREACHABLE, error=error.message, advice=advice)

    def reached(self) -> None:
        """Note that the log answers again."""
        if self.down:
            self.down, self._said_at = False, float("-inf")
            log.info(Event.WAL_REACHED)


def contradiction(error: WalMismatch) -> InvariantBroken:
    """The log and this process cannot both be right."""
    return InvariantBroken(
        Invariant.ORDER,
        f"write-ahead log: {error.message}",
        "`exporter offsets` shows the tables and the log side by side. If `exporter audit` is clean, the log's table "
        "may be deleted: `exporter check --create-wal` makes it anew, and the next start fills it",
    )
