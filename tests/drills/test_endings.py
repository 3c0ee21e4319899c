"""A task that fails or is stopped while it starts, or whose JVM dies: it is gone in time, with all that was there."""

from __future__ import annotations

import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from exporter.local.children import hears, kill_quietly
from tests.support.lakes import Export, Exports, seldom, wait_until, writing, wrong_places
from tests.support.processes import Process, running
from tests.support.services import fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.drill]

START_SECS_MAX = 5.0
END_SECS_MAX = 60.0
"""Far more than any end takes; one that hangs takes for ever."""


def terminated(task: Process, secs: float, whole: bool) -> None:
    """SIGTERM at some moment; before Python has come to our first line it is an end by that signal."""
    time.sleep(secs)
    heard = hears(task.pid, signal.SIGTERM)
    (task.signal_group if whole else task.signal)(signal.SIGTERM)
    assert task.wait(END_SECS_MAX) in ((0,) if heard else (0, -signal.SIGTERM)), task.text
    task.quiet_events()


def without_java(task: Process, secs: float) -> None:
    """Its JVM is killed at some moment: Spark's own one or that before it, which makes the command line for it.

    And any that is there afterwards: the one before may have come to its end by itself just then.
    """
    time.sleep(secs)

    def ended() -> bool:
        for pid in task.java():
            kill_quietly(pid)
        return task.ended() is not None

    wait_until(ended, END_SECS_MAX, f"the end without Java\n{task.text}")
    assert task.wait(END_SECS_MAX) == 69, task.text
    assert "driver_memory" in task.text


def refused(task: Process) -> None:
    """What it is to export is not there: it ends by itself, and its log holds events alone, the last one says why."""
    assert task.wait(END_SECS_MAX) == 2, task.text
    assert "does not exist" in task.quiet_events("task_failed")[-1]["error"]


def start_that_fails(e: Export, number: int) -> None:
    """One of the kinds, at a moment that its number says."""
    rng = random.Random(number)
    kind = number % 4
    with running(e.with_(topics=[fresh_name()]) if kind == 3 else e) as task:
        if kind < 2:
            terminated(task, rng.uniform(0, START_SECS_MAX), whole=kind == 0)
        elif kind == 2:
            without_java(task, rng.uniform(0, START_SECS_MAX))
        else:
            refused(task)
        wait_until(lambda: not task.left(), 30, f"start {number}: the end of all that it had started")


@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("starts", [4, seldom(1000)])
def test_every_start_that_fails_or_is_stopped_ends(exports: Exports, starts: int) -> None:
    """SIGTERM at any moment: exit 0; a JVM that dies: 69; a refusal: 2. None hangs, none leaves a process.

    Two at a time, so that the machine is busy: then a start takes long, and with it the moments that matter.
    """
    e = exports()
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(partial(start_that_fails, e), range(starts)):
            pass


def test_a_jvm_that_dies_at_work_ends_the_task_with_a_hint(exports: Exports, spark: Any) -> None:
    """Exit 69, as for any dependency that is gone; its files are where TMPDIR is; the next start goes on."""
    e = exports(2, roll_age_max_secs=0.3)
    with writing(e.kafka, e.topic), running(e) as task:
        task.wait_for("commit_landed")
        (java,) = task.java()
        kill_quietly(java)
        assert task.wait(30) == 69, task.text
        said = task.events()[-1].fields
        assert (said["event"], said["exit_code"]) == ("task_failed", 69), said
        assert "the JVM that runs Spark has ended" in said["error"] and "driver_memory" in said["hint"], said
        left = [file.name for file in task.scratch.iterdir()]
        assert any(name.startswith("blockmgr-") for name in left), f"Java's files belong there too: {left}"
    e.with_(group=fresh_name("group")).run(spark)
    assert wrong_places(e) == {}
