"""When a writer's staged files become a commit. Pure; the clock is the caller's, monotonic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from exporter.core.writers import Writer, WriterKey, Writers


class RollReason(str, Enum):
    """Why a writer rolls; the first that holds, in this order."""

    STOP = "stop"
    RECORDS = "records"
    BYTES = "bytes"
    AGE = "age"
    CROWDED = "crowded"
    COMPANY = "company"


@dataclass(frozen=True)
class RollLimits:
    """Limits per writer: staged rows, staged bytes, seconds since the oldest staged file. all_bytes_max: of all.

    together: the writers of a type roll whenever one of them does, so that its commit tells of all (protocol 4.12). By
    age they do anyway: each would be of that age soon, and have a commit of its own.
    """

    records_max: int
    bytes_max: int
    age_max_secs: float
    all_bytes_max: float = float("inf")
    together: bool = False


def due(writer: Writer, limits: RollLimits, now: float, stopping: bool = False) -> RollReason | None:
    """Why this writer must roll now, or None. All days of a writer roll together (traps 2)."""
    if not writer.staged or writer.claim is not None or writer.parked is not None:
        return None
    if stopping:
        return RollReason.STOP
    if writer.staged_rows >= limits.records_max:
        return RollReason.RECORDS
    if writer.staged_bytes >= limits.bytes_max:
        return RollReason.BYTES
    if now - writer.oldest_at >= limits.age_max_secs:
        return RollReason.AGE
    return None


def rolls(
    writers: Writers, limits: RollLimits, now: float, stopping: bool = False
) -> dict[str, dict[WriterKey, RollReason]]:
    """Event type -> its due writers: one commit carries all due partitions of a type."""
    found = {key: reason for key, writer in writers.items() if (reason := due(writer, limits, now, stopping))}
    found |= {key: RollReason.CROWDED for key in _largest(writers, limits) if key not in found}
    if names := {key.event_type for key, reason in found.items() if limits.together or reason is RollReason.AGE}:
        others = (key for key, writer in writers.items() if key.event_type in names and due(writer, limits, now, True))
        found = {**dict.fromkeys(others, RollReason.COMPANY), **found}
    by_type: dict[str, dict[WriterKey, RollReason]] = {}
    for key in sorted(found):
        by_type.setdefault(key.event_type, {})[key] = found[key]
    return by_type


def _largest(writers: Writers, limits: RollLimits) -> Iterator[WriterKey]:
    """If all writers together stage too much: the largest ones that may roll, until the others stage half of it."""
    left = sum(writer.staged_bytes for writer in writers.values())
    if left < limits.all_bytes_max:
        return
    left -= sum(writer.staged_bytes for writer in writers.values() if writer.claim is not None)
    for key in sorted(writers, key=lambda key: (-writers[key].staged_bytes, key)):
        writer = writers[key]
        if left * 2 <= limits.all_bytes_max:
            return
        if writer.staged and writer.claim is None and writer.parked is None:
            left -= writer.staged_bytes
            yield key
