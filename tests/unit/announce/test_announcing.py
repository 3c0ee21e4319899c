"""Threads beside a task: who leads announces, nothing that fails ends anything, the end takes what is left along."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.announce import announcing
from exporter.announce.announcing import Announcing
from exporter.announce.follower import Follower
from exporter.announce.logs import TableLogs
from exporter.announce.memory import MemoryKept, MemorySink
from exporter.announce.pointers import Pointer
from exporter.core.backoff import Backoff
from exporter.core.sink_state import SinkState
from exporter.stores.memory import MemoryStore
from tests.support.announced import APP, Lake, rows
from tests.support.lakes import wait_until
from tests.support.services import fresh_name


class Leads:
    """A Leadership that the test says."""

    def __init__(self) -> None:
        self.mine = True

    def is_mine(self) -> bool:
        return self.mine

    def close(self) -> None:
        self.mine = False


class Task:
    """One task's announcing to two sinks."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.leads = lake, Leads()
        self.sinks = {"topic": MemorySink(), "webhook": MemorySink()}
        self.kept = {"topic": MemoryKept(), "webhook": MemoryKept()}
        self.running: Announcing | None = None

    def start(self) -> Announcing:
        made = {
            name: Follower(APP, TableLogs(self.lake.store, True), sink, self.kept[name])
            for name, sink in self.sinks.items()
        }
        self.running = Announcing(made, self.leads)
        self.running.wait_begun()
        return self.running

    def told(self, sink: str) -> list[int]:
        return [json.loads(message)["version"] for _, message in self.sinks[sink].taken]

    def wait_told(self, sink: str, versions: list[int]) -> None:
        wait_until(lambda: self.told(sink) == versions, 60, f"{versions} at {sink}")


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    monkeypatch.setattr(announcing, "LOOK_SECS", 0.01)
    monkeypatch.setattr(announcing, "PAUSE", Backoff(0.01, 0.05))
    made = Task(Lake(MemoryStore.at(f"memory://{fresh_name()}")))
    yield made
    if made.running is not None:
        made.running.close()


def test_both_sinks_are_told_each_at_its_own_pace(task: Task) -> None:
    """The one that takes nothing keeps nothing from the other, is told once, and gets all of it when it takes again."""
    with capture_logs() as logs:
        running = task.start()
        task.sinks["webhook"].failing = {"": "HTTP 503"}
        task.lake.write("order", rows(1), rows(2))
        task.wait_told("topic", [0, 1])
        wait_until(lambda: running.states["webhook"].error == "HTTP 503", 60, "the trouble of the webhook")
        assert running.states["topic"] == SinkState(announced=2)
        task.sinks["webhook"].failing = {}
        task.wait_told("webhook", [0, 1])
        wait_until(lambda: running.states["webhook"] == SinkState(announced=2), 60, "an end of the trouble")
    told = [(str(one["event"]), one["sink"]) for one in logs]
    assert sorted(told) == [("events_begun", "topic"), ("events_begun", "webhook"), ("events_held_up", "webhook"),
                            ("events_resumed", "webhook")]  # fmt: skip


def test_who_does_not_lead_announces_nothing_and_has_kept_the_beginning(task: Task) -> None:
    """Once it leads it begins there, before its own first commit."""
    task.leads.mine = False
    task.start()
    task.lake.write("order", rows(1))
    assert task.kept["topic"].texts == ["{}"]
    task.leads.mine = True
    task.wait_told("topic", [0])


def test_who_leads_again_goes_on_from_what_is_kept(task: Task) -> None:
    """Not from what it knew when it led before: others have announced since."""
    other = Task(task.lake)
    other.kept, other.sinks = task.kept, task.sinks
    other.leads.mine = False
    task.start()
    other.start()
    try:
        for version, (leads, waits) in enumerate([(task, other), (other, task), (task, other)]):
            waits.leads.mine, leads.leads.mine = False, True
            task.lake.write("order", rows(1))
            task.wait_told("topic", [*range(version + 1)])
            wait_until(lambda n=version: task.kept["topic"].load() == {"order": Pointer(n, n)}, 60, "it is kept")
    finally:
        assert other.running is not None
        other.running.close()


def test_the_end_takes_along_what_is_left(task: Task) -> None:
    """A run with an end has told all of it, as far as the sinks take it within the budget."""
    running = task.start()
    task.leads.mine = False
    wait_until(lambda: task.kept["topic"].saves > 0, 60, "the beginning")
    task.lake.write("order", *[rows(number) for number in range(1, 30)])
    task.leads.mine = True
    running.close(60)
    assert task.told("topic") == task.told("webhook") == [*range(29)]


@pytest.mark.parametrize("trouble", ["kept", "logs", "sink"])
def test_nothing_ends_the_thread(task: Task, trouble: str) -> None:
    """Neither what is expected to fail nor what is not; it is told, and goes on when it goes again."""
    running = task.start()
    broken = _broken(task, trouble)
    task.lake.write("order", rows(1))
    wait_until(lambda: bool(running.states["topic"].error), 60, "the trouble")
    broken()
    task.wait_told("topic", [0])
    wait_until(lambda: not running.states["topic"].error, 60, "an end of the trouble")


def _broken(task: Task, what: str) -> Callable[[], None]:
    if what == "kept":
        task.kept["topic"].trouble = "silent"
        return lambda: setattr(task.kept["topic"], "trouble", "")
    if what == "logs":
        task.lake.write("click", [{"commitInfo": {}}])
        table = task.lake.store.below("click")
        whole = table.disk.bodies
        table.disk.bodies = {**whole, table.uri(f"_delta_log/{1:020d}.json"): b"{"}
        return lambda: table.disk.bodies.pop(table.uri(f"_delta_log/{1:020d}.json")) and None
    sink, send = task.sinks["topic"], task.sinks["topic"].send

    def bug(messages: Any) -> dict[str, str]:
        raise RuntimeError("a bug")

    sink.send = bug  # type: ignore[method-assign]
    return lambda: setattr(sink, "send", send)


def test_a_start_waits_no_longer_than_it_may(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the beginning cannot be kept the export begins all the same."""
    monkeypatch.setattr(announcing, "BEGIN_SECS", 0.2)
    task.kept["topic"].trouble = "silent"
    began = time.monotonic()
    task.start()
    assert time.monotonic() - began < 30
    assert task.running is not None
    assert task.running.states["topic"].error == "silent"
