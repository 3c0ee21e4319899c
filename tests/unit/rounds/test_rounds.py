"""Rounds: what the ones before taught."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.core.bisection import LOSSES_MAX
from exporter.core.manifest import RoundResult
from exporter.core.order import StagingOrder
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.writers import PartitionPlan
from exporter.errors import DependencyUnreachable, RoundFailed
from exporter.rounds.rounds import EXECUTORS_SECS_MAX, Rounds
from exporter.text import why
from offsets.ranges import TopicPartition
from tests.support.orders import order_of

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ORDER = order_of("/lake", Routing(TypeFrom("json", "type"), EventTime("record"), ()), {})


SPARK = """An error occurred while calling o178.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 2.0 failed 1 times
Driver stacktrace:
Caused by: java.lang.ArithmeticException: long overflow
\tat java.base/java.lang.Math.multiplyExact(Math.java:1004)"""
CLUSTER = """An error occurred while calling o69.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException:
Error from python worker:
  Traceback (most recent call last):
    File "/x/daemon.py", line 3, in <module>
      import pyarrow
  ModuleNotFoundError: No module named 'pyarrow'
PYTHONPATH was:
  /x
org.apache.spark.SparkException: No port number in exporter.executor.daemon's stdout
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:9)"""
WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x.py", line 5, in boom
    for b in it: raise ValueError("my message")
                 ^^^^^^^^
kafka.errors.CorruptRecordError: [Error 2] CorruptRecordError: no
second line
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SPARK, "java.lang.ArithmeticException: long overflow"),
        (CLUSTER, "ModuleNotFoundError: No module named 'pyarrow'"),
        (WORKER, "kafka.errors.CorruptRecordError: [Error 2] CorruptRecordError: no"),
        ("plain\nmore", "RuntimeError: plain"),
    ],
)
def test_a_failed_round_tells_the_cause(text: str, says: str) -> None:
    """Not that a job was aborted: who reads the log, or why the task is not ready, has to act upon it."""
    assert why(RuntimeError(text)) == says


class Reader:
    """Reads what it is told to have read: (records, bytes), the same each time."""

    def __init__(self, records: int, size: int) -> None:
        self.counts = {"records": records, "bytes": size}
        self.orders: list[StagingOrder] = []
        self.cancelled = 0

    def read(self, order: StagingOrder) -> RoundResult:
        self.orders.append(order)
        return RoundResult((), self.counts)

    def begun(self) -> bool:
        return True

    def has_executors(self) -> bool:
        return True

    def cancel(self, dropped: bool = False) -> None:
        self.cancelled += 1


class Held(Reader):
    """Ends each reading when it is told to."""

    def __init__(self) -> None:
        super().__init__(10, 1_000)
        self.ends: dict[int, Future[RoundResult]] = {}

    def read(self, order: StagingOrder) -> RoundResult:
        (plan,) = order.plans.values()
        return self.ends[plan.start].result(10)


def run(rounds: Rounds, times: int) -> None:
    for _ in range(times):
        rounds.start(ORDER)
        rounds._readings[0].future.result(10)
        assert rounds.take(0.0) is not None


def rounds_of(reader: Any, bytes_max: int = 1_000_000) -> Rounds:
    def waking(future: Future[Any]) -> Future[Any]:
        return future

    return Rounds(reader, 1_000_000, bytes_max, 1e9, waking)


def test_the_size_of_records_bounds_the_next_round():
    """Large ones are remembered at once, small ones bit by bit."""
    reader = Reader(10, 5_000)
    rounds = rounds_of(reader)
    run(rounds, 1)
    assert rounds.budget().records == 2_000
    reader.counts = {"records": 10, "bytes": 10}
    run(rounds, 1)
    assert rounds.budget().records == 4_000
    rounds.close()


def test_nothing_but_tombstones_for_hours():
    """Their values have no bytes: the next round is as large as it may be, however many came before."""
    rounds = rounds_of(Reader(1, 0))
    rounds.expect(350.0)
    run(rounds, 1_100)
    assert rounds.budget().records == 1_000_000
    rounds.close()


def order(start: int) -> StagingOrder:
    """Ten offsets."""
    return replace(ORDER, plans={T0: PartitionPlan(T0, 0, 0, start, start + 10, {})}, carried_bytes=7)


def two_running() -> tuple[Held, Rounds]:
    reader = Held()
    reader.ends = {start: Future() for start in (0, 10)}
    rounds = rounds_of(reader)
    rounds.expect(100.0)
    for start in reader.ends:
        rounds.start(order(start))
    return reader, rounds


def taken(rounds: Rounds, now: float) -> RoundResult | None:
    """The next result, once the first reading has ended as it was told."""
    rounds._readings[0].future.exception(10)
    return rounds.take(now)


def test_two_rounds_are_taken_in_the_order_of_their_plans():
    """However they end; the second is the first one from then on, and so is its time."""
    reader, rounds = two_running()
    assert [plan.start for plan in rounds.plans] == [0, 10] and rounds.carried_bytes == 14
    second = RoundResult((), {"records": 5, "bytes": 500})
    reader.ends[10].set_result(second)
    rounds._readings[1].future.result(10)
    assert rounds.take(0.0) is None and rounds.running
    first = RoundResult((), {"records": 10, "bytes": 1_000})
    reader.ends[0].set_result(first)
    assert taken(rounds, 100.0) is first
    assert [plan.start for plan in rounds.plans] == [10]
    assert rounds.take(103.0) is second and rounds.secs == 3.0
    assert not rounds.running
    rounds.close()


def test_a_round_behind_one_that_failed_is_dropped():
    """It was planned for what is not there; its job is cancelled, its result never taken."""
    reader, rounds = two_running()
    reader.ends[10].set_result(RoundResult((), {}))
    reader.ends[0].set_exception(RoundFailed("no"))
    assert taken(rounds, 0.0) is None
    assert not rounds.running and rounds.failures == 1 and reader.cancelled == 1
    assert rounds.take(1.0) is None
    rounds.close()


def test_a_round_behind_one_whose_files_the_storage_refused_is_dropped():
    """It would be refused as well."""
    reader, rounds = two_running()
    reader.ends[0].set_result(RoundResult((), {}))
    assert taken(rounds, 0.0) is not None
    rounds.spoiled("no space", 0.0)
    assert not rounds.running and reader.cancelled == 1
    reader.ends[10].set_exception(RoundFailed("cancelled"))
    rounds.close()


@pytest.mark.parametrize(
    ("end", "begun", "failures", "size", "may"),
    [
        (10 + 5_000, True, 0, 100.0, True),
        (10 + 4_999, True, 0, 100.0, False),
        (10 + 5_000, False, 0, 100.0, False),
        (10 + 5_000, True, 1, 100.0, False),
        (10 + 10**9, True, 0, 0.0, False),
    ],
    ids=["half a round", "less", "not begun", "in trouble", "size not known"],
)
def test_a_round_waits_behind_another_where_that_is_worth_it(
    end: int, begun: bool, failures: int, size: float, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least half a round is left, the one before has its cores, and all is well; never a third one."""
    reader = Held()
    reader.ends = {0: Future(), 10: Future()}
    rounds = rounds_of(reader)
    assert rounds.may_start({T0: end}, 0.0)
    rounds.expect(size)
    rounds.failures = failures
    rounds.start(order(0))
    monkeypatch.setattr(reader, "begun", lambda: begun)
    assert rounds.may_start({T0: end}, 0.0) is may
    rounds.start(order(10))
    assert not rounds.may_start({T0: 10**12}, 0.0)
    for future in reader.ends.values():
        future.set_result(RoundResult((), {}))
    rounds.close()


