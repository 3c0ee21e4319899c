"""Jobs of [derive] beside the loop: when their thread begins, what wakes it, and that its failures end nothing."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.core.job_state import JobState
from exporter.errors import ExporterError, Fenced, FoundProblem
from exporter.task.deriving import QUIET_SECS, Deriving
from tests.support.lakes import wait_until

FENCED = Fenced("derive a: it is run by host:2 too", "stop one of the two")


class Fake:
    """Jobs whose thread ends when it is told, with `ends_with`."""

    sources = frozenset({"order"})
    states = {"a": JobState("a", "sql")}

    def __init__(self, ends_with: ExporterError | Exception | None = None) -> None:
        self.told: list[str] = []
        self.end = threading.Event()
        self._ends_with = ends_with

    def work(self) -> ExporterError | None:
        self.told.append("work")
        self.end.wait(60)
        if isinstance(self._ends_with, ExporterError) or self._ends_with is None:
            return self._ends_with
        raise self._ends_with

    def wake(self) -> None:
        self.told.append("wake")

    def finish(self) -> None:
        self.told.append("finish")

    def stop(self) -> None:
        self.told.append("stop")
        self.end.set()


class Loop:
    """The loop's side of it, at times that the test says."""

    def __init__(self, jobs: Fake | None) -> None:
        totals = SimpleNamespace(outcomes=Counter[tuple[str, str]](), commits=0)
        self.watch: Any = SimpleNamespace(totals=totals, jobs={})
        self.woken = 0
        self.machine = Deriving(jobs=jobs, watch=self.watch, waking=self._waking)

    def _waking(self, future: Future[Any]) -> Future[Any]:
        self.woken += 1
        return future

    def committed(self, event_type: str) -> None:
        self.watch.totals.outcomes[event_type, "landed"] += 1
        self.watch.totals.commits += 1

    def ended(self) -> None:
        wait_until(lambda: self.machine.is_at_rest, 60, "the end of the thread")


def test_the_thread_begins_after_the_first_commit_and_is_woken_by_those_of_its_sources() -> None:
    """A start is not held up by it; other tables' commits are nothing to it."""
    jobs = Fake()
    loop = Loop(jobs)
    loop.machine.tick(0, False)
    assert loop.machine.is_at_rest
    loop.committed("click")
    loop.machine.tick(1, False)
    wait_until(lambda: jobs.told == ["work"], 60, "the thread")
    loop.committed("click")
    loop.machine.tick(2, True)
    assert jobs.told == ["work"]
    loop.committed("order")
    loop.machine.tick(3, True)
    loop.machine.tick(4, True)
    assert jobs.told == ["work", "wake"]
    assert loop.watch.jobs == jobs.states
    loop.machine.stop()
    loop.ended()


def test_on_a_topic_that_stands_still_it_begins_a_moment_after_the_partitions_are_recovered() -> None:
    """What another task or an earlier process left undone is done without a commit of this one."""
    jobs = Fake()
    loop = Loop(jobs)
    for now, is_recovered in ((0, False), (100, True), (101, False), (200, True), (200 + QUIET_SECS / 2, True)):
        loop.machine.tick(now, is_recovered)
        assert loop.machine.is_at_rest
    loop.machine.tick(200 + QUIET_SECS, True)
    assert not loop.machine.is_at_rest
    loop.machine.stop()
    loop.ended()


def test_what_ends_the_thread_is_told_once_and_ends_nothing() -> None:
    """Neither a job that was fenced nor what nobody foresaw."""
    for failure, text in ((FENCED, FENCED.message), (RuntimeError("a bug"), "derive: RuntimeError: a bug")):
        jobs = Fake(failure)
        loop = Loop(jobs)
        loop.committed("order")
        with capture_logs() as logs:
            loop.machine.tick(0, True)
            jobs.end.set()
            loop.ended()
            for now in range(3):
                loop.machine.tick(now, True)
        assert [(str(one["event"]), one["error"]) for one in logs] == [("derive_stopped", text)]


def test_a_run_with_an_end_ends_when_the_jobs_have_caught_up() -> None:
    """The thread is begun for it if it was not there yet; what ended a job is the run's error then."""
    for failure in (None, FENCED):
        jobs = Fake(failure)
        loop = Loop(jobs)
        assert not loop.machine.caught_up()
        assert loop.woken == 1, "its end lets the loop iterate"
        jobs.end.set()
        loop.ended()
        if failure is None:
            assert loop.machine.caught_up()
            continue
        with pytest.raises(FoundProblem, match="everything was exported; derive a: ") as raised:
            loop.machine.caught_up()
        assert raised.value.hint == FENCED.hint


def test_without_jobs_nothing_happens() -> None:
    """No thread, and a run with an end is at it."""
    loop = Loop(None)
    loop.committed("order")
    loop.machine.tick(0, True)
    loop.machine.stop()
    assert loop.machine.is_at_rest and loop.machine.caught_up()
    assert loop.woken == 0
