"""`exporter demo --derive`: tables that are made of the tables, beside an export, and their audit.

    logins ──> the last one of each user      orders, then their prices ──> sales      ──> exporter derive audit
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from exporter.demo import kitchen
from exporter.demo.child import EXPORT_SECS_MAX, DemoChild, nap
from exporter.demo.kitchen import EXPECTED, MIRROR, SALES
from exporter.demo.stage import Stage
from exporter.demo.story import StoryStep
from exporter.errors import FoundProblem
from exporter.local.plain import PlainLake
from offsets.names import DERIVED_FOLDER


def derive(stage: Stage) -> None:
    """Both jobs inside an export. Raises FoundProblem if they come to anything else than they must."""
    found: list[str] = []
    with stage.story.step("Tables of the tables", "an exporter starts, with the jobs of [derive] inside") as step:
        exporter = stage.exporter("run-3", "run", "--derive-inline", "true")
        step.note(f"{MIRROR}: {_ran(exporter, step, MIRROR):,} rows, the newest login of each user.")
        kitchen.send(stage.bootstrap, kitchen.ORDERS)
        _until(exporter, step, "the orders were not exported", "commit_landed", table="order")
        for priced in kitchen.MENU:
            kitchen.send(stage.bootstrap, (priced,))
            found = _sales(stage, exporter, step, len(found) + 1)
            step.note(f"{SALES}: {priced['product']} has a price, so transaction {priced['txn']} is done: {found[-1]}.")
        exporter.end()
        step.result = f"one row of each user, and one of each of {len(found)} orders"
    if tuple(found) != EXPECTED:
        raise FoundProblem(f"the sales are {', '.join(found)}, not {', '.join(EXPECTED)}", f"read {exporter.log}")
    _audit(stage)


def _ran(exporter: DemoChild, step: StoryStep, job: str) -> int:
    """Rows of a job's first run, once it has run."""
    return int(_until(exporter, step, f"the job {job} has not run", "derive_ran", job=job)["rows"])


def _until(exporter: DemoChild, step: StoryStep, what: str, event: str, **fields: str) -> dict[str, Any]:
    """What an event says, once the exporter has said it. what: if it does not, in time."""
    deadline = time.monotonic() + EXPORT_SECS_MAX
    while True:
        for said in exporter.events():
            rows = said.fields.get("rows", 0)
            if said.name == event and rows and all(said.fields.get(name) == text for name, text in fields.items()):
                return dict(said.fields)
        _living(exporter, step, deadline, what)


def _sales(stage: Stage, exporter: DemoChild, step: StoryStep, count: int) -> list[str]:
    """All sales, in their order, once there are so many."""
    deadline = time.monotonic() + EXPORT_SECS_MAX
    while len(found := sales(stage.lake)) < count:
        _living(exporter, step, deadline, f"{count} sales were not written")
    return found


def _living(exporter: DemoChild, step: StoryStep, deadline: float, what: str) -> None:
    if exporter.state() == "ended":
        raise exporter.failed("ended too soon")
    if stopped := exporter.first("derive_ended") or exporter.first("derive_stopped"):
        raise FoundProblem(str(stopped.fields["error"]), f"read {exporter.log}")
    step.progress("")
    nap(deadline, what)


def sales(lake: Path) -> list[str]:
    """The rows of their table, by its log and its files alone."""
    jobs = PlainLake(lake / DERIVED_FOLDER)
    jobs.look()
    paths = jobs.tables[SALES].live if SALES in jobs.tables else ()
    rows = [row for path in paths for row in pq.ParquetFile(lake / DERIVED_FOLDER / SALES / path).read().to_pylist()]
    found = sorted((row for row in rows if row.get("total") is not None), key=lambda row: int(row["_seq"]))
    return [kitchen.shown(row) for row in found]


def _audit(stage: Stage) -> None:
    """What `exporter derive audit` finds: the tables once more, by another way."""
    with stage.story.step("Audit of these tables", "making them once more, by another way") as step:
        child = stage.exporter("derive-audit", "derive", "audit", "--format", "json")
        child.wait(time.monotonic() + EXPORT_SECS_MAX)
        lines = json.loads(child.output())
        step.result = "; ".join(f"{one['job']}: {one['what']}" for one in lines if one["clean"])
