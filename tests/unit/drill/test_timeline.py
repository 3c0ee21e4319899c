"""The timeline of a run: whose commits landed, and when a strike was recovered from; without any service."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import cast

from exporter.drill.lateness import Turn
from exporter.drill.record import PARTS, RunRecord
from exporter.drill.tasks import Task
from exporter.drill.timeline import Timeline, owned, turns
from exporter.local.children import LoggedEvent
from exporter.local.plain import PlainCommit, PlainLake


@dataclass
class FakeTask:
    """A task that has said this."""

    name: str
    pid: int
    started_at: float = 0.0
    said: list[LoggedEvent] = field(default_factory=list)
    ended_at: float | None = None

    def events(self) -> list[LoggedEvent]:
        """So far."""
        return self.said

    def first(self, name: str) -> LoggedEvent | None:
        """None if it has not said so."""
        return next((one for one in self.said if one.name == name), None)


class FakeLake:
    """Tells what was put into it once."""

    def __init__(self) -> None:
        self.new: list[PlainCommit] = []

    def look(self) -> list[PlainCommit]:
        """What is new."""
        told, self.new = self.new, []
        return told

    def orphans(self) -> int:
        """Of no interest here."""
        return 3


def commit(pid: int, at: float, partition: str = "t-0", action: str = "") -> PlainCommit:
    """A commit of a task to a partition."""
    return PlainCommit("click", 1, at, f"host:{pid}:a", action, "WRITE", 10, {partition: (-1, 9)})


def test_the_first_commit_of_another_task_to_what_was_owned_ends_a_recovery() -> None:
    """Not one of the victim, nor one to another partition, nor a commit that claims nothing."""
    record, lake = RunRecord("s", 1, 1), FakeLake()
    timeline = Timeline(record, cast(PlainLake, lake))
    now = time.time()
    victim = FakeTask("run-1", 1, now, [LoggedEvent(now, "partition_assigned", {"partition": "t-0"})])
    other = FakeTask("run-2", 2, now)
    tasks = cast("list[Task]", [victim, other])
    strike = timeline.struck(tasks[0], "kill -9", now)
    lake.new = [commit(1, now + 1), commit(2, now + 1, "t-1"), commit(2, now + 1, action="anchor")]
    timeline.look(tasks)
    assert strike.recovered_secs is None
    lake.new = [commit(2, now + 2.5)]
    timeline.look(tasks)
    assert strike.recovered_secs == 2.5
    assert (record.commits, timeline.landed(tasks[0]), timeline.landed(tasks[1])) == (3, 1, 2)


def test_what_a_leader_has_committed_of_others_counts_as_theirs() -> None:
    """A commit with an offer of the victim's ends no recovery, one with another task's on the same partition does."""
    record, lake = RunRecord("s", 1, 1), FakeLake()
    timeline = Timeline(record, cast(PlainLake, lake))
    now = time.time()
    victim = FakeTask("run-1", 1, now, [LoggedEvent(now, "partition_assigned", {"partition": "t-0"})])
    leader, heir = FakeTask("run-2", 2, now), FakeTask("run-3", 3, now)
    tasks = cast("list[Task]", [victim, leader, heir])
    strike = timeline.struck(tasks[0], "kill -9", now)
    merged = replace(commit(2, now + 1), moves={"t-0": (-1, 9), "t-1": (-1, 5)}, claimed_by={"t-0": "host:1:a"})
    lake.new = [merged]
    timeline.look(tasks)
    assert strike.recovered_secs is None
    lake.new = [replace(merged, at=now + 3, claimed_by={"t-0": "host:3:a", "t-1": "host:3:a"})]
    timeline.look(tasks)
    assert strike.recovered_secs == 3.0
    assert [timeline.landed(task) for task in tasks] == [1, 1, 1]


def test_of_a_task_that_was_started_after_the_strike_it_is_told_where_the_time_went() -> None:
    """By the parts of the record, which add up to the whole."""
    record, lake = RunRecord("s", 1, 1), FakeLake()
    timeline = Timeline(record, cast(PlainLake, lake))
    now = time.time()
    victim = FakeTask("run-1", 1, now)
    fresh = FakeTask("run-2", 2, now + 1)
    for at, name in enumerate(("spark_started", "partition_assigned", "positions_recovered", "round_read"), 5):
        fresh.said.append(LoggedEvent(now + at, name, {"jvm_secs": 1.0, "spark_secs": 2.0, "partition": "t-0"}))
    strike = timeline.struck(cast(Task, victim), "kill -9", now)
    lake.new = [commit(2, now + 10)]
    timeline.look(cast("list[Task]", [victim, fresh]))
    assert tuple(strike.parts) == PARTS
    assert sum(strike.parts.values()) == 10.0
    assert strike.parts["process"] == 2.0 and strike.parts["spark"] == 2.0


def test_what_tasks_say_stands_in_the_record_once() -> None:
    """However often they are looked at; at the end the moments are in order."""
    record, lake = RunRecord("s", 1, 1, records=10), FakeLake()
    timeline = Timeline(record, cast(PlainLake, lake))
    now = time.time()
    task = FakeTask("run-1", 1, now)
    task.said += [
        LoggedEvent(now + 2, "commit_refused", {"table": "a"}),
        LoggedEvent(now, "round_read", {"records": 14}),
    ]
    task.said += [LoggedEvent(now + 1, "partition_revoked", {"partition": "t-0"})]
    tasks = cast("list[Task]", [task])
    timeline.look(tasks)
    timeline.look(tasks)
    timeline.sum_up(tasks)
    assert [(mark.kind, mark.text) for mark in record.marks] == [("gives", "t-0"), ("refused", "a")]
    assert (record.refused, record.reread, record.orphans) == (1, 4, 3)
    assert owned(tasks[0]) == set()


def test_a_partition_is_a_tasks_once_a_round_has_read_it_that_began_with_its_positions() -> None:
    """One that was under way when they were read has nothing of it; what is given away again is nobody's meanwhile."""
    said = [
        LoggedEvent(10.0, "positions_recovered", {"floors": {"t-0": 5, "t-1": 5}}),
        LoggedEvent(11.0, "round_read", {"records": 3, "secs": 1.5}),
        LoggedEvent(11.5, "partition_revoked", {"partition": "t-1"}),
        LoggedEvent(12.4, "round_read", {"records": 9, "secs": 2.0}),
        LoggedEvent(13.0, "round_read", {"records": 9, "secs": 0.5}),
    ]
    task = FakeTask("run-2", 2, 0.0, said)
    assert turns(cast(Task, task)) == [Turn(11.5, "t-1", False), Turn(12.4, "t-0", True)]
    task.ended_at = 20.0
    task.said = [LoggedEvent(9.0, "partition_assigned", {"partition": "t-0"}), *said]
    assert turns(cast(Task, task))[-1] == Turn(20.0, "t-0", False)
