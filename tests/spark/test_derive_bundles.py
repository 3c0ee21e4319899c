"""Jobs of bundles over tables that a test fills, against an oracle in plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from exporter.derive.bundles.job import BundlesJob
from exporter.derive.bundles.members import past
from exporter.derive.bundles.outputs import output_rows
from exporter.derive.bundles.rules import rules_of
from exporter.derive.jobs import own_session
from exporter.errors import ConfigError, Fenced
from exporter.faults import Fault, InjectedFault
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.settings.derive_bundles import BundlesTable
from tests.support.bundles_oracle import OUTPUTS, Member, Oracle
from tests.support.derived import Row, Source, derived, no_session

pytestmark = pytest.mark.spark

DDL = "txn STRING, done BOOLEAN, v INT"


def _sum(members: list[Member]) -> int:
    return sum(one.v for one in members if one.input == "a")


COMPLETE: list[tuple[str | int, Callable[[list[Member]], bool]]] = [
    ("any", lambda members: any(one.done for one in members)),
    ("all", lambda members: all(one.done for one in members)),
    (3, lambda members: len(members) >= 3),
    ("count_if(input = 'a') > 0 AND count_if(input = 'b') > 0", lambda of: {one.input for one in of} == {"a", "b"}),
    ("bool_or(done) AND sum(a.v) > 9", lambda of: any(m.done for m in of) and _sum(of) > 9),
]


def table_of(**settings: Any) -> BundlesTable:
    inputs = {name: {"source": name, "transaction": "txn", "done": "done"} for name in ("a", "b")}
    return BundlesTable.model_validate({"kind": "bundles", "inputs": inputs, "outputs": OUTPUTS, **settings})


class World:
    """Two sources, the job and the oracle. seed: of all that is random."""

    def __init__(self, spark: Any, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.lake = Lake(spark, root, "app")
        complete, says = COMPLETE[seed % len(COMPLETE)]
        late = ("keep", "redo", "dead_letter")[seed % 3]
        expire, most = self.random.choice((None, 40, 80)), self.random.choice((1000, 12))
        given = {} if expire is None else {"expire_secs": expire}
        self.table = table_of(complete=complete, late=late, window_records_max=most, **given)
        self.oracle = Oracle(says, expire, late, most)
        self.sources = {name: Source(self.lake, name, DDL) for name in ("a", "b")}
        self.offsets = [0, 0]
        self.secs = 1000
        for name in ("a", "b"):  # a run wants both tables
            self.add(name, 1)

    def job(self) -> BundlesJob:
        return BundlesJob("pairs", self.table, self.lake, own_session(self.lake), "me")

    def add(self, name: str, count: int) -> None:
        rows = []
        for _ in range(count):
            partition = self.random.randrange(2)
            self.offsets[partition] += self.random.choice((1, 1, 2))
            self.secs += self.random.randrange(4)
            secs = self.secs - self.random.choice((0, 0, 5, 30))
            key = self.random.choice((None, *(f"t{self.secs // 40 + n}" for n in range(6))))
            done, v = self.random.random() < 0.3, self.random.randrange(20)
            self.oracle.rows[name].append(Member(name, partition, self.offsets[partition], secs, key, done, v))
            rows.append((partition, self.offsets[partition], secs, {"txn": key, "done": done, "v": v}))
        self.sources[name].add(rows)

    def compare(self) -> None:
        """The job's table is what the oracle has, in its order, and so says its audit."""
        rows = derived(self.lake, "pairs")
        shown = {"totals": lambda row: (row["n"], row["total"]), "parts": lambda row: (row["part"],)}
        made = sorted(
            (row["_seq"], row["_output"], row["_transaction"], row["_run"], shown[row["_output"]](row))
            for row in rows if row["_output"] in shown
        )  # fmt: skip
        assert made == self.oracle.out
        ledger = {
            (m["input"], m["partition"], m["offset"]): (row["_transaction"], row["_state"], row["_run"])
            for row in rows if row["_output"] == "_done" and (m := row["_member"])
        }  # fmt: skip
        assert ledger == {(m.input, m.partition, m.offset): (m.key, *told) for m, told in self.oracle.ledger.items()}
        kept = sorted(row["_transaction"] for row in rows if row["_output"] == "_late")
        late = sorted(str(m.key) for m, told in self.oracle.ledger.items() if told[0] == "late")
        assert kept == (late if self.oracle.late == "dead_letter" else [])


