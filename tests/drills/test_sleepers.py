"""A task that sleeps through its session and wakes up while another one owns its partitions (FENCE, traps 14)."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from exporter.faults import Fault
from tests.support import naive
from tests.support.lakes import S3_GROUP, Export, Exports, mixed, wait_until
from tests.support.processes import running

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill, S3_GROUP]

PARTITIONS = 2
HELD = 600
"""Records of each partition that the sleeper has read and is about to commit."""


@pytest.fixture
def export(exports: Exports) -> Export:
    return exports(PARTITIONS, heartbeat_secs=60)


def positions(e: Export) -> set[int]:
    return {offset for partition in range(PARTITIONS) for _, offset in e.positions(partition).values()}


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_sleeper_is_refused_whatever_the_next_owner_has_committed(export: Export, spark: Any) -> None:
    """SIGSTOP right before a commit, longer than the session: its late commit is refused, and it works on.

    Here the position is behind what was meant to follow it; `exporter drill` has either order (`zombie-holds-more`,
    `zombie-holds-less`), and tests/spark/test_commit.py in one process.
    """
    e = export
    e.send({partition: mixed(HELD, 1000 * partition) for partition in range(PARTITIONS)})
    with running(e, faults=f"{Fault.BEFORE_DELTA_COMMIT.value}:stop:1") as task:
        wait_until(task.stopped, 120, "the sleeper sleeps")
        task.signal_group(signal.SIGSTOP)
        with e.with_(round_records_max=40, roll_records_max=5, carried_bytes_max=0).going(spark):
            wait_until(lambda: -1 not in positions(e), 60, "every position has moved")
        assert -1 < min(positions(e)) <= max(positions(e)) < HELD - 1
        task.signal_group(signal.SIGCONT)
        task.wait_for("commit_refused")
        e.send({0: mixed(50, 20_000)})
        task.wait_for("partition_revoked")
        wait_until(lambda: e.position("order", 0)[1] >= HELD, 60, "it works on as a member")
        task.signal_group(signal.SIGTERM)
        assert task.wait(60) == 0, task.text
    e.run(spark)
    naive.assert_each_once(e)
