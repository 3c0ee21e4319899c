"""Scenarios of coordinated commits: the leader is killed and put to sleep, what tasks tell each other is lost.

Who leads owns partition 0. A merged commit is one with offers of several tasks.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from exporter.drill import schedule
from exporter.drill.kills import owns, require_alive
from exporter.drill.run import LIFE_SECS_MAX, Run
from exporter.drill.tasks import Task
from exporter.drill.timeline import owned
from exporter.faults import Fault

INTERVAL_SECS = 1.0
LOSSES = "EXPORTER_CONTROL_LOSS"
"""Variable of a task's environment: which share of its messages is lost, and comes twice."""
LOSSY = "lose=0.15,double=0.15,seed={seed}"
OWN = {"control_topic": ""}
"""A task that takes no part."""
STEPS = (
    (Fault.BEFORE_OFFER, 2),
    (Fault.AFTER_OFFER, 2),
    (Fault.BEFORE_BEGIN, 2),
    (Fault.AFTER_BEGIN, 2),
    (Fault.BEFORE_MERGED_COMMIT, 3),
    (Fault.AFTER_MERGED_COMMIT, 3),
    (Fault.BEFORE_OUTCOME, 3),
    (Fault.AFTER_OUTCOME, 3),
    (Fault.BEFORE_FALL_BACK, 1),
)
"""(point, hit) of the lives of `coordinated`."""


def coordinated(run: Run) -> None:
    """Two members, of which one is killed at each step of a round, whoever comes by; a new one takes its place.

    A sixth of the messages is lost, so that members also commit by themselves.
    """
    coordinate(run)
    run.environment[LOSSES] = LOSSY.format(seed=run.rng.randrange(1 << 16))
    run.load()
    waiting, members = list(reversed(STEPS)), list[Task]()
    while waiting or members:
        while waiting and len(members) < 2:
            point, hit = waiting.pop()
            members.append(run.start(armed=f"{point.value}:kill:{hit}"))
        run.wait(lambda: any(one.ended() is not None for one in members), LIFE_SECS_MAX, "a step strikes", *members)
        struck = next(one for one in members if one.ended() is not None)
        run.strike_by(struck, f"at {struck.armed.partition(':')[0]}")
        members.remove(struck)
        run.check()
    run.environment.pop(LOSSES)
    run.finish()


def lossy(run: Run) -> None:
    """A sixth of all messages is lost and a sixth comes twice, and one of two members is killed, now and then."""
    coordinate(run)
    run.load()
    members: list[Task] = []
    drawn = schedule.kills(run.rng, run.size.kills)
    run.record.schedule = [str(kill) for kill in drawn]
    for kill in drawn:
        while len(members) < 2:
            run.environment[LOSSES] = LOSSY.format(seed=run.rng.randrange(1 << 16))
            members.append(run.start())
        victim = members.pop(run.rng.randrange(2))
        if kill.after_commit:
            run.wait_commit(victim)
        run.nap(kill.secs)
        run.kill(victim, kill.whole)
        run.check()
    _stop_all(run, members)
    run.environment.pop(LOSSES, None)
    run.finish()


def topic_deleted(run: Run) -> None:
    """The control topic is deleted, so that each of two members commits by itself, and made again, empty."""
    control = coordinate(run)
    run.load()
    members = start_members(run, 2)
    for _ in range(2):
        wait_merged(run, *members)
        run.services.drop_topic(control, control)
        run.note(members[0], "the control topic is gone")
        for one in members:
            run.wait_commit(one, 4)
        run.check()
        run.ends(run.start("--create-control", verb="check"), 0)
        wait_merged(run, *members)
        run.check()
    _stop_all(run, members)
    run.finish()


def sleepers(run: Run) -> None:
    """The leader falls asleep, for longer than others wait for it or than its session, and wakes up again."""
    coordinate(run)
    run.load()
    members = start_members(run, 2)
    for number in range(run.size.kills):
        wait_merged(run, *members)
        run.nap(run.rng.uniform(0, 2 * INTERVAL_SECS))
        sleeper = leader(run)
        other = next(one for one in members if one is not sleeper)
        sleeper.signal(signal.SIGSTOP, whole=True)
        run.struck(sleeper, "SIGSTOP")
        run.wait_commit(other)
        if number % 2:
            lost = owned(sleeper)
            run.wait(partial(owns, run, other, lost), LIFE_SECS_MAX, f"{other.name} takes over {lost}", other)
            run.wait_commit(other, 3)
        sleeper.signal(signal.SIGCONT, whole=True)
        run.wait(lambda: all(map(owned, members)), LIFE_SECS_MAX, "both own something", *members)
        run.check()
    _stop_all(run, members)
    run.finish()


def mixed_modes(run: Run) -> None:
    """Three members, of which one commits by itself: they are killed in turn, and the others go on."""
    coordinate(run)
    run.load()
    modes = [OWN, {}, {}]
    members = [run.start(**changes) for changes in modes]
    for number in range(run.size.kills):
        for one in members:
            run.wait_commit(one)
        victim = members[number % 3]
        run.nap(run.rng.uniform(0, 2 * INTERVAL_SECS))
        run.kill(victim, run.rng.random() < 0.5)
        run.check()
        modes[number % 3] = OWN if number % 2 else {}
        members[number % 3] = run.start(**modes[number % 3])
    _stop_all(run, members)
    run.finish()


def coordinate(run: Run, interval_secs: float = INTERVAL_SECS) -> str:
    """Let the run's tasks commit in rounds; the topic over which they tell each other, made here."""
    control = f"{run.topic}-control"
    run.services.make_topic(control, 1, {"retention.ms": "3600000"})
    run.made_topics[control] = control
    run.scalars |= {
        "control_topic": control,
        "commit_interval_secs": interval_secs,
    }
    return control


def start_members(run: Run, count: int, **changes: Any) -> list[Task]:
    """So many tasks, one after the other, each of which owns something at last. changes: of their settings."""
    members: list[Task] = []
    for _ in range(count):
        members.append(run.start(**changes))
        run.wait_event(members[-1], "spark_started")
    run.wait(lambda: all(map(owned, members)), LIFE_SECS_MAX, "each owns something", *members)
    return members


def leader(run: Run) -> Task:
    """The living task that owns partition 0, once there is one."""

    def found() -> list[Task]:
        return [one for one in run.tasks if one.ended() is None and f"{run.topic}-0" in owned(one)]

    run.wait(found, LIFE_SECS_MAX, "one leads")
    return found()[-1]


def wait_merged(run: Run, *tasks: Task) -> None:
    """Until a merged commit has been made from now on."""
    since = time.time()

    def merged() -> bool:
        return any(one.at >= since and len({*one.claimed_by.values()}) > 1 for one in run.commits)

    run.wait(merged, LIFE_SECS_MAX, "a commit of several tasks' offers", *tasks)


def _stop_all(run: Run, members: Sequence[Task]) -> None:
    """Stop them, also one that was started a moment ago: it hears a stop once it says that it has started."""
    for one in members:
        run.wait_event(one, "task_started")
        require_alive(one)
    for one in members:
        run.stop(one)
