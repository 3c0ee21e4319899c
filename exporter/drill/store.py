"""Scenarios of a store beyond a network: it throttles, is slow, is out, loses replies; all of it, or one table's part.

A task has to wait as for any outage: nothing lost or doubled, no record taken for poison and no type left behind
because of it, and when the store is back it goes on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

from exporter.drill.outages import live
from exporter.drill.run import LIFE_SECS_MAX, NotAsItMust, Run
from exporter.drill.tasks import Task
from exporter.local.proxy import WELL, Down, FaultyProxy, Troubles
from exporter.local.server import free_ports

THROTTLED = 0.3
"""Share of requests that are told to slow down while a task works on."""
SLOW_SECS, STALLED_SECS = 0.5, 20.0
OUT_SECS = 15.0
"""How long it stays away when a task has told of it."""
GIVE_UP_SECS = 15
EXIT_SECS_MAX = 120.0
"""How long a task may take to give up beyond that, with all that it still waits for."""
UNREACHABLE = 69
STORAGE_OUT = "storage does not answer"
LOST_EVERY, FAILED_EVERY = 3, 5


def throttles(run: Run) -> None:
    """Of all requests a third are told to slow down, while a task works, is killed, and the next one starts; then all.
    """
    task = live(run)
    with _troubled(run, task, Troubles(throttled=THROTTLED)):
        task = _killed_at_work(run, task, 4)
    with _troubled(run, task, Troubles(throttled=1.0)):
        _waits(run, task)
        run.nap(OUT_SECS)
    _goes_on(run, task)
    _ends(run, task)


def slow(run: Run) -> None:
    """Each request takes half a second longer, also while a task is killed and the next one starts; then 20 s."""
    task = live(run)
    with _troubled(run, task, Troubles(delay_secs=SLOW_SECS)):
        task = _killed_at_work(run, task, 4)
    with _troubled(run, task, Troubles(delay_secs=STALLED_SECS)):
        run.nap(2 * STALLED_SECS)
    _goes_on(run, task)
    _ends(run, task)


def down(run: Run) -> None:
    """It refuses connections, and a task waits; then it answers nothing, the task is killed, and the next cannot start.

    What hung is done when the store is back, also what nobody waits for any more.
    """
    (port,) = free_ports(1)
    run.scalars |= {"http_port": port}
    task = live(run)
    with _troubled(run, task, Troubles(down=Down.REFUSES)):
        _waits(run, task)
        if STORAGE_OUT not in (says := _readiness(port)):
            raise NotAsItMust(f"/readyz does not tell of the outage: {says}")
        run.nap(OUT_SECS)
        run.check()
    _goes_on(run, task)
    with _troubled(run, task, Troubles(down=Down.HANGS)):
        _waits(run, task)
        run.nap(OUT_SECS)
        run.kill(task)
        run.ends(run.start(), UNREACHABLE)
    task = run.start()
    run.wait_commit(task, 3)
    _ends(run, task)


def gives_up(run: Run) -> None:
    """It is out for longer than give_up_secs: the task ends with 69, and the next one finds all as it was."""
    for trouble in (Down.REFUSES, Down.HANGS):
        task = run.start(give_up_secs=GIVE_UP_SECS) if run.tasks else live(run, give_up_secs=GIVE_UP_SECS)
        run.wait_commit(task, 2)
        with _troubled(run, task, Troubles(down=trouble)):
            run.ends(task, UNREACHABLE, secs=GIVE_UP_SECS + EXIT_SECS_MAX)
            run.check()
    run.finish()


def loses_replies(run: Run) -> None:
    """Every third PUT has no reply although it is done, or is told to have failed; a kill in the middle of each."""
    task = live(run)
    for trouble in (Troubles(lost_every=LOST_EVERY), Troubles(failed_every=FAILED_EVERY)):
        with _troubled(run, task, trouble):
            task = _killed_at_work(run, task, 8)
    _ends(run, task)


def fails_one(run: Run) -> None:
    """Whatever is asked of one table alone is told to slow down: the others go on, and so does it in the end."""
    task = live(run)
    with _troubled(run, task, Troubles(throttled=1.0, path=f"{run.app}/order/")):
        stays, others = run.version("order"), run.version("click")
        run.wait(lambda: run.version("click") > others + 3, LIFE_SECS_MAX, "the others go on", task)
        run.wait_event(task, "type_parked")
        run.check()
        if run.version("order") > stays + 1:  # one may have been under way
            raise NotAsItMust("commits of the failing table landed")
    reached = run.version("order")
    run.wait(lambda: run.version("order") > reached + 1, LIFE_SECS_MAX, "it goes on as well", task)
    _ends(run, task)


def _killed_at_work(run: Run, task: Task, commits: int) -> Task:
    """The task that goes on where one is killed; each commits so often, and all is as it must be."""
    run.wait_commit(task, commits)
    run.check()
    run.kill(task)
    task = run.start()
    run.wait_commit(task, commits)
    run.check()
    return task


@contextmanager
def _troubled(run: Run, task: Task, troubles: Troubles) -> Iterator[None]:
    """The store has these troubles inside the block, and none after it."""
    proxy = _proxy(run)
    run.note(task, f"the store: {troubles}")
    proxy.troubles = troubles
    try:
        yield
    finally:
        proxy.troubles = WELL
        run.note(task, "the store is well again")


def _proxy(run: Run) -> FaultyProxy:
    if run.services.lakes.proxy is None:
        raise NotAsItMust("this scenario needs a store of its own")
    return run.services.lakes.proxy


def _waits(run: Run, task: Task) -> None:
    """Until the task has told of the outage, as one of the storage."""
    before = _outages(task)
    run.wait(lambda: _outages(task) > before, LIFE_SECS_MAX, f"{task.name} tells of the outage", task)


def _goes_on(run: Run, task: Task) -> None:
    """It commits again, to all tables."""
    versions = {name: run.version(name) for name in run.types}
    run.wait_commit(task, 3)
    behind = f"{task.name} commits to all tables again"
    run.wait(lambda: all(run.version(name) > at for name, at in versions.items()), LIFE_SECS_MAX, behind, task)
    run.check()


def _ends(run: Run, task: Task) -> None:
    """The task is killed, and the run is over; nothing was taken for a bad record."""
    run.over(task)
    if any(one.count("record_condemned") for one in run.tasks):
        raise NotAsItMust("a record was taken for poison because the store did not answer")


def _readiness(port: int) -> str:
    """What /readyz says, whatever its status."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10.0)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().read().decode("utf-8", "replace")
    finally:
        connection.close()


def _outages(task: Task) -> int:
    return sum(said.name == "outage_seen" and said.fields.get("dependency") == "storage" for said in task.events())
