"""The thread of a task in coordinated mode, over a wire of bytes in memory, and what it tells of itself."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
from structlog.testing import capture_logs

from exporter.coordinate.channel import TopicChannel
from exporter.coordinate.coordinated import CoordinatedCommits
from exporter.coordinate.leader import Leader
from exporter.coordinate.leading import OwnsLeast
from exporter.coordinate.member import RoundMember
from exporter.coordinate.memory import MemoryTopic
from exporter.coordinate.rounds import LeaderRounds
from exporter.coordinate.signature import Signature
from exporter.core.coordination import Channel
from exporter.core.memory_committer import MemoryCommitter, MemoryTable
from exporter.core.memory_merger import MemoryMerger
from exporter.core.outcome import Landed
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.coordinated import World, claim_of, reported
from tests.support.lakes import wait_until

P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)
INTERVAL_SECS = 10.0
"""The first round begins at once. It has to be open until both tasks have offered, on a busy machine, too."""
SIGNATURE = Signature(lambda: b"key")


class Wire:
    """One end of a topic of bytes. fails: what hearing raises once."""

    trouble = ""

    def __init__(self, ends: list[Wire]) -> None:
        self._ends = ends
        self._heard: queue.Queue[bytes] = queue.Queue()
        self.fails: Exception | None = None
        ends.append(self)

    def send(self, values: Sequence[bytes]) -> None:
        for end in self._ends:
            for value in values:
                end._heard.put(value)

    def receive(self, timeout_secs: float) -> list[bytes]:
        error, self.fails = self.fails, None
        if error is not None:
            raise error
        try:
            return [self._heard.get(timeout=timeout_secs)]
        except queue.Empty:
            return []

    def close(self) -> None:
        self._ends.remove(self)


class Task:
    """A task with one partition, in threads of its own."""

    def __init__(self, name: str, mine: TopicPartition, tables: dict[str, MemoryTable], ends: list[Wire]) -> None:
        self.committer = MemoryCommitter(owner=name, tables=tables)
        for table in tables:
            view = self.committer.view(table)
            assert view is not None
            self.committer.trust(table, view)
        self.wire, self.pool, self.released = Wire(ends), ThreadPoolExecutor(3), False
        channel: Channel = TopicChannel(self.wire, "app", SIGNATURE)
        leadership = OwnsLeast(lambda: [mine], lambda: [P0, P1])
        member = RoundMember("app", name, self.committer, self.pool, channel, 30.0, lambda: None)
        rounds = LeaderRounds("app", name, INTERVAL_SECS, 30.0)
        leader = Leader(rounds, leadership, MemoryMerger(tables), lambda: [P0, P1], self.pool, channel)
        self.commits = CoordinatedCommits(channel, member, leader, leadership, 2.0, release=self.release)

    def release(self) -> None:
        self.released = True
        self.pool.shutdown()


@pytest.fixture
def tasks() -> Iterator[list[Task]]:
    tables = {"order": MemoryTable({P0: Position(0, -1), P1: Position(0, -1)})}
    ends: list[Wire] = []
    made = [Task("a", P0, tables, ends), Task("b", P1, tables, ends)]
    yield made
    for task in made:
        task.commits.close()
        assert task.released
    assert ends == []


def test_two_tasks_commit_in_one_version_and_hear_of_it(tasks: list[Task]) -> None:
    """Each in its thread; what the second one offers is in the first one's commit."""
    for task in tasks:
        wait_until(lambda task=task: task.commits.occasion(False).asked, 10, "a round begins")
    futures = []
    for task, tp in zip(tasks, (P0, P1), strict=True):
        futures.append(task.commits.submit("order", [claim_of("order", tp, -1, 9)], in_hurry=False))
        task.commits.rolled([tp])
    wait_until(lambda: all(one.done() for one in futures), 10, "both have landed")
    assert [reported(one) for one in futures] == [[Landed], [Landed]]
    assert {one.result().version for one in futures} == {1}
    leads, follows = (task.commits.state() for task in tasks)
    assert (leads.leads, leads.commits, leads.merged) == (True, 1, 2) and not follows.leads
    assert leads.ended == follows.ended == {"answered": 1} and follows.open_offers == 0


def test_a_partition_that_comes_while_a_round_is_open_is_said_to_be_ready_too() -> None:
    """Its leader waits for all partitions, and nobody else says it of this one; what is in a hurry is of no round."""
    member, nothing = mock.Mock(), mock.Mock()
    member.begun.side_effect = ["r1", "", ""]
    commits = CoordinatedCommits(nothing, member, nothing, nothing, 2.0, threaded=False)
    commits.rolled([P0])
    for partitions in ([P0], [P0], [P0, P1]):
        asked = commits.occasion(flushing=False).asked
        commits.submit("order", [], in_hurry=False)
        commits.submit("order", [], in_hurry=True)
        commits.rolled(partitions)
    assert not asked
    assert [call.args[2] for call in member.submit.call_args_list] == ["r1", "", "", "", "", ""]
    assert member.rolled.call_args_list == [mock.call("r1", {P0}), mock.call("r1", {P0, P1})]


def test_a_step_that_fails_is_told_and_the_next_one_is_made(tasks: list[Task]) -> None:
    """Without the thread, a task would wait for every time-out."""
    with capture_logs() as logs:
        tasks[1].wire.fails = RuntimeError("a flaw")
        wait_until(lambda: tasks[1].commits.occasion(False).asked, 10, "a round is heard of")
        wait_until(lambda: tasks[1].wire.fails is None, 10, "the step has failed")
        wait_until(lambda: [one for one in logs if one["event"] == "coordination_failed"], 10, "it is told")


def test_a_topic_that_falls_silent_is_told_once_and_so_is_its_return() -> None:
    """Whoever reads the log knows from when to when tasks committed by themselves."""
    world = World()
    task = world.start(0, 1, 2, 3)
    with capture_logs() as logs:
        world.passes(0.5)
        world.topic.is_deleted()
        world.passes(0.5)
        assert task.commits.state().trouble == "the topic is gone"
        world.topic.is_back()
        world.passes(0.5)
    told = [(one["event"], one.get("error")) for one in logs if str(one["event"]).startswith("control_")]
    assert told == [("control_silent", "the topic is gone"), ("control_reached", None)]


def test_what_is_of_another_app_is_passed_over() -> None:
    """Several exporters may share a topic by mistake."""
    world = World()
    task = world.start(0, 1, 2, 3)
    stranger: MemoryTopic = world.topic
    world.passes(0.2)
    (begin,) = stranger.said[:1]
    stranger.said.append(type(begin)(**{**vars(begin), "app": "other", "round_id": "of another app"}))  # type: ignore[arg-type]
    task.commits.step(0.0)
    assert task.member.begun() != "of another app"
