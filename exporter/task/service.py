"""The loop: the one place that branches. Everything it calls decides or acts, never both.

    0 write-ahead log  what it is owed, whether it answers, whether it agrees with the tables
    1 group changes    recover what was assigned, roll what is leaving, drop what was revoked
    2 finished round   integrate its manifest
    3 finished commits settle their claims
    4 due writers      freeze and offer, one commit per event type; empty markers ride along
    5 next round       plan and read, while commits run (back-pressure: staged bytes)
    6 group offset     the least position + 1, best effort
    7 done?            caught up, or told to stop

All writer state lives in this thread. Rounds and commits run in threads of their own on frozen
values; callbacks, timers and signals only set flags.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from exporter.core import heartbeat
from exporter.core.backoff import RETRY_SECS
from exporter.core.manifest import RoundResult
from exporter.core.new_types import require_few, stamped, unanchored
from exporter.core.order import StagingOrder
from exporter.core.outcome import Committer
from exporter.core.plan import PROBE_RECORDS, expected, plan_round
from exporter.core.roll import RollLimits, rolls
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.writers import Fragment, PartitionPlan, Writer, WriterKey, Writers, integrate_all, park
from exporter.ending import ending
from exporter.errors import (
    BrokerSilent,
    DependencyUnreachable,
    FoundProblem,
    InvariantBroken,
    JvmEnded,
    LogCleaned,
    TableUnreadable,
    TableUnwritable,
)
from exporter.faults import Fault, point
from exporter.kafka.assignment import Assigned, Assignment, Leaving
from exporter.kafka.topics import TopicReader
from exporter.lake.lake import Lake
from exporter.log import get_logger
from exporter.monitor.outages import GROUP, KAFKA, STORAGE
from exporter.monitor.watch import Watch
from exporter.protocol.anchor import Moved, Switched
from exporter.protocol.condemn import Poison, Poisoned
from exporter.protocol.drain import Interrupted
from exporter.protocol.recover import Recovery
from exporter.protocol.truncation import check_truncation
from exporter.rounds.rounds import Rounds
from exporter.stores.parquet import FileOrigin
from exporter.task.ends import Bounds, Ends
from exporter.task.group_offset import GroupOffset
from exporter.task.offers import Offers, drop_aged, park_and_tell
from exporter.task.others import Others
from exporter.text import first_line
from exporter.wal.journal import Journal
from exporter.wal.keeper import WalKeeper
from offsets.gaps import find_gaps
from offsets.intents import WalUnreachable
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)

PARKED_MAX = 3
"""A run with an end gives a type up that was parked so often in a row."""
COMMIT_THREADS = 3
LOOP_SECS, LOOP_SECS_MAX = 0.2, 1.0
LOOP_REST = 10.0
"""A passing looks at each writer: of 20,000 in a twentieth of a second, which five times a second is a fourth of a
core."""
LOOKS_PER_ROLL = 8
"""Looks at the ends within roll_age_max_secs, at least: records wait for a look before they wait for their roll."""


@dataclass(frozen=True)
class Limits:
    """The settings that the loop itself needs; names as in the settings model."""

    roll: RollLimits
    heartbeat_secs: float
    stage_age_max_secs: float
    stop_budget_secs: float
    poll_secs: float
    new_types_max: int
    carried_bytes_max: int
    wal_verify_secs: float


@dataclass(frozen=True)
class Progress:
    """A moment of the loop. lag: offsets between the least position and the end, over owned partitions, if known."""

    records: int
    committed: int
    dead_letters: int
    lag: int | None
    backlog_at_start: int
    staged_bytes: int
    partitions: int
    commits: int


class Service:
    """One task. `run` returns when caught up or stopped, and raises ExporterError otherwise."""

    def __init__(
        self,
        *,
        lake: Lake,
        topics: TopicReader,
        membership: Assignment,
        others: Others,
        rounds: Callable[[Callable[[Future[Any]], Future[Any]]], Rounds],
        recovery: Recovery,
        committer: Committer,
        journal: Journal,
        poison: Poison,
        watch: Watch,
        routing: Routing,
        limits: Limits,
        wake: threading.Event,
        until_caught_up: bool,
        alive: Callable[[], bool],
        on_progress: Callable[[Progress], None],
    ) -> None:
        """others: of the group, if there is one. rounds: makes them, given what makes a future wake the loop.

        journal: that of the committer. poison: that of the drains. watch: told of all. alive: whether the JVM that
        runs Spark is there.
        """
        self._watch = watch
        self.totals = self._watch.totals
        self._lake = lake
        self._topics = topics
        self._membership = membership
        self._others = others
        self._recovery = recovery
        self._committer = committer
        self._routing = routing
        self._limits = limits
        self._wake = wake
        self._until_caught_up = until_caught_up
        self._on_progress = on_progress
        self._alive = alive
        self._writers: dict[WriterKey, Writer] = {}
        self._owned: dict[TopicPartition, int] = {}
        self._leaving: dict[TopicPartition, threading.Event] = {}
        self._to_recover: set[TopicPartition] = set()
        self._gapped: set[TopicPartition] = set()
        self._ends = Ends(
            topics=topics, watch=self._watch, others=self._others.partitions, check=self._check_topics,
            look_secs=self._look_secs, with_an_end=until_caught_up,
        )  # fmt: skip
        self._rounds = rounds(self._waking)
        self._keeper = WalKeeper(
            lake, journal, recovery.log_check, lambda: (*recovery.table_fingerprints,), limits.wal_verify_secs,
            self._waking,
        )  # fmt: skip
        self._waiting: RoundResult | None = None
        self._anchoring: Future[dict[str, TableView]] | None = None
        self._poison = poison
        self._recover_at = self._anchor_at = float("-inf")
        self._spare_looked_at = float("-inf")
        self._backlog_at_start: int | None = None
        self._stop_at: float | None = None
        self._pool = ThreadPoolExecutor(COMMIT_THREADS, thread_name_prefix="commit")
        self._group_offset = GroupOffset(commit=membership.commit, wake=wake.set)
        self._offers = Offers(lake, committer, recovery, self._keeper, self._watch, self._pool, wake.set)

    def unread(self) -> dict[TopicPartition, int]:
        """Partition -> the offset before which Spark's source was reading."""
        return {**self._recovery.unread(), **self._rounds.unread}

    def stop(self) -> None:
        """Ask the loop to stop; callable from every thread."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self._limits.stop_budget_secs
        self._wake.set()

    def run(self) -> None:
        """The loop. Leaves the group on every way out."""
        try:
            began = time.thread_time()
            while not self._passed():
                self._wake.wait(rest_secs(time.thread_time() - began))
                self._wake.clear()
                began = time.thread_time()
        finally:
            ending.leave()
            self._rounds.close()
            self._recovery.close()
            self._keeper.close()
            self._group_offset.close()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._membership.close()

    def _passed(self) -> bool:
        """_tick(), and an outage of the storage outlived: everything in memory is dropped and read again later.

        While the storage itself does not answer, what the tables seem to say counts for nothing, good or bad.
        """
        try:
            return self._tick()
        except (TableUnreadable, TableUnwritable, InvariantBroken) as error:
            now = time.monotonic()
            if isinstance(error, LogCleaned) or not self._watch.storage_is_out(now):
                raise
            self._to_recover |= self._owned.keys()
            self._forget(self._owned)
            self._waiting = None
            self._recover_at = now + self._watch.outages.pause_secs(STORAGE, now)
            self._publish(now)
            return False

    def _tick(self) -> bool:
        """One passing of the loop; True when the task is done."""
        now = time.monotonic()
        if not self._alive():
            raise JvmEnded
        self._keeper.tick(now, self._owned)
        self._look_at_group(now)
        self._take_group_changes()
        self._take_round(now)
        again = self._offers.take(self._writers, now, self._stop_at is not None)
        self._to_recover |= again & self._owned.keys()
        self._forget(again & self._leaving.keys())  # what was refused is never offered again, also on the way out
        self._recover_gapped()
        self._let_go()
        self._recover(now)
        drop_aged(self._writers, self._limits.stage_age_max_secs, now)
        self._offer_due(now)
        if self._stop_at is None:
            self._look_at_ends(now)
            self._start_round(now)
        else:
            self._rounds.cancel()
        self._group_offset.tick(now, self._next_offsets, self._is_last)
        self._publish(now)
        self._on_progress(self._progress())
        return self._done(now)

    def _publish(self, now: float) -> None:
        """Leave a snapshot behind for whoever asks."""
        if not self._owned and not self._until_caught_up:
            self._watch.outages.over(KAFKA, now)  # nobody asks it any more
        self._watch.tick(
            now, self._owned, self._to_recover, self._writers, self._recovery.said, self._recovery.log_check.said,
            self._keeper.waits, self._keeper.owed, self._stop_at is not None,
            {**self._recovery.stuck(), **self._rounds.trouble.stuck()},
        )  # fmt: skip

    # 1 -- group ---------------------------------------------------------------------------------

    def _look_at_group(self, now: float) -> None:
        """Who else is in it, and whether it takes this task in. Raises DependencyUnreachable."""
        self._others.tell(now)
        if trouble := self._membership.trouble:
            self._watch.outages.seen(GROUP, f"{trouble}{self._others.who}", now)
        else:
            self._watch.outages.over(GROUP, now)

    def _take_group_changes(self) -> None:
        if self._membership.failure is not None:
            raise DependencyUnreachable(f"the group thread ended: {self._membership.failure}", "start again")
        assigned: dict[TopicPartition, int] = {}
        changes = self._membership.changes()
        dropped = self._forget(change.tp for change in changes if not isinstance(change, Leaving))
        for change in changes:
            if isinstance(change, Leaving):
                self._leaving |= dict.fromkeys(change.tps, change.rolled)
                continue
            for of_partition in (self._owned, self._leaving, assigned):
                of_partition.pop(change.tp, None)
            self._offers.forget(change.tp)
            if isinstance(change, Assigned):
                assigned[change.tp] = change.ownership
                self.totals.rebalances["assigned"] += 1
                log.info("partition_assigned", partition=str(change.tp))
            else:
                self.totals.rebalances["lost" if change.lost else "revoked"] += 1
                log.info("partition_revoked", partition=str(change.tp), lost=change.lost,
                         dropped_rows=dropped.pop(change.tp, 0))  # fmt: skip
        self._owned |= assigned
        self._to_recover |= assigned.keys()
        self._to_recover &= self._owned.keys()

    def _let_go(self) -> None:
        """Tell the group that a leaving partition is committed as far as it was read."""
        if not self._leaving:
            return
        unsaved = {key.tp for key, w in self._writers.items() if w.claim is not None or w.covered != w.frontier}
        waiting = {rolled for tp, rolled in self._leaving.items() if tp in unsaved}
        for rolled in set(self._leaving.values()) - waiting:
            rolled.set()

    def _recover(self, now: float) -> None:
        """Writers for the waiting partitions, from the tables alone, once no commit of ours is under way.

        What was staged is dropped first; every reading is a fresh one (protocol 5.3).
        """
        tps, started = sorted(self._to_recover - self._leaving.keys()), time.monotonic()
        self._forget(tps)
        if not tps or self._offers.running or self._stop_at is not None or now < self._recover_at:
            return
        if self._keeper.waits:
            return
        point(Fault.BEFORE_POSITIONS)
        try:
            with self._watch.busy():
                recovered = self._recovery.recover({tp: self._owned[tp] for tp in tps}, self._go_on)
        except BrokerSilent as error:
            self._watch.outages.seen(KAFKA, error.message, now)
            self._recover_at = now + RETRY_SECS
            return
        except Interrupted as why:
            log.info("drain_interrupted", reason=str(why), pause_secs=round(why.pause_secs, 1))
            self._watch.storage_is_out(now)
            self._recover_at = time.monotonic() + why.pause_secs
            return
        except WalUnreachable:  # it has been told; the keeper asks until it answers
            return
        point(Fault.AFTER_POSITIONS)
        self._to_recover.difference_update(tps)
        self._writers |= recovered
        self.totals.took("recover", time.monotonic() - started)
        floors = {str(tp): least + 1 for tp, (least, _) in sorted(position_bounds(recovered).items())}
        log.info("positions_recovered", floors=floors, secs=round(time.monotonic() - started, 2))
        self._ends.look_again()

    def _go_on(self) -> None:
        """Asked every moment by a drain, that holds up the loop meanwhile. Raises JvmEnded, Interrupted to stop it."""
        if not self._alive():
            raise JvmEnded
        if self._stop_at is not None:
            raise Interrupted("told to stop")
        self._watch.still_busy()

    def _forget(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Drop writers, staged files included; a running round becomes stale by its ownership epoch.

        Returns the staged rows that are dropped with them, by partition.
        """
        gone, rows = set(tps), Counter[TopicPartition]()
        if not gone:
            return {}
        for key in [key for key in self._writers if key.tp in gone]:
            rows[key.tp] += self._writers.pop(key).staged_rows
        return rows

    # 2 -- rounds --------------------------------------------------------------------------------

    def _take_round(self, now: float) -> None:
        failures = self._rounds.failures
        result = self._rounds.take(now) if self._waiting is None else None
        if result is not None:
            point(Fault.AFTER_READ)
            if self._rounds.secs >= self._look_secs:
                self._ends.look_again()  # the next round is to read what came meanwhile
            require_few(self._new_types(), result, self._limits.new_types_max)
            spoilt = bool(result.unwritten) and self._watch.storage_is_out(now)
            if spoilt:
                self._rounds.spoiled(next(iter(result.unwritten.values())), now)
                self.totals.rounds_failed += 1
            self._waiting = result if not spoilt and self._is_of_known_topics(result) else None
        elif self._rounds.failures > failures:  # protocol 3.7: begin and end offsets are read again first
            self._ends.look_again(check=True)
            self.totals.rounds_failed += 1
            self._watch.storage_is_out(now)
            self._look_at_stuck()
        if self._waiting is not None and self._anchored(self._waiting, now):
            result, self._waiting = self._waiting, None
            self._integrate(result, now)
            point(Fault.AFTER_INTEGRATE)

    def _look_at_stuck(self) -> None:
        """Somebody may have skipped what a partition is stuck at (`exporter repair --skip`): then all is read again."""
        if not (stuck := self._rounds.trouble.stuck().keys() & self._owned.keys()):
            return
        letters = self._lake.table(DEAD_LETTERS).view()
        for tp in stuck:
            writer = self._writers.get(WriterKey(DEAD_LETTERS, tp))
            at = letters.position(self._lake.app, tp) if letters is not None else None
            if writer is not None and (at is None or at.epoch != writer.epoch):
                self._to_recover.add(tp)

    def _anchored(self, result: RoundResult, now: float) -> bool:
        """ANCHOR: True once every type of the manifest has a position; until then they are being anchored.

        The dead letters are committed first: a new type is anchored at their position (protocol 3.1).
        """
        if self._anchoring is not None:
            self._take_anchors(self._anchoring, result, now)
        wanted = unanchored(self._writers, self._staying(), result)
        if not wanted:
            return True
        if self._stop_at is not None:
            self._waiting = None
            return False
        letters = [self._writers[WriterKey(DEAD_LETTERS, tp)] for tp in {key.tp for key in wanted}]
        level = all(writer.covered == writer.frontier and writer.claim is None for writer in letters)
        if level and self._anchoring is None and now >= self._anchor_at:
            self._anchoring = self._waking(self._pool.submit(self._recovery.anchor_met, wanted))
        return False

    def _take_anchors(self, anchoring: Future[dict[str, TableView]], result: RoundResult, now: float) -> None:
        """Writers at the positions that the new types have now: anchored by us, or adopted (protocol 4.7)."""
        if not anchoring.done():
            return
        self._anchoring = None
        wanted = unanchored(self._writers, self._staying(), result)
        try:
            views = anchoring.result()
        except Switched as switched:
            log.info("manifest_discarded", reason=str(switched))
            self._to_recover |= {key.tp for key in wanted}
            return
        except (Moved, BrokerSilent) as error:  # the manifest waits, however long it takes (protocol 3.6)
            log.warning("anchors_missing", tables=len(wanted), error=first_line(error))
            self._anchor_at = now + RETRY_SECS
            return
        unfillable: dict[str, str] = {}
        for name, view in views.items():
            if name not in self._recovery.table_fingerprints:
                self._committer.trust(name, view)
                unfillable[name] = self._recovery.accept(name, view)
        for key, anchor in wanted.items():
            position = views[key.event_type].position(self._lake.app, key.tp) if key.event_type in views else None
            if position is not None and position.epoch == anchor.epoch:
                ownership = self._owned[key.tp]
                writer = Writer(key, position.epoch, ownership, position.offset, position.offset, now)
                reason = unfillable.get(key.event_type)
                self._writers[key] = park(writer, reason, now) if reason else writer

    def _staying(self) -> dict[TopicPartition, int]:
        """The partitions that are ours and not about to be taken away, with their ownership epochs."""
        return {tp: ownership for tp, ownership in self._owned.items() if tp not in self._leaving}

    def _new_types(self) -> set[str]:
        """The undeclared event types that have a table, as far as this task knows."""
        return {name for name in self._recovery.table_fingerprints if self._routing.is_new(name)}

    def _is_of_known_topics(self, result: RoundResult) -> bool:
        """Whether what was read is of the topics that the tables know (protocol 5.4); in doubt it is read again."""
        read = {fragment.plan.tp for fragment in result.fragments}
        try:
            self._recovery.check_topics({tp: most for tp, (_, most) in self._position_bounds().items() if tp in read})
        except BrokerSilent as error:
            log.warning("round_dropped", error=error.message)
            return False
        return True

    def _integrate(self, result: RoundResult, now: float) -> None:
        staying = self._staying()
        fragments = [
            stamped(fragment, self._recovery.table_fingerprints, self._recovery.plain)
            for fragment in result.fragments
            if staying.get(fragment.plan.tp) == fragment.plan.ownership
        ]
        self._writers, discarded = integrate_all(self._writers, fragments, now)
        for fragment, reasons in zip(fragments, discarded, strict=True):
            for name, reason in reasons.items():
                log.info("manifest_discarded", table=name, partition=str(fragment.plan.tp), reason=reason)
            self._park_unwritten(fragment, now)
        self._watch.integrated(result, self._rounds.secs)
        if result.counts.get("records"):
            self._poison.passed()

    def _park_unwritten(self, fragment: Fragment, now: float) -> None:
        """The types whose files cannot be written are parked, the others go on (protocol 3.6).

        One with a commit under way is only read again: what becomes of that is not known yet.
        """
        for name, error in fragment.unwritten.items():
            writer = self._writers.get(WriterKey(name, fragment.plan.tp))
            if writer is not None and writer.claim is None:
                self._writers[writer.key] = park_and_tell(writer, error, now)

    def _start_round(self, now: float) -> None:
        staged = sum(writer.staged_bytes for writer in self._writers.values())
        held = self._gapped or self._waiting is not None
        staying = {tp: end for tp, end in self._ends.readable.items() if tp not in self._leaving}
        if held or staged >= self._limits.roll.all_bytes_max or not self._rounds.may_start(staying, now):
            return
        self._offers.refresh_parked(self._writers, now)
        writers = expected(self._writers, self._rounds.plans, now)
        plans = self._rounds.choose(
            plan_round(writers, staying, self._rounds.budget(), now), self._recovery.condemned, now
        )
        if not plans or self._condemn_poison(plans, now):
            return
        point(Fault.AFTER_PLAN)
        self._rounds.start(self._order(plans, now))

    def _order(self, plans: tuple[PartitionPlan, ...], now: float) -> StagingOrder:
        carried = sum(len(file.body) for writer in self._writers.values() for file in writer.staged)
        left = self._limits.carried_bytes_max - carried - self._rounds.carried_bytes
        return StagingOrder(
            root=self._lake.root,
            app=self._lake.app,
            routing=self._routing,
            plans={plan.tp: plan for plan in plans},
            fingerprints=dict(self._recovery.table_fingerprints),
            footers={plan.tp: self._committer.footer(plan.tp) for plan in plans},
            condemned={plan.tp: self._recovery.condemned.get(plan.tp, frozenset()) for plan in plans},
            new_types_max=max(0, self._limits.new_types_max - len(self._new_types())),
            carried_bytes=max(0, min(left, self._limits.carried_bytes_max // 2)),  # a round behind needs some too
            committed_next=self._is_all(plans, now),
            sync=self._lake.tasks_sync,
            untimed=self._recovery.untimed,
        )

    def _is_all(self, plans: tuple[PartitionPlan, ...], now: float) -> bool:
        """True if a run with an end has nothing but these plans to read, and nothing staged from before them."""
        before = self._rounds.running or any(writer.staged for writer in self._writers.values())
        return not before and self._read_through(expected(self._writers, plans, now))

    def _condemn_poison(self, plans: tuple[PartitionPlan, ...], now: float) -> bool:
        """Condemn the single record that this plan would fail on again (protocol 3.7).

        True if no round is to start now: it could not be done yet, or the tables are not where this task thought.
        """
        plan = plans[0]
        if not self._poison.is_next(self._rounds, plan):
            return False
        mine = {key.event_type: writer for key, writer in self._writers.items() if key.tp == plan.tp}
        if any(writer.claim is not None for writer in mine.values()):
            return True
        known = {name: Position(writer.epoch, writer.covered) for name, writer in mine.items()}
        checked_through = self._committer.checked_through(DEAD_LETTERS)
        try:
            if not self._poison.condemn(
                self._rounds, Poisoned(plan, known, self._letters_origin(plan), checked_through)
            ):
                return True
        except Moved as moved:
            log.info("reading_restarted", reason=str(moved))
            self._to_recover.add(plan.tp)
            return True
        self._recovery.condemned[plan.tp] = self._recovery.condemned.get(plan.tp, frozenset()) | {plan.start}
        return False

    def _letters_origin(self, plan: PartitionPlan) -> FileOrigin:
        fingerprint = self._recovery.table_fingerprints[DEAD_LETTERS]
        folder = self._lake.table(DEAD_LETTERS).uri
        footer = self._committer.footer(plan.tp)
        return FileOrigin(folder, self._lake.app, plan.tp, plan.epoch, DEAD_LETTERS, fingerprint, footer)

    @property
    def _look_secs(self) -> float:
        """Between two looks at the ends. Each may begin a small round, which is for nothing where commits are rare."""
        return min(self._limits.poll_secs, self._limits.roll.age_max_secs / LOOKS_PER_ROLL)

    def _look_at_ends(self, now: float) -> None:
        if self._ends.tick(now, self._owned, self._position_bounds) and self._backlog_at_start is None:
            self._backlog_at_start = self._lag()
            if (self._backlog_at_start or 0) > PROBE_RECORDS:
                self._rounds.expect(self._topics.offset_bytes(self._owned))

    def _check_topics(self, bounds: Bounds) -> None:
        """Identity, truncation, and what retention took before it was read (protocol 5.4, 5.5).

        What is staged is not lost and is committed first; then start-up finds the gap in the tables and decides.
        """
        greatest = {tp: most for tp, (_, most) in bounds.items()}
        self._recovery.check_topics(greatest)
        check_truncation(self._topics, greatest)
        frontiers: dict[TopicPartition, dict[str, Position]] = defaultdict(dict)
        for key, writer in self._writers.items():
            frontiers[key.tp][key.event_type] = Position(writer.epoch, writer.frontier)
        gaps = find_gaps(frontiers, self._topics.first_offsets(frontiers.keys()), {})
        for gap in gaps:
            log.warning("retention_gap", table=gap.event_type, partition=str(gap.tp), offsets=str(gap.offsets))
        self._gapped = {gap.tp for gap in gaps}

    def _recover_gapped(self) -> None:
        """Start partitions with a gap anew once all that they had staged is committed."""
        if not self._gapped or self._rounds.running or self._offers.running:
            return
        if all(writer.covered == writer.frontier for key, writer in self._writers.items() if key.tp in self._gapped):
            self._to_recover |= self._gapped & self._owned.keys()
            self._gapped = set()

    def _position_bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        return position_bounds(self._writers)

    # 3, 4 -- commits, rolls and heartbeats ------------------------------------------------------------------

    def _offer_due(self, now: float) -> None:
        """Offer due writers and the markers of their type, and open claims again whose time has come."""
        if self._to_recover - self._leaving.keys() and self._stop_at is None:
            return
        flushing = self._flushing()
        staying, leaving = self._writers, dict[WriterKey, Writer]()
        if self._leaving:
            leaving = {key: writer for key, writer in self._writers.items() if key.tp in self._leaving}
            staying = {key: writer for key, writer in self._writers.items() if key not in leaving}
        fresh: dict[str, list[WriterKey]] = defaultdict(list)
        for writers, at_once, heartbeat_secs in (
            (staying, flushing, 0.0 if flushing else self._limits.heartbeat_secs),
            (leaving, True, 0.0),
        ):
            for name, due in rolls(writers, self._limits.roll, now, at_once).items():
                fresh[name] += due
            for name, idle in heartbeat.beats(writers, heartbeat_secs, now).items():
                fresh[name] += idle
        if waited_for := self._letters_waited_for():
            fresh[DEAD_LETTERS] = [*dict.fromkeys([*fresh[DEAD_LETTERS], *waited_for])]
        self._offers.offer(self._writers, fresh, now)

    def _letters_waited_for(self) -> list[WriterKey]:
        """The dead-letter writers, staged or not, that have to be committed before new types are anchored."""
        wanted = unanchored(self._writers, self._staying(), self._waiting) if self._waiting is not None else {}
        letters = [self._writers[WriterKey(DEAD_LETTERS, tp)] for tp in sorted({key.tp for key in wanted})]
        return [w.key for w in letters if w.frontier > w.covered and w.claim is None and w.parked is None]

    def _flushing(self) -> bool:
        """True when everything has to be committed now: told to stop, a gap, or caught up with frozen ends."""
        if self._stop_at is not None or self._gapped:
            return not self._rounds.running
        return self._until_caught_up and not self._rounds.running and self._read_through(self._writers)

    def _read_through(self, writers: Writers) -> bool:
        """True if each of the writers that are not given up has integrated everything to its partition's frozen end."""
        ends, hopeless = self._ends.frozen, self._watch.hopeless
        if not writers or self._to_recover or ends is None or not self._owned.keys() <= ends.keys():
            return False
        return all(w.frontier >= ends[key.tp] - 1 or _given_up(w) or key.tp in hopeless for key, w in writers.items())

    # 6, 7 -- group offset, progress, end ----------------------------------------------------------

    def _next_offsets(self) -> dict[TopicPartition, int]:
        """What the group may be told: the write-ahead log knows of all that is before it (ORDER)."""
        withheld = self._keeper.withheld()
        return {tp: least + 1 for tp, (least, _) in self._position_bounds().items() if tp not in withheld}

    def _is_last(self) -> bool:
        """True if what is committed by now is the last that this run will have to tell, or may be."""
        caught_up = self._until_caught_up and not self._offers.running and not self._rounds.running
        return self._stop_at is not None or (caught_up and self._read_through(self._writers))

    def _done(self, now: float) -> bool:
        idle = not self._offers.running and not self._rounds.running
        idle = idle and (self._anchoring is None or self._anchoring.done()) and not self._keeper.withheld()
        if self._stop_at is not None:
            settled = all(w.covered == w.frontier for w in self._writers.values() if w.parked is None)
            return (idle and settled and self._group_offset.is_settled) or now >= self._stop_at
        if not self._until_caught_up or not idle or self._membership.waits():
            return False
        hopeless = self._watch.hopeless
        if undrained := hopeless.keys() & self._to_recover:
            raise left_out((), {tp: hopeless[tp] for tp in undrained})
        if not self._owned:
            return self._is_spare(now) and self._all_is_done(now)
        if self._ends.frozen is None or not self._read_through(self._writers):
            return False
        behind = [writer for key, writer in self._writers.items() if writer.covered < self._ends.frozen[key.tp] - 1]
        waited_for = [w for w in behind if not _given_up(w) and not (w.key.tp in hopeless and w.covered == w.frontier)]
        if waited_for or not self._group_offset.is_settled:
            return False
        if behind:
            raise left_out(behind, hopeless)
        return self._all_is_done(now)

    def _all_is_done(self, now: float) -> bool:
        """True if what is not this task's has come to the frozen ends as well, where a group shares the topics."""
        try:
            return self._ends.frozen is not None and self._others.finished(self._owned, self._ends.frozen, now)
        except BrokerSilent as error:
            self._watch.outages.seen(KAFKA, error.message, now)
            return False

    def _is_spare(self, now: float) -> bool:
        """True if nothing is this task's and nothing will be: there are more tasks than partitions."""
        if now - self._spare_looked_at < self._limits.poll_secs:
            return False
        self._spare_looked_at = now
        try:
            return self._membership.is_spare()
        except BrokerSilent as error:
            self._watch.outages.seen(KAFKA, error.message, now)
            return False

    def _lag(self) -> int | None:
        return lag_of(self._owned, {tp: least for tp, (least, _) in self._position_bounds().items()}, self._ends.goals)

    def _progress(self) -> Progress:
        return Progress(
            records=self.totals.records,
            committed=sum(self.totals.committed.values()),
            dead_letters=self.totals.counts["dead_letters"],
            lag=self._lag() if self._backlog_at_start is not None else None,
            backlog_at_start=self._backlog_at_start or 0,
            staged_bytes=sum(writer.staged_bytes for writer in self._writers.values()),
            partitions=len(self._owned),
            commits=self.totals.commits,
        )

    def _waking(self, future: Future[Any]) -> Future[Any]:
        future.add_done_callback(lambda _: self._wake.set())
        return future


def rest_secs(spent: float) -> float:
    """How long the loop waits for something to happen, after a passing that took so many seconds of a core."""
    return min(LOOP_SECS_MAX, max(LOOP_SECS, LOOP_REST * spent))


def position_bounds(writers: Writers) -> dict[TopicPartition, tuple[int, int]]:
    """The least and the greatest position of each partition."""
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for key, writer in writers.items():
        offsets[key.tp].append(writer.covered)
    return {tp: (min(covered), max(covered)) for tp, covered in offsets.items()}


def lag_of(
    owned: Iterable[TopicPartition], positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> int | None:
    """Offsets that are not committed; None as long as a position or an end of what is owned is not known. Pure."""
    lags = [max(0, ends[tp] - 1 - positions[tp]) if tp in ends and tp in positions else None for tp in owned]
    return None if None in lags else sum(filter(None, lags))


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
        lines.append(f"{tp} cannot be read on, its rounds fail again and again: {error}")
    hints = ["correct it (`exporter check` names what is asked for)"] * bool(by_table)
    hints += ["see whether a replica is whole, else `exporter repair --skip`"] * bool(unread)
    return FoundProblem("\n  ".join(lines), f"everything else was; {'; '.join(hints)}; and run again")


def _given_up(writer: Writer) -> bool:
    """True for a parked type that a run with an end does not wait for any longer."""
    return writer.parked is not None and writer.failures >= PARKED_MAX
