"""What all steps of one audit need to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from exporter.core.record_columns import RecordColumns
from exporter.core.routing import Routing
from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class PartitionLog:
    """One topic partition: log start, readable end and high watermark; what is read of it: [first, next)."""

    start: int
    end: int
    high_watermark: int
    first: int
    next: int


@dataclass(frozen=True)
class AuditJob:
    """What was asked for. compacted: the topics from which records may vanish. record_columns: those with a record's
    key and headers.
    """

    topics: tuple[str, ...]
    routing: Routing
    day: date | None
    from_offsets: Mapping[TopicPartition, int]
    compacted: frozenset[str]
    record_columns: RecordColumns = field(default_factory=RecordColumns)
