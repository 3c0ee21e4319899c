"""Scenarios in which what a task depends on fails: broker, DynamoDB, storage, clock."""

from __future__ import annotations

import os
import signal
from typing import Any

from exporter.drill.run import LIFE_SECS_MAX, NotAsItMust, Run
from exporter.drill.tasks import Task

STEPPED = """import os, time
_real, _path = time.time, os.environ["DRILL_CLOCK"]
def _stepped():
    try:
        return _real() + float(open(_path).read() or 0)
    except OSError:
        return _real()
time.time = _stepped
"""
"""First lines of a task whose wall clock is _real plus what stands in a file."""
LEASED: dict[str, Any] = {"assignment": "static", "partitions": "0/1", "lease_secs": 4}
ZONES = ("Pacific/Kiritimati", "America/Los_Angeles")


def broker_killed(run: Run) -> None:
    """kill -9 of the broker and a start 3 s later; then it stays away for longer than the session lasts."""
    broker = run.services.broker
    if broker is None:
        raise NotAsItMust("this scenario needs a broker of its own")
    run.load()
    task = run.start()
    run.wait_commit(task, 3)
    for secs in (3.0, 15.0):
        broker.kill()
        run.note(task, f"broker killed for {secs:.0f} s")
        run.nap(secs)
        broker.start()
        run.wait_commit(task, 2)
        run.check()
    run.stop(task)
    run.finish()


def dynamodb_lost(run: Run) -> None:
    """DynamoDB hangs for 8 s; then it is gone for 12 s and comes back empty, without a table."""
    dynamodb = run.services.dynamodb
    if dynamodb is None:
        raise NotAsItMust("this scenario needs a DynamoDB of its own")
    run.load()
    task = run.start()
    run.wait_commit(task, 3)
    os.kill(dynamodb.pid, signal.SIGSTOP)
    run.note(task, "DynamoDB hangs for 8 s")
    run.nap(8)
    os.kill(dynamodb.pid, signal.SIGCONT)
    run.wait_commit(task, 2)
    dynamodb.kill()
    run.note(task, "DynamoDB is gone for 12 s, and wiped")
    run.nap(12)
    dynamodb.start()
    run.ends(run.start("--create-wal", verb="check"), 0)
    run.wait_commit(task, 2)
    run.check()
    run.over(task)


def storage_fails(run: Run) -> None:
    """Every 15th staged file and 4th Delta commit fails, answers of every 5th commit are lost; then a kill."""
    run.load()
    task = run.start(
        armed="before_staged_file:fail:/15,before_delta_commit:fail:/4,after_delta_commit:raise:/5",
    )
    run.wait_commit(task, 12)
    run.check()
    run.over(task)


def storage_slow(run: Run) -> None:
    """Single calls take 30 s: a Delta commit, a staged file."""
    run.load()
    task = run.start(armed="before_delta_commit:delay=30:6,before_staged_file:delay=30:40")
    run.wait_commit(task, 12)
    run.nap(30)
    run.wait_commit(task, 3)
    run.check()
    run.stop(task)
    run.finish()


def storage_full(run: Run) -> None:
    """There is no space for staged files, then for none of the commits; the next task finds space again."""
    task = live(run)
    run.kill(task)
    for armed in ("before_staged_file:full:1+", "before_delta_commit:full:3+"):
        task = run.start(armed=armed)
        run.wait_event(task, "type_parked", 6)
        run.check()
        run.kill(task)
    run.finish()


def one_type_fails(run: Run) -> None:
    """Commits to one table fail for ever while the others go on (F and S of the original design)."""
    run.load()
    task = run.start(armed="before_delta_commit@order:fail:4+")
    run.wait_event(task, "type_parked")
    failed = run.version("order")
    run.wait(lambda: run.version("click") > 8, LIFE_SECS_MAX, "the others go on", task)
    run.wait_commit(task, 6)
    run.check()
    if run.version("order") != failed:
        raise NotAsItMust("commits of the failing table landed")
    run.over(task)


def one_type_cannot_be_staged(run: Run) -> None:
    """Files of one table cannot be written while the others go on; no record is taken for a bad one because of it."""
    task = live(run)
    run.kill(task)
    task = run.start(armed="before_staged_file@order:fail:1+")
    run.wait_event(task, "type_parked", 4)
    stays, others = run.version("order"), run.version("click")
    run.wait(lambda: run.version("click") > others + 3, LIFE_SECS_MAX, "the others go on", task)
    run.check()
    if run.version("order") != stays or task.count("record_condemned"):
        raise NotAsItMust(f"order went on without files, or a record counts as poison\n{task.tail()}")
    run.over(task)


def clock_steps(run: Run) -> None:
    """The task's wall clock steps back by an hour and forward by two, with leases and with the group."""
    path = run.folder / "clock"
    run.environment["DRILL_CLOCK"], run.prelude = str(path), STEPPED
    run.load()
    for changes in (LEASED if run.services.log else {}, {}):
        path.write_text("0")
        task = run.start(**changes)
        run.wait_commit(task, 2)
        for step in (-3600, 3600):
            path.write_text(str(step))
            run.note(task, f"clock at {step:+} s")
            run.wait_commit(task, 3)
        run.kill(task)
        run.check()
    path.write_text("-3600")
    run.finish()


def time_zones(run: Run) -> None:
    """The machine's time zone is another one in each life, 14 hours east and 8 west of UTC."""
    run.load()
    for zone in ZONES:
        run.environment["TZ"] = zone
        task = run.start()
        run.wait_commit(task, 4)
        run.kill(task)
        run.check()
    run.finish()


def live(run: Run, **changes: Any) -> Task:
    """A task at work, whose tables have some commits. changes: of its settings."""
    run.load()
    task = run.start(**changes)
    run.wait_commit(task)
    run.wait(lambda: min(map(run.version, run.types)) >= 5, LIFE_SECS_MAX, "five commits in each table", task)
    return task
