"""Through which time a table has all rows, as its commits say: valid_through (protocol 4.12). Pure.

Times are milliseconds since 1970; 0: none. The promise holds for input that is ordered by them, and is an estimate
for any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from typing import Literal

from offsets.ranges import TopicPartition

Basis = Literal["", "record", "event"]
"""Which times are told: none, those of the records as Kafka has them, or event times."""
Mode = Literal["off", "strict", "idle_aware"]
ALL = ""
"""Among the greatest times by event type: that of all records, whatever their type."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def latest(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """The greater one of each name."""
    return {name: max(some.get(name, 0), more.get(name, 0)) for name in {**some, **more}}


def time_of(times: Mapping[str, int], event_type: str) -> int:
    """The greatest time that counts for a type: of its rows, or of all records."""
    return times.get(event_type, times.get(ALL, 0))


def valid_through(
    times: Mapping[TopicPartition, int],
    partitions: Collection[TopicPartition],
    idle: Collection[TopicPartition] = (),
    before_ms: int = 0,
) -> int:
    """What one commit may say; 0: nothing, for a partition takes no part.

    times: of the commit's claims. partitions: all that the topics have. idle: those that have nothing beyond their
    position in this table, looked at after every claim was frozen. before_ms: what was said before; it never goes back.
    """
    told = [times.get(tp, 0) for tp in partitions if times.get(tp, 0) or tp not in idle]
    return max(min(told) - 1, before_ms) if told and all(told) else 0


def silent(times: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]) -> set[TopicPartition]:
    """The partitions that take no part in a commit."""
    return {tp for tp in partitions if not times.get(tp, 0)}


def idle(
    tps: Collection[TopicPartition], positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> set[TopicPartition]:
    """Those that have nothing beyond their position. ends: the offsets after the last record, readable or not.

    One without a position has none of its records in the table yet.
    """
    return {tp for tp in tps if tp in ends and ends[tp] <= positions.get(tp, -1) + 1}


def as_text(time_ms: int) -> str:
    """ISO 8601, UTC, with milliseconds: what is stored and shown."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_ms(text: str) -> int:
    """The milliseconds of such a text; 0 for an empty one, or any other."""
    try:
        return (datetime.fromisoformat(text.replace("Z", "+00:00")) - _EPOCH) // timedelta(milliseconds=1)
    except (AttributeError, TypeError, ValueError):
        return 0
