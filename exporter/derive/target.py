"""The table of a job: rows and cursors in one commit, and what became of it (protocol 9.2, 9.4)."""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exporter.derive.failing import told as shown
from exporter.errors import ExporterError, Fenced, InvariantBroken
from exporter.faults import Fault, point
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.log_files import entry_lines
from exporter.lake.settling import Unseen, told
from exporter.lake.table import DeltaTable
from offsets import Invariant
from offsets.cursors import rebuilt_id, run_id, superseded
from offsets.partitions import Spec
from offsets.table_log import APP_PROPERTY, TableView, own_metadata

DERIVE_PROPERTY = "exporter.derive"
"""Of a job's table: the job's kind."""
UNCUT = Spec("none")


def new_owner() -> str:
    """Who runs a job, for the reader of the history and for another process that is refused; unique."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class RunFailed(ExporterError):
    """A run's rows could not be made or written: the query, the data, or the system underneath."""


class TargetMoved(Exception):
    """The job's table is not what the run was based on: another process has run the job meanwhile."""


@dataclass(frozen=True)
class RunCommit:
    """What one run commits. rows: a DataFrame, None for none. positions: cursors, as appId -> version.

    create: Spark schema JSON, of a table that is to be made by this commit, cut by `spec`. evolve: of one that gets
    columns. properties: of the table, to be set. removes_all: whether the commit takes out all rows that the table has
    (a rebuild).
    """

    rows: Any
    positions: Mapping[str, int]
    says: Mapping[str, Any] = field(default_factory=dict)
    create: str | None = None
    evolve: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    spec: Spec = UNCUT
    removes_all: bool = False


class Target:
    """Writes the table of one job. Every run is one commit, and counts the job's runs in `<app>/derive/<job>/run`."""

    def __init__(self, lake: Lake, job: str, kind: str, owner: str) -> None:
        """owner: as new_owner() makes it."""
        self._lake = lake
        self.job = job
        self.kind = kind
        self.owner = owner
        self.table: DeltaTable = lake.derived(job)

    @property
    def run_id(self) -> str:
        return run_id(self._lake.app, self.job)

    def view(self) -> TableView | None:
        """The table now; None if there is none. Raises InvariantBroken if it is something else's."""
        return self._mine(self.table.view())

    def _mine(self, view: TableView | None) -> TableView | None:
        """A view, if it is of the job's own table. Raises InvariantBroken."""
        if view is None:
            return None
        mine = view.properties.get(APP_PROPERTY), view.properties.get(DERIVE_PROPERTY)
        if mine != (self._lake.app, self.kind):
            what = f"the table of derive {self.job} is of app {mine[0]!r} and kind {mine[1]!r}"
            raise InvariantBroken(Invariant.ROUTE, what, "give the job another name")
        return view

    def runs(self, view: TableView | None) -> int:
        """How many runs have been committed."""
        return 0 if view is None else view.transactions.get(self.run_id, 0)

    def commit(self, based_on: TableView | None, made: RunCommit) -> int:
        """The version. Raises Fenced if the job was run by another process meanwhile, ExporterError.

        Whatever exception comes back, the outcome is found by looking (protocol 4.4).
        """
        commit_id = uuid.uuid4().hex
        run = self.runs(based_on) + 1
        said = {**made.positions, self.run_id: run}
        if based_on and made.removes_all:
            said |= superseded(based_on.transactions, said, self._lake.app, self.job)
            said |= {rebuilt_id(self._lake.app, self.job): run}
        change = Change(
            expected=tuple(said),
            positions=said,
            user_metadata={**self.metadata(commit_id), "run": run, **made.says},
            properties={**made.properties, **({DERIVE_PROPERTY: self.kind} if made.create else {})},
            create=made.create,
            evolve=made.evolve,
            removes=tuple(one["path"] for one in self._live(based_on)) if made.removes_all else (),
            spec=made.spec,
            rows=made.rows,
        )
        point(Fault.BEFORE_DERIVE_COMMIT, self.job)
        check = self._same(run - 1, based_on if made.evolve or made.removes_all else None)
        return self.settled(based_on, commit_id, lambda: self.table.commit(change, check))

    def metadata(self, commit_id: str) -> dict[str, Any]:
        """What each commit of the job says of itself."""
        return {"commit_id": commit_id, "app": self._lake.app, "owner": self.owner, "derive": self.job}

    def settled(self, based_on: TableView | None, commit_id: str, offer: Callable[[], int | None]) -> int:
        """The version that a commit made, whatever its call said. offer: makes it; its version if it tells one.

        Raises Fenced where another process's run is there in its stead, ExporterError where nothing is.
        """
        def offered() -> int | None:
            version = offer()
            point(Fault.AFTER_DERIVE_COMMIT, self.job)
            return version

        return self._version(told(self.table, commit_id, based_on, offered), based_on)

    def _version(self, ended: int | Unseen, based_on: TableView | None) -> int:
        """Of a run's commit, as in settled()."""
        if not isinstance(ended, Unseen):
            return ended
        others = [said for one in ended.since if (said := own_metadata(one.user_metadata)).get("derive") == self.job]
        if others or self.runs(self._mine(ended.view)) != self.runs(based_on):
            by = next((said["owner"] for said in reversed(others) if "owner" in said), "another process")
            raise Fenced(
                f"derive {self.job}: this run was refused, for the job is run by {by} too",
                "one process runs a job: stop one of the two; nothing was written twice",
            ) from ended.error
        if isinstance(ended.error, ExporterError):
            raise ended.error
        what = f"derive {self.job}: the run failed, and nothing of it is in the table: {shown(ended.error)}"
        raise RunFailed(
            what, "if it is about the query or the data, correct the query; else try again"
        ) from ended.error

    def added_rows(self, version: int) -> int:
        """How many rows a version added, by what it says of its files."""
        with entry_lines(self.table.store, version) as lines:
            adds = [action["add"] for action in map(json.loads, lines) if "add" in action]
        return sum(json.loads(add.get("stats") or "{}").get("numRecords", 0) for add in adds)

    def _same(self, runs: int, newest: TableView | None) -> Callable[[TableView | None], str | None]:
        """newest: whose columns the commit changes, or whose rows it takes out; it has to be the newest version then.

        What a statement has done since, which counts no run, would lie beneath without being known.
        """

        def check(view: TableView | None) -> str | None:
            if self.runs(view) != runs:
                raise TargetMoved(f"{self.runs(view)} runs instead of {runs}")
            if newest is not None and (view is None or view.version != newest.version):
                raise TargetMoved(f"version {newest.version} is not the newest any more")
            return None

        return check

    def _live(self, view: TableView | None) -> list[dict[str, Any]]:
        return [] if view is None else self.table.files_at(view.version)
