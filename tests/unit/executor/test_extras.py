"""Columns with something of the record: filled by a task, for tables that have them or are to have them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.arrow.own_columns import CDC_TYPE, HEADERS_TYPE
from exporter.core.manifest import REASON, TOMBSTONES
from exporter.core.order import TableTarget
from exporter.core.record_columns import RecordColumns
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.core.writers import PartitionPlan
from exporter.executor.extras import with_key, without_empty
from exporter.executor.stage import stage
from offsets.names import table_folder
from offsets.ranges import TopicPartition
from tests.support.orders import order_of
from tests.unit.executor.test_stage import batch

TP = TopicPartition("logs", 0)
RAW = Routing(TypeFrom("topic"), EventTime("record"), (), new_type="table", value_format=ValueFormat("bytes"))
ALL = RecordColumns("_key", "_headers", "time_is")
HEADERS = [[], [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}], [], None]
KEYS = [None, b"", b"\xff\x00", b"k"]


def records(values: list[bytes | None]) -> pa.RecordBatch:
    count = len(values)
    kinds = [0, 1, -1, 0][:count]
    return batch(values, topic=TP.topic, partition=[0] * count, key=KEYS[:count], timestampType=kinds,
                 timestamp=[1_790_000_000_000_000] * count, headers=HEADERS[:count])  # fmt: skip


def staged(root: Path, batch: pa.RecordBatch, routing: Routing = RAW, **given: Any) -> tuple[dict[str, Any], Any]:
    """Event type -> rows of its only file; and what was counted."""
    plan = PartitionPlan(TP, 1, 0, 0, 100, {DEAD_LETTERS: -1})
    order = order_of(root, routing, {TP: plan}, new_types_max=9, **given)
    (manifest,) = stage(order, iter([batch]))
    rows = manifest.to_pylist()
    counts = [json.loads(row["counts"]) for row in rows if row["counts"] and row["topic"]]
    files = {row["event_type"]: root / table_folder(row["event_type"]) / row["path"] for row in rows if row["path"]}
    return {name: pq.read_table(file, partitioning=None).to_pylist() for name, file in files.items()}, counts[0]


def test_a_table_has_of_the_record_what_the_settings_name(tmp_path: Path) -> None:
    """Key, headers and the kind of the timestamp, byte for byte, null where a record has none."""
    rows = staged(tmp_path, records([b"a", b"b", b"c", b"d"]), record_columns=ALL)[0]["logs"]
    assert [row["_key"] for row in rows] == KEYS
    assert [row["_headers"] for row in rows] == [one or None for one in HEADERS]
    assert [row["time_is"] for row in rows] == ["CreateTime", "LogAppendTime", None, "CreateTime"]
    assert [row["value"] for row in rows] == [b"a", b"b", b"c", b"d"]


def test_only_what_is_named_is_there_and_only_where_a_table_can_have_it(tmp_path: Path) -> None:
    """A drain and a replay fill the columns that a table has already."""
    batch = records([b"a"])
    one = staged(tmp_path / "1", batch, record_columns=RecordColumns(key="_key"))[0]["logs"][0]
    assert one.keys() == {"_kafka", "_event_time", "value", "_rescued", "_key"}
    has_one, has_none = ({"logs": TableTarget(kept=frozenset(one))} for one in (["time_is"], []))
    some = staged(tmp_path / "2", batch, record_columns=ALL, tables=has_one)[0]["logs"][0]
    assert some.keys() == {"_kafka", "_event_time", "value", "_rescued", "time_is"}
    none = staged(tmp_path / "3", batch, record_columns=ALL, tables=has_none)[0]["logs"][0]
    assert none.keys() == {"_kafka", "_event_time", "value", "_rescued"}


@pytest.mark.parametrize("counted", [False, True])
def test_a_record_without_a_value_is_a_dead_letter_or_counted(tmp_path: Path, counted: bool) -> None:
    """Counted ones are in no table, whatever else is wrong with them."""
    routing = replace(RAW, value_format=ValueFormat("bytes", tombstones="count")) if counted else RAW
    rows, counts = staged(tmp_path, records([b"a", None, None, b"d"]), routing)
    assert [row["_kafka"]["offset"] for row in rows["logs"]] == [0, 3]
    assert [row["_kafka"]["offset"] for row in rows.get(DEAD_LETTERS, [])] == ([] if counted else [1, 2])
    assert counts.get(TOMBSTONES, 0) == (2 if counted else 0)
    assert counts.get(f"{REASON}tombstone", 0) == (0 if counted else 2)
    assert counts["records"] == 4


@pytest.mark.parametrize("counted", [False, True])
def test_the_null_of_a_union_is_a_record_without_a_value(tmp_path: Path, counted: bool) -> None:
    """As a null is, whatever its event type would be; its dead letter keeps the bytes that were sent."""
    text = SchemaText("AVRO", '["null",{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}]')
    form = ValueFormat("avro", "confluent", tombstones="count" if counted else "dead_letter")
    head = b"\0\0\0\0\7"
    batch = records([head + b"\2\4", head + b"\0", None, head + b"\0\0"])
    for source, table in ((TypeFrom("schema", "short"), "R"), (TypeFrom("key"), "k")):
        root = tmp_path / table
        routing = replace(RAW, type_from=source, value_format=form, new_type="table", unrouted="count")
        rows, counts = staged(root, batch, routing, schemas=KnownSchemas({7: [text]}))
        dead_letters = {row["_kafka"]["offset"]: (row["reason"][:12], row["value"]) for row in rows[DEAD_LETTERS]}
        if not counted:
            assert dead_letters.pop(1) == ("tombstone: t", head + b"\0")
            assert dead_letters.pop(2) == ("tombstone: t", None)
        assert counts.get(TOMBSTONES, 0) == (2 if counted else 0)
        assert dead_letters.pop(3) == ("trailing_byt", head + b"\0\0")
        if table == "R":
            assert [row["_kafka"]["offset"] for row in rows["R"]] == [0] and not dead_letters


def test_what_was_done_to_a_row_gets_its_key_as_text() -> None:
    """In base64 where it is none."""
    made = pa.array([{"op": "I", "ts": None, "source": "s.t", "key": None, "pos": "1"}] * 3 + [None], CDC_TYPE)
    found = with_key(pa.chunked_array([made.slice(0, 1), made.slice(1)]), pa.array([None, b"k", b"\xff", b"x"]))
    assert found.type == CDC_TYPE
    assert [row and row["key"] for row in found.to_pylist()] == [None, "k", "/w==", None]
    assert [row and row["op"] for row in found.to_pylist()] == ["I", "I", "I", None]
    assert with_key(pa.chunked_array([], CDC_TYPE), pa.array([], pa.binary())).to_pylist() == []


def test_headers_that_are_none_are_null() -> None:
    """Kafka has no empty list of headers."""
    assert without_empty(pa.array(HEADERS, HEADERS_TYPE)).to_pylist() == [one or None for one in HEADERS]
