"""Values that name their schemas by ids: where a task's reading ends, and what its manifest says of that (3.8)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.evolve import Evolution, Evolutions
from exporter.core.manifest import MICROS, RoundResult
from exporter.core.order import StagingOrder
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, UnknownId
from exporter.core.value_format import ValueFormat
from exporter.core.writers import Fragment, PartitionPlan
from exporter.errors import InvariantBroken
from exporter.executor import framing
from exporter.executor.stage import stage
from exporter.formats.formats import FORMATS
from exporter.formats.schema_columns import FromSchemas
from exporter.rounds.told import round_result
from offsets.ranges import TopicPartition
from tests.support import orders
from tests.support.fake_schemas import FRAMED, TEXT, FramedPairs, value
from tests.unit.executor.test_stage import SCHEMA, batch

TP = TopicPartition("topic.with.dots", 3)
ROUTING = Routing(
    TypeFrom("json", "type"), EventTime("record"), (("a", SCHEMA), ("b", SCHEMA)), value_format=FRAMED
)
BOUNDS = {DEAD_LETTERS: -1, "a": -1, "b": -1}
KNOWN = KnownSchemas({7: (TEXT,), 6: (TEXT,), 8: (UnknownId({TP: 10_000}),)})


@pytest.fixture(autouse=True)
def framed_pairs(monkeypatch):
    """The format of these tests."""
    monkeypatch.setitem(FORMATS, "avro", FramedPairs)


def sent(schema_id: int, name: str = "a", n: object = 1) -> bytes:
    return value(schema_id, f"n={n};type={name}")


def order_of(root: Path, schemas: KnownSchemas, start: int = 0, end: int = 100, **more: Any) -> StagingOrder:
    plan = PartitionPlan(TP, 1, 2, start, end, dict.fromkeys(BOUNDS, start - 1))
    order = orders.order_of(root, ROUTING, {TP: plan}, {}, {TP: {"routing": "r"}}, schemas=schemas)
    return replace(order, **more)


def result(order: StagingOrder, *tasks: Iterable[pa.RecordBatch]) -> RoundResult:
    """Of a round of some tasks, each with its batches."""
    rows = []
    for batches in tasks:
        (manifest,) = stage(order, iter(batches))
        rows += manifest.to_pylist()
    return round_result(order, rows)


def staged(fragment: Fragment) -> dict[str, list[tuple[int, int]]]:
    files = {name: [one.offsets for one in some] for name, some in fragment.files.items()}
    return {name: [(one.first_offset, one.last_offset) for one in some] for name, some in files.items()}


def records(*values: bytes, first: int = 0) -> pa.RecordBatch:
    return batch(values, first)


def test_a_partition_ends_before_the_first_record_whose_schema_is_missing(tmp_path):
    """What is behind it is neither staged nor counted, but for the ids that are missing there, too."""
    told = result(
        order_of(tmp_path, KNOWN),
        [records(sent(7), sent(7, "b"), sent(9), sent(7), sent(5)), records(sent(7), sent(4), first=5)],
    )
    (fragment,) = told.fragments
    assert (fragment.plan.start, fragment.plan.end, fragment.missing) == (0, 2, {9, 5, 4})
    assert staged(fragment) == {"a": [(0, 0)], "b": [(1, 1)]}
    assert told.counts["records"] == 2


def test_nothing_is_missing_where_everything_is_decided(tmp_path):
    """The whole range is covered; an unknown schema makes a dead letter, whatever else is wrong with the record."""
    told = result(order_of(tmp_path, KNOWN), [records(sent(7), sent(8), sent(8, "no such type"), b"\0no", sent(7))])
    (fragment,) = told.fragments
    assert (fragment.plan.end, fragment.missing) == (100, frozenset())
    assert staged(fragment) == {"a": [(0, 4)], DEAD_LETTERS: [(1, 3)]}
    assert told.counts["dead_letters:unknown_schema_id"] == 2


def test_a_dead_letter_keeps_the_value_that_could_not_be_read(tmp_path):
    """With its frame, so that it can be read once there is a text."""
    order = order_of(tmp_path, KNOWN, carried_bytes=1_000_000)
    (fragment,) = result(order, [records(sent(8))]).fragments
    (file,) = fragment.files[DEAD_LETTERS]
    (row,) = pa.ipc.open_stream(file.body).read_all().to_pylist()
    assert (row["value"], row["stage"], row["reason"]) == (sent(8), "route", "unknown_schema_id: 8")


def test_a_reading_may_end_at_its_first_record(tmp_path):
    """Then nothing of the range is covered."""
    (fragment,) = result(order_of(tmp_path, KNOWN, start=10), [records(sent(9), sent(7), first=10)]).fragments
    assert (fragment.plan.end, fragment.missing, staged(fragment)) == (10, {9}, {})


def test_a_poison_record_ends_no_reading(tmp_path):
    """It is a dead letter already, whatever its frame says."""
    order = order_of(tmp_path, KNOWN, poison_offsets={TP: frozenset({1})})
    (fragment,) = result(order, [records(sent(7), sent(9), sent(7))]).fragments
    assert (fragment.plan.end, staged(fragment)) == (100, {"a": [(0, 2)]})


def test_of_several_tasks_the_first_end_counts(tmp_path):
    """What the others staged behind it is left to the sweep, and neither counted nor told."""
    slices = [
        [records(sent(7), sent(6))],
        [records(sent(7), sent(9), sent(7), first=2)],
        [records(sent(7), sent(7), first=5)],
        [records(sent(3), sent(7), first=7)],
    ]
    for tasks in (slices, slices[::-1]):
        told = result(order_of(tmp_path, KNOWN), *tasks)
        (fragment,) = told.fragments
        assert (fragment.plan.end, fragment.missing) == (3, {9, 3})
        assert staged(fragment) == {"a": [(0, 1), (2, 2)]}
        assert told.counts["records"] == 3
        assert fragment.met == {"a": {"6", "7"}}
    assert all(name.startswith(MICROS) or name in ("records", "bytes", "rescued", "ignored", "truncated")
               for name in told.counts)  # fmt: skip


def test_a_file_beyond_the_end_breaks_the_round(tmp_path):
    """Each task ends its own files where it ends: anything else would cover what was not read (COVER)."""
    order = order_of(tmp_path, KNOWN)
    (manifest,) = stage(order, iter([records(sent(7), sent(7))]))
    ended = {"topic": TP.topic, "partition": TP.partition, "first_offset": 0,
             "ended": json.dumps({"end": 1, "missing": [9]})}  # fmt: skip
    rows = [*manifest.to_pylist(), {**dict.fromkeys(manifest.schema.names), **ended}]
    with pytest.raises(InvariantBroken, match="COVER"):
        round_result(order, rows)


def test_only_so_many_missing_ids_are_told(tmp_path, monkeypatch):
    """Garbage may have one in each record; the first is always among them."""
    monkeypatch.setattr(framing, "MISSING_MAX", 3)
    batches = [records(*(sent(1_000 - at) for at in range(2))), records(*(sent(at) for at in range(50)), first=2)]
    (fragment,) = result(order_of(tmp_path, KNOWN), batches).fragments
    assert fragment.missing == {1_000, 999, 0} and fragment.plan.end == 0


@pytest.mark.parametrize("schema_ids", [(7, 7, 7), (7, 6, 8)])
def test_a_manifest_tells_by_which_schemas_rows_were_written(tmp_path, schema_ids: Sequence[int]):
    """Those of rows that are staged for the type."""
    values = [sent(one) for one in schema_ids]
    (fragment,) = result(order_of(tmp_path, KNOWN), [records(*values, sent(6, n="x"), sent(7, "b"))]).fragments
    assert fragment.met == {"a": {str(one) for one in schema_ids} - {"8"}, "b": {"7"}}


def test_each_topic_has_its_format(tmp_path):
    """Of one round: values of a topic without frames are read as they are."""
    other = TopicPartition("plain", 3)
    routing = replace(ROUTING, topic_formats=(("pl.*n", replace(FRAMED, frame="none")),))
    plans = {tp: PartitionPlan(tp, 1, 2, 0, 9, BOUNDS) for tp in (TP, other)}
    order = order_of(tmp_path, KNOWN, routing=routing, plans=plans, footers={tp: {} for tp in plans})
    fragments = result(order, [records(sent(9)), batch([sent(7), sent(9)[:4]], topic="plain")]).fragments
    assert {one.plan.tp: (one.plan.end, one.missing) for one in fragments} == {TP: (0, {9}), other: (9, frozenset())}


def test_the_manifest_names_the_schemas_that_records_bring_along(tmp_path):
    """Of types whose tables may grow, and only where a record holds what no column does: the first one says it all."""
    schema = {"type": "struct", "fields": [{"type": "int64", "field": "n"}, {"type": "int64", "field": "m"}]}
    sent = [json.dumps({"schema": schema, "payload": payload}).encode() for payload in ({"n": 1}, {"n": 2, "m": 3})]
    routing = Routing(
        TypeFrom("topic"), EventTime("record"), ((TP.topic, SCHEMA),), value_format=ValueFormat("connect_json")
    )
    plan = PartitionPlan(TP, 1, 2, 0, 100, {DEAD_LETTERS: -1, TP.topic: -1})
    for values, evolutions, count in ((sent, Evolutions(Evolution(infers=False)), 1), (sent, Evolutions(), 0),
                                      (sent[:1], Evolutions(Evolution(infers=False)), 0)):  # fmt: skip
        order = replace(order_of(tmp_path, KNOWN), routing=routing, plans={TP: plan}, evolutions=evolutions)
        (fragment,) = result(order, [records(*values)]).fragments
        keys = sorted(fragment.met.get(TP.topic, ()))
        assert [json.loads(one.removeprefix("carried:")) for one in keys] == [schema] * count
        columns = [FromSchemas(routing).of_key(key, KNOWN, TP.topic) for key in keys]
        assert [one.name for found in columns for one in found] == ["n", "m"] * count
