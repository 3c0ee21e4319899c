"""Fault points: how they are armed, and when they strike."""

from __future__ import annotations

import errno
import os
import time

import pytest

from exporter import faults
from exporter.faults import Armed, Fault, InjectedFault, parse, point


@pytest.fixture(autouse=True)
def unarmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing armed, nothing passed, and no task named."""
    monkeypatch.delenv(faults.VARIABLE, raising=False)
    monkeypatch.setenv(faults.TASK_VARIABLE, str(os.getpid()))
    faults._passed.clear()


def struck(fault: Fault, hits: int, what: str = "") -> list[int]:
    """Which of so many hits raised."""
    found = []
    for hit in range(1, hits + 1):
        try:
            point(fault, what)
        except (InjectedFault, OSError):
            found.append(hit)
    return found


@pytest.mark.parametrize(
    "when, hits",
    [("", [1]), (":3", [3]), (":3+", [3, 4, 5, 6, 7]), (":/3", [3, 6]), (":1+", [1, 2, 3, 4, 5, 6, 7])],
)
def test_a_point_strikes_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch, when: str, hits: list[int]) -> None:
    """Once, from a hit on, or each n-th; other points never."""
    monkeypatch.setenv(faults.VARIABLE, f"after_plan:raise{when}")
    assert struck(Fault.AFTER_PLAN, 7) == hits
    assert struck(Fault.AFTER_READ, 7) == []


def test_a_point_may_be_armed_for_one_event_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its hits count; several points may be armed at once."""
    monkeypatch.setenv(faults.VARIABLE, "before_delta_commit@order:fail:2+,after_plan:full:2")
    assert struck(Fault.BEFORE_DELTA_COMMIT, 3, "click") == []
    assert struck(Fault.BEFORE_DELTA_COMMIT, 3, "order") == [2, 3]
    point(Fault.AFTER_PLAN)
    with pytest.raises(OSError, match="No space left") as full:
        point(Fault.AFTER_PLAN)
    assert full.value.errno == errno.ENOSPC


def test_a_delay_goes_on_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow dependency, not a broken one."""
    monkeypatch.setenv(faults.VARIABLE, "after_plan:delay=0.2")
    began = time.monotonic()
    point(Fault.AFTER_PLAN)
    assert time.monotonic() - began >= 0.2


def test_what_cannot_be_read_is_refused_and_nothing_armed_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drill that would test nothing says so."""
    point(Fault.AFTER_PLAN)
    assert not faults._passed
    for text in ("nowhere:kill", "after_plan:explode", "after_plan:kill:x", "after_plan"):
        with pytest.raises(ValueError):
            parse(text)
    assert parse("after_plan@a:delay=3:/2") == (Armed("after_plan", "a", "delay=3", 2, 2),)


def test_a_worker_strikes_the_whole_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """kill and stop go to the driver, wherever the point is passed."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    monkeypatch.setenv(faults.TASK_VARIABLE, "4711")
    monkeypatch.setenv(faults.VARIABLE, "before_staged_file:kill:1,before_staged_file:stop:2")
    point(Fault.BEFORE_STAGED_FILE, "order")
    point(Fault.BEFORE_STAGED_FILE, "order")
    assert sent == [(4711, 9), (4711, 19)]