def play(world: World, steps: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, runs, an end before a commit, a lost answer, two at once; then all of it is compared."""
    draw = world.random
    for number in range(steps):
        for name in draw.sample(("a", "b"), draw.choice((1, 2))):
            world.add(name, draw.randrange(1, rows))
        accident = (None, Fault.BEFORE_DERIVE_COMMIT, Fault.AFTER_DERIVE_COMMIT, "two")[number % 4]
        if accident == "two":
            overtaken(world, monkeypatch)
        elif accident is not None:
            monkeypatch.setenv("EXPORTER_FAULTS", f"{Fault(accident).value}:raise:1+")
            with pytest.raises(InjectedFault) if accident is Fault.BEFORE_DERIVE_COMMIT else nullcontext():
                assert world.job().run().version is not None  # its answer was lost, and it was found by looking
            monkeypatch.delenv("EXPORTER_FAULTS")
        if accident in ("two", Fault.AFTER_DERIVE_COMMIT):
            world.oracle.run()
        while world.oracle.run():
            assert world.job().run().more
        assert not world.job().run().more
    assert world.job().run().idle
    world.compare()


def overtaken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process runs the job while this one is about to commit: this one is refused."""

    def first(fault: Fault, job: str) -> None:
        if fault is Fault.BEFORE_DERIVE_COMMIT:
            monkeypatch.undo()
            world.job().run()

    monkeypatch.setattr("exporter.derive.target.point", first)
    with pytest.raises(Fenced, match="the job is run by me too"):
        world.job().run()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))]
)
def test_histories_come_out_as_in_plain_python(
    spark: Any, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row of each transaction, in order, and each member's end; whatever ended runs, and however they were cut."""
    world = World(spark, tmp_path, seed)
    steps, rows = (2, 14) if seed == 0 else (8, 20)
    play(world, steps, rows, monkeypatch)
    if seed == 0:
        states = {state for state, _ in world.oracle.ledger.values()}
        assert states == {"done", "late", "expired"} and world.oracle.runs > steps, "it says little otherwise"
    assert [line for line in world.job().audit() if not line.clean] == []


def bundle(lake: Lake, **settings: Any) -> BundlesJob:
    return BundlesJob("pairs", table_of(**settings), lake, own_session(lake), "me")


def row(offset: int, txn: str, done: bool = False, secs: int = 1000, v: int = 1) -> Row:
    return 0, offset, secs, {"txn": txn, "done": done, "v": v}


@pytest.mark.long
def test_a_run_reads_only_the_files_past_its_cursor(spark: Any, tmp_path: Path) -> None:
    """Of forty commits of a source and as many runs' ledgers: those with a member that is open, or with what is new."""
    lake = Lake(spark, tmp_path, "app")
    a, b = Source(lake, "a", DDL), Source(lake, "b", DDL)
    b.add([row(0, "none")])
    for number in range(8):
        a.add([row(2 * number + 1, f"t{number}"), row(2 * number + 2, f"t{number}", done=number != 5)])
        if number in (2, 6):
            bundle(lake).run()
    job = bundle(lake)
    begun = job._begun(job._target.view())
    reading = begun.readings["a"]
    assert [at.offset for at in reading.open.positions.values()] == [10]
    assert len(reading.source.frame().inputFiles()) == 8
    assert len(reading.rows().inputFiles()) == 3  # of t5, which is open, of t6, and of t7, which is new
    assert len(job._ledger(begun.view).rows().inputFiles()) == 2
    assert len(job._ledger(begun.view).members(past(begun.readings, job._rules)).inputFiles()) == 1
    before = derived(lake, "pairs")
    assert "1 transactions done" in job.plan().says
    assert job.run().rows == 1
    assert len(derived(lake, "pairs")) == len(before) + 3
    job._later = no_session()
    assert (job.plan().says, job.plan().ranges) == ("nothing is new", {})


@pytest.mark.long
def test_a_transaction_made_anew_has_all_of_its_members(spark: Any, tmp_path: Path) -> None:
    """`redo`: a late member of one that is done, and of one that had expired, brings the former ones with it."""
    lake = Lake(spark, tmp_path, "app")
    a, b = Source(lake, "a", DDL), Source(lake, "b", DDL)
    job = bundle(lake, late="redo", expire_secs=50)
    b.add([row(0, "none", secs=900)])
    a.add([row(1, "x", done=True, v=5), row(2, "y", secs=1000, v=7), row(3, "z", secs=1100)])
    job.run()
    b.add([row(4, "y", done=True, secs=1101, v=8)])
    a.add([row(5, "x", secs=1102, v=6)])
    job.run()
    rows = [one for one in derived(lake, "pairs") if one["_seq"]]
    shown = sorted((one["_seq"], one["_transaction"], one["n"], one["total"], one["part"]) for one in rows)
    assert shown == [(1, "x", 1, 5, None), (2, "y", 1, 7, None), (3, "y", None, None, 8), (4, "x", 2, 11, None)]
    assert [line for line in job.audit() if not line.clean] == []


@pytest.mark.long
def test_rows_that_a_replay_puts_below_the_cursor_are_members(spark: Any, tmp_path: Path) -> None:
    """One that its transaction waited for, and one that is open from then on, and found by later runs."""
    lake = Lake(spark, tmp_path, "app")
    a, b = Source(lake, "a", DDL), Source(lake, "b", DDL)
    a.add([row(1, "x", done=True, v=1), row(5, "y", done=True, v=5)])
    b.add([row(6, "z")])
    complete = "count_if(input = 'a') > 0 AND count_if(input = 'b') > 0"
    job = bundle(lake, complete=complete)
    job.run()
    a.add([row(2, "z", v=2), row(3, "w", v=3)], replay=1)
    assert job.run().rows == 2
    b.add([row(7, "w")])
    assert job.run().rows == 2
    assert job.run().idle
    found = sorted((one["_seq"], one["_transaction"], one["total"]) for one in derived(lake, "pairs") if one["n"])
    assert found == [(1, "z", 2), (3, "w", 3)]
    assert [line for line in job.audit() if not line.clean] == []


@pytest.mark.long
def test_a_row_of_the_left_waits_for_its_other_side_and_is_given_alone_then(spark: Any, tmp_path: Path) -> None:
    """A left join within a time: whoever comes later begins a transaction of the same key."""
    lake = Lake(spark, tmp_path, "app")
    a, b = Source(lake, "a", DDL), Source(lake, "b", DDL)
    rule = {"left": "a", "right": "b", "left_key": "txn", "right_key": "txn", "join": "left", "within_secs": 50}
    shape = {"r": {**rule, "where": "v > 0", "select": "left.v AS l, right.v AS r"}}
    table = BundlesTable.model_validate({"kind": "bundles", "shape": shape})
    job = BundlesJob("pairs", table, lake, Later.of(spark), "me")
    a.add([row(1, "x", v=1), row(2, "y", v=2)])
    b.add([row(3, "y", v=3), row(4, "x", v=0)])
    assert job.run().rows == 1
    a.add([row(5, "z", secs=1100, v=5)])
    assert job.run().rows == 1
    b.add([row(6, "x", secs=1101, v=6), row(7, "z", secs=1102, v=7)])
    assert job.run().rows == 1
    a.add([row(8, "x", secs=1103, v=8)])
    assert job.run().rows == 1
    found = sorted((one["_seq"], one["l"], one["r"]) for one in derived(lake, "pairs") if one["_seq"])
    assert found == [(1, 2, 3), (2, 1, None), (3, 5, 7), (4, 8, 6)]
    assert [line for line in job.audit() if not line.clean] == []


def test_an_output_reads_its_lookup_at_one_version_and_so_does_its_audit(spark: Any, tmp_path: Path) -> None:
    """What the lookup gains later is in later rows alone."""
    lake = Lake(spark, tmp_path, "app")
    a, b, c = Source(lake, "a", DDL), Source(lake, "b", DDL), Source(lake, "c", "name STRING")
    names = "SELECT a._transaction, (SELECT max(name) FROM names) AS name FROM a"
    job = bundle(lake, lookups={"names": {"source": "c"}}, outputs={"named": names})
    b.add([row(0, "none")])
    for number, name in enumerate(("k", "m")):
        c.add([(0, 10 + number, 1000, {"name": name})])
        a.add([row(1 + number, f"t{number}", done=True)])
        assert job.run().rows == 1
    assert sorted(one["name"] for one in derived(lake, "pairs") if one["_seq"]) == ["k", "m"]
    assert [line for line in job.audit() if not line.clean] == []


def test_outputs_that_cannot_be_are_told(spark: Any, tmp_path: Path) -> None:
    """Without the transaction, with a column of two types or of the job's own, or of no transaction of the run."""
    lake, session = Lake(spark, tmp_path, "app"), spark.newSession()
    for name in ("a", "b"):
        Source(lake, name, DDL).add([row(int(name == "b"), "t", done=True)])
        session.createDataFrame([], f"_transaction STRING, {DDL}").createOrReplaceTempView(name)
    for outputs, why in (
        ({"x": "SELECT v FROM a"}, "no column _transaction"),
        ({"x": "SELECT _transaction, w FROM a"}, "`w`"),
        ({"x": "SELECT _transaction, v AS _seq FROM a"}, "column _seq is the job's own"),
        ({"x": OUTPUTS["parts"], "y": "SELECT _transaction, txn AS part FROM b"}, "int here and string there"),
    ):
        nothing: Any = None  # it is not come to
        with pytest.raises(ConfigError, match=why):
            output_rows(session, "pairs", rules_of(table_of(outputs=outputs)), nothing, 0)
    with pytest.raises(ConfigError, match="none of its views'"):
        bundle(lake, outputs={"x": "SELECT 'u' AS _transaction, v FROM a"}).run()
