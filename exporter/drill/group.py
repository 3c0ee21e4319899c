"""A guest in the exporter's consumer group: it takes partitions, exports nothing, and leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

JOIN_SECS_MAX = 15.0


@contextmanager
def guest(options: Mapping[str, Any], group: str, topic: str) -> Iterator[None]:
    """A member as long as the block lasts, from the moment that it was given a partition (or JOIN_SECS_MAX)."""
    consumer = KafkaConsumer(
        **options,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="latest",
        partition_assignment_strategy=[CooperativeStickyAssignor],
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
    )
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + JOIN_SECS_MAX
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(timeout_ms=100)
        yield
    finally:
        consumer.close(timeout_ms=3000)
