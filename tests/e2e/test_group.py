"""Several tasks of one group on a real broker: partitions move, nothing is lost, doubled or read twice without need."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from structlog.testing import capture_logs

from exporter.errors import DependencyUnreachable, FoundProblem
from exporter.task import service as _  # noqa: F401 - configures the logs before they are captured
from tests.support import naive
from tests.support.lakes import (
    EVERYWHERE_SELDOM,
    Export,
    Exports,
    Going,
    mixed,
    seldom,
    wait_until,
    writing,
    wrong_places,
)

pytestmark = [pytest.mark.broker, pytest.mark.spark]

MEMBER_SECS_MAX = 280.0
Logged = list[Mapping[str, Any]]


def of(logs: Logged, name: str) -> Logged:
    return [line for line in list(logs) if line["event"] == name]


def number(line: Mapping[str, Any]) -> int:
    """The partition's number in a log line."""
    return int(str(line["partition"]).rpartition("-")[2])


@pytest.fixture
def export(exports: Exports) -> Export:
    """Two partitions; rolls by age only after a minute: what is staged stays staged unless something else happens."""
    return exports(2, roll_age_max_secs=60, heartbeat_secs=60)


def staged(service: Any, partition: int) -> int:
    return sum(writer.staged_rows for key, writer in service._writers.items() if key.tp.partition == partition)


def read_all(e: Export, service: Any, counts: Mapping[int, int]) -> None:
    """Write mixed records and wait until the task has staged them all."""
    e.send({partition: mixed(count, 1000 * partition) for partition, count in counts.items()})
    for partition, count in counts.items():
        wait_until(lambda p=partition, n=count: staged(service, p) == n, 60, f"{count} rows staged of {partition}")


@EVERYWHERE_SELDOM
def test_a_partition_that_moves_is_rolled_first_and_one_that_stays_keeps_its_files(export: Export, spark: Any) -> None:
    """The listener runs (traps 1): the moved partition is committed as far as it was read, the other is not."""
    with capture_logs() as logs, ExitStack() as stack:
        first = stack.enter_context(export.going(spark)).service
        read_all(export, first, {0: 60, 1: 80})
        assert of(logs, "commit_landed") == []
        stack.enter_context(export.going(spark))
        (moved,) = wait_until(lambda: of(logs, "partition_revoked"), 30, "a partition is given away")
        assert (moved["lost"], moved["dropped_rows"]) == (False, 0)
        partition = number(moved)
        through = (60, 80)[partition] - 1
        wait_until(lambda: len(of(logs, "partition_assigned")) == 3, 30, "the second member owns it")
        assert set(export.positions(partition).values()) == {(0, through)}
        assert set(export.positions(1 - partition).values()) == {(0, -1)}
        assert staged(first, 1 - partition) == (60, 80)[1 - partition]
    naive.assert_each_once(export)


@EVERYWHERE_SELDOM
def test_without_a_budget_what_is_staged_is_dropped_and_read_again(export: Export, spark: Any) -> None:
    """stop_budget_secs = 0: the partition leaves at once, its rows are the next owner's."""
    e = export.with_(stop_budget_secs=0)
    with capture_logs() as logs, ExitStack() as stack:
        first = stack.enter_context(e.going(spark)).service
        read_all(e, first, {0: 60, 1: 80})
        second = stack.enter_context(export.going(spark)).service
        (moved,) = wait_until(lambda: of(logs, "partition_revoked"), 30, "a partition is given away")
        partition = number(moved)
        assert moved["dropped_rows"] == (60, 80)[partition]
        wait_until(lambda: staged(second, partition) == (60, 80)[partition], 60, "the next owner has read it")
    export.run(spark)
    assert wrong_places(export) == {}


