"""The greatest times that the tasks of a round tell, and how they come to a fragment (protocol 4.12)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.valid_through import ALL, Basis, as_ms
from exporter.core.writers import PartitionPlan
from exporter.executor.stage import stage
from exporter.rounds.told import round_result
from offsets.ranges import TopicPartition
from tests.support.orders import order_of
from tests.unit.executor.test_stage import SCHEMA, batch

P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)
NOON_MS = as_ms("2026-11-26T12:00:00.000Z")
ROUTING = Routing(TypeFrom("json", "type"), EventTime("json", "at"), (("a", SCHEMA), ("b", SCHEMA)))
Sent = tuple[int, int, str, str]
"""Partition, record time in seconds after noon, type, event time."""
SENT = [
    (0, 3, "a", "2026-11-26T11:00:00Z"),
    (0, 9, "b", "2026-11-26T10:00:00.0019Z"),
    (0, 5, "a", "2026-11-26T09:00:00Z"),
    (1, 1, "a", "not a time"),
]


def tasks_tell(root: Path, basis: Basis, *tasks: Sequence[Sent], first: int = 0) -> dict[int, dict[str, int]]:
    """Partition -> what its fragment has, of a round of some tasks."""
    bounds = {DEAD_LETTERS: first - 1, "a": first - 1, "b": first - 1}
    plans = {tp: PartitionPlan(tp, 1, 0, first, 99, bounds) for tp in (P0, P1)}
    order = order_of(root, ROUTING, plans, times=basis)
    rows, offset = [], 0
    for sent in tasks:
        (manifest,) = stage(order, iter([records(sent, offset)]))
        rows += manifest.to_pylist()
        offset += len(sent)
    return {one.plan.tp.partition: dict(one.times) for one in round_result(order, rows).fragments}


def records(sent: Sequence[Sent], first: int) -> pa.RecordBatch:
    values = [json.dumps({"type": name, "n": 1, "at": at}).encode() for _, _, name, at in sent]
    micros = [(NOON_MS + secs * 1000) * 1000 + 999 for _, secs, *_ in sent]
    return batch(values, first, topic="events", partition=[partition for partition, *_ in sent], timestamp=micros)


@pytest.mark.parametrize(
    ("basis", "told"),
    [
        ("", {0: {}, 1: {}}),
        ("record", {0: {ALL: NOON_MS + 9000}, 1: {ALL: NOON_MS + 1000}}),
        (
            "event",
            {
                0: {"a": NOON_MS - 3_600_000, "b": NOON_MS - 7_200_000 + 1},
                1: {DEAD_LETTERS: NOON_MS + 1000},  # bad: by Kafka's time
            },
        ),
    ],
)
def test_a_round_tells_the_greatest_times_that_it_is_asked_for(
    tmp_path: Path, basis: Basis, told: dict[int, dict[str, int]]
) -> None:
    """Of each partition, whole milliseconds, over all of its tasks; nothing where nobody asks."""
    assert tasks_tell(tmp_path / "one", basis, SENT) == told
    assert tasks_tell(tmp_path / "two", basis, SENT[:1], SENT[1:3], SENT[3:]) == told


def test_without_the_question_a_manifest_has_no_row_more(tmp_path: Path) -> None:
    """Off costs nothing: rows for the files, the counts of each partition and the steps, as ever."""
    plans = {P0: PartitionPlan(P0, 1, 0, 0, 99, {DEAD_LETTERS: -1, "a": -1, "b": -1})}
    order = order_of(tmp_path, ROUTING, plans)
    (manifest,) = stage(order, iter([records(SENT[:3], 0)]))
    assert manifest.column("times").null_count == manifest.num_rows == 4


def test_times_that_no_table_can_hold_are_not_told(tmp_path: Path) -> None:
    """A producer's nanoseconds for milliseconds: such a record is a dead letter, and says nothing of the others."""
    far = (0, 100 * 365 * 86_400 * 100, "a", "2026-11-26T11:00:00Z")
    assert tasks_tell(tmp_path, "record", [SENT[0], far]) == {0: {ALL: NOON_MS + 3000}, 1: {}}
