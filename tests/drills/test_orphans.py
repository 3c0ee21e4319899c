"""What killed tasks leave behind is swept while another task works on (TEMP)."""

from __future__ import annotations

import random
import signal
from typing import Any

import pytest

from exporter.faults import Fault
from exporter.operate.maintain.sweep import sweep
from tests.support.lakes import EVERYWHERE, Exports, wait_until, writing, wrong_places
from tests.support.processes import running

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

LIFE_SECS_MAX = 1000.0
KILLED, SPARED = "0/2", "1/2"
"""Shares of two tasks: one is killed again and again, the other one works on."""


@EVERYWHERE
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [3, 20])
def test_orphans_of_killed_tasks_are_swept_and_nothing_else(
    exports: Exports, spark: Any, rng: random.Random, kills: int
) -> None:
    """Each kill strikes with files staged; afterwards every file on disk is live or staged by the living task."""
    both = exports(2, carried_bytes_max=0)
    e = both.with_(assignment="static", partitions=KILLED, roll_age_max_secs=0.5, round_records_max=400)
    other = both.with_(assignment="static", partitions=SPARED, roll_age_max_secs=900, heartbeat_secs=900)
    with writing(e.kafka, e.topic), other.going(spark, LIFE_SECS_MAX) as task:
        for _ in range(kills):
            with running(e, faults=f"{Fault.BEFORE_DELTA_COMMIT.value}:kill:{rng.randrange(1, 9)}") as killed:
                assert killed.wait() == -signal.SIGKILL, killed.text
        e.run(spark)
        staged = {w.key.event_type: {f.path for f in w.staged} for w in task.service._writers.values() if w.staged}
        assert staged, "the other task holds files that no commit names yet"
        with e.bench(spark) as bench:
            listed = {name: e.files(name) for name in e.tables()}
            orphans = {name: listed[name] - e.live(name) - staged.get(name, set()) for name in listed}
            wanted = {name: {path for path in paths if ".0.0." in path} for name, paths in orphans.items()}
            assert sum(map(len, wanted.values())) >= kills
            assert {found.event_type: set(found.paths) for found in sweep(bench.lake, False)} == wanted
            assert all(listed[name] <= e.files(name) for name in listed), "a dry run deletes nothing"
            assert sum(found.deleted for found in sweep(bench.lake, True)) == sum(map(len, wanted.values()))
        for name, paths in wanted.items():
            assert not paths & e.files(name)
            assert e.live(name) <= e.files(name)
        wait_until(lambda: task.service.totals.rounds > 2, 60, "the other task works on")
    both.run(spark)
    assert wrong_places(both) == {}
    both.proven(spark)
