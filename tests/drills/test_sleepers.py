"""A task that sleeps through its session and wakes up while another one owns its partitions (FENCE, traps 14)."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.faults import Fault
from tests.support import naive
from tests.support.lakes import S3_GROUP, Export, mixed, running, wait_until
from tests.support.places import Place
from tests.support.services import fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

PARTITIONS = 2
HELD = 600
"""Records of each partition that the sleeper has read and is about to commit."""


@pytest.fixture
def export(kafka: str, topic: Callable[..., str], tmp_path: Path, place: Place) -> Export:
    return Export(kafka, topic(PARTITIONS), tmp_path, fresh_name("app"), scalars={"heartbeat_secs": 60}, at=place)


def positions(e: Export) -> set[int]:
    return {offset for partition in range(PARTITIONS) for _, offset in e.positions(partition).values()}


def take_over(e: Export, spark: Any, more: bool) -> None:
    """Own the sleeper's partitions, in the same group, once its session is over; commit more or less than it holds."""
    if more:
        produce(e.kafka, e.topic, {partition: mixed(100, 5000 * (1 + partition)) for partition in range(PARTITIONS)})
        e.run(spark)
        assert positions(e) == {HELD + 99}
        return
    small = e.with_(round_records_max=40, roll_records_max=5, carried_bytes_max=0)
    with small.going(spark):
        wait_until(lambda: -1 not in positions(e), 60, "every position has moved")
    assert -1 < min(positions(e)) <= max(positions(e)) < HELD - 1


SLEEPS = {"group-more": (True, True), "group-less": (True, False), "driver-less": (False, False),
          "driver-more": (False, True)}  # fmt: skip
"""Who sleeps, its driver or all of its processes; whether the next owner commits more or less than it holds."""
OFTEN = {("s3", "group-less")}
"""That the position is behind what was meant to follow it; tests/spark/test_commit.py has either order in one process,
on a folder."""


@pytest.mark.parametrize(
    "place, whole_group, more",
    [
        pytest.param(
            place, *how, id=f"{place}-{name}",
            marks=[*([S3_GROUP] if place == "s3" else []), *([] if (place, name) in OFTEN else [pytest.mark.long])],
        )
        for place in ("file", "s3") for name, how in SLEEPS.items()
    ],
    indirect=["place"],
)  # fmt: skip
def test_a_sleeper_is_refused_whatever_the_next_owner_has_committed(
    export: Export, spark: Any, whole_group: bool, more: bool
) -> None:
    """SIGSTOP right before a commit, longer than the session: its late commit is refused, and it works on."""
    e = export
    produce(e.kafka, e.topic, {partition: mixed(HELD, 1000 * partition) for partition in range(PARTITIONS)})
    with running(e, faults=f"{Fault.BEFORE_DELTA_COMMIT.value}:stop:1") as task:
        wait_until(task.stopped, 120, "the sleeper sleeps")
        if whole_group:
            task.signal_group(signal.SIGSTOP)
        take_over(e, spark, more)
        task.signal_group(signal.SIGCONT)
        task.wait_for("commit_refused")
        produce(e.kafka, e.topic, {0: mixed(50, 20_000)})
        task.wait_for("partition_revoked")
        end = HELD + (100 if more else 0)
        wait_until(lambda: e.position("order", 0)[1] >= end, 60, "it works on as a member")
        task.signal_group(signal.SIGTERM)
        assert task.wait(60) == 0, task.text
    e.run(spark)
    naive.assert_each_once(e)
