"""`exporter demo --derive`: tables that are made of the tables, beside an export, and their audit.

    the menu ──> an order that is done, one that is not ──> its last record ──> exporter derive audit
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from exporter.demo import kitchen
from exporter.demo.child import EXPORT_SECS_MAX, DemoChild, nap
from exporter.demo.kitchen import BILLS, EXPECTED, MIRROR
from exporter.demo.stage import Stage
from exporter.demo.story import Step
from exporter.errors import FoundProblem
from offsets.names import DERIVED_FOLDER


def derive(stage: Stage) -> None:
    """Both jobs inside an export. Raises FoundProblem if they come to anything else than they must."""
    with stage.story.step("Tables of the tables", "an exporter starts, with the jobs of [derive] inside") as step:
        exporter = stage.exporter("run-3", "run", "--derive-inline", "true")
        step.note(f"{MIRROR}: {_ran(exporter, step, MIRROR):,} rows, the newest login of each user.")
        kitchen.send(stage.bootstrap, kitchen.MENU)
        _until(exporter, step, "the menu was not exported", "commit_landed", table="menu")
        bills: list[str] = []
        for records, expected in ((kitchen.FIRST, "200"), (kitchen.SECOND, "100")):
            kitchen.send(stage.bootstrap, records)
            bills = _bills(stage, exporter, step, len(bills) + 1)
            step.note(f"{BILLS}: order {expected} is done, {bills[-1]} (number, order, pieces, price).")
        exporter.end()
        step.result = f"{len(bills)} orders put together of their records, one login of each user"
    if tuple(bills) != EXPECTED:
        raise FoundProblem(f"the bills are {', '.join(bills)}, not {', '.join(EXPECTED)}", f"read {exporter.log}")
    _audit(stage)


def _ran(exporter: DemoChild, step: Step, job: str) -> int:
    """Rows of a job's first run, once it has run."""
    return int(_until(exporter, step, f"the job {job} has not run", "derive_ran", job=job)["rows"])


def _until(exporter: DemoChild, step: Step, what: str, event: str, **fields: str) -> dict[str, Any]:
    """What an event says, once the exporter has said it. what: if it does not, in time."""
    deadline = time.monotonic() + EXPORT_SECS_MAX
    while True:
        for said in exporter.events():
            rows = said.fields.get("rows", 0)
            if said.name == event and rows and all(said.fields.get(name) == text for name, text in fields.items()):
                return dict(said.fields)
        _living(exporter, step, deadline, what)


def _bills(stage: Stage, exporter: DemoChild, step: Step, count: int) -> list[str]:
    """All bills, in their order, once there are so many."""
    deadline = time.monotonic() + EXPORT_SECS_MAX
    while len(found := bills(stage.lake)) < count:
        _living(exporter, step, deadline, f"{count} bills were not written")
    return found


def _living(exporter: DemoChild, step: Step, deadline: float, what: str) -> None:
    if exporter.state() == "ended":
        raise exporter.failed("ended too soon")
    step.progress("")
    nap(deadline, what)


def bills(lake: Path) -> list[str]:
    """The rows of the bills' table, by its log and its files alone."""
    rows = [row for row in _rows(lake / DERIVED_FOLDER / BILLS) if row.get("price") is not None]
    return [kitchen.shown(row) for row in sorted(rows, key=lambda row: int(row["_seq"]))]


def _rows(table: Path) -> Sequence[dict[str, Any]]:
    """Of a table of few commits, none of whose files is of more than one."""
    live: dict[str, None] = {}
    for path in sorted(table.glob("_delta_log/*.json")):
        for action in map(json.loads, path.read_text("utf-8").splitlines()):
            if "add" in action:
                live[action["add"]["path"]] = None
            if "remove" in action:
                live.pop(action["remove"]["path"], None)
    return [row for path in live for row in pq.ParquetFile(table / path).read().to_pylist()]


def _audit(stage: Stage) -> None:
    """What `exporter derive audit` finds: the tables once more, by another way."""
    with stage.story.step("Audit of these tables", "making them once more, by another way") as step:
        child = stage.exporter("derive-audit", "derive", "audit", "--format", "json")
        child.wait(time.monotonic() + EXPORT_SECS_MAX)
        lines = json.loads(child.output())
        step.result = "; ".join(f"{one['job']}: {one['what']}" for one in lines if one["clean"])
