"""What finished rounds have staged, until the writers have it.

    take ────── of a round that came to nothing: begin and end offsets are read again (protocol 3.7)
           └─── of another: few new types? of the topics that the tables know? then its manifest
    integrate ─ one step for all fragments that are still ours; types whose files failed are parked

Belongs to the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from exporter.core.manifest import RoundResult
from exporter.core.new_types import require_few, stamped
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import Fragment, Writer, WriterKey, Writers, integrate_all
from exporter.errors import BrokerSilent
from exporter.faults import Fault, point
from exporter.lake.lake import Lake
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.watch import Watch
from exporter.protocol.known import KnownTables
from exporter.rounds.rounds import Rounds
from exporter.settings.model import Settings
from exporter.task.ends import Ends
from exporter.task.growing import Growing, fitted
from exporter.task.offers import park_and_tell
from exporter.task.progress import position_bounds
from offsets.ranges import TopicPartition

log = get_logger(__name__)


@dataclass(kw_only=True, eq=False, repr=False)
class Manifests:
    """One task's. read_again: these partitions are to be recovered."""

    lake: Lake
    rounds: Rounds
    ends: Ends
    known: KnownTables
    growing: Growing
    watch: Watch
    settings: Settings
    read_again: Callable[[Collection[TopicPartition]], None]

    def take(self, now: float, writers: Writers) -> RoundResult | None:
        """That of a round that has just finished, if it counts.

        Raises InvariantBroken for too many new types or another topic, DependencyUnreachable.
        """
        failures = self.rounds.failures
        result = self.rounds.take(now)
        if result is None:
            if self.rounds.failures > failures:
                self.ends.look_again(check=True)
                self.watch.totals.rounds_failed += 1
                self.watch.storage_is_out(now)
                self._look_at_stuck(writers)
            return None
        point(Fault.AFTER_READ)
        if self.rounds.secs >= self.ends.look_secs:
            self.ends.look_again()  # the next round is to read what came meanwhile
        require_few(self.known.new_types, result, self.settings.new_types_max)
        if result.storage:
            self.watch.workers_lack_storage(result.storage, now)
        if self._is_spoiled(result, now) or not self._is_of_known_topics(result, writers):
            return None
        planned = self.growing.plan(result)
        if self._is_spoiled(planned, now):
            return None
        outgrown = self.known.planned.outgrown
        self.watch.outgrown = {name: [*map(str, columns)] for name, columns in outgrown.items()}
        return planned

    def integrate(
        self, result: RoundResult, now: float, writers: Writers, staying: Mapping[TopicPartition, int]
    ) -> dict[WriterKey, Writer]:
        """The writers with all of the manifest that is still ours. staying: partition -> ownership epoch."""
        fragments = [
            fitted(stamped(fragment, self.known.tables), self.known)
            for fragment in result.fragments
            if staying.get(fragment.plan.tp) == fragment.plan.ownership
        ]
        after, discarded = integrate_all(writers, fragments, now)
        for fragment, reasons in zip(fragments, discarded, strict=True):
            for name, reason in reasons.items():
                log.info(Event.MANIFEST_DISCARDED, table=name, partition=str(fragment.plan.tp), reason=reason)
            _park_unwritten(after, fragment, now)
        self.watch.integrated(result, self.rounds.secs)
        return after

    def _look_at_stuck(self, writers: Writers) -> None:
        """Read all again if somebody has skipped what a partition is stuck at (`exporter repair --skip`)."""
        if not (stuck := self.rounds.trouble.stuck().keys() & {key.tp for key in writers}):
            return
        dead_letters = self.lake.table(DEAD_LETTERS).view()
        for tp in stuck:
            writer = writers.get(WriterKey(DEAD_LETTERS, tp))
            at = dead_letters.position(self.lake.app, tp) if dead_letters is not None else None
            if writer is not None and (at is None or at.epoch != writer.epoch):
                self.read_again({tp})

    def _is_spoiled(self, result: RoundResult, now: float) -> bool:
        """Whether nothing of a round counts, because the storage is out: what it could not give or take is no type's
        trouble then."""
        out = bool(result.incomplete) and self.watch.storage_is_out(now)
        if out or result.storage:
            self.rounds.spoiled(result.incomplete, now)
            self.watch.totals.rounds_failed += 1
        return out or bool(result.storage)

    def _is_of_known_topics(self, result: RoundResult, writers: Writers) -> bool:
        """Whether what was read is of the topics that the tables know (protocol 5.4); in doubt it is read again."""
        read = {fragment.plan.tp for fragment in result.fragments}
        try:
            self.known.check_topics({tp: most for tp, (_, most) in position_bounds(writers).items() if tp in read})
        except BrokerSilent as error:
            log.warning(Event.ROUND_DROPPED, error=error.message)
            return False
        return True


def _park_unwritten(writers: dict[WriterKey, Writer], fragment: Fragment, now: float) -> None:
    """The types whose files cannot be written are parked, the others go on (protocol 3.6).

    One with a commit under way is only read again: what becomes of that is not known yet.
    """
    for name, error in fragment.unwritten.items():
        writer = writers.get(WriterKey(name, fragment.plan.tp))
        if writer is not None and writer.claim is None:
            writers[writer.key] = park_and_tell(writer, error, now)
