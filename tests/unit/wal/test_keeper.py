"""The log as the loop keeps it and a start reads it: debts, outages, verdicts, leases and cost. No JVM, no network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.specs import Specs
from exporter.core.writers import Claim, Writer, WriterKey
from exporter.errors import Fenced, InvariantBroken, LogCleaned
from exporter.kafka.assignment import Assigned, Revoked
from exporter.protocol.recover import Recovery, says_nothing
from exporter.wal.check import LogCheck, broken, history
from exporter.wal.journal import Journal, Landing
from exporter.wal.keeper import WalKeeper
from exporter.wal.lease_keeper import LeaseKeeper
from exporter.wal.leased import LeasedAssignment
from exporter.wal.memory import MemoryLog
from offsets.intents import Intent, IntentKey, IntentState, WalUnreachable
from offsets.ranges import TopicPartition
from offsets.table_log import ROUTING_PROPERTY
from offsets.wal_verdict import Ruling
from tests.support.lakes import wait_until
from tests.support.memory_tables import MemoryTable
from tests.support.recovering import recovery_of

APP = "app"
P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)


def intent(new: int, name: str = "order", tp: TopicPartition = P0, commit_id: str = "", **changes: Any) -> Intent:
    key = IntentKey(name, tp, changes.pop("epoch", 0))
    one = Intent(key, commit_id or f"c{new}", "other", new - 10, new, new - 9, new, 10, 0, f"id of {name}", "R", 0)
    return replace(one, **changes)


def completed(new: int, version: int, **changes: Any) -> Intent:
    return replace(intent(new, **changes), state=IntentState.COMPLETED, version=version)


def metadata(commit_id: str, new: int, rows: int, tp: TopicPartition = P0) -> dict[str, Any]:
    said = {"epoch": 0, "expected": new - 10, "new": new, "first": new - 9, "last": new, "rows": rows}
    return {"commit_id": commit_id, "app": APP, "partitions": {str(tp): said}}


class World:
    """Tables, a log in memory, a keeper; cut: the log is out of reach."""

    def __init__(self, required: bool = True, verify_secs: float = 5.0, **tables: MemoryTable) -> None:
        self.cut = False
        self.story: list[str] = []
        self.wal = MemoryLog(APP, around=self._around)
        self.journal = Journal(self.wal, required, "me", "mine")
        self.tables = tables
        self.lake: Any = SimpleNamespace(app=APP, table=tables.__getitem__, specs=Specs())
        self.check = LogCheck(self.lake, self.journal)
        self.keeper = WalKeeper(self.lake, self.journal, self.check, lambda: tuple(tables), verify_secs)
        self.now = 100.0

    def _around(self, name: str, go_on: Callable[[], Any]) -> Any:
        self.story.append(name)
        if self.cut:
            raise WalUnreachable("cut")
        return go_on()

    def judge(self, *tps: TopicPartition) -> dict[tuple[str, TopicPartition], Any]:
        views = {name: table.view() for name, table in self.tables.items()}
        return self.check.judge(self.check.read(tps or (P0,)), views)

    def settle(self, *tps: TopicPartition) -> None:
        views = {name: table.view() for name, table in self.tables.items()}
        self.check.settle(self.judge(*tps), views)

    def tick(self, secs: float = 1.0) -> None:
        """One iteration of the loop, `secs` later, and wait for what it started."""
        self.now += secs
        self.keeper.tick(self.now, [P0])
        job = self.keeper._job
        if isinstance(job, Future):
            wait_until(job.done, 10, "the job's end")
            self.keeper.tick(self.now, [P0])


def test_what_was_begun_and_landed_is_completed_and_what_did_not_is_failed() -> None:
    """By the commit ids in the table's log alone."""
    table = MemoryTable("order", {P0: 29}, said=[{}, metadata("c19", 19, 10), metadata("other", 29, 9)])
    world = World(order=table)
    world.wal.start([intent(19)])
    world.wal.start([intent(29)])
    assert {one.verdict for one in world.judge()["order", P0].judged} == {Ruling.FINISH, Ruling.DEAD}
    world.settle()
    (left,) = world.wal.read(P0)
    assert (left.commit_id, left.state, left.version) == ("c19", IntentState.COMPLETED, 1)


