"""Gaps that retention has made: seen, committed up to, then left to start-up. No Kafka."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from exporter.core.writers import Writer, WriterKey
from exporter.errors import InvariantBroken
from exporter.task.retention import Retention
from offsets.ranges import TopicPartition
from tests.support.snapshots import P0, P1, writer


class Topic:
    """first: the log's start of P0. end: where it ends."""

    def __init__(self) -> None:
        self.first, self.end = 0, 100
        self.checked: list[dict[TopicPartition, int]] = []

    def first_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.first if tp == P0 else 0 for tp in tps}

    def high_watermarks(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, self.end)

    def check_topics(self, positions: dict[TopicPartition, int]) -> None:
        self.checked.append(positions)


def watched() -> tuple[Topic, Retention]:
    topic: Any = Topic()
    return topic, Retention(topics=topic, known=topic)


def writers(frontier: int) -> dict[WriterKey, Writer]:
    return {WriterKey("order", tp): writer("order", tp, 4, frontier) for tp in (P0, P1)}


def test_a_partition_with_a_gap_is_recovered_once_what_it_staged_is_committed() -> None:
    """And once nothing is under way; the others go on."""
    topic, one = watched()
    one.check({P0: (4, 4), P1: (4, 4)}, writers(9))
    assert (one.gapped, topic.checked) == (set(), [{P0: 4, P1: 4}])
    topic.first = 12
    one.check({P0: (4, 4), P1: (4, 4)}, writers(9))
    assert one.gapped == {P0}
    assert one.tick(writers(9), idle=True) == set()
    assert one.tick(writers(4), idle=False) == set()
    assert one.tick(writers(4), idle=True) == {P0} and one.gapped == set()


def test_what_was_read_already_is_no_gap() -> None:
    """Its offsets may be gone: they are staged."""
    topic, one = watched()
    topic.first = 10
    one.check({P0: (4, 4)}, writers(9))
    assert one.gapped == set()


def test_a_log_that_ends_before_the_tables_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was truncated (protocol 5.4)."""
    monkeypatch.setattr("exporter.protocol.truncation.TRUNCATION_READINGS", 1)
    topic, one = watched()
    topic.end = 4
    with pytest.raises(InvariantBroken, match="truncated"):
        one.check({P0: (4, 4)}, writers(4))
