"""How long an audit waits for records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import kafka
import pytest

from exporter.operate.audit import records
from exporter.operate.audit.records import STALL_SECS, AuditedOffsets, AuditedTopic
from offsets.ranges import TopicPartition

TP = TopicPartition("events", 0)
ALL = AuditedOffsets(TP, 0, 3)


class Topic:
    """Gives a record each poll, up to `there`, and takes half a second for a poll that brings none."""

    def __init__(self, clock: list[float], there: int) -> None:
        self._clock, self._there, self._at = clock, there, 0
        self._cluster = SimpleNamespace(config={})

    def end_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, ALL.end)

    def poll(self, timeout_ms: int) -> dict[Any, list[Any]]:
        if self._at == self._there:
            self._clock[0] += timeout_ms / 1000
            return {}
        self._at += 1
        found = {"offset": self._at - 1, "timestamp": 0, "timestamp_type": 0, "key": b"", "value": b"", "headers": ()}
        return {kafka.TopicPartition(*TP): [SimpleNamespace(**found)]}

    def position(self, partition: Any) -> int:
        return self._at

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def taken(monkeypatch: pytest.MonkeyPatch, there: int, secs_each: float) -> list[int]:
    """The offsets that came, of a topic that has so many to give; whoever takes one has seconds to do for it."""
    clock = [0.0]
    monkeypatch.setattr(kafka, "KafkaConsumer", lambda **_: Topic(clock, there))
    monkeypatch.setattr(records, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    found = []
    for stretch in AuditedTopic({}, "read_committed", 1).stretches([ALL]):
        found += [record.offset for record in stretch.records]
        clock[0] += secs_each
    return found


def test_what_is_done_with_a_record_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic has given what was asked for."""
    assert taken(monkeypatch, ALL.end, 2 * STALL_SECS) == [0, 1, 2]


def test_a_topic_that_gives_nothing_more_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says from which offset on."""
    with pytest.raises(TimeoutError, match="events-0: nothing came from offset 2 on for 60 s"):
        taken(monkeypatch, 2, 0.0)
