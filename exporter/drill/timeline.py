"""What is seen of one run: which commits landed and whose they are, what the tasks say, how long a recovery took.

The record is filled here, strikes and moments as seconds since the run's begin.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise

from exporter.drill.lateness import Turn
from exporter.drill.record import PARTS, Moment, RunRecord, Strike
from exporter.drill.tasks import Task
from exporter.local.children import LoggedEvent
from exporter.local.plain import PlainCommit, PlainLake

_MARKS = {"partition_assigned": "owns", "partition_revoked": "gives", "commit_refused": "refused"}
"""Events of tasks that stand in the timeline."""
JOBS = "derive"
"""What the names of processes begin with that run jobs."""


class Timeline:
    """The moments of one run, as they are seen."""

    def __init__(self, record: RunRecord, lake: PlainLake) -> None:
        self.commits: list[PlainCommit] = []
        self._record = record
        self._lake = lake
        self._pending: list[tuple[Strike, Task, frozenset[str]]] = []
        self._marked: dict[str, int] = {}
        self._began = time.time()

    @property
    def secs(self) -> float:
        """Since the run's begin."""
        return time.time() - self._began

    def mark(self, task: Task, kind: str, text: str = "", at: float | None = None) -> None:
        """One more moment. at: seconds since 1970; None for now."""
        moment = (time.time() if at is None else at) - self._began
        self._record.marks.append(Moment(round(moment, 3), task.name, kind, text))

    def struck(self, task: Task, what: str, at: float | None = None) -> Strike:
        """Note a strike; the first commit of another task to what this one owned ends its recovery.

        Of a task that was struck while it recovered from another strike, that one has no time of recovery. Nor has any
        of a job's process: what it owned is nobody else's.
        """
        at = time.time() if at is None else at
        strike = Strike(round(at - self._began, 3), what, task.name)
        self._pending = [one for one in self._pending if self._began + one[0].at > task.started_at]
        if not task.name.startswith(JOBS):
            self._pending.append((strike, task, frozenset(owned(task))))
        self._record.strikes.append(strike)
        self.mark(task, "strike", what, at)
        return strike

    def look(self, tasks: Iterable[Task]) -> None:
        """Take in what the tables and the tasks tell."""
        by_pid = {}
        for task in tasks:
            self._hear(task)
            by_pid[task.pid] = task
        for commit in self._lake.look():
            self.commits.append(commit)
            author = by_pid.get(commit.pid)
            if author is not None and not commit.action:
                self._record.commits += 1
                self.mark(author, "commit", f"{commit.table} {commit.version}: {commit.rows} rows", commit.at)
                self._recovered(commit, by_pid.values())

    def landed(self, task: Task) -> int:
        """How many commits that claim offsets of a task's are in the tables, whoever committed them."""
        return sum(bool(commit.moved_by(task.pid)) and not commit.action for commit in self.commits)

    def sum_up(self, tasks: Iterable[Task]) -> None:
        """The record's totals, at the end."""
        self._record.secs = round(self.secs, 1)
        self._record.orphans = self._lake.orphans()
        read = sum(int(said.fields.get("records", 0)) for one in tasks for said in one.events() if _is_read(said))
        self._record.reread = max(0, read - self._record.records)
        self._record.marks.sort(key=lambda mark: mark.at)

    def _hear(self, task: Task) -> None:
        events = task.events()
        for said in events[self._marked.get(task.name, 0) :]:
            kind = _MARKS.get(said.name)
            if kind:
                self.mark(task, kind, said.fields.get("table", "") or said.fields.get("partition", ""), said.at)
            self._record.refused += said.name == "commit_refused"
        self._marked[task.name] = len(events)

    def _recovered(self, commit: PlainCommit, tasks: Iterable[Task]) -> None:
        """The first commit with claims of another task on what a struck one owned."""
        for pending in list(self._pending):
            strike, victim, lost = pending
            at = self._began + strike.at
            if commit.at < at:
                continue
            authors = [task for task in tasks if task is not victim and commit.moved_by(task.pid)]
            author = next((task for task in authors if not lost or lost & commit.moved_by(task.pid)), None)
            if author is None:
                continue
            self._pending.remove(pending)
            strike.recovered_secs = round(commit.at - at, 3)
            if author.started_at >= at:
                strike.parts = _parts(at, author, commit.at)


def owned(task: Task) -> set[str]:
    """The partitions that a task believes to own."""
    found: set[str] = set()
    for said in task.events():
        if said.name == "partition_assigned":
            found.add(said.fields["partition"])
        elif said.name == "partition_revoked":
            found.discard(said.fields["partition"])
    return found


def turns(task: Task) -> list[Turn]:
    """When it had partitions, and when no longer; its end takes what it owned.

    It has one from the end of the first round that began when its positions were read: what waited there is staged.
    """
    found: list[Turn] = []
    recovered: dict[str, float] = {}
    for said in task.events():
        if said.name == "positions_recovered":
            recovered |= dict.fromkeys(said.fields["floors"], said.at)
        elif said.name == "partition_revoked":
            recovered.pop(said.fields["partition"], None)
            found.append(Turn(said.at, said.fields["partition"], False))
        elif _is_read(said):
            began = said.at - float(said.fields["secs"])
            read = [partition for partition, at in recovered.items() if at <= began]
            found += [Turn(said.at, partition, True) for partition in read]
            recovered = {partition: at for partition, at in recovered.items() if at > began}
    if task.ended_at is not None:
        found += [Turn(task.ended_at, partition, False) for partition in owned(task)]
    return found


def _is_read(said: LoggedEvent) -> bool:
    return said.name == "round_read"


def _parts(struck_at: float, task: Task, committed_at: float) -> dict[str, float]:
    """Where the time went, by record.PARTS; empty if the task has not told all of it."""
    names = ("spark_started", "partition_assigned", "positions_recovered", "round_read")
    said = {name: task.first(name) for name in names}
    if any(one is None for one in said.values()):
        return {}
    at = {name: one.at for name, one in said.items() if one is not None}
    fields = said["spark_started"].fields if said["spark_started"] is not None else {}
    spark_at = at["spark_started"] - fields["spark_secs"]
    moments = [struck_at, spark_at - fields["jvm_secs"], spark_at, *at.values(), committed_at]
    secs = [round(after - before, 3) for before, after in pairwise(moments)]
    return dict(zip(PARTS, secs, strict=True))
