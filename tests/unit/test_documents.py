"""The tests' own plain reader of documents: what it puts together, and that it tells a spoilt row."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from tests.support.documents import differences, documents

US = pa.timestamp("us", "UTC")
JSON = {b"exporter.json": b"value"}
SCHEMA = pa.schema([
    ("_kafka", pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])),
    ("_event_time", US), ("at", US), ("on", pa.date32()), ("price", pa.decimal128(10, 2)), ("raw", pa.binary()),
    ("f", pa.float32()), ("l", pa.list_(pa.struct([("x", pa.int64())]))),
    pa.field("m", pa.map_(pa.string(), pa.string()), metadata=JSON), ("_rescued", pa.string()), ("day", pa.date32()),
])  # fmt: skip
SENT = (
    b'{"type":"a","at":"2025-01-01T02:00:00.1234567+02:00","on":"2025-01-01","price":"1.5","raw":"AP8=","f":0.1,'
    b'"l":[{"x":1,"y":2.50},null],"m":{"k":[1.0,"t"]},"u":{"n":null,"v":[1e2]}}'
)
ROW: dict[str, Any] = {
    "_kafka": {"topic": "t", "partition": 0, "offset": 7},
    "at": datetime(2025, 1, 1, 0, 0, 0, 123456, timezone.utc),
    "on": date(2025, 1, 1), "price": Decimal("1.50"), "raw": b"\x00\xff", "f": 0.1, "l": [{"x": 1}, None],
    "m": [("k", '[1, "t"]')], "_rescued": '{"l":[{"y":2.5},null],"u":{"v":[100]}}', "day": date(2025, 1, 1),
}  # fmt: skip


def table(folder: Path, **changed: Any) -> deltalake.DeltaTable:
    deltalake.write_deltalake(folder, pa.Table.from_pylist([{**ROW, **changed}], schema=SCHEMA))
    return deltalake.DeltaTable(folder)


def test_a_right_row_is_the_document_that_was_sent(tmp_path: Path) -> None:
    """Columns of each type, JSON in a map, what is left in `_rescued`; the field that is let go of is nowhere."""
    found = documents(table(tmp_path))
    assert differences(found, {("t", 0, 7): SENT}, ["$.type"]) == []
    assert differences(found, {("t", 0, 7): SENT}) == [(("t", 0, 7), "$.type", "a", None)]


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"at": datetime(2025, 1, 1, tzinfo=timezone.utc)}, "$.at"), ({"on": None}, "$.on"),
        ({"price": Decimal("1.51")}, "$.price"), ({"raw": b""}, "$.raw"), ({"f": 0.2}, "$.f"),
        ({"l": [None, {"x": 1}]}, "$.l[0].x"), ({"m": [("k", '[1, "u"]')]}, "$.m.k[1]"),
        ({"_rescued": None}, "$.l[0].y"),
    ],
)  # fmt: skip
def test_a_spoilt_row_is_told(tmp_path: Path, changed: dict[str, Any], path: str) -> None:
    """One changed, lost or moved value."""
    found = differences(documents(table(tmp_path, **changed)), {("t", 0, 7): SENT}, ["$.type"])
    assert found[0][1] == path


def test_only_of_a_row_without_rescued_may_be_missing_what_has_nothing_in_it(tmp_path: Path) -> None:
    """At any depth, in what a column has of an object too; never a value."""
    bare = SENT.replace(b',"y":2.50', b',"y":{"z":[null,{}]}').replace(b"[1e2]", b"[[]]")
    found = documents(table(tmp_path, _rescued=None))
    assert differences(found, {("t", 0, 7): bare}, ["$.type"]) == []
    told = differences(found, {("t", 0, 7): bare.replace(b"[[]]", b'[[""]]')}, ["$.type"])
    assert [(path, sent) for _, path, sent, _ in told] == [("$.u", {"n": None, "v": [[""]]})]
    held = documents(table(tmp_path / "held", _rescued='{"w":1}'))
    told = differences(held, {("t", 0, 7): bare[:-1] + b',"w":1}'}, ["$.type"])
    assert [path for _, path, _, _ in told] == ["$.l[0].y", "$.u"]


def test_a_row_and_a_record_without_the_other_are_told(tmp_path: Path) -> None:
    """Whole, under their coordinates."""
    found = differences(documents(table(tmp_path)), {("t", 0, 8): b"{}"})
    assert [(at, path) for at, path, _, _ in found] == [(("t", 0, 8), "$"), (("t", 0, 7), "$")]