def test_what_no_claim_of_ours_has_any_more_is_judged_as_anothers() -> None:
    """The commit path settles what a claim has; a claim that was dropped before its outcome was known has none."""
    world = World(order=MemoryTable("order", {P0: 29}, said=[{}, metadata("c19", 19, 10), metadata("c29", 29, 10)]))
    key = WriterKey("order", P0)
    held = Writer(key, 0, 0, 19, 29, claim=Claim(key, 0, 19, 29, (), 0, offers=("c29",)))
    for new in (19, 29):
        assert not world.journal.begin("order", [intent(new)])
    world.settle()
    assert {one.state for one in world.wal.read(P0)} == {IntentState.STARTED}
    world.keeper.let_go({key: held})
    world.settle()
    assert [(one.commit_id, one.version) for one in world.wal.read(P0)] == [("c19", 1), ("c29", None)]
    world.keeper.let_go({})
    world.settle()
    assert [(one.commit_id, one.version) for one in world.wal.read(P0)] == [("c29", 2)]


def test_what_a_partition_that_is_read_anew_had_begun_is_judged_there() -> None:
    """A drain whose reply was lost has ended: the group is told of what it committed as soon as the partition runs."""
    world = World(order=MemoryTable("order", {P0: 19, P1: 19}, said=[{}, metadata("c19", 19, 10)]))
    assert not world.journal.begin("order", [intent(19), intent(19, tp=P1)])
    world.check.let_go({P0})
    world.settle(P0, P1)
    assert {one.version for one in world.wal.read(P0)} == {1}
    assert {one.state for one in world.wal.read(P1)} == {IntentState.STARTED}


def test_what_ends_while_the_tables_log_is_read_is_still_this_tasks_own() -> None:
    """It was not looked for there; its position is reached, and it is not dead."""
    table = MemoryTable("order", {P0: 29}, said=[{}, metadata("c19", 19, 10), metadata("c29", 29, 10)])
    world, read = World(order=table), table.logged
    world.wal.start([intent(19)])
    assert not world.journal.begin("order", [intent(29)])
    logged = world.check.read([P0])

    def ends_meanwhile(version: int) -> Any:
        world.journal.settle("order", {(P0, "c29"): 2}, [])
        return read(version)

    table.logged = ends_meanwhile  # type: ignore[method-assign]
    found = world.check.judge(logged, {"order": table.view()})["order", P0]
    said = {one.intent.commit_id: one.verdict for one in found.judged if one.intent}
    assert said == {"c19": Ruling.FINISH, "c29": Ruling.PENDING}


def test_an_empty_log_is_filled_with_the_newest_commit_that_has_rows() -> None:
    """A heartbeat later counts only where no commit with rows is near; the next start has nothing to fill."""
    log = [{}, metadata("a", 9, 10), metadata("b", 19, 10), metadata("c", 29, 0), metadata("d", 5, 0, P1)]
    world = World(order=MemoryTable("order", {P0: 29, P1: 5}, said=log))
    assert {found.verdict for found in world.judge(P0, P1).values()} == {Ruling.REPAIR}
    world.settle(P0, P1)
    assert [(one.commit_id, one.rows, one.version) for one in world.wal.read(P0)] == [("b", 10, 2)]
    assert [(one.commit_id, one.rows, one.version) for one in world.wal.read(P1)] == [("d", 0, 4)]
    assert {found.verdict for found in world.judge(P0, P1).values()} == {Ruling.AGREE}


def test_a_history_that_was_cleaned_up_fills_what_it_still_tells() -> None:
    """Nothing is made up for the rest."""
    table = MemoryTable("order", {P0: 29, P1: 29}, said=[{}, metadata("a", 9, 10, P1), metadata("b", 19, 10)])
    table.gone_through = 1
    found = history(table, table.view(), APP, [P0, P1])  # type: ignore[arg-type]
    assert [(one.key.tp, one.new) for one in found] == [(P0, 19)]


def test_a_stop_names_table_partition_and_offsets() -> None:
    """Older copies of two tables: one message, the gravest first, with the command."""
    world = World(order=MemoryTable("order", {P0: 9}), click=MemoryTable("click", {P0: 19}))
    world.wal.record([completed(29, 3), completed(19, 2, name="click")])
    error = broken(world.judge())
    assert isinstance(error, InvariantBroken) and error.exit_code == 70
    assert "table order" in error.message and "events-0" in error.message
    assert "offsets 10..29 are missing" in error.message
    assert "exporter repair --rewind" in error.hint


