"""Other people's hands on the tables of two tasks that work, of which one is killed.

exporter maintain ─┐
Spark's SQL ───────┼──> tables <── a task that lives, and one that is killed (-9) at random moments
delta-rs ──────────┘
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import InvariantBroken
from exporter.kafka.topics import FirstPosition
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from exporter.operate.repair.repair import repair
from tests.support import naive
from tests.support.lakes import DDL, NOON, Export, Exports, mixed, seldom, wait_until, writing, wrong_places
from tests.support.processes import Process, running

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

ALL = (DEAD_LETTERS, *DDL)
LIMITS = MaintenanceLimits(late_secs=3600, file_bytes_max=1 << 29, stage_age_max_secs=21_600)
MODES = ("own", "coordinated")
Hand = Callable[[], None]


@pytest.fixture
def export(exports: Exports, topic: Callable[..., str]) -> Callable[[str], Export]:
    """Of a topic with two partitions; commits come quickly. export(commit mode)."""

    def make(mode: str) -> Export:
        scalars = {"roll_age_max_secs": 0.5, "heartbeat_secs": 1.0, "carried_bytes_max": 4_000}
        if mode == "coordinated":
            scalars |= {"control_topic": topic(), "commit_interval_secs": 0.5}
        e = exports(2, **scalars)
        e.send({partition: mixed(100, 1000 * partition) for partition in range(2)})
        return e

    return make


class Others:
    """What others do, each in its turn, in a thread, until it is told to stop. done: how often each has."""

    def __init__(self, hands: Sequence[Hand]) -> None:
        self.done: Counter[str] = Counter()
        self._hands, self._enough = hands, threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._enough.wait(0.1):
                for hand in self._hands:
                    hand()
                    self.done[hand.__name__] += 1
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self._error = error

    def stop(self) -> None:
        """Wait until the last one is done."""
        self._enough.set()
        self._thread.join(120)
        if self._error is not None:
            raise self._error


@contextmanager
def others(*hands: Hand) -> Iterator[Others]:
    beside = Others(hands)
    try:
        yield beside
    finally:
        beside.stop()


def hands_on(e: Export, spark: Any, rng: random.Random, killed_too: bool) -> tuple[Hand, ...]:
    """Of people who know nothing of the tasks. killed_too: one kills `exporter maintain`, in the middle of its work."""
    numbers = iter(range(-1, -1_000_000, -1))

    tables = itertools.cycle(ALL)

    def maintain() -> None:
        steps = [*Maintenance(e.lake(spark), LIMITS).steps([next(tables)], True)]
        assert {step.outcome for step in steps} <= {"done", "skipped"}, steps

    def append() -> None:
        table = e.table("order")
        schema = pa.schema(table.schema().to_arrow())
        row = {"id": next(numbers), "note": "somebody's", "day": NOON.date()}
        deltalake.write_deltalake(table, pa.Table.from_pylist([row], schema=schema), mode="append")

    def compact() -> None:
        try:
            e.table("click").optimize.compact()
        except CommitFailedError as error:
            assert "conflict" in str(error).lower() or "concurrent" in str(error).lower(), error

    def checkpoint() -> None:
        e.table(next(tables)).create_checkpoint()

    def maintain_and_kill() -> None:
        with running(e, "--apply", verb="maintain"):
            time.sleep(rng.uniform(8, 30))  # the random moment

    return append, compact, checkpoint, maintain, *((maintain_and_kill,) if killed_too else ())


@contextmanager
def killed(e: Export, rng: random.Random, kills: int) -> Iterator[Process]:
    """The last life of a task of its own process, of which each before was killed at a random moment."""
    for _ in range(kills):
        with running(e) as task:
            task.wait_for("commit_landed")
            time.sleep(rng.uniform(0, 3))  # the random moment
            task.killed()
    with running(e) as task:
        task.wait_for("commit_landed")
        yield task


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("mode", "kills"), [("own", 0), seldom("coordinated", 1), *(seldom(m, 6) for m in MODES)])
def test_maintenance_and_appends_of_others_lose_and_double_nothing(
    export: Callable[[str], Export], spark: Any, rng: random.Random, mode: str, kills: int
) -> None:
    """ONCE. The audit says how many rows are of no record; without them it is clean, and so is the naive one."""
    e = export(mode)
    with writing(e.kafka, e.topic, per_sec=100), e.going(spark, secs_max=500):
        wait_until(lambda: len(e.tables()) == len(ALL), 60, "tables")
        hands = hands_on(e, spark, rng, killed_too=kills > 1)
        with others(*hands) as beside, killed(e, rng, kills) as task:
            before = beside.done["append"]
            wait_until(lambda: beside.done["append"] > before and len(beside.done) == len(hands), 400, "all hands")
            os.killpg(task.pid, signal.SIGKILL)
    e.run(spark)
    print(beside.done)
    report = e.audit(spark)
    assert (report.foreign, report.findings) == (beside.done["append"], beside.done["append"]), report.as_text()
    e.table("order").delete("id < 0")
    assert wrong_places(e) == {}
    naive.assert_each_once(e)
    e.proven(spark)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("mode", "hand"),
    [("coordinated", "delta-rs"), seldom("coordinated", "Spark"), seldom("own", "Spark"), seldom("own", "delta-rs")],
)
def test_a_restore_beside_two_tasks_stops_both_and_its_repair_makes_all_whole(
    export: Callable[[str], Export], spark: Any, mode: str, hand: str
) -> None:
    """MONOTONE: whichever of them commits next, each ends with 70 and says what helps; so does the next one."""
    e = export(mode)
    if hand == "Spark":  # it takes longer than the others need for their next commit
        e = e.with_(roll_age_max_secs=8, heartbeat_secs=8, **({"commit_interval_secs": 8} if mode != "own" else {}))
    with writing(e.kafka, e.topic, per_sec=100):
        with e.going(spark, secs_max=300) as first, running(e) as second:
            wait_until(lambda: len(e.tables()) == len(ALL) and min(versions(e)) > 4, 180, "some commits of each table")
            second.wait_for("commit_landed")
            restore(e, spark, hand)
            error = first.ended()
            assert isinstance(error, InvariantBroken) and "RESTORE" in error.message, error
            assert "exporter repair --rewind" in error.hint
            assert second.wait(60) == 70, second.text[-4000:]
            said = json.loads(second.text.splitlines()[-1])
            assert "RESTORE" in said["error"] and "exporter repair --rewind" in said["hint"], said
        with pytest.raises(InvariantBroken, match="RESTORE"):
            e.run(spark)
        with e.bench(spark) as made:
            repair(made, "rewind", "", FirstPosition(), True)
    e.run(spark)
    assert wrong_places(e) == {}
    naive.assert_each_once(e)
    e.proven(spark)


def restore(e: Export, spark: Any, hand: str) -> None:
    """Take a table three versions back, as soon as no commit comes in between."""
    for _ in range(200):
        newest = e.table("order").version()
        back = newest - 3
        try:
            if hand == "Spark":
                spark.sql(f"RESTORE TABLE {e.sql_name('order')} TO VERSION AS OF {back}")
            else:
                e.table("order").restore(back)
            return
        except Exception as error:  # noqa: BLE001 - each of the two has its own
            said = str(error)
            # Of a lost race delta-rs may tell its tries alone: then it has to be seen that there was one.
            raced = re.fullmatch(r"Failed to commit transaction: \d+", said) and e.table("order").version() > newest
            assert raced or "oncurrent" in said or "onflict" in said or "already exists" in said, error
    raise AssertionError("others were always faster")


def versions(e: Export) -> list[int]:
    return [e.table(name).version() for name in e.tables()]

