"""Made-up events of a web shop: what the demo exports, and what the tests and the benchmark count.

Ten event types with different schemas and very different frequencies share one topic; their days are out of order;
some records are bad, each in a known way and number. Everything follows from (seed, count, partitions): the
same call gives the same bytes at the same offsets, so a test knows what must be in each table.
Must never read a clock: all times lie around BASE_DAY.

    partition p holds the records with seq = p, p + partitions, p + 2 * partitions, ... in this order
    record seq is bad if seq % bad_every == bad_every - 1, and BAD_KINDS take turns
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from functools import cache
from random import Random
from typing import Any, NamedTuple

BASE_DAY = date(2025, 3, 10)
"""The day of all Kafka timestamps, UTC, and of most event times. In the past for every broker's clock."""

RECORD_BYTES_MAX = 65_536
"""What `record_bytes_max` must be set to for the records of kind over_long to be refused; they are twice as long."""

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
"""In the order in which they take turns. All but unknown_fields end as dead letters; that one is exported, with
what the schema does not know in `_rescued` (while `unknown_fields` = rescue)."""

TYPE_HEADER = "event-type"
"""Name of the record header that repeats the event type when headers are asked for."""

_BODIES = 256
_USERS = 50_000
_MILLIS_PER_DAY = 86_400_000
_BASE_MILLIS = int(datetime(BASE_DAY.year, BASE_DAY.month, BASE_DAY.day, tzinfo=timezone.utc).timestamp()) * 1000
_DAYS_LATE_MAX = 5


class Event(NamedTuple):
    """One record. kind: the event type, or "bad:<kind>". timestamp_ms: the Kafka timestamp, ms since 1970."""

    kind: str
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


@dataclass(frozen=True)
class EventType:
    """One declared type. weight: its share in percent. body: makes the fields of one event, but for the common ones."""

    name: str
    weight: float
    columns: str
    body: Callable[[Random], dict[str, Any]] = field(repr=False)

    @property
    def ddl(self) -> str:
        """All columns as Spark DDL, the common ones first."""
        return f"seq BIGINT, ts TIMESTAMP, user BIGINT, {self.columns}"


def schemas() -> dict[str, str]:
    """Declared event type -> Spark DDL."""
    return {kind.name: kind.ddl for kind in EVENT_TYPES}


def events(
    seed: int, count: int, partition: int = 0, partitions: int = 1, bad_every: int = BAD_EVERY, headers: bool = False
) -> Iterator[Event]:
    """The records of one partition, in offset order, out of `count` in all partitions."""
    random = Random(f"{seed}/{partition}/{partitions}")
    bodies, picks = _bodies(seed), _picks()
    days, clock, millis = _time_pieces()
    bits = random.getrandbits
    for seq in range(partition, count, partitions):
        now = seq * _MILLIS_PER_DAY // count
        drawn = bits(64)
        name = picks[drawn & 1023]
        late = _late_millis(drawn >> 10 & 0xFFFF, drawn >> 26 & 0xFFFF)
        user = drawn >> 42 & 0x3FFF
        day, of_day = divmod(now - late, _MILLIS_PER_DAY)
        ts = days[day] + clock[of_day // 1000] + millis[of_day % 1000]
        body = bodies[name][drawn >> 56]
        user = user * partitions + partition  # a user's events stay in one partition
        value = b'{"type":"%b","seq":%d,"ts":"%b","user":%d,%b}' % (name.encode(), seq, ts, user, body)
        event = Event(name, b"user-%d" % user, value, [(TYPE_HEADER, name.encode())] if headers else [], _BASE_MILLIS + now)
        bad = bad_every and seq % bad_every == bad_every - 1
        yield _spoilt(event, BAD_KINDS[seq // bad_every % len(BAD_KINDS)]) if bad else event
