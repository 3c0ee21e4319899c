"""The loop: the order of the steps, and the one place that branches. What each step is stands in a machine of its own.

    write-ahead log    what it is owed, whether it answers, whether it agrees with the tables      wal/keeper
    group changes      what was assigned, what is leaving, what was revoked                        ownership
    finished round     take its manifest; anchor the types that it met; integrate it               manifests, anchoring
    finished commits   settle their claims                                                         offers
    gaps, leaving      recover what retention took from; let go what is committed                  retention, ownership
    waiting            recover what has no writers, from the tables                                recovering
    due writers        freeze and offer, one commit per event type; empty markers ride along       core/due, offers
    spared records     find out where they are, once all tables are past them                      settling
    missing schemas    look up the ids that partitions wait for                                    schema_ids
    ends, next round   look, plan and read, while commits run (back-pressure: staged bytes)        ends, next_round
    group offset       the least position + 1, best effort                                         group_offset
    catalog            the tables that are new, best effort                                        registering
    derived tables     their jobs begin, or are woken                                              deriving
    done?              caught up, or told to stop                                                  finish

All writer state lives in this thread. Rounds and commits run in threads of their own on frozen
values; callbacks, timers and signals only set flags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from exporter import threads
from exporter.clock import core_secs, monotonic
from exporter.core.due import Occasion, due_writers
from exporter.core.plan import PROBE_RECORDS
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import Writer, WriterKey
from exporter.ending import ending
from exporter.errors import (
    DependencyUnreachable,
    ExporterError,
    InvariantBroken,
    JvmEnded,
    LogCleaned,
    StorageSilent,
    TableUnreadable,
    TableUnwritable,
)
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.monitor.outages import GROUP, KAFKA, SPARK, STORAGE
from exporter.task.finish import ROUNDS_FAIL
from exporter.task.machines import Machines
from exporter.task.offers import drop_aged
from exporter.task.parts import Parts
from exporter.task.progress import lag_of, position_bounds, progress
from offsets.ranges import TopicPartition

log = get_logger(__name__)

COMMIT_THREADS = 3
LOOP_SECS, LOOP_SECS_MAX = 0.2, 1.0
LOOP_REST = 10.0
"""An iteration looks at each writer: of 20,000 in a twentieth of a second, which five times a second is a fourth of a
core."""


class Service:
    """One task. `run` returns when caught up or stopped, and raises ExporterError otherwise."""

    def __init__(self, parts: Parts) -> None:
        """The machines of the loop, over the parts of the task."""
        self._parts = parts
        self._settings = parts.settings
        self._watch = parts.watch
        self.totals = self._watch.totals
        self._known = parts.known
        self._recovery = parts.recovery
        self._membership = parts.membership
        self._writers: dict[WriterKey, Writer] = {}
        self._backlog_at_start: int | None = None
        self._stop_at: float | None = None
        self._pool = threads.pool(COMMIT_THREADS, "commit")
        self._commits = parts.commits(self._pool)
        made = Machines(parts, self._pool, self._commits, drop=self._drop, writers=lambda: self._writers)
        self._keeper, self._ownership, self._rounds = made.keeper, made.ownership, made.rounds
        self._manifests, self._anchoring, self._offers = made.manifests, made.anchoring, made.offers
        self._retention, self._recovering, self._settling = made.retention, made.recovering, made.settling
        self._ends, self._schema_ids, self._next_round = made.ends, made.schema_ids, made.next_round
        self._group_offset, self._finish = made.group_offset, made.finish
        self._registering, self._deriving = made.registering, made.deriving

    def stop(self) -> None:
        """Ask the loop to stop; callable from every thread."""
        if self._stop_at is None:
            self._stop_at = monotonic() + self._settings.stop_budget_secs
        self._recovering.stop()
        self._deriving.stop()
        self._parts.wake.set()

    def run(self) -> None:
        """The loop. Leaves the group on every way out."""
        wake = self._parts.wake
        try:
            began = core_secs()
            while not self._passed():
                wake.wait(rest_secs(core_secs() - began))
                wake.clear()
                began = core_secs()
        finally:
            ending.leave()
            self._deriving.stop()
            self._rounds.close()
            self._recovering.close()
            self._recovery.close()
            self._keeper.close()
            self._group_offset.close()
            self._schema_ids.close()
            self._commits.close()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._membership.close()

    def _passed(self) -> bool:
        """Run one tick. If it fails because the storage is out, drop everything in memory: it is read again later.

        While the storage itself does not answer, what the tables seem to say counts for nothing, good or bad.
        """
        try:
            return self._tick()
        except (TableUnreadable, TableUnwritable, InvariantBroken) as error:
            now = monotonic()
            if not self._is_of_storage(error, now):
                raise
            self._ownership.read_again(self._ownership.owned)
            self._forget(self._ownership.owned)
            self._anchoring.drop()
            self._recovering.pause_until(now + self._watch.outages.pause_secs(STORAGE, now))
            self._publish(now)
            return False

    def _is_of_storage(self, error: ExporterError, now: float) -> bool:
        """Whether an outage is to blame, one that is over by now among them. Raises DependencyUnreachable."""
        if isinstance(error, LogCleaned):
            return False
        if self._watch.storage_is_out(now):
            return True
        return isinstance(error, StorageSilent) and self._watch.blinked(error.message, now)

    def _tick(self) -> bool:
        """One iteration of the loop, in the order of the steps above; True when the task is done."""
        now = monotonic()
        if not self._parts.alive():
            raise JvmEnded
        self._keeper.tick(now, self._ownership.owned)
        self._look_at_group(now)
        self._ownership.take(self._membership.changes())
        self._take_round(now)
        self._look_at_spark(now)
        self._settle_commits(now)
        self._ownership.read_again(self._retention.tick(self._writers, self._is_at_rest))
        self._ownership.let_go(self._writers)
        self._recover(now)
        drop_aged(self._writers, self._settings.stage_age_max_secs, now)
        self._offer_due(now)
        self._ownership.read_again(self._settling.tick(now, self._writers))
        if self._stop_at is None:
            self._look_at_ends(now)
            self._schema_ids.tick(now, self._ends.readable)
            self._start_round(now)
        else:
            self._rounds.cancel()
        self._group_offset.tick(now, self._next_offsets, self._is_last)
        self._registering.tick(now, self._known.tables)
        self._deriving.tick(now, not self._ownership.unrecovered)
        self._publish(now)
        lag = self._lag() if self._backlog_at_start is not None else None
        self._parts.on_progress(
            progress(self.totals, self._writers, len(self._ownership.owned), lag, self._backlog_at_start)
        )
        return self._done(now)

    def _publish(self, now: float) -> None:
        """Leave a snapshot behind for whoever asks."""
        if not self._ownership.owned and not self._parts.until_caught_up:
            self._watch.outages.over(KAFKA, now)  # nobody asks it any more
        self._watch.tick(
            now, self._ownership.owned, self._ownership.unrecovered, self._writers, self._known.said,
            self._parts.log_check.said, self._keeper.waits, self._keeper.owed, self._stop_at is not None,
            self._stuck(),
        )  # fmt: skip

    def _stuck(self) -> dict[TopicPartition, str]:
        """Partitions that cannot be read on, and why."""
        failing = {**self._recovery.stuck(), **self._rounds.trouble.stuck()}
        rounds = {tp: f"{ROUNDS_FAIL}: {error}" for tp, error in failing.items()}
        return {**self._settling.stuck(), **self._recovery.undecided(), **self._schema_ids.stuck(), **rounds}

    @property
    def _is_at_rest(self) -> bool:
        """Whether no round and no commit is under way."""
        return not self._rounds.running and not self._offers.running

    def _look_at_group(self, now: float) -> None:
        """Who else is in it, and whether it takes this task in. Raises DependencyUnreachable."""
        self._parts.others.tell(now)
        if trouble := self._membership.trouble:
            self._watch.outages.seen(GROUP, f"{trouble}{self._parts.others.who}", now)
        else:
            self._watch.outages.over(GROUP, now)
        if self._membership.failure is not None:
            raise DependencyUnreachable(f"the group thread ended: {self._membership.failure}", "start again")

    def _look_at_spark(self, now: float) -> None:
        """Whether the round that is to be read has executors."""
        if starved := self._rounds.starved:
            self._watch.outages.seen(SPARK, starved, now)
        else:
            self._watch.outages.over(SPARK, now)

    def _drop(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Forget all that is known of partitions that were assigned or taken away; their staged rows."""
        for tp in tps:
            self._offers.forget(tp)
        return self._forget(tps)

    def _forget(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Drop writers, staged files included; a running round becomes stale by its ownership epoch.

        Returns the staged rows that are dropped with them, by partition.
        """
        if not (gone := set(tps)):
            return {}
        rows = Counter[TopicPartition]()
        self._schema_ids.forget(gone)
        for key in [key for key in self._writers if key.tp in gone]:
            rows[key.tp] += self._writers.pop(key).staged_rows
        return rows

    def _take_round(self, now: float) -> None:
        """A finished round's manifest, and what waits for the anchors of new types."""
        if not self._anchoring.waits:
            result = self._manifests.take(now, self._writers)
            if result is not None:
                self._anchoring.wait_for(result)
        stopping, staying = self._stop_at is not None, self._ownership.staying
        ready = self._anchoring.tick(now, self._writers, staying, stopping, held=self._recovering.running)
        if ready is not None:
            self._writers = self._manifests.integrate(ready, now, self._writers, self._ownership.staying)
            self._schema_ids.take(ready.fragments, self._writers, self._ownership.staying)
            if ready.counts.get("records"):
                self._parts.poison.passed()
            point(Fault.AFTER_INTEGRATE)

    def _settle_commits(self, now: float) -> None:
        again = self._offers.take(self._writers, now, self._stop_at is not None)
        self._ownership.read_again(again)
        # what was refused is never offered again, also on the way out
        self._forget(again & self._ownership.leaving.keys())

    def _recover(self, now: float) -> None:
        """Writers for the waiting partitions, from the tables alone; a reading begins once no commit is under way.

        What was staged is dropped first; every reading is a fresh one (protocol 5.3).
        """
        self._forget(self._ownership.waiting)
        if not self._offers.running and not self._recovering.running:
            self._keeper.let_go(self._writers)
        may_begin = not self._offers.running and not self._keeper.waits
        recovered = self._recovering.tick(now, may_begin, bool(self._ownership.unsaved(self._writers)))
        if recovered:
            self._writers |= recovered
            self._ends.look_again()

    def _start_round(self, now: float) -> None:
        if self._retention.gapped or self._anchoring.waits or self._recovering.running:
            return
        leaving, waiting = self._ownership.leaving, self._schema_ids.waiting
        ends = {tp: min(end, waiting.get(tp, end)) for tp, end in self._ends.readable.items() if tp not in leaving}
        self._ownership.read_again(self._next_round.tick(now, self._writers, ends, self._finish.read_through))

    def _look_at_ends(self, now: float) -> None:
        looked = self._ends.tick(now, self._ownership.owned, lambda: position_bounds(self._writers))
        if looked and self._backlog_at_start is None:
            self._backlog_at_start = self._lag()
            if (self._backlog_at_start or 0) > PROBE_RECORDS:
                self._rounds.expect(self._parts.topics.offset_bytes(self._ownership.owned))

    def _offer_due(self, now: float) -> None:
        """Offer due writers and the markers of their type, and open claims again whose time has come.

        While partitions wait for a reading, or are read, only those on their way out are committed, or all for a stop;
        beside a drain, which commits by itself, nobody is.
        """
        occasion = self._commits.occasion(self._flushing())
        if not self._recovering.draining:
            self._offer_fresh(now, occasion)
        self._commits.rolled(self._ownership.owned)

    def _offer_fresh(self, now: float, occasion: Occasion) -> None:
        if self._stop_at is not None or (occasion.flushing and not self._retention.gapped):
            self._commits.hurry()  # what is left is the last of this task
        staying, leaving = self._writers, dict[WriterKey, Writer]()
        if self._ownership.leaving:
            leaving = {key: writer for key, writer in self._writers.items() if key.tp in self._ownership.leaving}
            staying = {key: writer for key, writer in self._writers.items() if key not in leaving}
        if held := self._ownership.unrecovered - self._ownership.leaving.keys() and self._stop_at is None:
            staying = {}
        fresh = due_writers(staying, leaving, self._settings.roll, self._settings.heartbeat_secs, now, occasion)
        prompt = {key.event_type for key in leaving}
        if not held and (waited_for := self._anchoring.dead_letters_waited_for(self._writers, self._ownership.staying)):
            fresh[DEAD_LETTERS] = [*dict.fromkeys([*fresh[DEAD_LETTERS], *waited_for])]
            prompt.add(DEAD_LETTERS)
        self._offers.offer(self._writers, fresh, now, leaving.keys() if held else None, prompt)

    def _flushing(self) -> bool:
        """True when everything has to be committed now: told to stop, a gap, or caught up with frozen ends."""
        if self._stop_at is not None or self._retention.gapped:
            return not self._rounds.running
        return not self._rounds.running and self._finish.read_through(self._writers)

    def _next_offsets(self) -> dict[TopicPartition, int]:
        """What the group may be told: the write-ahead log knows of all that is before it (ORDER)."""
        withheld = self._keeper.withheld()
        return {tp: least + 1 for tp, (least, _) in position_bounds(self._writers).items() if tp not in withheld}

    def _is_last(self) -> bool:
        """True if what is committed by now is the last that this run will have to tell, or may be."""
        return self._stop_at is not None or (self._is_at_rest and self._finish.read_through(self._writers))

    def _done(self, now: float) -> bool:
        busy = self._recovering.running or not self._anchoring.idle
        busy = busy or self._settling.waits(self._writers, self._watch.hopeless)
        idle = self._is_at_rest and not busy and not self._keeper.withheld()
        told = self._group_offset.is_settled
        if self._stop_at is not None:
            idle = idle and told and self._deriving.is_at_rest
            return self._finish.stopped(now, self._stop_at, self._writers, idle)
        return self._finish.done(now, self._writers, idle, told) and self._deriving.caught_up()

    def _lag(self) -> int | None:
        positions = {tp: least for tp, (least, _) in position_bounds(self._writers).items()}
        return lag_of(self._ownership.owned, positions, self._ends.goals)


def rest_secs(spent: float) -> float:
    """How long the loop waits for something to happen, after an iteration that took so many seconds of a core."""
    return min(LOOP_SECS_MAX, max(LOOP_SECS, LOOP_REST * spent))