@contextmanager
def foreign(e: Export, assignor: Any) -> Iterator[None]:
    """A consumer that is no exporter is in the group, and stays."""
    consumer = KafkaConsumer(
        bootstrap_servers=e.kafka, group_id=e.app, client_id="somebody", partition_assignment_strategy=[assignor],
        session_timeout_ms=6000, heartbeat_interval_ms=200, metadata_max_age_ms=1000,
    )  # fmt: skip
    consumer.subscribe([e.topic])
    enough, joined = threading.Event(), threading.Event()

    def stay() -> None:
        """The client may forget a join that a poll has begun (test_left_out.py): nobody looks after this one else."""
        asked_at = time.monotonic()
        while not enough.is_set():
            consumer.poll(timeout_ms=500)
            if consumer.assignment():
                joined.set()
            elif not joined.is_set() and time.monotonic() - asked_at > 5:
                consumer.unsubscribe()
                consumer.subscribe([e.topic])
                asked_at = time.monotonic()
        consumer.close(timeout_ms=3000)

    thread = threading.Thread(target=stay)
    thread.start()
    try:
        assert joined.wait(30)
        yield
    finally:
        enough.set()
        thread.join(30)


def test_a_run_with_an_end_says_which_partitions_a_foreign_member_has(
    export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes half of the topic: exit code 1, and partition and member are named, not 0 as if all were exported."""
    monkeypatch.setattr("exporter.task.others.LOOK_SECS", 0.2)
    export.send({0: mixed(20), 1: mixed(20, 100)})
    with foreign(export, CooperativeStickyAssignor), capture_logs() as logs:
        with pytest.raises(FoundProblem, match=r"-[01] through -1 of 19; they are with somebody at .*\(no exporter\)"):
            export.run(spark)
        (told,) = of(logs, "foreign_members")
        assert told["members"][0].startswith("somebody at ") and told["log_level"] == "warning"
    export.run(spark)
    assert wrong_places(export) == {}


def test_a_group_that_does_not_take_a_task_in_is_given_up(export: Export, spark: Any) -> None:
    """A member with another assignor keeps it out: it waits as for any outage, then ends with 69 and says who it is."""
    e = export.with_(give_up_secs=2)
    says = "InconsistentGroupProtocol.*no exporter: somebody at"
    with foreign(e, RangePartitionAssignor), pytest.raises(DependencyUnreachable, match=says):
        e.run(spark)


@EVERYWHERE_SELDOM
def test_tasks_with_an_end_that_share_a_group_end_when_the_whole_topic_is_exported(export: Export, spark: Any) -> None:
    """Each does its part and waits for that of the other; no partition is left, and both end well."""
    export.send({0: mixed(40), 1: mixed(40, 100)})
    with ExitStack() as stack:
        tasks = [Going(stack.enter_context(export.service(spark))) for _ in range(2)]
        for task in tasks:
            assert task.ended() is None
    assert wrong_places(export) == {}


@EVERYWHERE_SELDOM
@pytest.mark.timeout(300)
@pytest.mark.parametrize("joins", [5, seldom(30)])
def test_joins_and_leaves_under_load_lose_and_double_nothing(exports: Exports, spark: Any, joins: int) -> None:
    """ONCE: one member stays, up to two more come and go while records arrive; every listener ran."""
    scalars = {"roll_age_max_secs": 0.5, "heartbeat_secs": 0.5}
    e = exports(3, **scalars)
    rng = random.Random(20261121)
    with capture_logs() as logs, writing(e.kafka, e.topic, partitions=3), e.going(spark, MEMBER_SECS_MAX):
        for _ in range(joins // 2):
            with ExitStack() as stack:
                for _ in range(2):
                    joined = stack.enter_context(e.going(spark, MEMBER_SECS_MAX))
                    wait_until(lambda task=joined: task.service._ownership.owned, 60, "it owns a partition")
                    landed = len(of(logs, "commit_landed")) + rng.randrange(5)
                    wait_until(lambda n=landed: len(of(logs, "commit_landed")) >= n, 60, "some commits")
    moves = of(logs, "partition_revoked")
    assert len(moves) >= joins // 2
    assert not any(line["lost"] for line in moves)
    e.run(spark)
    naive.assert_each_once(e)
