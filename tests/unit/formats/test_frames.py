"""Frames in front of values: ids, what is missing, what is decided, which schemas rows were written by."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.schemas import NO_SCHEMAS, KnownSchemas, UnknownId
from exporter.core.value_format import JSON, ValueFormat
from exporter.formats.frames import NO_ID, confluent_ids, framed, readable, row_schemas
from exporter.formats.places import places_of
from offsets.ranges import TopicPartition
from tests.support.fake_schemas import FRAMED, TEXT, value

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
PROTOBUF = ValueFormat("protobuf", "confluent")


def binary(*values: bytes | None) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def offsets(count: int, first: int = 100) -> pa.Int64Array:
    return pa.array(range(first, first + count), pa.int64())


def records(values: pa.BinaryArray) -> pa.RecordBatch:
    return pa.record_batch({"offset": offsets(len(values)), "value": values})


@given(st.lists(st.none() | st.binary(max_size=8) | st.integers(0, 2**32 - 1).map(lambda i: value(i, "a")), max_size=9))
def test_ids_are_those_that_each_value_says_by_itself(values):
    """Whatever its neighbours are, and whatever part of an array it stands in."""
    expected = [
        int.from_bytes(one[1:5], "big") if one is not None and len(one) >= 5 and one[0] == 0 else NO_ID
        for one in values
    ]
    assert confluent_ids(binary(*values)).tolist() == expected
    assert confluent_ids(binary(b"xyz", *values).slice(1)).tolist() == expected


def test_values_of_other_formats_have_no_frames():
    """Nothing is looked at."""
    assert framed(records(binary(value(7, "a"))), TP, JSON, KnownSchemas()) is None
    assert framed(records(binary()), TP, FRAMED, KnownSchemas()) is None


def test_each_record_is_decided_by_the_first_decision_that_speaks_of_it():
    """Unknown through an offset of its partition, then the text; what nothing speaks of is missing."""
    known = KnownSchemas(
        {7: (UnknownId({TP: 101}), UnknownId({TP: 102, OTHER: 103}), TEXT), 8: (UnknownId({TP: 100}),)}
    )
    values = binary(*[value(7, "")] * 4, value(8, ""), value(9, ""), b"none", value(9, ""))
    found = framed(records(values), TP, FRAMED, known)
    assert found.unknown == dict.fromkeys((0, 1, 2), "unknown_schema_id: 7")
    assert found.missing == {8: 4, 9: 5}
    assert found.end == 4
    assert found.before(2).unknown == dict.fromkeys((0, 1), "unknown_schema_id: 7")
    assert framed(records(values), OTHER, FRAMED, known).unknown == dict.fromkeys(range(4), "unknown_schema_id: 7")


def test_values_of_unknown_schemas_are_hidden_from_who_reads_values():
    """They are null; the others are as they were."""
    batch = pa.record_batch({"offset": offsets(2), "value": binary(value(7, "a"), value(8, "b"))})
    known = KnownSchemas({7: (TEXT,), 8: (UnknownId({TP: 200}),)})
    found = framed(batch, TP, FRAMED, known)
    assert readable(batch, found)["value"].to_pylist() == [value(7, "a"), None]


def test_rows_tell_the_schemas_that_they_were_written_by():
    """By id; rows without a frame by none."""
    values = binary(value(7, "a"), b"none", value(8, "b"), value(7, "c"))
    found = row_schemas(confluent_ids(values), None)
    assert [found.of(pa.array(rows, pa.int32())) for rows in ([0, 3], [1], [1, 2], [0, 1, 2, 3])] == [
        ["7"], [], ["8"], ["7", "8"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "place"),
    [
        (b"\x00", ""), (b"\x02\x00", ""), (b"\x02\x02", "1"), (b"\x04\x02\x00", "1.0"), (b"\x02\x80\x01", "64"),
        (b"\x0e" + b"\x02" * 7, "1.1.1.1.1.1.1"), (b"\x10" + b"\x02" * 8, "1.1.1.1.1.1.1.1"), (b"", ""),
        (b"\x01", ""), (b"\x04\x02", ""), (b"\x02\x01", ""), (b"\xff\xff", ""),
    ],
)  # fmt: skip
def test_a_message_has_its_place_in_its_file(head, place):
    """As Confluent writes it: varints in zigzag; what cannot be read is the reader's to refuse."""
    tail = b"" if place == "" and head not in (b"\x00", b"\x02\x00") else b"\xff\x07"
    values = binary(value(7, "") + head + tail, value(7, "") + b"\x00", value(7, "") + b"\x02\x04")
    ids = confluent_ids(values)
    found = row_schemas(ids, places_of(values, ids, PROTOBUF, NO_SCHEMAS))
    assert found.of(pa.array([0])) == [f"7:{place}" if place else "7"]
    assert found.of(pa.array([1, 2])) == ["7", "7:2"]
