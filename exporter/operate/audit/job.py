"""What all steps of one audit need to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from exporter.core.record_columns import RecordColumns
from exporter.core.routing import Routing
from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class Log:
    """One topic partition: log start, readable end and high watermark; what is read of it: [first, next)."""

    start: int
    end: int
    high_watermark: int
    first: int
    next: int


@dataclass(frozen=True)
class Job:
    """What all steps of one audit need. compacted: the topics from which records may vanish.

    client: keywords of kafka-python's clients. careful: what Spark's source may not survive is read by
    careful.py. content_share: of the records, whose contents are compared whole; None: as many as frames.py says.
    record_columns: those with a record's key and headers.
    """

    session: Any
    topics: tuple[str, ...]
    routing: Routing
    kafka_options: Mapping[str, str]
    day: date | None
    from_offsets: Mapping[TopicPartition, int]
    compacted: frozenset[str]
    client: Mapping[str, Any] = field(default_factory=dict)
    careful: bool = False
    content_share: float | None = None
    record_columns: RecordColumns = field(default_factory=RecordColumns)
