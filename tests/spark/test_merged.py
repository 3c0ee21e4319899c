"""What merged commits meet in a lake: rivals, the write-ahead log, accidents, offers in files (protocol 4.11)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import deltalake
import pytest

import exporter.protocol.commit as commit_module
from exporter.core.coordination import Merged, Offer
from exporter.core.outcome import Landed, Prepared, Report, Unknown
from exporter.core.valid_through import as_text
from exporter.core.writers import Claim, WriterKey
from exporter.errors import InvariantBroken, TableUnreadable
from exporter.lake.lake import Lake
from exporter.lake.table import DeltaTable
from exporter.operate.maintain.sweep import sweep
from exporter.protocol.commit import DeltaCommitter
from exporter.protocol.merged import MergedCommits
from exporter.protocol.offering import lightened
from exporter.protocol.through import ThroughTimes
from exporter.protocol.trusted import TrustedTables
from exporter.wal.check import LogCheck, history
from exporter.wal.journal import Journal
from exporter.wal.memory import Memory, MemoryLog
from offsets.intents import IntentState
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import THROUGH, THROUGH_PROPERTY, own_metadata
from tests.support.lakes import create_anchored, stage_offsets

pytestmark = pytest.mark.spark

TPS = P0, P1, P2 = tuple(TopicPartition("events", number) for number in range(3))
DAY, APP, NAME = date(2026, 1, 31), "merging", "order"


def endless(tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """High watermarks that nothing reaches."""
    return dict.fromkeys(tps, 1 << 62)


class World:
    """A table, tasks with a write-ahead log in common, and leaders."""

    def __init__(self, session: Any, root: Path) -> None:
        self.session = session
        self.lake = Lake(session, root, APP)
        self.delta = self.lake.table(NAME)
        create_anchored(self.lake, NAME, {tp: Position(0, -1) for tp in TPS})
        self.wal = Memory()
        self.tasks = {owner: self.task(owner) for owner in ("a", "b")}
        self.at = dict.fromkeys(TPS, -1)

    def task(self, owner: str) -> DeltaCommitter:
        journal = Journal(MemoryLog(APP, self.wal), True, owner, "r")
        tokens = {P0: 7, P1: 8, P2: 9}.get
        committer = DeltaCommitter(self.lake, owner, {"routing": "r"}, journal, tokens, others_commit=True)
        committer.trust(NAME, self.view())
        return committer

    def leader(
        self, owner: str = "leader", trusted: TrustedTables | None = None, through: ThroughTimes | None = None
    ) -> MergedCommits:
        return MergedCommits(self.lake, owner, "r", trusted or self.task(owner).trusted, endless, through)

    def view(self) -> Any:
        return self.delta.view()

    def offered(
        self, owner: str, *tps: TopicPartition, rows: int = 10, time_ms: int = 0
    ) -> tuple[Prepared, Offer]:
        """The next rows of some partitions."""
        claims = []
        for tp in tps:
            expected = self.at[tp]
            self.at[tp] += rows
            file = stage_offsets(self.lake, NAME, tp, list(range(expected + 1, self.at[tp] + 1)), DAY)
            version = self.view().version
            claims.append(Claim(WriterKey(NAME, tp), 0, expected, self.at[tp], (file,), version, time_ms=time_ms))
        prepared = self.tasks[owner].prepare(NAME, claims)
        return prepared, self.tasks[owner].offer(prepared, "round")

    def ids(self) -> list[int]:
        """The rows, as deltalake reads them; `id` is the offset."""
        return sorted(deltalake.DeltaTable(self.delta.uri).to_pyarrow_table(columns=["id"]).column("id").to_pylist())

    def states(self) -> list[tuple[str, int | None]]:
        """Of each intent, in order of partition and position: its state, and the version that it was completed with."""
        log = MemoryLog(APP, self.wal)
        found = [(one.state.value, one.version) for tp in TPS for one in log.read(tp)]
        return found + [(one.state.value, one.version) for tp in TPS for one in log.failed(tp)[0]]

    def sql(self, statement: str) -> None:
        self.session.sql(statement.format(table=self.delta.sql_name))


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> World:
    return World(spark, tmp_path)


def landed(report: Report | None) -> list[int]:
    """The partitions that have."""
    assert report is not None
    return [one.claim.key.tp.partition for one in report.settled if isinstance(one.outcome, Landed)]


def before_writing(monkeypatch: pytest.MonkeyPatch, *happens: Callable[[], object]) -> list[int]:
    """The next commits each meet something between their snapshot and their writing; how many commits were tried."""
    real, left, tried = DeltaTable.commit, [*happens], [0]

    def commit(self: DeltaTable, change: Any, check: Any) -> int:
        def checked(view: Any) -> Any:
            evolve = check(view)
            if left:
                left.pop(0)()
            return evolve

        tried[0] += 1
        return real(self, change, checked)

    monkeypatch.setattr(DeltaTable, "commit", commit)
    return tried


def test_a_merged_commit_tells_the_history_and_the_write_ahead_log_whose_each_row_is(world: World) -> None:
    """Its metadata, the tags of its files, the intents of its tasks, and what a log that was lost is filled with."""
    mine, first = world.offered("a", P0, P1)
    yours, second = world.offered("b", P2)
    assert world.states() == [("started", None)] * 3
    merged = world.leader().commit(NAME, [first, second])
    assert merged == Merged(merged.version, 30, (first.id, second.id), {}) and merged.version == world.view().version
    logged = world.delta.logged(merged.version)
    said = own_metadata(logged.user_metadata)
    assert logged.commit_ids == (said["commit_id"], first.id, second.id) and said["owner"] == "leader"
    told = {tp: (one["offer"], one["owner"], one["token"], one["rows"]) for tp, one in said["partitions"].items()}
    assert told == {
        str(P0): (first.id, "a", 7, 10), str(P1): (first.id, "a", 8, 10), str(P2): (second.id, "b", 9, 10),
    }  # fmt: skip
    tags = [add["tags"] for add in world.delta.files_at(merged.version)]
    assert sorted(one["commit_id"] for one in tags) == sorted([first.id, first.id, second.id])
    assert landed(world.tasks["a"].found(mine)) == [0, 1]
    assert landed(world.tasks["b"].found(yours)) == [2]
    assert world.states() == [("completed", merged.version)] * 3
    assert [(one.commit_id, one.owner, one.routing, one.version) for one in history(world.delta, world.view(), APP, TPS)
            ] == [(first.id, "a", "r", merged.version), (first.id, "a", "r", merged.version),
                  (second.id, "b", "r", merged.version)]  # fmt: skip
    assert world.ids() == sorted([*range(10)] * 3)


def test_what_a_leader_commits_for_a_task_that_is_gone_the_next_one_finds_in_the_write_ahead_log(world: World) -> None:
    """The intent is by the offer's id, under which the merged commit is found (5.1); what has moved on is dead."""
    _, first = world.offered("a", P0)
    _, second = world.offered("a", P1)
    owner = world.task("next")
    heartbeat = Claim(WriterKey(NAME, P1), 0, -1, 9, (), world.view().version)
    assert landed(owner.commit(NAME, [heartbeat])) == [1]
    merged = world.leader().commit(NAME, [first, second])
    assert (merged.landed, [*merged.dropped]) == ((first.id,), [second.id])
    check = LogCheck(world.lake, Journal(MemoryLog(APP, world.wal), True, "next", "r"))
    views = {NAME: world.view()}
    check.settle(check.judge(check.read(TPS), views), views)
    assert world.states() == [("completed", merged.version), ("failed", None)]


