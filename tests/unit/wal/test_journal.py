"""ORDER in the commit path: the log is told before and after, in each mode and whatever fails. No JVM, no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from exporter.core.outcome import Held, Landed, Refused, Stale, Unknown
from exporter.core.writers import Claim, StagedFile, WriterKey
from exporter.errors import InvariantBroken
from exporter.lake.change import Change
from exporter.protocol.commit import DeltaCommitter
from exporter.wal.dynamodb import DynamoDbLog
from exporter.wal.dynamodb_calls import Calls
from exporter.wal.dynamodb_items import TABLE
from exporter.wal.journal import Journal
from exporter.wal.keeper import newest
from offsets import Invariant
from offsets.intents import Intent, IntentState, WalUnreachable
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import TableView
from tests.support.fake_dynamodb import FakeDynamoDb
from tests.support.memory_tables import MemoryTable

P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)
APP, NAME = "app", "order"


class Table(MemoryTable):
    """It tells when it is written."""

    def __init__(self, story: list[str]) -> None:
        super().__init__(NAME, {P0: 9, P1: 9})
        self.story = story

    def commit(self, change: Change, check: Callable[[TableView], Any]) -> int:
        self.story.append("delta")
        return super().commit(change, check)


class World:
    """A table, a log on the fake, and a committer that writes both; `story` is what happened in order."""

    def __init__(self, required: bool = True, lease: Any = None) -> None:
        self.story: list[str] = []
        self.table = Table(self.story)
        self.dynamo = FakeDynamoDb()
        self.dynamo.create_table(TableName="wal", **TABLE)
        self.down = False
        self.wal = DynamoDbLog(Calls(self, 0.0), "wal", APP)
        self.journal = Journal(self.wal, required, "me", "R")
        lake: Any = SimpleNamespace(app=APP, store=Table.store, compression="", table=lambda name: self.table)
        self.committer = DeltaCommitter(lake, "me", {}, self.journal, lease)
        self.committer.trust(NAME, self.table.view())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            if self.down:
                raise EndpointConnectionError(endpoint_url="nowhere")
            if name in ("put_item", "transact_write_items", "update_item"):
                self.story.append("log")
            return getattr(self.dynamo, name)(**request)

        return call

    def states(self) -> list[str]:
        """State of every intent, in order of partition and position."""
        items = self.dynamo.tables.get("wal", {})
        return [items[at]["state"]["S"] for at in sorted(items)]

    def intents(self, tp: TopicPartition = P0) -> list[Intent]:
        return list(self.wal.read(tp))


def claim(expected: int = 9, new: int = 19, tp: TopicPartition = P0, files: bool = True) -> Claim:
    staged = StagedFile(f"day=2026-01-31/{APP}.events.{tp.partition}.0.{new:020d}.a.parquet",
                        OffsetRange(expected + 2, new), 7, 1, fingerprint="F")  # fmt: skip
    return Claim(WriterKey(NAME, tp), 0, expected, new, (staged,) if files else (), 0)


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_the_log_is_told_before_and_after_by_two_calls_for_all_partitions() -> None:
    """ORDER: started, Delta, completed; one call each, and every field is what the commit says."""
    world = World()
    report = world.committer.commit(NAME, [claim(), claim(tp=P1, new=29)])
    assert world.story == ["log", "delta", "log"]
    assert [type(one.outcome) for one in report.settled] == [Landed, Landed]
    assert world.states() == ["completed", "completed"]
    (found,) = world.intents(P1)
    assert (found.expected, found.new, found.first, found.last, found.rows) == (9, 29, 11, 29, 7)
    assert (found.state, found.version, found.table_id, found.routing) == (IntentState.COMPLETED, 1, "id of order", "R")
    assert found.commit_id == world.table.said[1]["commit_id"]
    assert world.dynamo.calls["transact_write_items"] == 2


def test_a_heartbeat_writes_nothing_to_the_log() -> None:
    """Neither alone nor beside a partition with files."""
    world = World()
    world.committer.commit(NAME, [claim(files=False)])
    assert world.story == ["delta"]
    world.committer.commit(NAME, [claim(19, 29, files=False), claim(tp=P1)])
    assert world.states() == ["completed"]


def test_without_a_log_nothing_is_written_or_waited_for() -> None:
    """wal_mode = off."""
    world = World()
    committer = DeltaCommitter(world.committer._lake, "me", {})
    committer.trust(NAME, world.table.view())
    committer.commit(NAME, [claim()])
    assert world.story == ["delta"]


def test_a_required_log_out_of_reach_holds_the_commit_back() -> None:
    """The claim keeps its files and has no offer; back again, it lands with one intent."""
    world = World()
    world.down = True
    report = world.committer.commit(NAME, [claim()])
    (held,) = report.settled
    assert isinstance(held.outcome, Held) and held.claim.offers == ()
    assert world.story == [] and world.journal.holds_commits
    landings, dead = world.journal.owed.get_nowait()
    assert (len(landings), len(dead)) == (0, 1), "what may have been written is called failed later"
    world.down = False
    assert world.journal.pay(landings, dead)
    world.journal.reached()
    assert isinstance(world.committer.commit(NAME, [held.claim]).settled[0].outcome, Landed)
    assert world.states() == ["completed"]


def test_best_effort_commits_without_the_log_and_tells_it_later() -> None:
    """The newest commit of each partition is recorded; the ones before it, never logged, are not."""
    world = World(required=False)
    world.down = True
    for at in (9, 19, 29):
        assert isinstance(world.committer.commit(NAME, [claim(at, at + 10)]).settled[0].outcome, Landed)
    assert world.story == ["delta"] * 3 and not world.journal.holds_commits
    owed = [world.journal.owed.get_nowait() for _ in range(3)]
    landings = newest([landing for some, _ in owed for landing in some])
    world.down = False
    assert world.journal.pay(landings, [one for _, dead in owed for one in dead])
    assert [(one.new, one.version) for one in world.intents()] == [(39, 3)]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("lands", [False, True])
def test_best_effort_goes_on_after_an_outage_of_a_single_commit(lands: bool, written: bool) -> None:
    """Whether or not its start was written although no answer came, the log is told just what became of it.

    Found by tests/model/wal_world.py: it was called failed as well as completed, which stopped the task.
    """
    world = World(required=False)
    start, world.down = world.wal.start, not written

    def unanswered(intents: Any) -> None:
        start(intents)
        raise WalUnreachable("no answer")

    world.wal.start = unanswered  # type: ignore[method-assign]
    world.table.before = (lambda: None) if lands else lambda: world.table.move({P0: 12})
    (settled,) = world.committer.commit(NAME, [claim()]).settled
    assert isinstance(settled.outcome, Landed if lands else Refused)
    world.down = False
    while not world.journal.owed.empty():
        assert world.journal.pay(*world.journal.owed.get_nowait())
    assert world.states() == (["completed"] if lands else ["failed"] * written)


def test_a_completion_that_fails_is_owed_and_the_commit_stands() -> None:
    """The intent stays started until the log answers; then it is completed with its version."""
    world = World()
    world.table.after = lambda: setattr(world, "down", True)
    assert isinstance(world.committer.commit(NAME, [claim()]).settled[0].outcome, Landed)
    world.down = False
    assert world.states() == ["started"]
    assert world.journal.pay(*world.journal.owed.get_nowait())
    assert [(one.state, one.version) for one in world.intents()] == [(IntentState.COMPLETED, 1)]


def test_a_lost_reply_completes_the_offer_that_landed_and_fails_the_others() -> None:
    """A re-offer has an intent of its own; Unknown leaves its intent started."""
    world = World()
    world.table.before = raising(RuntimeError("no disk"))
    (unknown,) = world.committer.commit(NAME, [claim()]).settled
    assert isinstance(unknown.outcome, Unknown)
    assert world.states() == ["started"]
    world.table.before = lambda: None
    world.table.after = raising(RuntimeError("no reply"))
    (landed,) = world.committer.commit(NAME, [unknown.claim]).settled
    assert isinstance(landed.outcome, Landed)
    assert len(landed.claim.offers) == 2
    assert sorted(world.states()) == ["completed", "failed"]
    assert [one.commit_id for one in world.intents()] == [world.table.said[1]["commit_id"]]


def test_a_refused_commit_fails_its_own_intents_only() -> None:
    """The other partition of the commit may be offered again: its intent stays started."""
    world = World()
    world.table.move({P0: 12})
    report = world.committer.commit(NAME, [claim(), claim(tp=P1)])
    assert [type(one.outcome) for one in report.settled] == [Refused, Unknown]
    assert world.states() == ["failed", "started"]


def test_files_that_no_longer_fit_the_table_fail_their_intent() -> None:
    """The table changed before anything was written: this very offer is over."""
    world = World()
    stale = replace(claim(), files=(replace(claim().files[0], fingerprint="other"),))
    assert isinstance(world.committer.commit(NAME, [stale]).settled[0].outcome, Stale)
    assert world.states() == ["failed"]


def test_a_partition_whose_lease_is_lost_is_not_offered() -> None:
    """Asked right before the commit; the other partition carries its token into the history."""
    world = World(lease={P0: None, P1: 5}.get)
    report = world.committer.commit(NAME, [claim(), claim(tp=P1)])
    by_tp = {one.claim.key.tp: one for one in report.settled}
    assert isinstance(by_tp[P0].outcome, Held) and by_tp[P0].claim.offers == ()
    assert isinstance(by_tp[P1].outcome, Landed)
    assert world.states() == ["failed", "completed"]
    assert {tp: said["token"] for tp, said in world.table.said[-1]["partitions"].items()} == {"events-1": 5}


def test_a_log_that_contradicts_the_process_stops_it() -> None:
    """Nobody may call failed what landed (protocol 6): exit 70."""
    world = World()
    world.table.after = lambda: world.wal.fail(world.intents())
    with pytest.raises(InvariantBroken) as stopped:
        world.committer.commit(NAME, [claim()])
    assert stopped.value.invariant is Invariant.ORDER


def test_a_missing_table_is_told_with_the_command_that_makes_it(caplog: pytest.LogCaptureFixture) -> None:
    """It counts as out of reach; said once, not each time."""
    world = World()
    del world.dynamo.tables["wal"]
    for _ in range(2):
        world.journal.down = False
        assert isinstance(world.committer.commit(NAME, [claim()]).settled[0].outcome, Held)
    said = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    advice = [line["advice"] for line in said if line["event"] == "wal_unreachable"]
    assert len(advice) == 1 and "exporter check --create-wal" in advice[0]


def test_a_commit_costs_two_calls_however_many_partitions_it_has() -> None:
    """Cost: at most two per (type, partition); one before and one after for up to 50 partitions, later commits too."""
    world = World()
    tps = [TopicPartition("events", number) for number in range(24)]
    world.table.move(dict.fromkeys(tps, 9))
    for expected in (9, 19, 29):
        before = sum(world.dynamo.calls.values())
        world.committer.commit(NAME, [claim(expected, expected + 10, tp) for tp in tps])
        assert sum(world.dynamo.calls.values()) - before == 2
    assert Counter(world.states()) == {"completed": 72}
