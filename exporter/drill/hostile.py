"""Records that have ended, stalled or misled an exporter once, among twenty types that hold every kind of column.

As everywhere in a drill, a record's key names the table that it must come to. Some have no key of their own choice
left (their key is what is wrong with them): it begins with the table's name and a bar.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from exporter.core.routing import DEAD_LETTERS
from exporter.drill.producer import NOON, DrillRecord, bad, record_of

COLUMNS = (
    "id BIGINT, n INT, price DECIMAL(12,2), ratio DOUBLE, name STRING, ok BOOLEAN, seen TIMESTAMP, "
    "planned TIMESTAMP_NTZ, due DATE, raw BINARY, tags ARRAY<STRING>, counts MAP<STRING, BIGINT>, "
    "device STRUCT<os: STRING, size: STRUCT<w: INT, h: INT>>"
)
TYPES = {f"event_{number:02}": COLUMNS for number in range(20)}
"""Twenty types with a column of each kind."""
HOSTILE_EVERY = 100
LARGE_KEY_BYTES = 100_000
NUMBERS = 20_000


def ordinary(number: int) -> DrillRecord:
    """The n-th good record; every fourth type has fields that its columns do not know."""
    kind = number % len(TYPES)
    fields: dict[str, Any] = {} if kind % 4 else {"extra": number, "more": {"a": [1, "x", None], "b": 1.5}}
    return _record(f"event_{kind:02}", number, fields)


def mixed(number: int) -> DrillRecord:
    """One in HOSTILE_EVERY is hostile, each kind in its turn."""
    if number % HOSTILE_EVERY:
        return ordinary(number)
    turn = number // HOSTILE_EVERY
    return KINDS[turn % len(KINDS)](turn)


def out_of_range(number: int) -> DrillRecord:
    """Every other record has a date or a time at, or just beyond, the edges of the calendar."""
    return ordinary(number) if number % 2 else beyond_the_calendar(number // 2)


def odd_times(number: int) -> DrillRecord:
    """Every tenth record has a Kafka timestamp that no producer should have given it."""
    return ordinary(number) if number % 10 else kafka_times(number // 10)


def beyond_the_calendar(turn: int) -> DrillRecord:
    """A date or a time just inside the years 1 to 9999 (UTC), or just outside."""
    column, text, inside = _EDGES[turn % len(_EDGES)]
    return _record(f"event_{turn % len(TYPES):02}", turn, {column: text}, "" if inside else DEAD_LETTERS)


_EDGES = (
    ("due", "0001-01-01", True),
    ("due", "9999-12-31", True),
    ("due", "0000-01-01", False),
    ("due", "10000-01-01", False),
    ("seen", "0001-01-01T00:00:00Z", True),
    ("seen", "9999-12-31T23:59:59.999999Z", True),
    ("seen", "9999-12-31T23:59:59-05:00", False),
    ("seen", "0001-01-01T00:00:00+01:00", False),
    ("planned", "0001-01-01T00:00:00", True),
    ("planned", "9999-12-31T23:59:59", True),
    ("planned", "0000-12-31T23:59:59", False),
)


def kafka_times(turn: int) -> DrillRecord:
    """The Kafka timestamp in microseconds or in nanoseconds instead of milliseconds."""
    record = _record(f"event_{turn % len(TYPES):02}", turn, {}, DEAD_LETTERS)
    return record._replace(timestamp_ms=record.timestamp_ms * (1_000, 1_000_000)[turn % 2])


def not_as_declared(turn: int) -> DrillRecord:
    """A value that its column cannot hold."""
    column, value = _UNFIT[turn % len(_UNFIT)]
    return _record(f"event_{turn % len(TYPES):02}", turn, {column: value}, DEAD_LETTERS)


_UNFIT: tuple[tuple[str, Any], ...] = (
    ("id", 2**63),
    ("n", 2**31),
    ("n", 1.5),
    ("price", "12345678901.00"),
    ("price", "1.001"),
    ("ratio", "much"),
    ("name", 5),
    ("ok", "true"),
    ("raw", "no base64!"),
    ("tags", {"a": 1}),
    ("counts", {"a": "b"}),
    ("device", []),
    ("device", {"size": {"w": "wide"}}),
)


def odd_text(turn: int) -> DrillRecord:
    """JSON that some readers take in another way than others do."""
    kind = f"event_{turn % len(TYPES):02}"
    head = f'{{"type": "{kind}", "at": "{NOON.isoformat()}", "id": {turn}'
    text, inside = _TEXTS[turn % len(_TEXTS)]
    return record_of(kind if inside else DEAD_LETTERS, (head + text).encode("utf-8", "surrogatepass"))


_TEXTS = (
    (', "name": "a\\u0000b"}', True),
    (', "name": "\U0001f600 \\ud83d\\ude00"}', True),
    (', "other": 1e400}', True),
    (', "other": -0.0, "name": ""}', True),
    (', "id": 1, "id": 2}', False),
    (', "name": "\udc00"}', False),
    (', "ratio": NaN}', False),
    (', "other": ' + "[" * 2_000 + "]" * 2_000 + "}", False),
    (', "name": "cut', False),
    ("} {}", False),
)


def many_numbers(turn: int) -> DrillRecord:
    """A field that no column knows, of very many small numbers."""
    return _record(f"event_{turn % len(TYPES):02}", turn, {"samples": list(range(NUMBERS))})


def alike(turn: int) -> DrillRecord:
    """Ten kilobytes that are the same each time and bad: next to nothing on disk, much in memory."""
    return record_of(DEAD_LETTERS, b'{"type": "event_00", "id": "' + b"x" * 10_000 + b'"}')


def large_key(turn: int) -> DrillRecord:
    """Nearly all of it is its key."""
    record = ordinary(turn * len(TYPES) + turn)
    return record._replace(key=record.key + b"|" + b"k" * LARGE_KEY_BYTES)


def too_long(size: int) -> DrillRecord:
    """Bytes that are all the same, and packed next to nothing."""
    return record_of(DEAD_LETTERS, b"x" * size)


KINDS: tuple[Callable[[int], DrillRecord], ...] = (
    bad,
    beyond_the_calendar,
    kafka_times,
    not_as_declared,
    odd_text,
    many_numbers,
    alike,
    large_key,
)


def _record(kind: str, number: int, fields: dict[str, Any], table: str = "") -> DrillRecord:
    """A record of a type with all its columns; `fields` win."""
    at = NOON - timedelta(days=number * 7 % 3, seconds=number % 1000)
    value = {
        "type": kind,
        "at": at.isoformat(),
        "id": number,
        "n": number % 1000 - 500,
        "price": f"{number % 100_000}.25",
        "ratio": number / 7,
        "name": f"n{number % 50}" * (number % 20),
        "ok": number % 3 == 0,
        "seen": at.isoformat(),
        "planned": at.replace(tzinfo=None).isoformat(),
        "due": at.date().isoformat(),
        "raw": base64.b64encode(b"r" * (number % 9)).decode(),
        "tags": [f"t{number % 5}"] * (number % 3),
        "counts": {"a": number},
        "device": {"os": "x", "size": {"w": number % 7, "h": 1}} if number % 2 else None,
        **fields,
    }
    return record_of(table or kind, json.dumps(value).encode())