def test_two_leaders_with_the_same_offers_land_each_once(world: World) -> None:
    """FENCE: both at the same moment, over and over, one of them with the offers of a round before as well."""
    leaders, old = [world.leader("one"), world.leader("two")], list[Offer]()
    for number in range(6):
        offers = [world.offered("a", P0)[1], world.offered("b", P1, P2)[1]]
        made: dict[int, Merged] = {}

        def commit(at: int, told: list[Offer], made: dict[int, Merged] = made) -> None:
            made[at] = leaders[at].commit(NAME, told)

        threads = [threading.Thread(target=commit, args=(at, told)) for at, told in enumerate((offers, old + offers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert {*made[0].landed, *made[1].landed} == {one.id for one in offers}, number
        assert world.ids() == sorted([*range(10 * (number + 1))] * 3)
        old = offers
    assert {tp: world.view().position(APP, tp) for tp in TPS} == dict.fromkeys(TPS, Position(0, 59))


def test_what_moves_between_the_snapshot_and_the_commit_costs_that_offer_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival's commit, then a user's change of the table's properties: the others land, and nobody waits."""
    _, first = world.offered("a", P0, P1)
    mine, second = world.offered("b", P2)
    heartbeat = Claim(WriterKey(NAME, P1), 0, -1, 3, (), world.view().version)
    rival = world.task("rival")
    tried = before_writing(
        monkeypatch,
        lambda: landed(rival.commit(NAME, [heartbeat])) or pytest.fail("the rival"),
        lambda: None,  # the rival's own commit
        lambda: world.sql("ALTER TABLE {table} SET TBLPROPERTIES ('note' = 'of a user')"),
    )
    merged = world.leader().commit(NAME, [first, second])
    assert (merged.landed, [*merged.dropped], tried) == ((second.id,), [first.id], [4])
    assert landed(world.tasks["b"].found(mine)) == [2] and world.ids() == [*range(10)]


def test_what_moves_between_the_choice_and_the_snapshot_is_not_committed_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compare-and-set is made on the snapshot that the commit is based on: Delta would see no conflict."""
    _, first = world.offered("a", P0, P1)
    mine, second = world.offered("b", P2)
    rival, real = world.task("rival"), DeltaTable.commit
    moves = [Claim(WriterKey(NAME, P1), 0, -1, 3, (), world.view().version)]

    def commit(self: DeltaTable, change: Any, check: Any) -> int:
        if moves:
            assert landed(rival.commit(NAME, [moves.pop()])) == [1]
        return real(self, change, check)

    monkeypatch.setattr(DeltaTable, "commit", commit)
    merged = world.leader().commit(NAME, [first, second])
    assert (merged.landed, [*merged.dropped]) == ((second.id,), [first.id])
    assert landed(world.tasks["b"].found(mine)) == [2] and world.ids() == [*range(10)]


def test_a_restore_before_the_commit_stops_the_leader(world: World) -> None:
    """MONOTONE: as it stops a task that commits by itself; nothing of the offers is in the table."""
    world.leader().commit(NAME, [world.offered("a", P0)[1]])
    leader, offer = world.leader(), world.offered("b", P1)[1]
    deltalake.DeltaTable(world.delta.uri).restore(0)
    with pytest.raises(InvariantBroken, match="table order: RESTORE"):
        leader.commit(NAME, [offer])
    assert world.ids() == []
    assert [*world.leader(trusted=TrustedTables(APP)).commit(NAME, [offer]).dropped] == [offer.id]


def test_a_table_of_which_only_a_message_tells_stops_nobody(world: World) -> None:
    """One that another task has made is written, one that is not there or another app's is not."""
    (_, first), (_, second) = world.offered("a", P0), world.offered("b", P1)
    leader = world.leader(trusted=TrustedTables(APP))
    assert leader.commit(NAME, [first]).landed == (first.id,)
    assert leader.commit("click", [replace(first, table="click")]).dropped == {first.id: "there is no such table"}
    other = MergedCommits(Lake(world.session, world.lake.store, "other"), "x", "r", TrustedTables("other"), endless)
    assert "belongs to app" in other.commit(NAME, [replace(second, app="other")]).dropped[second.id]
    assert world.leader().commit(NAME, [replace(second, table_id="another")]).dropped.keys() == {second.id}
    assert world.leader().commit(NAME, [second]).landed == (second.id,)


def test_a_table_that_cannot_be_read_leaves_offers_to_their_tasks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known of them, so nobody is told anything; what was left out before is told."""
    mine, first = world.offered("a", P0)
    broken = replace(world.offered("b", P1)[1], fits=())
    leader = world.leader()

    def unreadable(self: DeltaTable) -> Any:
        raise TableUnreadable("table order cannot be read")

    def commit(self: DeltaTable, change: Any, check: Any) -> int:
        monkeypatch.setattr(DeltaTable, "view", unreadable)
        raise ConnectionError("no reply")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "view", unreadable)
        assert leader.commit(NAME, [first, broken]) == Merged()
    real = DeltaTable.view
    monkeypatch.setattr(DeltaTable, "commit", commit)
    merged = leader.commit(NAME, [first, broken])
    assert (merged.version, merged.landed, [*merged.dropped]) == (None, (), [broken.id])
    monkeypatch.undo()
    assert DeltaTable.view is real
    assert landed(world.tasks["a"].land(mine)) == [0]


def test_a_large_offer_is_read_from_a_file_that_nobody_takes_for_data(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta, deltalake and VACUUM pass over it; one that is gone, or is not its own, leaves the offer out."""
    monkeypatch.setattr(commit_module, "lightened", lambda store, offer: lightened(store, offer, 0))
    (mine, first), (_, second), (_, third) = (world.offered("a", tp) for tp in TPS)
    world.tasks["a"].offer(mine, "round")  # said again
    assert (first.adds, first.fits, first.manifest) == ((), (), f"_exporter/offers/{first.id}.json")
    world.session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    staged = {*Path(world.delta.uri).glob("day=*/*.parquet")}
    world.sql("VACUUM {table} RETAIN 240 HOURS")
    deltalake.DeltaTable(world.delta.uri).vacuum(retention_hours=240, dry_run=False, full=True)
    assert staged == {*Path(world.delta.uri).glob("day=*/*.parquet")}
    assert world.delta.store.delete(third.manifest)
    foreign = replace(second, manifest=first.manifest)
    merged = world.leader().commit(NAME, [foreign, first, third])
    assert (merged.landed, {*merged.dropped}) == ((first.id,), {second.id, third.id})
    assert "cannot be read" in merged.dropped[third.id] and "not its own" in merged.dropped[second.id]
    files = {path.name for path in Path(world.delta.uri, "_exporter/offers").iterdir() if path.suffix == ".json"}
    assert files == {f"{first.id}.json", f"{second.id}.json"}
    vacuumed = deltalake.DeltaTable(world.delta.uri).vacuum(
        retention_hours=0, dry_run=True, enforce_retention_duration=False, full=True
    )
    world.sql("VACUUM {table} RETAIN 0 HOURS")
    assert not [path for path in vacuumed if "_exporter" in path]
    assert files <= {path.name for path in Path(world.delta.uri, "_exporter/offers").iterdir()}
    swept = [one for found in sweep(world.lake, apply=True) for one in found.paths]
    assert swept == [first.manifest], "the other one may still land"
    assert world.ids() == [*range(10)] and world.session.read.format("delta").load(world.delta.uri).count() == 10


def test_files_that_cannot_be_brought_to_disk_are_not_offered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says so once: whoever commits them later would be told that all is well."""

    def full(path: str) -> None:
        if path.endswith(".parquet"):
            raise OSError(5, "Input/output error")

    table = world.lake.table(NAME)
    monkeypatch.setattr(type(table.store), "sync", lambda self, path: full(path))
    file = stage_offsets(world.lake, NAME, P0, [*range(10)], DAY)
    prepared = world.tasks["a"].prepare(NAME, [Claim(WriterKey(NAME, P0), 0, -1, 9, (file,), 0)])
    assert prepared.offers == ()
    (aside,) = prepared.aside
    assert "brought to disk" in aside.outcome.reason  # type: ignore[union-attr]
    assert not isinstance(aside.outcome, Unknown) and IntentState.STARTED.value not in dict(world.states())


class _AllThree:
    """The topics of these tests, nothing beyond what is committed."""

    def partitions(self) -> Collection[TopicPartition]:
        return TPS

    def high_watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(tps, 0)


def test_a_leader_says_valid_through_and_two_never_take_the_property_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata and property in one version with the rows; whoever finds that another said more, says that."""

    def leader(owner: str) -> MergedCommits:
        return world.leader(owner, through=ThroughTimes(APP, "idle_aware", _AllThree(), time.monotonic))

    def told() -> tuple[str, str]:
        view = world.view()
        metadata = own_metadata(world.delta.logged(view.version).user_metadata)
        return str(metadata.get(THROUGH, "")), view.properties.get(THROUGH_PROPERTY, "")

    first, second = leader("first"), leader("second")
    (_, mine), (_, yours) = world.offered("a", P0, P1, time_ms=500), world.offered("b", P2, time_ms=400)
    assert first.commit(NAME, [mine, yours]).landed == (mine.id, yours.id)
    assert told() == (as_text(399), as_text(399))
    _, late = world.offered("a", P0, P1, P2, time_ms=300)
    assert second.commit(NAME, [late]).landed == (late.id,)
    assert told() == (as_text(399), as_text(399)), "times that are not in order"
    (_, one), (_, other) = world.offered("a", P0, P1, time_ms=600), world.offered("b", P2, time_ms=700)
    tried = before_writing(monkeypatch, lambda: second.commit(NAME, [other]))
    assert first.commit(NAME, [one]).landed == (one.id,)
    assert (tried[0], world.ids()) == (3, sorted([*range(30)] * 3))
    assert told() == (as_text(699), as_text(699)), "the other leader said more while this one was about to say 599"