def test_a_table_that_only_the_log_knows_stops() -> None:
    """Everything was removed, or another folder is read: nothing is begun anew under the same name."""
    world = World()
    world.wal.record([completed(29, 3)])
    error = broken(world.judge())
    assert error is not None and "another `app` or `wal_table`" in error.hint


def test_a_cleaned_log_that_nothing_proves_stays_a_stop() -> None:
    """No commit with rows in the write-ahead log: as without one."""
    table = MemoryTable("order", {P0: 9})
    world, cleaned = World(order=table), LogCleaned("version 3 is gone")
    world.wal.record([completed(9, 1, rows=0)])
    check: Any = world.check
    check._live_rows = lambda table, intents: {(one.key, one.commit_id): 0 for one in intents}
    with pytest.raises(LogCleaned):
        world.check.judge(world.check.read([P0]), {"order": table.view()}, unproven={"order": cleaned})


@pytest.mark.parametrize("live, ruling", [(10, Ruling.AGREE), (9, Ruling.ROWS_GONE)])
def test_a_cleaned_log_is_proven_by_rows_of_all_partitions_owned_or_not(live: int, ruling: Ruling) -> None:
    """Whoever commits next says that all operations have been looked at: the other partition's rows count too."""
    table = MemoryTable("order", {P0: 9, P1: 9})
    world = World(order=table)
    world.wal.record([completed(9, 1), completed(9, 1, tp=P1)])
    check: Any = world.check
    check._live_rows = lambda table, ones: {(i.key, i.commit_id): 10 if i.key.tp == P0 else live for i in ones}
    unproven = {"order": LogCleaned("version 3 is gone")}
    found = world.check.judge(world.check.read([P0]), {"order": table.view()}, unproven=unproven)
    assert (found["order", P0].verdict, found["order", P1].verdict) == (Ruling.AGREE, ruling)


def test_rows_that_a_user_took_away_prove_nothing() -> None:
    """A DELETE in what is left of the table's log explains them: as if nothing had been counted."""
    table = MemoryTable("order", {P0: 9}, said=[{}] * 3)
    table.operations[2] = "DELETE"
    world = World(order=table)
    world.wal.record([completed(9, 1)])
    check: Any = world.check
    check._live_rows = lambda table, ones: {(i.key, i.commit_id): 3 for i in ones}
    with pytest.raises(LogCleaned):
        world.check.judge(
            world.check.read([P0]), {"order": table.view()}, unproven={"order": LogCleaned("version 1 is gone")}
        )


def test_a_completion_that_is_owed_holds_its_table_back_and_no_other() -> None:
    """Also while the log answers: the next commit must not overtake it."""
    world = World()
    world.journal.owed.put(([Landing(intent(9), 1)], []))
    world.keeper.take_owed()
    assert (world.keeper.holds("order"), world.keeper.holds("click")) == (True, False)


def test_a_running_task_finds_a_table_that_was_taken_back_and_looks_twice() -> None:
    """Each time that it is due; one bad reading alone stops nothing."""
    table = MemoryTable("order", {P0: 29})
    world = World(order=table)
    world.wal.record([completed(29, 3)])
    world.tick()
    world.tick(6.0)
    table.move({P0: 9})
    views, real = iter([table.view()]), table.view
    table.move({P0: 29})
    table.view = lambda: next(views, None) or real()  # type: ignore[method-assign]
    world.tick(6.0)
    table.move({P0: 9})
    with pytest.raises(InvariantBroken, match=r"offsets 10\.\.29"):
        world.tick(6.0)


def test_a_task_with_other_settings_at_work_in_our_partition_is_named() -> None:
    """Only one that begins something between two checks; exit 75."""
    world = World(order=MemoryTable("order", {P0: 9}))
    world.wal.record([completed(9, 1)])
    world.wal.start([intent(19, commit_id="old")])
    world.tick()
    world.tick(6.0)
    world.wal.start([intent(19, commit_id="new")])
    with pytest.raises(Fenced, match="at work with configuration R"):
        world.tick(6.0)


