"""Batches of formats 0 and 1 as brokers of before 0.11 wrote them: recorded from Kafka's own Java classes.

golden/older_batches.json: each codec, both kinds of timestamp, offsets of 0 and beyond 32 bits. `records` is what the
same classes read: offset, timestamp, key and value in base64.
"""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from exporter.fetch.batches import log_batches, require_whole, seen
from exporter.fetch.reader import FetchPart, arrow
from offsets.ranges import TopicPartition

RECORDED = json.loads((Path(__file__).parents[2] / "golden" / "older_batches.json").read_text())
TYPES = {"none": -1, "create": 0, "append": 1}


def read(raw: bytes, start: int = 0, end: int = 1 << 40) -> list[dict[str, Any]]:
    batches = [*log_batches(raw)]
    for one in batches:
        require_whole(one, raw)
    part = FetchPart(raw, TopicPartition("orders", 3), start, end, 1 << 20)
    found = arrow(part, [*seen(batches, raw, [])])
    return [row for batch in found for row in batch.to_pylist()]


def as_recorded(row: dict[str, Any]) -> list[Any]:
    key, value = (None if one is None else base64.b64encode(one).decode() for one in (row["key"], row["value"]))
    return [row["offset"], row["kafka_ms"], key, value]


def named(one: dict[str, Any]) -> str:
    return "{format}-{codec}-{timestamps}".format(**one)


@pytest.mark.parametrize("one", RECORDED, ids=named)
def test_an_older_batch_is_read_as_kafka_itself_reads_it(one: dict[str, Any]) -> None:
    """Alone, behind and before another one, and a part of it."""
    raw, wanted = base64.b64decode(one["bytes"]), one["records"]
    rows = read(raw)
    assert [as_recorded(row) for row in rows] == wanted
    assert {row["timestampType"] for row in rows} == {TYPES[one["timestamps"]]}
    assert not any(row["headers"] for row in rows)
    assert read(raw + raw) == rows + rows
    first, last = wanted[0][0], wanted[-1][0]
    assert read(raw, first + 1, last) == rows[1:-1]


@pytest.mark.parametrize("one", RECORDED[::2], ids=named)
def test_an_older_batch_of_which_a_byte_was_turned_over_is_refused(one: dict[str, Any]) -> None:
    """Of its first message all but the offset and the length, which no checksum covers."""
    raw = base64.b64decode(one["bytes"])
    (size,) = struct.unpack_from(">i", raw, 8)
    for at in range(12, 12 + size):
        spoilt = bytearray(raw)
        spoilt[at] ^= 0x41
        with pytest.raises(ValueError):
            read(bytes(spoilt))
