"""Scenarios in which a task is killed or put to sleep: at named points, at random moments, while it recovers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from exporter.drill import routes, schedule
from exporter.drill.group import guest
from exporter.drill.outages import LEASED
from exporter.drill.producer import DrillRecord, mixed
from exporter.drill.run import LIFE_SECS_MAX, NotAsItMust, Run
from exporter.drill.tasks import Task
from exporter.drill.timeline import owned
from exporter.faults import Fault
from exporter.local.children import hears

POINTS = (
    (Fault.AFTER_ANCHOR, 2),
    (Fault.BEFORE_SPARK, 1),
    (Fault.AFTER_SPARK, 1),
    (Fault.AFTER_JOIN, 1),
    (Fault.IN_REBALANCE, 2),
    (Fault.BEFORE_POSITIONS, 1),
    (Fault.AFTER_WAL_READ, 1),
    (Fault.AFTER_POSITIONS, 1),
    (Fault.AFTER_PLAN, 1),
    (Fault.BEFORE_STAGED_FILE, 7),
    (Fault.AFTER_READ, 2),
    (Fault.AFTER_INTEGRATE, 1),
    (Fault.BEFORE_WAL_STARTED, 2),
    (Fault.AFTER_WAL_STARTED, 2),
    (Fault.BEFORE_DELTA_COMMIT, 2),
    (Fault.AFTER_DELTA_COMMIT, 3),
    (Fault.BEFORE_WAL_COMPLETED, 2),
    (Fault.AFTER_WAL_COMPLETED, 2),
    (Fault.BEFORE_GROUP_OFFSET, 1),
    (Fault.AFTER_GROUP_OFFSET, 1),
    (Fault.IN_LEASE_RENEWAL, 2),
    (Fault.AFTER_SEAL, 2),
)
"""(point, hit) of the lives of `fault-points`: the first makes the tables, the last switches the configuration."""

ELSEWHERE = frozenset(
    {Fault.AFTER_GAP_ROW, Fault.AFTER_GAP_MOVE, Fault.AFTER_REPAIR, Fault.AFTER_AGED_BOUND, Fault.AFTER_AGED_DELETE}
    | {Fault.AFTER_REWRITE, Fault.AFTER_BACKFILL, Fault.AFTER_ERASURE, Fault.AFTER_ERASING, Fault.AFTER_ERASED}
    | {Fault.AFTER_REPLAY_STAGE, Fault.AFTER_REPLAY_COMMIT, Fault.AFTER_REPLAY_DELETE}
    | {Fault.BEFORE_DERIVE_COMMIT, Fault.AFTER_DERIVE_COMMIT, Fault.AFTER_DERIVE_FENCE, Fault.AFTER_DERIVE_SEND}
)
"""These need something first: `retention`, `restored` and `replayed`; or they are those of a job (derive)."""

NOT_BESIDE = frozenset({Fault.AFTER_ANCHOR, Fault.AFTER_SEAL, Fault.IN_LEASE_RENEWAL})
"""Points that a task passes alone, or that have nothing to do with the group."""

LOG_POINTS = frozenset(
    {Fault.BEFORE_WAL_STARTED, Fault.AFTER_WAL_STARTED, Fault.BEFORE_WAL_COMPLETED, Fault.AFTER_WAL_COMPLETED}
    | {Fault.IN_LEASE_RENEWAL}
)

ASLEEP = (
    Fault.AFTER_READ,
    Fault.BEFORE_WAL_STARTED,
    Fault.AFTER_WAL_STARTED,
    Fault.BEFORE_DELTA_COMMIT,
    Fault.AFTER_DELTA_COMMIT,
    Fault.BEFORE_WAL_COMPLETED,
    Fault.AFTER_WAL_COMPLETED,
)
"""Where the sleepers of `zombie-steps` fall asleep."""
RECOVERY_STEPS = ("spark_started", "partition_assigned", "positions_recovered", "round_read")
STORM_SIZE = 30
SIGTERMS = 6


def fault_points(run: Run) -> None:
    """kill -9 at every fault point, each life armed with the next one."""
    run.load()
    for point, hit in _with_log(run, POINTS):
        if point is Fault.AFTER_SEAL:
            run.types["payment"] += ", x INT"
        changes = LEASED if point is Fault.IN_LEASE_RENEWAL else {}
        run.strike_by(run.start(armed=f"{point.value}:kill:{hit}", **changes), f"at {point.value}")
        run.check()
    run.finish()


def fault_points_beside(run: Run) -> None:
    """The same while a second member of the group works on."""
    run.load()
    other = run.start()
    run.wait_commit(other)
    for point, _ in _with_log(run, POINTS):
        if point in NOT_BESIDE:
            continue
        run.strike_by(run.start(armed=f"{point.value}:kill:1"), f"at {point.value}")
        run.check()
        require_alive(other)
    run.wait_commit(other)
    run.stop(other)
    run.finish()


def random_kills(run: Run) -> None:
    """kill -9 at random moments of start, recovery and work, under load."""
    _random_kills(run, mixed)


def routed(run: Run) -> None:
    """The same, and records belong to three tables, which filter and compute: what is left out is counted exactly."""
    run.types = dict(routes.TYPES)
    run.sections |= {name: dict(table) for name, table in routes.SECTIONS.items()}
    run.scalars["unrouted"] = "count"
    _random_kills(run, routes.record)


def _random_kills(run: Run, make: Callable[[int], DrillRecord]) -> None:
    drawn = schedule.kills(run.rng, run.size.kills)
    run.record.schedule = [str(kill) for kill in drawn]
    run.load(make)
    for kill in drawn:
        task = run.start()
        if kill.after_commit:
            run.wait_commit(task)
        run.nap(kill.secs)
        run.kill(task, kill.whole)
        run.check()
    run.finish()
    for task in run.tasks:
        run.no_survivors(task)


def kills_in_recovery(run: Run) -> None:
    """A task that worked is killed, and then each one that recovers from it, one step later than the one before."""
    run.load()
    task = run.start()
    run.wait_commit(task, 5)
    run.kill(task)
    for step in RECOVERY_STEPS:
        for whole in (True, False):
            task = run.start()
            run.wait_event(task, step)
            run.kill(task, whole)
            run.check()
    run.finish()


def zombie_steps(run: Run) -> None:
    """A member falls asleep (SIGSTOP) at each step of a commit, loses its partitions to the other, wakes up again."""
    run.load()
    owner = run.start()
    run.wait_commit(owner)
    for point, _ in _with_log(run, [(point, 1) for point in ASLEEP]):
        sleeper = run.start(armed=f"{point.value}:stop:1")
        run.wait(sleeper.stopped, LIFE_SECS_MAX, f"{sleeper.name} sleeps", sleeper)
        held = owned(sleeper)
        run.struck(sleeper, f"SIGSTOP at {point.value}")
        run.wait(partial(owns, run, owner, held), LIFE_SECS_MAX, f"{owner.name} takes over {held}", owner)
        run.wait_commit(owner, 3)
        _wakes(run, sleeper)
        run.check()
        require_alive(owner)
        run.kill(sleeper)
    run.stop(owner)
    run.finish()


def zombie_holds_more(run: Run) -> None:
    """A task falls asleep before its first commit; the next owner has committed less than it holds when it wakes."""
    _zombie(run, {"round_records_max": 40, "roll_records_max": 5}, few=True)


def zombie_holds_less(run: Run) -> None:
    """The same, and the next owner has committed more."""
    _zombie(run, {}, few=False)


def _zombie(run: Run, changes: dict[str, Any], few: bool) -> None:
    load = run.load(steady=False)
    sleeper = run.start(armed=f"{Fault.BEFORE_DELTA_COMMIT.value}:stop:1", round_records_max=run.size.records)
    run.wait(sleeper.stopped, LIFE_SECS_MAX, f"{sleeper.name} sleeps", sleeper)
    sleeper.signal(signal.SIGSTOP, whole=True)
    run.struck(sleeper, "SIGSTOP before its first commit")
    if not few:
        load.burst(400)
    owner = run.start(**changes)
    run.wait_commit(owner, 4)
    if not few:
        last = (load.written - 1) // run.size.partitions - 1
        run.wait(lambda: run.all_through(last), LIFE_SECS_MAX, "the next owner has it all", owner)
    _wakes(run, sleeper)
    run.wait(lambda: sleeper.count("commit_refused") > 0, LIFE_SECS_MAX, f"{sleeper.name} is refused", sleeper)
    run.check()
    run.kill(sleeper)
    run.stop(owner)
    run.finish()


def rebalance_storm(run: Run) -> None:
    """Members join and leave 30 times under load; three of them are exporters, one of those is killed."""
    run.load()
    task = run.start()
    run.wait_commit(task)
    for number in range(1, STORM_SIZE + 1):
        if number % 10 == 0:
            member = run.start()
            run.wait_commit(member)
            if number == 20:
                run.kill(member)
            else:
                run.stop(member)
        else:
            with guest(run.services.options, run.app, run.topic):
                run.nap(run.rng.uniform(0.2, 1.0))
        require_alive(task)
    run.wait_commit(task)
    run.check()
    run.stop(task)
    run.finish()


def sigterm_storm(run: Run) -> None:
    """SIGTERM at random moments, to one process or to all: from the moment that Python is there it ends with 0."""
    run.load()
    for number in range(SIGTERMS):
        task = run.start()
        if number % 3:
            run.wait_event(task, "task_started")
        run.nap(run.rng.uniform(0, 4))
        heard = hears(task.pid, signal.SIGTERM)
        task.signal(signal.SIGTERM, whole=run.rng.random() < 0.5)
        run.ends(task, 0, *(() if heard else (-signal.SIGTERM,)))
        run.check()
    run.finish()


def _with_log(run: Run, points: Any) -> list[tuple[Fault, int]]:
    """All of them; without a log those that have nothing to do with it."""
    return [(point, hit) for point, hit in points if run.services.log or point not in LOG_POINTS]


def _wakes(run: Run, sleeper: Task) -> None:
    """It goes on, and learns what it lost."""
    sleeper.signal(signal.SIGCONT, whole=True)
    run.wait_event(sleeper, "partition_revoked")


def owns(run: Run, task: Task, held: set[str]) -> bool:
    """Whether a task owns all these partitions."""
    return held <= owned(task)


def require_alive(task: Task) -> None:
    """Check that a task still runs. Raises NotAsItMust."""
    if task.ended() is not None:
        raise NotAsItMust(f"{task.name} ended with {task.ended()}, it should have worked on\n{task.tail()}")
