"""kill -9 at named points and at random moments, for real; judged by a checker that knows nothing of the exporter."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.drill import kills
from exporter.faults import Fault
from tests.support.lakes import (
    DDL,
    EVERYWHERE_SELDOM,
    Export,
    descendants,
    mixed,
    running,
    seldom,
    state_of,
    wait_until,
    writing,
    wrong_places,
)
from tests.support.places import Place
from tests.support.services import fresh_name, produce
from tests.support.wals import Log

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

PARTITIONS = 2
ORPHAN_SECS_MAX = 10.0


@pytest.fixture
def log(dynamodb: str) -> Log:
    return Log(dynamodb, fresh_name("wal"))


@pytest.fixture
def export(kafka: str, topic: Callable[..., str], tmp_path: Path, place: Place, log: Log) -> Export:
    """With a log. Every restart is in a group of its own: the dead member's session (6 s) need not be waited for."""
    return log.of(Export(kafka, topic(PARTITIONS), tmp_path, fresh_name("app"), at=place))


def restarted(e: Export) -> Export:
    return e.with_(group=fresh_name("group"))


WORK = frozenset(
    {Fault.AFTER_ANCHOR, Fault.AFTER_PLAN, Fault.AFTER_READ, Fault.AFTER_INTEGRATE, Fault.BEFORE_DELTA_COMMIT}
    | {Fault.AFTER_DELTA_COMMIT, Fault.BEFORE_GROUP_OFFSET, Fault.AFTER_SEAL}
)
"""Each life is armed with the next point: the first anchors the tables, the last switches the configuration."""
POINTS = [one for one in kills.POINTS if one[0] in WORK]
AT_START = [one for one in kills.POINTS if one[0] not in WORK | (kills.LOG_POINTS - {Fault.IN_LEASE_RENEWAL})]
"""The steps of a start, and what is left of a round; those of the log are in tests/e2e/test_wal.py. That the drill's
points are all that there are: tests/unit/drill/test_drill.py."""

LEASED = {"assignment": "static", "partitions": "0/1", "lease_secs": 4}


@EVERYWHERE_SELDOM
@pytest.mark.timeout(600)
@pytest.mark.parametrize("points", [pytest.param(POINTS, id="work"), seldom(AT_START, id="start")])
def test_kills_at_every_named_point_lose_and_double_nothing(
    export: Export, spark: Any, log: Log, points: list[tuple[Fault, int]]
) -> None:
    """ONCE: kill -9 at the n-th passing of each point, life after life; the last one completes the work and the log."""
    small_rounds = {"round_records_max": 120, "roll_records_max": 20, "carried_bytes_max": 4_000}
    wider = {"click": DDL["click"], "order": DDL["order"], "payment": DDL["payment"] + ", x INT"}
    e = export
    for number, (fault, passing) in enumerate(points):
        if fault is Fault.AFTER_SEAL:
            e = e.with_(wider)
        more = {partition: mixed(150, 1000 * (PARTITIONS * number + partition)) for partition in range(PARTITIONS)}
        produce(e.kafka, e.topic, more)
        armed = f"{fault.value}:kill:{passing}"
        life = restarted(e).with_(**small_rounds, **(LEASED if fault is Fault.IN_LEASE_RENEWAL else {}))
        # a lease is renewed for as long as the task runs, a run with an end may be too short for it
        with running(life, *([] if fault is Fault.IN_LEASE_RENEWAL else ["--until-caught-up"]), faults=armed) as task:
            assert task.wait() == -signal.SIGKILL, f"{armed}\n{task.text}"
    restarted(e).run(spark)
    assert wrong_places(e) == {}
    if points is POINTS:
        assert log.states()["failed"] > 0
    assert not [item for item in log.items() if item.state == "started" and item.epoch == 1]


@EVERYWHERE_SELDOM
@pytest.mark.timeout(900)
@pytest.mark.parametrize("times", [1, seldom(3)])
def test_kills_at_random_moments_under_load_lose_and_double_nothing(export: Export, spark: Any, times: int) -> None:
    """ONCE: kill -9, each at a moment drawn over a whole run, while records arrive; then caught up."""
    seed = int(os.environ.get("DRILL_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"DRILL_SEED={seed}")
    rng = random.Random(seed)
    e = export.with_(roll_age_max_secs=0.3, heartbeat_secs=0.3, roll_records_max=100, carried_bytes_max=4_000)
    with writing(e.kafka, e.topic):
        for _ in range(times):
            with running(restarted(e)) as task:
                after = rng.choice(["", "positions_recovered", "commit_landed", "commit_landed"])
                if after:
                    task.wait_for(after)
                time.sleep(rng.uniform(0, 3 if after else 8))  # the random moment
                print(f"killed {after or 'from the start'}, {task.text.count('commit_landed')} commits")
                os.kill(task.pid, signal.SIGKILL)
                assert task.wait(10) == -signal.SIGKILL, task.text
    restarted(e).run(spark)
    assert wrong_places(e) == {}, f"DRILL_SEED={seed}"


def test_no_process_outlives_a_killed_driver(export: Export) -> None:
    """After kill -9 of the driver alone, in the middle of work, its JVM and Python workers are gone within 10 s."""
    e = export.with_(roll_age_max_secs=0.3)
    with writing(e.kafka, e.topic), running(e) as task:
        task.wait_for("commit_landed")
        family = set(descendants(task.pid))
        assert len(family) >= 3, "a JVM, a worker daemon and a worker at least"
        os.kill(task.pid, signal.SIGKILL)
        killed_at = time.monotonic()
        wait_until(lambda: not living(family), ORPHAN_SECS_MAX, f"the end of {family}")
        print(f"the last one lived {time.monotonic() - killed_at:.1f} s longer")
        assert task.members() == []


@EVERYWHERE_SELDOM
def test_a_jvm_that_dies_ends_the_task_with_a_hint(export: Export, spark: Any) -> None:
    """Exit 69, as for any dependency that is gone; its files are where TMPDIR is; the next start goes on."""
    e = export.with_(roll_age_max_secs=0.3)
    with writing(e.kafka, e.topic), running(e) as task:
        task.wait_for("commit_landed")
        (java,) = [pid for pid in descendants(task.pid) if "java" in Path(f"/proc/{pid}/comm").read_text()]
        os.kill(java, signal.SIGKILL)
        assert task.wait(30) == 69, task.text
        said = json.loads(task.text.splitlines()[-1])
        assert (said["event"], said["exit_code"]) == ("task_failed", 69), said
        assert "the JVM that runs Spark has ended" in said["error"] and "driver_memory" in said["hint"], said
        left = [file.name for file in task.scratch.iterdir()]
        assert any(name.startswith("blockmgr-") for name in left), f"Java's files belong there too: {left}"
    restarted(e).run(spark)
    assert wrong_places(e) == {}


def living(pids: set[int]) -> list[int]:
    return [pid for pid in pids if state_of(pid) not in ("", "Z", "X")]
