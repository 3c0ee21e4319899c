"""Who else is in the group: a run with an end means all partitions, by whoever they are exported, or says which not."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.errors import BrokerSilent, FoundProblem
from exporter.kafka.topics import GroupMember
from exporter.task.others import FOREIGN_LOOKS, LOOK_SECS, TELL_SECS, Others, nobody
from offsets.ranges import TopicPartition

P0, P1, P2 = (TopicPartition("events", partition) for partition in range(3))
ENDS = {P0: 10, P1: 10, P2: 0}


def member(client: str, *tps: TopicPartition) -> GroupMember:
    return GroupMember(f"{client}-id", client, "/10.0.0.7", frozenset(tps))


class Group:
    """Its members and how far the tables are, as the test sets them; None is a broker that does not answer."""

    def __init__(self, *members: GroupMember) -> None:
        self.members: Any = members
        self.positions = {P1: -1, P2: -1}
        self.looks = 0
        self.others = Others(self._members, lambda: list(ENDS), self._positions, 60.0)
        self.now = 1000.0

    def _members(self) -> Any:
        if self.members is None:
            raise BrokerSilent("silent")
        return self.members

    def _positions(self, tps: Any) -> dict[TopicPartition, int]:
        self.looks += 1
        return {tp: at for tp, at in self.positions.items() if tp in tps}

    def finished(self, *mine: TopicPartition) -> bool:
        """At the next moment at which it looks."""
        self.now += LOOK_SECS
        return self.others.finished(mine, ENDS, self.now)


def test_what_is_all_mine_needs_no_look() -> None:
    """A task alone in its group ends as soon as it is caught up."""
    group = Group()
    assert group.finished(P0, P1, P2)
    assert group.looks == 0
    assert nobody().finished([], ENDS, 0.0)


def test_partitions_of_other_exporters_are_waited_for() -> None:
    """As long as they move, and until all tables hold them up to their ends; an empty partition is at its end."""
    group = Group(member("exporter-a", P0), member("exporter-b", P1, P2))
    for at in (-1, 3, 8):
        group.positions[P1] = at
        group.now += 50
        assert not group.finished(P0)
    group.positions[P1] = 9
    assert group.finished(P0)


def test_looks_are_paced() -> None:
    """Each reads all tables."""
    group = Group(member("exporter-b", P1))
    assert not group.finished(P0)
    assert not group.others.finished([P0], ENDS, group.now + LOOK_SECS / 2)
    assert group.looks == 1


def test_an_exporter_that_stands_is_given_up() -> None:
    """After give_up_secs without a step: its partitions are told, how far they are, and whose they are."""
    group = Group(member("exporter-b", P1, P2))
    group.positions[P1] = 3
    assert not group.finished(P0)
    group.now += 60.0
    with pytest.raises(FoundProblem, match=r"events-1 through 3 of 9; they are with exporter-b at 10\.0\.0\.7\n"):
        group.finished(P0)


def test_a_partition_of_a_foreign_member_is_a_problem_at_once() -> None:
    """Nobody exports it; but not at the first look, at which it may be on its way to this task."""
    group = Group(member("exporter-a", P0), member("flink-7", P1))
    for _ in range(FOREIGN_LOOKS):
        assert not group.finished(P0)
    with pytest.raises(FoundProblem, match=r"they are with flink-7 at 10\.0\.0\.7 \(no exporter\)"):
        group.finished(P0)


def test_a_foreign_member_that_goes_in_time_is_no_problem() -> None:
    """What it had becomes this task's."""
    group = Group(member("flink-7", P1))
    for _ in range(FOREIGN_LOOKS):
        assert not group.finished(P0)
    group.members = (member("exporter-a", P0, P1, P2),)
    assert not group.finished(P0), "not handed over yet"
    assert group.finished(P0, P1, P2)


def test_who_is_in_the_group_and_no_exporter_is_told_once() -> None:
    """With what it is assigned; again when another one comes. Exporters are not worth a word."""
    group = Group(member("exporter-a", P0), member("flink-7", P1))
    with capture_logs() as logs:
        for _ in range(3):
            group.others.tell(group.now)
            group.now += TELL_SECS
        group.members = (*group.members, member("spark", P2))
        group.others.tell(group.now)
    assert [(line["event"], line["log_level"], line["members"]) for line in logs] == [
        ("foreign_members", "warning", ["flink-7 at 10.0.0.7"]),
        ("foreign_members", "warning", ["flink-7 at 10.0.0.7", "spark at 10.0.0.7"]),
    ]
    assert logs[0]["partitions"] == ["events-1"]
    assert group.others.who == "; in the group and no exporter: flink-7 at 10.0.0.7, spark at 10.0.0.7"
    group.members = None
    group.others.tell(group.now + TELL_SECS)
