"""The naive checker of rules, on tables that are written by hand: what is right has no finding, what is wrong has one.

`a` takes every record whose `id` is greater than 3, `b` those that say so.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.shapes import Shape
from tests.support import naive
from tests.support.naive_record import Message
from tests.support.naive_rules import Plain
from tests.support.places import Folder

AT_US = 1_741_608_000_000_000
AT = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=AT_US)
US = pa.timestamp("us", "UTC")
KAFKA = pa.struct([
    ("topic", pa.string()), ("partition", pa.int32()), ("epoch", pa.int32()), ("offset", pa.int64()), ("timestamp", US),
])  # fmt: skip
OF_DEAD = [*((name, pa.string()) for name in ("event_type", "stage", "reason")), ("key", pa.binary())]
COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
ROUTING = Routing(
    TypeFrom("json", "type"), EventTime("record"), (("a", COLUMNS), ("b", COLUMNS)),
    matches=(("a", ".*"),), shapes=(("a", Shape(COLUMNS, where="id > 3")),),
)  # fmt: skip
SENT = [None, b'{"type":"b","id":5}', b'{"type":"b","id":1}', b'{"type":"b","id":"x"}', b'{"type":"c","id":4}', b"[]",
        b'{"type":"b","id":9}']  # fmt: skip
"""By their offsets."""


def row(offset: int, number: int) -> dict[str, Any]:
    return {"offset": offset, "id": number, "_event_time": AT}


def dead_letter(offset: int, of: str | None, stage: str) -> dict[str, Any]:
    return {"offset": offset, "event_type": of, "stage": stage, "reason": "r", "key": b"k", "value": SENT[offset]}


A, B = [row(1, 5), row(4, 4), row(6, 9)], [row(1, 5), row(2, 1), row(6, 9)]
DEAD = [
    dead_letter(0, None, "route"), dead_letter(3, "a", "decode"), dead_letter(3, "b", "decode"),
    dead_letter(5, None, "route"),
]  # fmt: skip
WHOLE, POISON = dead_letter(1, None, "route"), dead_letter(1, None, "condemned")


def write(root: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """A table at the position 6, from the beginning."""
    own = [*OF_DEAD, ("value", pa.binary())] if name == DEAD_LETTERS else [("id", pa.int64()), ("_event_time", US)]
    kafka = {"topic": "t", "partition": 0, "epoch": 0, "timestamp": AT}
    placed = [{**one, "_kafka": {**kafka, "offset": one["offset"]}, "day": AT.date()} for one in rows]
    table = pa.Table.from_pylist(placed, schema=pa.schema([("_kafka", KAFKA), *own, ("day", pa.date32())]))
    said = CommitProperties(app_transactions=[Transaction("app/t/0/0", 6), Transaction("app/anchor/t/0/0", -1)])
    write_deltalake(str(root / name), table, partition_by=["day"], commit_properties=said)
    log = root / name / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for metadata in (one["metaData"] for one in actions if "metaData" in one):
        metadata["configuration"] = {"exporter.app": "app"}
    log.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize(
    ("a", "b", "dead_letters", "found"),
    [
        (A, B, DEAD, []),
        (A[1:], B, DEAD, ["missing: a t-0: 1"]),
        (A, B[1:], DEAD, ["missing: b t-0: 1"]),
        ([*A, row(2, 1)], B, DEAD, ["in a table, but only to be counted: a t-0: 2"]),
        (A, [*B, row(1, 5)], DEAD, ["twice: b t-0: 1 (also in b)"]),
        (A, [*B, row(4, 4)], DEAD, ["in another table: b t-0: 4 (expected in a)"]),
        (A, [row(1, 6), *B[1:]], DEAD, ["different values: b t-0: 1"]),
        (A, B, DEAD[:1] + DEAD[2:], ["missing: dead_letters t-0: 3"]),
        (A, B, [*DEAD, WHOLE], [f"twice: {name} t-0: 1 (also in dead_letters)" for name in "ab"]),
        (A[1:], B[1:], [*DEAD, WHOLE], ["in another table: dead_letters t-0: 1 (expected in a)"]),
        (A[1:], B, [*DEAD, POISON], []),
        (A[1:], B[1:], [*DEAD, POISON], []),
    ],
)
def test_each_table_of_a_record_is_looked_at(
    a: Any, b: Any, dead_letters: Any, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row, a dead letter of the type, or a filter that takes it out; one of the whole record stands for all."""
    for name, rows in (("a", a), ("b", b), (DEAD_LETTERS, dead_letters)):
        write(tmp_path, name, rows)
    sent = {("t", 0, at): Message("t", 0, at, b"k", value, [], AT_US) for at, value in enumerate(SENT)}
    monkeypatch.setattr(naive, "_read", lambda lake: ({("t", 0): 0}, {("t", 0): 7}, sent))
    plain = Plain({"a": lambda value, _: value["id"] > 3})
    lake = naive.Lake("", ("t",), "", Folder(tmp_path), "app", json.loads(ROUTING.to_json()), plain=plain)
    assert naive.findings(lake) == found
