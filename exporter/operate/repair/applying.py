"""Puts a repair's plan into effect: each table by one commit, at exactly the version that was read.

    read everything ─ plan ─ commit each table ─ read again ...
    ... until the plan holds nothing but the dead letters, which are written last: while a table is in a
    later epoch than they are, every task stays away (protocol 5.3a), and a repair that was interrupted
    anywhere finds the rest to be done in the tables alone.

What is moved is written to the write-ahead log first, as a commit without rows, and completed afterwards. Rows that a
table must not keep, in files that hold others too, go by DELETE, before it is read again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from exporter.core.routing import DEAD_LETTERS
from exporter.core.user_metadata import moved_to, user_metadata
from exporter.errors import DependencyUnreachable, Fenced
from exporter.faults import Fault, point
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.settling import Expect, Moved, commit_or_moved
from exporter.lake.table import DeltaTable
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.operate.repair.reading import NothingToRepair
from exporter.operate.repair.steps import WHERE, RepairRow, TableRepair
from exporter.protocol.anchor import ATTEMPTS_MAX, Patience
from exporter.sql_text import literal
from exporter.wal.journal import Journal
from offsets.intents import Intent, IntentKey
from offsets.names import AppId
from offsets.rewind import Bound

log = get_logger(__name__)


class Applying:
    """One lake, one app, one kind of repair."""

    def __init__(self, lake: Lake, journal: Journal, action: str) -> None:
        """journal: of the write-ahead log. action: what the tables' history calls it."""
        self._lake = lake
        self._journal = journal
        self._action = action

    def run(self, plan: Callable[[], list[TableRepair]], apply: bool) -> list[RepairRow]:
        """What was planned, or with `apply` done. Raises NothingToRepair."""
        done: list[RepairRow] = []
        patience = Patience()
        for _ in range(ATTEMPTS_MAX):
            steps = plan()
            if not steps and not done:
                raise NothingToRepair(f"there is nothing to {self._action}", WHERE)
            if not apply or not steps:
                return done or [row for step in steps for row in step.rows]
            for step in steps:
                if step.name == DEAD_LETTERS and len(steps) > 1:
                    break  # the dead letters are written by a plan that finds nothing else to do
                try:
                    self._commit(step)
                except Moved as moved:
                    patience.restart(moved)
                    break
                done += step.rows
        raise Fenced("the tables did not come to rest", "stop the tasks that write them, then start the repair again")

    def _commit(self, step: TableRepair) -> None:
        """One table. Raises Moved if it is not at the version that was read, or rows had to be deleted first."""
        table = self._lake.table(step.name)
        commit_id, new_id = uuid.uuid4().hex, str(uuid.uuid4())
        intents = self._intents(step, commit_id, step.view.table_id if step.view else new_id)
        if why := self._journal.begin(step.name, intents):
            raise DependencyUnreachable(f"{why}, and a repair is written to it first", "start the repair again then")
        if step.files.mixed:
            self._delete_rows(table, step.bounds)
            point(Fault.AFTER_REPAIR)
            raise Moved(f"table {step.name}: rows were deleted")

        closed = [(row.tp, row.old.epoch) for row in step.rows if row.tp is not None and row.old is not None]
        poison = [str(AppId(self._lake.app, tp, epoch, "condemned")) for tp, epoch in closed]
        change = Change(
            expected=(*(app_id for app_id in step.transactions if AppId.parse(app_id).kind is None), *poison),
            positions=step.transactions,
            adds=step.adds(),
            user_metadata=user_metadata(
                commit_id,
                action=self._action,
                app=self._lake.app,
                checked_through=step.view.version if step.view else -1,
                partitions={
                    row.tp: moved_to(row.new) for row in step.rows if row.tp is not None and row.new is not None
                },
                more={**step.says, "owner": self._journal.owner, "routing": step.routing},
            ),
            properties=step.properties,
            create=step.create,
            spec=self._lake.specs.of(step.name),
            evolve=step.evolve,
            removes=step.files.removed,
            table_id=new_id,
        )
        version = commit_or_moved(table, change, Expect(step.view, alone=True))
        log.info(Event.TABLE_REPAIRED, table=step.name, action=self._action, partitions=len(step.rows),
                 files_removed=len(step.files.removed))  # fmt: skip
        self._journal.settle(step.name, {(intent.key.tp, commit_id): version for intent in intents}, [])
        point(Fault.AFTER_REPAIR)

    def _intents(self, step: TableRepair, commit_id: str, table_id: str) -> list[Intent]:
        """What the log is told of one step; a partition that begins before its first offset has nothing to tell."""
        now_ms, through = int(time.time() * 1000), step.view.version if step.view else -1
        return [
            Intent(
                IntentKey(step.name, row.tp, row.new.epoch), commit_id, self._journal.owner,
                row.old.offset if row.old is not None else -1, row.new.offset, row.new.offset, row.new.offset, 0,
                through, table_id, step.routing, now_ms,
            )
            for row in step.rows
            if row.tp is not None and row.new is not None and row.new.offset >= 0
        ]  # fmt: skip

    def _delete_rows(self, table: DeltaTable, bounds: Sequence[Bound]) -> None:
        conditions = " OR ".join(
            f"(_kafka.topic = {literal(b.tp.topic)} AND _kafka.partition = {int(b.tp.partition)} "
            f"AND _kafka.epoch >= {int(b.since)} AND _kafka.offset > {int(b.after)})"
            for b in bounds
        )
        log.info(Event.ROWS_DELETED, table=table.event_type, condition=conditions)
        table.commands().delete(conditions)
