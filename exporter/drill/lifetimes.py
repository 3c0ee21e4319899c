"""The life of tables: columns come later, old days go, a person is forgotten, beside members that are killed.

    load (some of a person, some too old) ──> two members, a mirror ──> maintenance, erasures, each killed at its steps
      at the end    one turn of each ── nothing of the person and nothing too old is left, all else is there once

A record's key says, behind a `|`, what may become of its row: `old` or `person`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial

from exporter.drill import schedule
from exporter.drill.derived import PACE
from exporter.drill.producer import BAD_EVERY, NOON, DrillRecord, bad, good
from exporter.drill.run import LIFE_SECS_MAX, NotAsItMust, Run
from exporter.drill.tasks import Task
from exporter.errors import FoundProblem
from exporter.faults import Fault
from exporter.log_events import Event

PERSON = "4711"
OLD_DAYS, KEPT_DAYS = (3, 4), (0, 1)
"""Before NOON. What lies between is not written: a run may go on beyond midnight."""
BEFORE = {"order": "id BIGINT", "click": "id BIGINT, page STRING", "payment": "id BIGINT, ok BOOLEAN"}
AFTER = {**BEFORE, "order": "id BIGINT, amount DECIMAL(12,2), note STRING, customer STRING"}
MIRROR = {"derive.newest": {"kind": "mirror", "source": "click", "keys": ["page"], "order": ["id"]}}
STEPS = (
    Fault.AFTER_AGED_BOUND, Fault.AFTER_AGED_DELETE, Fault.AFTER_REWRITE, Fault.AFTER_BACKFILL, Fault.AFTER_ERASING,
    Fault.AFTER_ERASED,
)  # fmt: skip
"""Of maintenance, in an order in which each of them has something to do."""

PASSED_OVER = FoundProblem.exit_code
"""How an erasure ends that has left a table to the next turn."""
TRIES_MAX = 8
PER_SEC = 40
"""Few: what is killed here does its work between commits, and a machine of two cores runs four JVMs."""


def lived(number: int) -> DrillRecord:
    """The n-th record: a third is too old, a tenth is of the person, some are bad."""
    if number % BAD_EVERY == BAD_EVERY - 1:
        return bad(number // BAD_EVERY)
    kind = ("order", "click", "order", "payment")[number % 4]
    is_old = number % 3 == 0
    days = OLD_DAYS[number % 2] if is_old else KEPT_DAYS[number % 2]
    value = json.loads(good(kind, number).value or b"{}")
    value["at"] = (NOON - timedelta(days=days)).isoformat()
    is_persons = kind == "order" and number % 10 < 2
    value["customer"] = PERSON if is_persons else f"c{number % 50}"
    note = "|person" if is_persons else "|old" if is_old else ""
    key = f"{kind}{note}".encode()
    return DrillRecord(key, json.dumps(value).encode(), int(NOON.timestamp() * 1000))


def lifetimes(run: Run) -> None:
    """Columns come later, old days go, a person is forgotten: each step of each is killed, beside members that are."""
    kept = (datetime.now(timezone.utc).date() - NOON.date()).days + max(KEPT_DAYS) + 1
    run.scalars |= {**PACE, "retention_days": kept, "maintain_backfill": True}
    run.types, run.sections = dict(BEFORE), {**run.sections, **MIRROR}
    run.gone = {"old", "person"}
    run.load(lived, PER_SEC)
    task = run.start()
    run.wait_commit(task, 3)
    run.stop(task)
    run.types = dict(AFTER)
    member, mirror = run.start(), run.start("run", verb="derive")
    run.wait_commit(member, 3)
    erase = _erasing(run)
    killed = iter(schedule.kills(run.rng, len(STEPS)))
    for point in STEPS:
        if point is Fault.AFTER_ERASING:
            _killed(run, Fault.AFTER_ERASURE, erase)
        kill, other = next(killed), run.start()
        _killed(run, point, partial(_maintaining, run))
        run.nap(kill.secs)
        run.kill(other, kill.whole)
        run.check()
    run.wait_commit(member)
    run.stop(member)
    run.stop(mirror)
    run.finish()
    _whole(run, erase)
    _whole(run, partial(_maintaining, run))
    run.gone, run.left_out = set(), {"old", "person"}
    run.check(through=True)
    run.audit()
    run.ends(run.start("run", "newest", "--rebuild", verb="derive"), 0)
    run.ends(run.start("audit", verb="derive"), 0)


def _killed(run: Run, point: Fault, begin: Callable[[str], Task]) -> None:
    """Begin it until it comes to the point: what a killed one has locked is free a minute later."""
    for _ in range(TRIES_MAX):
        work = begin(f"{point.value}:kill:1")
        run.wait(partial(_has_ended, work), LIFE_SECS_MAX, f"{work.name} ends", work)
        if work.ended() not in (0, PASSED_OVER):
            run.strike_by(work, f"at {point.value}")
            return
    raise NotAsItMust(f"nothing came to {point.value}")


def _whole(run: Run, begin: Callable[[str], Task]) -> None:
    """Do it until it has passed over no table: one that a killed one has locked is free a minute later."""
    for _ in range(TRIES_MAX):
        work = begin("")
        run.ends(work, 0, PASSED_OVER)
        if work.ended() == 0 and not work.count(Event.MAINTENANCE_SKIPPED.value):
            return
    raise NotAsItMust(f"{work.name} still passes over a table")


def _has_ended(task: Task) -> bool:
    return task.ended() is not None


def _maintaining(run: Run, armed: str) -> Task:
    return run.start("--apply", verb="maintain", armed=armed)


def _erasing(run: Run) -> Callable[[str], Task]:
    """What begins an erasure of the person, armed or not."""
    values = run.folder / "persons.txt"
    values.write_text(f"{PERSON}\n", "utf-8")

    def begin(armed: str) -> Task:
        flags = ("--subject-column", "customer", "--values", str(values), "--apply")
        return run.start(*flags, verb="erase", armed=armed)

    return begin
