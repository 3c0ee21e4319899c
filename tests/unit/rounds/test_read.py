"""A round that failed: what its error tells of the record that it failed on."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.writers import PartitionPlan
from exporter.errors import RoundFailed
from exporter.fetch import ranges
from exporter.rounds.read import RoundReader, to_the_end
from offsets.ranges import TopicPartition
from tests.support.orders import order_of

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ORDER = order_of("/lake", Routing(TypeFrom("json", "type"), EventTime("record"), ()), {})
DAMAGED = "exporter.fetch.batches.CorruptBatch: no"
READ = pa.table({"offset": [0]})


def failed(unreadable: dict[int, str], *plans: PartitionPlan) -> RoundFailed:
    """The error of a round of the plans. unreadable: offset -> what its raw read raises."""
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2, master="local[2]"), conf=None)
    reader = RoundReader(session, {"bootstrap_servers": ["b:1"]})

    def raw(wanted: ranges.RangeWanted) -> Any:
        assert wanted.end == wanted.start + 1
        if wanted.start in unreadable:
            raise RuntimeError(unreadable[wanted.start])
        return READ

    reader._raw = raw  # type: ignore[method-assign]
    order = replace(ORDER, plans={plan.tp: plan for plan in plans})
    return reader._failed(order, RuntimeError("a worker died"))


def plan(start: int, end: int, tp: TopicPartition = T0) -> PartitionPlan:
    return PartitionPlan(tp, 0, 0, start, end, {})


@pytest.mark.parametrize("end", [6, 9])
def test_the_first_record_of_one_partition_is_read_raw(end: int) -> None:
    """That it can be tells that the broker answers; of a single record it is the record itself."""
    assert failed({7: "no"}, plan(5, end)).raw is READ


def test_several_partitions_are_not_looked_at() -> None:
    """Nobody knows yet which one it is."""
    assert failed({}, plan(5, 6), plan(5, 6, T1)).raw is None


@pytest.mark.parametrize("beside", [4, 6])
def test_a_record_that_cannot_be_read_while_a_neighbour_can_is_told_by_its_coordinates(beside: int) -> None:
    """The one on either side will do; the error says why it was not read."""
    other = {4: 6, 6: 4}[beside]
    error = failed({5: "it takes too much", other: "no"}, plan(5, 6))
    assert "a worker died; nor can it be read alone: RuntimeError: it takes too much" in error.message
    (row,) = error.raw.to_pylist()
    assert (row["topic"], row["partition"], row["offset"]) == ("orders", 0, 5)
    assert row["key"] is row["value"] is row["timestamp"] is None


@pytest.mark.parametrize(
    ("unreadable", "end"),
    [({5: "no", 4: "no", 6: "no"}, 6), ({5: DAMAGED}, 6), ({5: "no"}, 9)],
    ids=["nothing is read", "a damaged batch", "no single record"],
)
def test_what_the_broker_may_be_to_blame_for_counts_against_no_record(unreadable: dict[int, str], end: int) -> None:
    """It may answer later, or have a replica that is whole."""
    assert failed(unreadable, plan(5, end)).raw is None


def test_rows_of_spark_s_are_read_to_their_end_whatever_a_task_leaves() -> None:
    """Such as one whose storage is out. A range of Kafka's is left where it is."""
    rows = iter(range(5))
    assert [*to_the_end(lambda batches: [next(batches)])(rows)] == [0]
    assert next(rows, None) is None