def test_debts_are_paid_when_the_log_answers_and_hold_back_what_they_must() -> None:
    """Required: the group offset of the partition and further commits of the table wait; best effort waits for none."""
    for required in (True, False):
        world = World(required=required, order=MemoryTable("order", {P0: 9}))
        world.wal.start([intent(9)])
        world.cut = True
        with pytest.raises(WalUnreachable):
            world.wal.read(P0)
        world.journal.unreachable(WalUnreachable("cut"))
        world.journal.owed.put(([Landing(intent(9), 1)], []))
        world.tick()
        assert (world.keeper.waits, world.keeper.holds("click")) == (required, required)
        assert world.keeper.withheld() == ({P0} if required else set())
        world.cut = False
        world.tick()
        assert not (world.keeper.waits or world.keeper.holds("order") or world.keeper.withheld())
        assert [(one.state, one.version) for one in world.wal.read(P0)] == [(IntentState.COMPLETED, 1)]


def test_a_long_outage_is_remembered_by_its_newest_commits_and_paid_without_any_partition() -> None:
    """Best effort: what was never logged is kept once per type and partition, also after the partition has gone."""
    world = World(required=False, order=MemoryTable("order", {P0: 9}))
    world.cut = True
    world.journal.unreachable(WalUnreachable("cut"))
    for number in range(1, 100):
        world.journal.owed.put(([Landing(intent(10 * number), number, logged=False)], []))
        world.now += 0.5
        world.keeper.tick(world.now, [])
        assert len(world.keeper._landings) <= 4
        if world.keeper._job is not None:
            wait_until(world.keeper._job.done, 10, "the job's end")
    world.cut = False
    for _ in range(4):
        world.now += 1.0
        world.keeper.tick(world.now, [])
        if world.keeper._job is not None:
            wait_until(world.keeper._job.done, 10, "the job's end")
    assert world.keeper._landings == []
    assert [(one.new, one.version) for one in world.wal.read(P0)] == [(990, 99)]


def test_the_loop_never_waits_for_the_log() -> None:
    """While a call hangs, tick returns."""
    world = World(order=MemoryTable("order", {P0: 9}))
    hangs, real = threading.Event(), world.wal.read
    world.wal.read = lambda tp: hangs.wait(10) and real(tp)  # type: ignore[assignment,method-assign]
    world.keeper.tick(world.now, [P0])
    world.keeper.tick(world.now + 6, [P0])
    assert world.keeper._job is not None and not world.keeper._job.done()
    world.keeper.tick(world.now + 7, [P0])
    hangs.set()


def recovery(world: World) -> Recovery:
    """Start-up over the world's tables, each of which tells when it is read."""
    routing = Routing(TypeFrom("json", "type"), EventTime("record"), ())
    dead_letters = MemoryTable(DEAD_LETTERS, {P0: 29})
    dead_letters.properties[f"{ROUTING_PROPERTY}{P0}"] = f'{{"0": "{routing.fingerprint()}"}}'
    world.tables[DEAD_LETTERS] = dead_letters
    for name, table in world.tables.items():
        table.read = lambda name=name: world.story.append(name)  # type: ignore[misc]
    world.lake.event_types = lambda: tuple(sorted(world.tables))
    nothing: Any = None
    return recovery_of(world.lake, nothing, routing, nothing, journal=world.journal)


def test_a_start_reads_the_log_first_and_the_dead_letters_last() -> None:
    """Protocol 5.1, 5.3: what the log says was completed is in the tables that are read after it."""
    world = World(order=MemoryTable("order", {P0: 29}), zebra=MemoryTable("zebra", {P0: 29}))
    recovery(world).reader.read([P0])
    assert (world.story[0], world.story[-1]) == ("read", DEAD_LETTERS)
    assert sorted(world.story) == ["dead_letters", "order", "read", "zebra"]
    world.story.clear()
    world.tick()
    world.tick(6.0)
    assert (world.story[0], world.story[3]) == ("read", DEAD_LETTERS)


@pytest.mark.parametrize("lasting", [False, True])
def test_a_start_stops_only_for_what_two_readings_say(lasting: bool) -> None:
    """The second one reads everything afresh, the log first."""
    table = MemoryTable("order", {P0: 9})
    world = World(order=table)
    world.wal.record([completed(29, 3)])
    started = recovery(world)
    readings: list[int] = []

    def read() -> None:
        readings.append(1)
        table.move({P0: 9 if lasting or len(readings) == 1 else 29})

    table.read = read
    if lasting:
        with pytest.raises(InvariantBroken, match=r"table order.*offsets 10\.\.29"):
            started._confirmed({P0: 1}, {}, says_nothing)
    else:
        started._confirmed({P0: 1}, {}, says_nothing)
    assert len(readings) == 2


