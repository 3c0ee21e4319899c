"""Where a topic begins, whether its log was truncated; and the fixed assignment."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.errors import BrokerSilent, ConfigError, InvariantBroken
from exporter.kafka import static
from exporter.kafka.assignment import Assigned, Revoked
from exporter.kafka.static import StaticAssignment
from exporter.kafka.topics import FirstPosition, partitions_of
from exporter.protocol.truncation import TRUNCATION_READINGS, check_truncation
from offsets import Invariant
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.selection import Share

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOW = {"a": TopicIdentity("c1", "id-a", (0, 1)), "b": TopicIdentity("c1", "id-b", (0,))}


class Offsets:
    """Tells which question was asked."""

    def first_offsets(self, tps: Any) -> dict[TopicPartition, int]:
        """Where the log begins."""
        return dict.fromkeys(tps, 1)

    def end_offsets(self, tps: Any) -> dict[TopicPartition, int]:
        """Where the log ends."""
        return dict.fromkeys(tps, 9)

    def offsets_at(self, tps: Any, timestamp_ms: int) -> dict[TopicPartition, int]:
        """At a time."""
        return dict.fromkeys(tps, timestamp_ms)


@pytest.mark.parametrize(
    ("position", "begins"),
    [(FirstPosition(), 1), (FirstPosition("earliest"), 1), (FirstPosition("latest"), 9), (FirstPosition(5), 5),
     (FirstPosition(0), 0)],
)  # fmt: skip
def test_a_new_topic_begins_where_the_settings_say(position: FirstPosition, begins: int) -> None:
    """At its first record, at its end, or at a time, that of 1970 included."""
    assert position.offsets(Offsets(), [A0, B0]) == {A0: begins, B0: begins}


class Log:
    """A topic's log as the broker tells it: first offsets, and one high watermark per reading."""

    def __init__(self, *ends: int) -> None:
        self.ends = list(ends)

    def high_watermarks(self, tps: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, self.ends.pop(0))


def check(log: Any, most: int) -> list[float]:
    """The waits between the readings."""
    waits: list[float] = []
    check_truncation(log, {A0: most}, waits.append)
    assert not log.ends
    return waits


def test_a_log_that_goes_on_behind_the_tables_is_read_once():
    """An end right behind the positions is no truncation."""
    assert check(Log(20), 19) == []


def test_a_log_that_ends_before_the_tables_stops_after_three_readings():
    """An end that is back at the second or third reading was a change of the leader."""
    assert len(check(Log(15, 20), 19)) == 1
    assert len(check(Log(15, 15, 20), 19)) == 2
    with pytest.raises(InvariantBroken) as stopped:
        check(Log(*[15] * TRUNCATION_READINGS), 19)
    assert stopped.value.invariant is Invariant.MONOTONE
    assert "a-0: the log ends at 15, the tables are at 19: offsets 15..19" in stopped.value.message
    assert "repair --rebase" in stopped.value.hint


class Reader:
    """A broker whose topics change between two looks; None is one that does not answer."""

    def __init__(self, *looks: dict[str, TopicIdentity] | None) -> None:
        self.looks = list(looks)

    def identities(self) -> dict[str, TopicIdentity]:
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if found is None:
            raise BrokerSilent("silent")
        return found


class Consumer:
    """Only here to be closed."""

    def __init__(self, **options: Any) -> None:
        self._cluster = type("Cluster", (), {"config": {}})()


def assigned(monkeypatch: pytest.MonkeyPatch, share: str, *looks: Any) -> tuple[StaticAssignment, list[float]]:
    """An assignment and its clock, which stands until it is moved; the first look is taken by the constructor."""
    clock = [0.0]
    monkeypatch.setattr(static, "KafkaConsumer", Consumer)
    reader: Any = Reader(*looks)
    return StaticAssignment({}, "g", reader, Share.parse(share), 30.0, lambda: clock[0]), clock


def test_a_static_task_follows_what_its_share_holds(monkeypatch):
    """Assigned once; a new partition or topic later; a topic that is gone is given up. Ownership epochs rise."""
    grown = {**NOW, "c": TopicIdentity("c1", "id-c", (0, 1, 2))}
    task, clock = assigned(monkeypatch, "0/2", NOW, NOW, grown, {"c": grown["c"]})
    assert not task.is_spare()
    assert task.changes() == [Assigned(A0, 1), Assigned(B0, 2)]
    assert task.changes() == []
    clock[0] = 30.0
    assert task.changes() == [Assigned(TopicPartition("c", 0), 3), Assigned(TopicPartition("c", 2), 4)]
    clock[0] = 60.0
    assert task.changes() == [Revoked(A0, lost=True), Revoked(B0, lost=True)]
    assert not task.is_spare()


def test_a_silent_broker_takes_nothing_from_a_static_task(monkeypatch):
    """It is asked again soon, not only after the refresh."""
    task, clock = assigned(monkeypatch, "0", NOW, NOW, None, NOW)
    assert len(task.changes()) == 2
    clock[0] = 30.0
    assert task.changes() == []
    clock[0] = 31.0
    assert task.changes() == []
    assert not task.is_spare()


def test_a_static_task_without_a_partition_is_spare_once_it_has_looked(monkeypatch):
    """Not before: nothing is known then."""
    task, _ = assigned(monkeypatch, "2/3", NOW)
    assert not task.is_spare()
    assert task.changes() == []
    assert task.is_spare()


def test_a_static_task_says_what_does_not_protect_it(monkeypatch):
    """Once, as a warning: without a lease only the compare-and-set keeps tasks apart."""
    with capture_logs() as logs:
        assigned(monkeypatch, "1/4", NOW)
    (line,) = logs
    assert (line["event"], line["log_level"], line["partitions"]) == ("static_assignment", "warning", "1/4")
    assert "compare-and-set" in line["advice"]


def test_a_listed_partition_must_be_there_at_the_start(monkeypatch):
    """In at least one topic; it is a slip, and nobody would export it."""
    with pytest.raises(ConfigError, match="no topic has a partition 2"):
        assigned(monkeypatch, "1,2", NOW)
    assigned(monkeypatch, "1", NOW)
    assigned(monkeypatch, "1,2", {})


def test_partitions_are_listed_in_order():
    """By topic, then number."""
    assert partitions_of(NOW) == [A0, A1, B0]
