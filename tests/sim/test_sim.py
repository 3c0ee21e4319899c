"""Worlds of recorded seeds and of fresh ones; that a seed is one history; and that a broken rule is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from exporter.announce.pointers import Pointer
from tests.sim.audience import Audience
from tests.sim.columns import Columns
from tests.sim.expected import Broken, Configuration, Place
from tests.sim.kernel import Kernel, Process, SimEvent, SimFuture, SimLock, SimPool
from tests.sim.oracle import Oracle
from tests.sim.recorded import RECORDED

ROOT = Path(__file__).parents[2]
FRESH_SECS, LONG_SECS = 60.0, 3600.0


def simulated(*arguments: str, timeout: float = 1200) -> str:
    """What `python -m tests.sim` says: in a process of its own, because the order of sets is part of a history."""
    command = [sys.executable, "-m", "tests.sim", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=timeout)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.parametrize(("seed", "features"), RECORDED, ids=[str(seed) for seed, _ in RECORDED])
def test_what_was_broken_once_is_not_again(seed, features):
    """The same world as then, whatever features others draw by now."""
    told = simulated("--seed", str(seed), "--features", json.dumps(asdict(features)))
    assert told.splitlines()[-1] == "nothing is wrong"


def test_fresh_seeds_break_nothing():
    """Each run of the tests tries others; they are printed, and each can be run again by itself."""
    told = simulated("--seconds", str(FRESH_SECS), "--first", str(int(time.time())))
    print(told)
    assert "BROKEN" not in told


@pytest.mark.long
@pytest.mark.timeout(2 * 3600)
def test_an_hour_of_fresh_seeds_breaks_nothing():
    """On all cores; what they have covered is printed, as a table for README.md."""
    arguments = ["--seconds", str(LONG_SECS), "--processes", str(os.cpu_count() or 1), "--first", str(int(time.time()))]
    told = simulated(*arguments, timeout=2 * LONG_SECS)
    print(told)
    assert "BROKEN" not in told


def test_a_seed_is_one_history():
    """Two processes tell the same timeline, to the last line."""
    assert simulated("--seed", "12") == simulated("--seed", "12")


def oracle() -> Oracle:
    return Oracle({}, "lake", "sim", Configuration(("order",)))


def entry(*actions: str) -> list[dict[str, Any]]:
    return [json.loads(action) for action in actions]


POSITION = '{"txn": {"appId": "sim/events/0/0", "version": %d}}'
ADD = (
    '{"add": {"path": "%s", "size": %d, "tags": {"topic": "events", "partition": "0", "epoch": "0", '
    '"first_offset": "%d", "last_offset": "%d"}}}'
)


def committed(one: Oracle, version: int, to: int, path: str = "", offsets: str = "") -> None:
    """One commit of the orders that goes to an offset, with a file if there is a path."""
    actions = [POSITION % to]
    if path:
        one.bodies[f"lake/order/{path}"] = offsets.encode()
        numbers = [int(number) for number in offsets.strip("[]").split(",")]
        actions.append(ADD % (path, len(offsets), numbers[0], numbers[-1]))
    one.committed("order", version, entry(*actions))


def test_the_oracle_finds_a_record_that_is_there_twice():
    """ONCE: in two files of one commit, so that positions alone would not show it."""
    one = oracle()
    one.topics.produced(("events", 0), 0, "order")
    committed(one, 0, 0, "a", "[0]")
    one.tables["order"].positions.clear()
    with pytest.raises(Broken, match="ONCE"):
        committed(one, 1, 0, "b", "[0]")


def test_the_oracle_finds_a_record_that_is_passed():
    """COVER: the position is beyond it, and no file has it."""
    one = oracle()
    one.topics.produced(("events", 0), 0, "order")
    one.topics.produced(("events", 0), 1, "order")
    with pytest.raises(Broken, match="COVER"):
        committed(one, 0, 1, "a", "[1]")


def test_the_oracle_finds_a_position_that_goes_back():
    """MONOTONE: within an epoch."""
    one = oracle()
    for offset in range(3):
        one.topics.produced(("events", 0), offset, "click")
    committed(one, 0, 2)
    with pytest.raises(Broken, match="MONOTONE"):
        committed(one, 1, 1)


def test_the_oracle_finds_a_record_in_another_table():
    """ROUTE: it is not of this type."""
    one = oracle()
    one.topics.produced(("events", 0), 0, "click")
    with pytest.raises(Broken, match="ROUTE"):
        committed(one, 0, 0, "a", "[0]")


def test_the_oracle_finds_a_file_that_is_not_there():
    """TEMP: a commit names what nobody can read."""
    one = oracle()
    one.topics.produced(("events", 0), 0, "order")
    with pytest.raises(Broken, match="TEMP"):
        one.committed("order", 0, entry(POSITION % 0, ADD % ("a", 3, 0, 0)))


def test_the_oracle_finds_what_is_never_exported():
    """PROGRESS: at the end everything has to be there."""
    one = oracle()
    one.topics.produced(("events", 0), 0, "order")
    with pytest.raises(Broken, match="PROGRESS"):
        one.finished()


def test_the_oracle_waits_for_no_record_that_retention_took_before_its_type_was_met():
    """Nobody has read it, so nobody knows of the type."""
    one = Oracle({}, "lake", "sim", Configuration((), new_tables=True))
    one.topics.produced(("events", 0), 0, "visit")
    lacks = "visit ('events', 0) is at None, and has records up to 0"
    assert lacks in one.missing()
    one.topics.of["events", 0].first = 1
    assert lacks not in one.missing()


def test_the_oracle_finds_a_row_that_a_commit_said_was_there():
    """THROUGH: an earlier version has said that nothing so old comes any more."""
    one = oracle()
    one.topics.produced(("events", 0), 0, "order", 5)
    said = {"commitInfo": {"userMetadata": json.dumps({"valid_through": "1970-01-01T00:00:00.005Z"})}}
    one.committed("order", 0, entry(POSITION % -1, json.dumps(said)))
    with pytest.raises(Broken, match="THROUGH"):
        committed(one, 1, 0, "a", "[0]")


def test_the_oracle_knows_where_an_undeclared_type_belongs():
    """Its own table, but for one that differs from a declared one by case only."""
    begun = Configuration(("order",), new_tables=True)
    found = [begun.place(kind).rows for kind in ("visit", "Order", "!bad")]
    assert found == [("visit",), ("dead_letters",), ("dead_letters",)]


def test_the_oracle_knows_the_types_of_a_record():
    """Some refuse it, the filter of another leaves it out; of a fourth it is none."""
    names = ("click", "order", "payment", "visit")
    takes = tuple((name, (name, "payment")) for name in names[:2])
    begun = Configuration(names, takes=takes, thirds=frozenset(["click"]), texts=frozenset(["payment"]))
    assert begun.place("payment", 3) == Place(("order", "payment"), ("click",))
    assert begun.place("~payment", 3) == Place(("dead_letters", "dead_letters", "payment"))
    assert begun.place("visit", 3) == Place(("visit",))


def test_the_oracle_finds_a_dead_letter_that_stands_for_one_type_of_two():
    """ONCE: each type that cannot have a record has one."""
    takes = (("click", ("payment",)), ("order", ("payment",)))
    one = Oracle({}, "lake", "sim", Configuration(("click", "order"), takes=takes))
    one.topics.produced(("events", 0), 0, "~payment")
    one.bodies["lake/dead_letters/a"] = b"[0]"
    with pytest.raises(Broken, match="ONCE"):
        one.committed("dead_letters", 0, entry(POSITION % 0, ADD % ("a", 3, 0, 0)))


def test_the_oracle_finds_what_nobody_counts():
    """COUNT: a commit of the dead letters passes a record that no table takes, and says no number."""
    one = Oracle({}, "lake", "sim", Configuration(("order",), counts=True))
    one.topics.produced(("events", 0), 0, "click")
    said = {"partitions": {"events-0": {"expected": -1, "new": 0}}}
    info = json.dumps({"commitInfo": {"userMetadata": json.dumps(said)}})
    with pytest.raises(Broken, match="COUNT"):
        one.committed("dead_letters", 0, entry(info))


def test_the_oracle_judges_by_the_configuration_of_an_offset():
    """ROUTE: behind the switch a type has its table, before it none."""
    one = oracle()
    for offset in range(3):
        one.topics.produced(("events", 0), offset, "click")
    one.topics.configurations["later"] = Configuration(("click", "order"))
    one.topics.switched(("events", 0), "later", 1)
    assert one.topics.belongs["dead_letters"]["events", 0] == {0, 1}
    assert one.topics.belongs["click"]["events", 0] == {2}


def test_the_oracle_finds_a_repair_that_leaves_rows_behind():
    """REWIND: an epoch begins behind an offset, and the table has a row beyond it."""
    one = oracle()
    one.topics.produced(("events", 0), 0, "order")
    committed(one, 0, 0, "a", "[0]")
    said = json.dumps({"commitInfo": {"userMetadata": json.dumps({"action": "rewind"})}})
    closed = '{"txn": {"appId": "sim/events/0/0", "version": 9223372036854775807}}'
    begun = '{"txn": {"appId": "sim/events/0/1", "version": -1}}'
    with pytest.raises(Broken, match="REWIND"):
        one.committed("order", 1, entry(said, closed, begun))


def test_the_oracle_finds_a_column_that_goes_and_one_that_a_file_has_otherwise():
    """COLUMNS: what a table has stays, and all that comes fits it."""
    number = {"name": "f0", "type": "long", "nullable": True, "metadata": {"exporter.evolved": "events/0/0"}}
    one = Columns()
    one.become("order", {"fields": [number]}, restores=False)
    one.fits("order", "a", b'[0]\n{"f0": "long"}')
    one.are_of_files("order", 1)
    with pytest.raises(Broken, match="COLUMNS"):
        one.fits("order", "b", b'[1]\n{"f0": "string"}')
    with pytest.raises(Broken, match="COLUMNS"):
        one.become("order", {"fields": []}, restores=False)


def test_the_oracle_finds_a_column_that_no_file_has():
    """COLUMNS: but for those with which a table is made."""
    number = {"name": "f0", "type": "long", "nullable": True, "metadata": {"exporter.evolved": "events/0/0"}}
    one = Columns()
    one.become("order", {"fields": [number]}, restores=False)
    one.are_of_files("order", 0)
    one.become("order", {"fields": [number, {**number, "name": "f1"}]}, restores=False)
    with pytest.raises(Broken, match="COLUMNS"):
        one.are_of_files("order", 1)


def test_the_audience_finds_a_version_that_comes_too_early():
    """TOLD: one before it was not told."""
    one = Audience()
    one.committed("order", 1)
    one.committed("order", 2)
    assert one.missing() == ["order [1, 2] were not announced"]
    with pytest.raises(Broken, match="TOLD"):
        one.hears("order", b'{"version": 2}')


def test_the_audience_waits_for_no_table_without_rows():
    """Somebody keeps that nothing of it was told."""
    one = Audience()
    one.keeps({"order": Pointer(looked=3, announced=3)})
    assert one.missing() == []


class Machine:
    """A kernel and one process, to run fibers in."""

    def __init__(self) -> None:
        self.kernel = Kernel(1)
        self.process = Process(self.kernel, "one")
        self.said: list[str] = []

    def runs(self, what, secs=100.0):
        self.kernel.started(self.process, "main", what)
        self.kernel.run(secs)
        return self.said


def test_time_passes_only_where_somebody_sleeps():
    """And for all who sleep at once."""
    machine = Machine()
    kernel = machine.kernel

    def sleeps():
        kernel.sleep(5)
        machine.said.append(f"{kernel.now:.0f}")

    kernel.started(machine.process, "other", sleeps)
    assert machine.runs(sleeps) == ["5", "5"]


def test_a_killed_process_does_nothing_any_more():
    """Not in its `finally` either: what it calls there fails."""
    machine = Machine()
    kernel = machine.kernel

    def main():
        try:
            kernel.sleep(5)
            machine.said.append("woke")
        finally:
            kernel.sleep(1)
            machine.said.append("cleaned up")

    kernel.after(1, kernel.kill, machine.process)
    assert machine.runs(main) == []
    assert not machine.process.fibers


def test_a_process_that_stands_still_goes_on_later():
    """What was due meanwhile is late."""
    machine = Machine()
    kernel = machine.kernel

    def main():
        kernel.sleep(5)
        machine.said.append(f"{kernel.now:.0f}")

    kernel.after(1, kernel.pause, machine.process, 30)
    assert machine.runs(main) == ["31"]


def test_pools_events_locks_and_futures_are_as_those_of_python():
    """So many calls at a time, one holder of a lock, waits that end."""
    machine = Machine()
    kernel = machine.kernel

    def main():
        pool, lock, event = SimPool(kernel, 2, "pool"), SimLock(kernel), SimEvent(kernel)

        def work(number):
            with lock, lock:
                kernel.sleep(1)
            event.set()
            return number

        futures = [pool.submit(work, number) for number in range(3)]
        assert not event.wait(0.5)
        assert event.wait(2)
        assert [future.result() for future in futures] == [0, 1, 2]
        assert isinstance(futures[0], SimFuture)
        failing = pool.submit(lambda: 1 // 0)
        assert isinstance(failing.exception(), ZeroDivisionError)
        pool.shutdown()
        machine.said.append(f"{kernel.now:.0f}")

    assert machine.runs(main) == ["3"]


def asked_for(*more: str, **asked: float) -> dict[str, Any]:
    """What the command prints that the handbook names (sizing.md)."""
    command = [sys.executable, "-m", "tests.sim.scale", *more]
    for name, value in asked.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_what_an_export_asks_for_is_counted():
    """A commit a table, task and roll, no more."""
    told = asked_for(tasks=2, partitions=4, types=2, minutes=5)
    assert told["requests/h"]["store: write"] > told["commits/h"] > 0
    assert told["commits/h and table"] <= 2 * 60 * 1.2


@pytest.mark.parametrize(("more", "limit"), [((), 3 * 60), (("--coordinated",), 60)], ids=["own", "coordinated"])
def test_rare_records_of_many_partitions_are_no_commit_each(more: tuple[str, ...], limit: int):
    """A partition gets one each ten minutes. Each brought markers of quiet tables, and these brought early rounds."""
    told = asked_for(*more, tasks=3, partitions=120, types=3, minutes=6, every_secs=600)
    assert told["commits/h and table"] <= limit * 1.2
