"""Tables on their way into a catalog: in a thread, one turn at a time, and nothing waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.catalog.registrar import CatalogOutcome
from exporter.core.order import TableTarget
from exporter.task.registering import PAUSE_SECS, SILENT_SECS, Registering
from tests.support.lakes import wait_until


class Asked:
    """A catalog as a task sees it. answers: event type -> outcome, or an error; calls: of whom it was asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.answers: dict[str, Any] = {}
        self.open = threading.Event()
        self.open.set()

    def register(self, event_type: str) -> CatalogOutcome:
        self.calls.append(event_type)
        self.open.wait(60)
        answer = self.answers.get(event_type, "made")
        if isinstance(answer, Exception):
            raise answer
        return CatalogOutcome(answer, event_type, f"file:///{event_type}", "f1")


class Loop:
    """The loop's side of it, at times that the test says."""

    def __init__(self, asked: Asked | None) -> None:
        self.watch: Any = SimpleNamespace(unregistered=None)
        self.machine = Registering(register=None if asked is None else asked.register, watch=self.watch)
        self.logs: list[tuple[str, Any]] = []

    def tick(self, now: float, fingerprint: str = "f1") -> None:
        with capture_logs() as logs:
            self.machine.tick(now, {"a": TableTarget(fingerprint), "b": TableTarget("f1"), "c": TableTarget("f1")})
        self.logs += [(str(one["event"]), one.get("table") or one.get("error")) for one in logs]

    def turn(self, now: float, fingerprint: str = "f1") -> None:
        """Begin one, wait for its end, take it."""
        self.tick(now, fingerprint)
        running = self.machine._running
        if running is not None:
            wait_until(running.done, 60, "the end of a turn")
            self.tick(now, fingerprint)


@pytest.fixture
def asked() -> Iterator[Asked]:
    made = Asked()
    yield made
    made.open.set()


def test_every_table_is_registered_once(asked: Asked) -> None:
    """Told once, too; then nobody is asked any more, until a table has other columns."""
    loop = Loop(asked)
    loop.turn(0)
    assert loop.logs == [("table_registered", name) for name in "abc"]
    assert loop.watch.unregistered == 0
    loop.turn(10 * PAUSE_SECS)
    assert asked.calls == ["a", "b", "c"]
    loop.turn(20 * PAUSE_SECS, "f2")
    assert asked.calls == ["a", "b", "c", "a"]


def test_where_there_is_no_catalog_nothing_happens() -> None:
    """And nothing is counted."""
    loop = Loop(None)
    loop.tick(0)
    assert (loop.logs, loop.watch.unregistered, loop.machine._running) == ([], None, None)


def test_a_catalog_that_hangs_holds_nobody_up_and_is_told_once(asked: Asked) -> None:
    """The loop goes on; the call is neither waited for nor made a second time."""
    loop = Loop(asked)
    asked.open.clear()
    for now in range(0, int(5 * SILENT_SECS), 10):
        loop.tick(float(now))
    assert asked.calls == ["a"]
    assert loop.logs == [("catalog_silent", f"no answer for {SILENT_SECS:.0f} s")]
    assert loop.watch.unregistered == 3
    asked.open.set()
    loop.turn(5 * SILENT_SECS)
    assert loop.logs[1:] == [*(("table_registered", name) for name in "abc"), ("catalog_reached", None)]


def test_one_that_fails_is_tried_again_behind_the_others(asked: Asked) -> None:
    """A turn ends with it, as if the catalog were away; a table that never succeeds keeps none from its place."""
    loop = Loop(asked)
    asked.answers["a"] = ConnectionRefusedError("nobody listens")
    loop.turn(0)
    loop.turn(1)
    assert asked.calls == ["a"], "a pause first"
    loop.turn(PAUSE_SECS)
    assert asked.calls == ["a", "b", "c", "a"]
    loop.turn(2 * PAUSE_SECS)
    silent = ("catalog_silent", "table a: ConnectionRefusedError: nobody listens")
    assert loop.logs == [silent, ("table_registered", "b"), ("table_registered", "c")], "told once"
    del asked.answers["a"]
    loop.turn(3 * PAUSE_SECS)
    assert loop.logs[3:] == [("table_registered", "a"), ("catalog_reached", None)]


def test_a_name_that_is_taken_is_told_and_not_asked_for_again(asked: Asked) -> None:
    """It counts as missing for as long as the task runs."""
    loop = Loop(asked)
    asked.answers |= {"a": "there", "b": "elsewhere"}
    for turn in range(3):
        loop.turn(turn * PAUSE_SECS)
    assert loop.logs == [("catalog_name_taken", "b"), ("table_registered", "c")]
    assert (asked.calls, loop.watch.unregistered) == (["a", "b", "c"], 1)