class Share:
    """A fixed assignment that names its partitions once."""

    failure = None

    def __init__(self, *tps: TopicPartition) -> None:
        self.next: list[Any] = [Assigned(tp, 1) for tp in tps]

    def changes(self) -> list[Any]:
        found, self.next = self.next, []
        return found


def leased(world: World, owner: str, clock: Callable[[], float], *tps: TopicPartition) -> Any:
    keeper = LeaseKeeper(world.wal, owner, 30.0, lambda tp: None, clock=clock, threaded=False)
    share: Any = Share(*tps)
    return LeasedAssignment(share, keeper, not world.journal.required), keeper


def test_of_two_tasks_with_the_same_share_one_waits_for_the_lease() -> None:
    """A lease that is not renewed is lost, as a revocation, and taken by the other; a new one is a new assignment."""
    world, now = World(), [0.0]
    (first, one), (second, two) = (leased(world, owner, lambda: now[0], P0, P1) for owner in ("a", "b"))
    for assignment, keeper in ((first, one), (second, two)):
        assert assignment.changes() == []
        keeper.beat()
    assert first.changes() == [Assigned(P0, 1), Assigned(P1, 2)]
    assert (second.changes(), second.waits(), first.waits()) == ([], True, False)
    assert (first.token(P0), second.token(P0)) == (1, None)
    now[0] += 31.0
    assert first.changes() == [Revoked(P0, lost=True), Revoked(P1, lost=True)]
    two.beat()
    assert second.changes() == [Assigned(P0, 1), Assigned(P1, 2)]
    one.beat()
    assert (first.token(P0), second.token(P0), first.changes()) == (None, 2, [])


def test_a_partition_that_is_gone_gives_its_lease_back() -> None:
    """Another task need not wait for it."""
    world = World()
    assignment, keeper = leased(world, "a", lambda: 0.0, P0)
    assignment.changes()
    keeper.beat()
    assert assignment.changes() == [Assigned(P0, 1)]
    assignment._inner.next = [Revoked(P0, lost=True)]
    assert assignment.changes() == [Revoked(P0, lost=True)]
    keeper.beat()
    lease = world.wal.lease(P0)
    assert lease is not None and lease.released


@pytest.mark.parametrize("required", [True, False])
def test_while_the_log_is_out_of_reach_no_lease_counts_as_lost(required: bool) -> None:
    """Required: what is given stays, and commits wait. Best effort: all that is wanted is worked on till then."""
    world, now = World(required=required), [0.0]
    (first, one), (second, two) = (leased(world, owner, lambda: now[0], P0) for owner in ("a", "b"))
    first.changes(), one.beat()
    assert first.changes() == [Assigned(P0, 1)]
    assert second.changes() == []
    world.cut, now[0] = True, 40.0
    one.beat(), two.beat()
    assert first.changes() == []
    assert second.changes() == ([] if required else [Assigned(P0, 1)])
    assert [a.token(P0) is not None for a in (first, second)] == [not required] * 2
    world.cut = False
    one.beat(), two.beat()
    assert first.token(P0) == 1 and first.changes() == []
    assert second.changes() == ([] if required else [Revoked(P0, lost=True)])


def test_a_start_costs_one_query_and_one_lease_per_partition_and_lists_no_file() -> None:
    """100 types x 24 partitions: 48 calls; the fake tables have no files to list, and no version is read."""
    tps = [TopicPartition("events", number) for number in range(24)]
    names = (DEAD_LETTERS, *(f"type{number}" for number in range(100)))
    world = World(**{name: MemoryTable(name, dict.fromkeys(tps, 29)) for name in names})
    for name in names:
        world.wal.record([completed(29, 3, name=name, tp=tp) for tp in tps])
        world.tables[name].gone_through = 10**9
    before = sum(world.wal.counts.values())
    _, keeper = leased(world, "a", lambda: 0.0)
    keeper.take(tps)
    keeper.beat()
    assert keeper.held() == frozenset(tps)
    found = world.judge(*tps)
    assert {one.verdict for one in found.values()} == {Ruling.AGREE} and len(found) == 101 * 24
    world.check.settle(found, {})
    assert sum(world.wal.counts.values()) - before <= 2 * 24 + 6
