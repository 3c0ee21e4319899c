"""The records that were spared: once all tables are past one, it is settled where it is (protocol 3.7).

    others have spared one ─────────────────── the next commit to the dead letters sees it
    a writer of the partition is behind it ── wait
    all are past it ────────────────────────── look for it, commit what was found; in trouble again, ever more rarely
    in trouble again and again ─────────────── its partition is told to be stuck; the other records are no matter of it

Belongs to the loop's thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from exporter.core.backoff import Backoff
from exporter.core.outcome import Committer
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.writers import WriterKey, Writers
from exporter.errors import InvariantBroken
from exporter.lake.settling import Moved
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.known import KnownTables
from exporter.protocol.poison import Poison, Spared
from exporter.text import first_line
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)

AGAIN = Backoff(1.0, 30.0)
SPARED_FAILS = "a poison record of it cannot be settled"
"""How it is told that a partition is stuck in this way."""
FAILURES_MAX = 3
"""So often in a row one may fail before it is told."""


@dataclass(frozen=True)
class _Trouble:
    """Failures in a row. not_before: monotonic seconds of the next try."""

    failures: int
    not_before: float
    error: str


class Settling:
    """Settles spared records of a task once every table is past them (protocol 3.7)."""

    def __init__(self, *, routing: Routing, known: KnownTables, committer: Committer, poison: Poison) -> None:
        """poison: that of the rounds."""
        self._routing = routing
        self._known = known
        self._committer = committer
        self._poison = poison
        self._troubles: dict[tuple[TopicPartition, int], _Trouble] = {}
        self._heard: TableView | None = None

    def waits(self, writers: Writers, hopeless: Collection[TopicPartition] = ()) -> bool:
        """Whether there is something to be settled, and no table in the way of it. hopeless: that nobody waits for."""
        return any(tp not in hopeless for tp, _ in self._due(writers))

    def stuck(self) -> dict[TopicPartition, str]:
        """Partitions with a record that has failed often enough, and why."""
        return {
            tp: f"{SPARED_FAILS}: offset {offset}, {trouble.error}"
            for (tp, offset), trouble in self._troubles.items()
            if trouble.failures >= FAILURES_MAX
        }

    def tick(self, now: float, writers: Writers) -> set[TopicPartition]:
        """Settle what can be settled; partitions that have to be read again from their tables. Raises InvariantBroken.

        While a commit of the dead letters is under way their position is not known: it waits.
        """
        again: set[TopicPartition] = set()
        self._hear()
        due = [*self._due(writers)]
        self._troubles = {at: trouble for at, trouble in self._troubles.items() if at in due}
        for tp, offset in due:
            before = self._troubles.get((tp, offset), _Trouble(0, now, ""))
            dead_letters = writers[WriterKey(DEAD_LETTERS, tp)]
            if dead_letters.claim is not None or tp in again or now < before.not_before:
                continue
            try:
                checked_through = self._committer.checked_through(DEAD_LETTERS)
                spared = Spared(tp, offset, self._committer.footer(tp), checked_through, self._routing)
                self._poison.settle(spared)
            except InvariantBroken:
                raise
            except Moved as moved:
                log.info(Event.READING_RESTARTED, reason=str(moved))
                again.add(tp)
            except Exception as error:  # noqa: BLE001 - the next try sees in the tables whether this one landed
                told = first_line(error)
                log.warning(Event.CONDEMNING_FAILED, partition=str(tp), offset=offset, error=told)
                not_before = now + AGAIN.after(before.failures)
                self._troubles[tp, offset] = _Trouble(before.failures + 1, not_before, told)
            else:
                self._troubles.pop((tp, offset), None)
                self._known.settled(tp, offset)
        return again

    def _hear(self) -> None:
        """What others have spared, once for each look that a commit took at the dead letters."""
        heard, self._heard = self._heard, self._committer.dead_letters()
        if self._heard is not None and self._heard is not heard:
            self._known.hear(self._heard)

    def _due(self, writers: Writers) -> Iterator[tuple[TopicPartition, int]]:
        """Spared records that all tables of their partitions are past."""
        if not any(self._known.spared.values()):
            return
        covered = defaultdict[TopicPartition, list[int]](list)
        for key, writer in writers.items():
            covered[key.tp].append(writer.covered)
        for tp, offsets in self._known.spared.items():
            through = min(covered.get(tp, ()), default=-1)
            yield from ((tp, offset) for offset in sorted(offsets) if offset <= through)