def test_a_round_that_was_cancelled_has_not_failed() -> None:
    """A stop cancels it: there is nothing to warn of, nothing to bisect and nothing to wait for."""

    class Cancelled(Reader):
        def read(self, order: StagingOrder) -> RoundResult:
            ended.result(10)
            raise RoundFailed("a round failed: cancelled", None)

    ended: Future[None] = Future()
    rounds = rounds_of(Cancelled(10, 1_000))
    with capture_logs() as logs:
        rounds.start(ORDER)
        rounds.cancel()
        ended.set_result(None)
        rounds._readings[0].future.exception(10)
        assert rounds.take(0.0) is None
    assert (rounds.failures, rounds.running, logs) == (0, False, [])


def fail(order: StagingOrder) -> RoundResult:
    raise RoundFailed("no")


def test_a_troubled_partition_waits_alone_and_a_poison_record_is_never_read() -> None:
    """The others go on at once; when it has waited its plan ends before what is poison."""
    reader = Reader(10, 1_000)
    rounds = rounds_of(reader)
    reader.read = fail  # type: ignore[method-assign]
    rounds.start(order(0))
    assert rounds._readings[0].future.exception(10) and rounds.take(100.0) is None
    both = (PartitionPlan(T0, 0, 0, 0, 10, {}), PartitionPlan(T0._replace(partition=1), 0, 0, 0, 10, {}))
    for _ in range(3):
        assert [plan.tp.partition for plan in rounds.choose(both, {}, 100.4)] == [1]
    assert rounds.may_start({}, 100.0)
    chosen = [plan for _ in range(2) for plan in rounds.choose(both, {T0: {4}}, 999.0)]
    assert {(plan.tp.partition, plan.end) for plan in chosen} == {(0, 4), (1, 10)}
    rounds.close()


