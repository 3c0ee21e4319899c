"""A sample of topics: a few stretches of each partition, spread over what is retained. No offset is committed.

    partition   |=====---------------=====---------------=====---------------=====|
                first                                                           end

A stretch is a range of offsets, of which the topic may hold fewer records. What cannot be read is told and passed over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from exporter.kafka.client import CLOSE_TIMEOUT_MS, opened
from exporter.log import hushed
from offsets.ranges import TopicPartition

STRETCHES = 4
"""Of one partition: its beginning, its end, and two places between."""
STALL_SECS = 20.0
"""How long nothing of a stretch may come."""
POLL_MS = 500


class SampledRecord(NamedTuple):
    """One record. timestamp_ms: since 1970; None if it has none. value: None too if it is longer than was asked for.

    value_bytes: how long it is; None for a tombstone.
    """

    tp: TopicPartition
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    value_bytes: int | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class SampledOffsets(NamedTuple):
    """A range of offsets of one partition."""

    tp: TopicPartition
    offsets: range


def quotas(sizes: Mapping[TopicPartition, int], count: int) -> dict[TopicPartition, int]:
    """How many of `count` records each partition gives: the same of all, as far as they have so many. Pure."""
    found: dict[TopicPartition, int] = {}
    left = count
    for at, (tp, size) in enumerate(sorted(sizes.items(), key=lambda one: (one[1], one[0]))):
        share = -(-left // (len(sizes) - at))
        found[tp] = max(0, min(size, share))
        left -= found[tp]
    return found


def stretches(first: int, end: int, quota: int) -> list[range]:
    """Disjoint ranges of `quota` offsets of first..end-1 in all: the beginning, the end, then places between. Pure."""
    if quota <= 0 or end <= first:
        return []
    if end - first <= quota:
        return [range(first, end)]
    parts = min(STRETCHES, quota)
    sizes = [quota // parts + (at < quota % parts) for at in range(parts)]
    if parts == 1:
        return [range(first, first + quota)]
    room, gaps, begin = end - first - quota, parts - 1, first
    found = []
    for at, size in enumerate(sizes):
        found.append(range(begin, begin + size))
        begin += size + room * (at + 1) // gaps - room * at // gaps
    return [found[0], found[-1], *found[1:-1]]


def spread(first: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], count: int) -> list[SampledOffsets]:
    """The stretches of a sample of `count` records, all beginnings first, then all ends. Pure."""
    wanted = quotas({tp: max(0, end[tp] - first[tp]) for tp in end}, count)
    found = [
        (order, SampledOffsets(tp, offsets))
        for tp, quota in sorted(wanted.items())
        for order, offsets in enumerate(stretches(first[tp], end[tp], quota))
    ]
    return [stretch for _, stretch in sorted(found, key=lambda one: (one[0], one[1].tp))]


class Sample:
    """The records of some stretches, read as they are asked for. unread: what could not be read, in words."""

    def __init__(
        self, client: Mapping[str, Any], wanted: Sequence[SampledOffsets], isolation: str, bytes_max: int
    ) -> None:
        """client: keywords of kafka-python's clients. bytes_max: of a value that is kept."""
        self._client = client
        self._wanted = wanted
        self._isolation = isolation
        self._bytes_max = bytes_max
        self.unread: list[str] = []

    def __iter__(self) -> Iterator[SampledRecord]:
        from kafka import KafkaConsumer
        from kafka.errors import KafkaError

        with hushed("kafka"):  # what matters is told
            consumer = opened(
                KafkaConsumer,
                **self._client, group_id=None, enable_auto_commit=False, auto_offset_reset="none",
                isolation_level=self._isolation,
            )  # fmt: skip
            try:
                for stretch in self._wanted:
                    try:
                        yield from self._read(consumer, stretch)
                    except KafkaError as error:
                        self._tell(stretch, f"{type(error).__name__}: {error}")
            finally:
                with suppress(KafkaError):
                    consumer.close(timeout_ms=CLOSE_TIMEOUT_MS)

    def _read(self, consumer: Any, stretch: SampledOffsets) -> Iterator[SampledRecord]:
        from kafka import TopicPartition as KafkaTopicPartition

        at, stop = KafkaTopicPartition(*stretch.tp), stretch.offsets.stop
        consumer.assign([at])
        consumer.seek(at, stretch.offsets.start)
        position, since = stretch.offsets.start, time.monotonic()
        while position < stop:
            for record in consumer.poll(timeout_ms=POLL_MS, max_records=stop - position).get(at, ()):
                if record.offset < stop:
                    yield self._taken(stretch.tp, record)
            if (now_at := consumer.position(at)) > position:
                position, since = now_at, time.monotonic()
            elif time.monotonic() - since > STALL_SECS:
                self._tell(stretch, f"nothing came from offset {position} on for {STALL_SECS:.0f} s")
                return

    def _taken(self, tp: TopicPartition, record: Any) -> SampledRecord:
        value: bytes | None = record.value
        size = None if value is None else len(value)
        known = None if record.timestamp is None or record.timestamp < 0 else int(record.timestamp)
        kept = value if size is not None and size <= self._bytes_max else None
        return SampledRecord(tp, record.offset, known, record.key, kept, size, tuple(record.headers or ()))

    def _tell(self, stretch: SampledOffsets, why: str) -> None:
        self.unread.append(f"{stretch.tp} from offset {stretch.offsets.start} on: {why}")
