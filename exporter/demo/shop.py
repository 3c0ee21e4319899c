"""Made-up events of a web shop: what the demo exports, and what the tests and the benchmark count.

Ten event types (shop_types.py) with different schemas and very different frequencies share one topic, to which
produce.py writes them. Their days are out of order, and some records are bad, each in a known way and number.
Everything follows from (seed, count, partitions): the same call puts the same bytes at the same offsets of a fresh
topic, so a test knows what must be in each table. Must never read a clock: all times lie around BASE_DAY.

    partition p holds the records with seq = p, p + partitions, p + 2 * partitions, ... in this order
    record seq is bad if seq % bad_every == bad_every - 1, and BAD_KINDS take turns
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cache
from random import Random
from typing import Any, NamedTuple

from exporter.demo.shop_types import BASE_DAY, EVENT_TYPES

DAYS_LATE_MAX = 5
"""How many days before its Kafka timestamp an event may have happened. Some come up to an hour ahead of it."""

RECORD_BYTES_MAX = 65_536
"""What `record_bytes_max` must be set to for the over_long records to be refused; they are twice as long."""

BAD_EVERY = 500
"""One record in so many is bad, unless told otherwise. 0: none."""

BAD_KINDS = (
    "unknown_type",
    "tombstone",
    "broken_json",
    "type_mismatch",
    "absurd_event_time",
    "missing_event_time",
    "missing_type",
    "invalid_utf8",
    "over_long",
    "unknown_fields",
)
"""In the order in which they take turns. All end as dead letters but unknown_fields: that one is exported, with what
the schema does not know in `_rescued` (while the setting `unknown_fields` is rescue)."""

_BODIES = 256
_USERS = 16_384
_MILLIS_PER_DAY = 86_400_000
_MILLIS_PER_HOUR = 3_600_000
_BASE_MILLIS = int(datetime(BASE_DAY.year, BASE_DAY.month, BASE_DAY.day, tzinfo=timezone.utc).timestamp()) * 1000


class ShopEvent(NamedTuple):
    """One record. bad: one of BAD_KINDS, or "". timestamp_ms: its Kafka timestamp, ms since 1970."""

    event_type: str
    bad: str
    key: bytes
    value: bytes | None
    timestamp_ms: int


@dataclass
class ShopTally:
    """What was made: rows each table must end with, bad records by kind, records and bytes in all."""

    rows: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    records: int = 0
    value_bytes: int = 0

    @property
    def dead_letters(self) -> int:
        """How many rows the table of dead letters must end with."""
        return self.bad.total() - self.bad["unknown_fields"]

    def add(self, event: ShopEvent) -> None:
        """Count one more event in the tally."""
        self.records += 1
        self.value_bytes += len(event.value or b"")
        if event.bad:
            self.bad[event.bad] += 1
        if event.bad in ("", "unknown_fields"):
            self.rows[event.event_type] += 1


def schemas() -> dict[str, str]:
    """Declared event type -> Spark DDL."""
    return {event_type.name: event_type.ddl for event_type in EVENT_TYPES}


def events(
    seed: int, count: int, partition: int = 0, partitions: int = 1, bad_every: int = BAD_EVERY
) -> Iterator[ShopEvent]:
    """The records of one partition in offset order, out of `count` in all partitions."""
    random = Random(f"{seed}/{partition}/{partitions}")
    bodies, lateness, clock = _bodies(seed), _lateness(seed), _clock()
    names = [event_type.name for event_type in EVENT_TYPES for _ in range(event_type.share)]
    days = {day: f"{BASE_DAY + timedelta(day)}".encode() for day in range(-DAYS_LATE_MAX - 1, 2)}
    bits, users_each = random.getrandbits, max(1, _USERS // partitions)
    for seq in range(partition, count, partitions):
        drawn = bits(64)
        name = names[(drawn & 0xFFFF) % 1000]
        user = (drawn >> 16 & 0xFFFF) % users_each * partitions + partition  # a user stays in one partition
        now = seq * _MILLIS_PER_DAY // count
        day, of_day = divmod(now - lateness[drawn >> 32 & 0x3FF] - (drawn >> 42 & 0x3FF), _MILLIS_PER_DAY)
        value = b'{"type":"%b","seq":%d,"ts":"%b%b.%03dZ","user_id":%d,"session":"%012x",%b}' % (
            name.encode(),
            seq,
            days[day],
            clock[of_day // 1000],
            of_day % 1000,
            user,
            (drawn >> 16 & 0xFFFF_FFFF) * 0x9E37,
            bodies[name][drawn >> 56],
        )
        event = ShopEvent(name, "", b"user-%d" % user, value, _BASE_MILLIS + now)
        if bad_every and seq % bad_every == bad_every - 1:
            event = _spoilt(event, BAD_KINDS[seq // bad_every % len(BAD_KINDS)])
        yield event


def tally(seed: int, count: int, partitions: int = 1, bad_every: int = BAD_EVERY) -> ShopTally:
    """What produce() with the same arguments makes, without making it."""
    total = ShopTally()
    for partition in range(partitions):
        for event in events(seed, count, partition, partitions, bad_every):
            total.add(event)
    return total


def _spoilt(event: ShopEvent, kind: str) -> ShopEvent:
    """The same record, bad in one way."""
    fields = json.loads(event.value or b"{}")
    if kind == "tombstone":
        return event._replace(bad=kind, value=None)
    if kind == "broken_json":
        return event._replace(bad=kind, value=(event.value or b"")[:-40])
    if kind == "invalid_utf8":
        spoilt = (event.value or b"").replace(b'"session":"', b'"session":"\xff\xfe', 1)
        return event._replace(bad=kind, value=spoilt)
    if kind == "missing_type":
        del fields["type"]
    elif kind == "unknown_type":
        fields["type"] = "newsletter_opened"
    else:
        _SPOIL[kind](fields)
    return event._replace(bad=kind, value=_json(fields))


_SPOIL: dict[str, Callable[[dict[str, Any]], object]] = {
    "type_mismatch": lambda fields: fields.update(user_id={"name": "nobody"}),
    "absurd_event_time": lambda fields: fields.update(ts=f"2925{fields['ts'][4:]}"),
    "missing_event_time": lambda fields: fields.pop("ts"),
    "over_long": lambda fields: fields.update(padding="x" * (2 * RECORD_BYTES_MAX)),
    "unknown_fields": lambda fields: fields.update(experiment={"name": "green_button", "arm": 2}, beta=True),
}


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


@cache
def _bodies(seed: int) -> dict[str, list[bytes]]:
    """ShopEvent type -> ready pieces of JSON, without the braces: making each event anew would be slow."""
    random = Random(seed)
    return {
        event_type.name: [_json(event_type.body(random))[1:-1] for _ in range(_BODIES)] for event_type in EVENT_TYPES
    }


@cache
def _clock() -> list[bytes]:
    """The text of each second of a day, as it stands in an ISO time."""
    return [b"T%02d:%02d:%02d" % (second // 3600, second // 60 % 60, second % 60) for second in range(86_400)]


@cache
def _lateness(seed: int) -> list[int]:
    """1024 delays in ms from event time to Kafka timestamp: mostly seconds, some hours, few days, few ahead."""
    random = Random(seed)
    hour, latest = _MILLIS_PER_HOUR, DAYS_LATE_MAX * _MILLIS_PER_DAY - 1024
    spans = [(850, 0, 30_000), (100, 60_000, 2 * hour), (40, 2 * hour, 24 * hour), (24, 24 * hour, latest)]
    return [random.randint(low, high) for many, low, high in spans for _ in range(many)] + [-hour] * 10