def test_a_round_whose_executors_are_lost_is_tried_again_as_it_was() -> None:
    """After a pause, all of it; what is known of a record that failed before stays."""
    reader = Reader(10, 1_000)
    rounds = rounds_of(reader)
    reader.read = lose  # type: ignore[method-assign]
    rounds.raw = {T0: "read before"}
    both = order(0).plans | {T1: PartitionPlan(T1, 0, 0, 0, 10, {})}
    with capture_logs() as logs:
        for now in range(LOSSES_MAX):
            rounds.start(replace(ORDER, plans=both))
            assert isinstance(rounds._readings[0].future.exception(10), RoundFailed)
            assert rounds.take(100.0 * now) is None and not rounds.may_start({}, 100.0 * now)
            assert len(rounds.choose(tuple(both.values()), {}, 100.0 * now)) == 2
    assert [one["event"] for one in logs] == ["round_lost"] * LOSSES_MAX
    assert rounds.raw == {T0: "read before"} and not rounds.trouble.ailing
    rounds.close()


def test_what_was_read_of_a_record_stays_that_of_its_partition() -> None:
    """Two partitions with a bad record each fail by turns: a dead letter has its own record, not the other one's."""
    reader = Reader(10, 1_000)
    rounds = rounds_of(reader)
    for now, tp in enumerate((T0, T1)):

        def fails(order: StagingOrder, tp: TopicPartition = tp) -> RoundResult:
            raise RoundFailed("bad", raw=f"of {tp}")

        reader.read = fails  # type: ignore[method-assign]
        rounds.start(replace(ORDER, plans={tp: PartitionPlan(tp, 0, 0, 0, 1, {})}))
        assert isinstance(rounds._readings[0].future.exception(10), RoundFailed)
        assert rounds.take(100.0 * now) is None
    assert rounds.raw == {tp: f"of {tp}" for tp in (T0, T1)}
    rounds.close()


def lose(order: StagingOrder) -> RoundResult:
    raise RoundFailed("gone", lost=True)


def test_a_round_that_gets_no_executor_ends_the_task_instead_of_hanging() -> None:
    """As behind a master that was restarted and knows of no application; until then it is an outage."""
    reader, rounds = two_running()
    reader.has_executors = lambda: False  # type: ignore[method-assign]
    assert rounds.take(1_000.0) is None and rounds.starved
    assert rounds.take(1_000.0 + EXECUTORS_SECS_MAX) is None
    reader.has_executors = lambda: True  # type: ignore[method-assign]
    assert rounds.take(2_000.0) is None and not rounds.starved
    reader.has_executors = lambda: False  # type: ignore[method-assign]
    assert rounds.take(3_000.0) is None
    rounds.abandon()
    with pytest.raises(DependencyUnreachable, match="no executor for 181 s"):
        rounds.take(3_000.0 + EXECUTORS_SECS_MAX + 1)
    for future in reader.ends.values():
        future.set_result(RoundResult((), {}))
    rounds.close()


def test_the_time_of_a_round_does_not_run_while_it_has_no_executor() -> None:
    """Else it would time out, and count against what it reads."""
    reader, rounds = two_running()
    rounds._secs_max = 60.0
    start = rounds._readings[0].started
    reader.has_executors = lambda: False  # type: ignore[method-assign]
    for secs in (50.0, 60.0, 70.0):
        assert rounds.take(start + secs) is None and rounds.starved
    reader.has_executors = lambda: True  # type: ignore[method-assign]
    assert rounds.take(start + 80.0) is None and not reader.cancelled
    assert rounds.take(start + 129.0) is None and not reader.cancelled
    assert rounds.take(start + 131.0) is None and reader.cancelled
    for future in reader.ends.values():
        future.set_result(RoundResult((), {}))
    rounds.close()
