"""The golden timelines as stories that can be told against any tables.

Task is one exporter process reduced to its decisions: it plans, integrates, freezes, resolves, parks
and starts with the real pure code. What it decides about is reached through the seam Tables, so that
the same stories run against MemoryTables here and against real Delta tables elsewhere.

    records of the drawing -> Task.read -> Tables.stage -> Task.write -> Tables.commit -> Task.start again

It must never decide anything itself that the exporter decides.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from exporter.core import heartbeat
from exporter.core.outcome import Landed, Refused, Unknown, resolve
from exporter.core.plan import Budget, plan_round
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import (
    Claim,
    Fragment,
    PartitionPlan,
    StagedFile,
    Writer,
    WriterKey,
    drop,
    freeze,
    integrate,
    landed,
    missing_anchors,
    offered,
    park,
    staged_range_error,
)
from offsets.crosscheck import Agree, FirstStart, TableState, verdict
from offsets.names import DataFile
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import last_named_offsets
from tests.support.days import partition_of

GOLDEN = Path(__file__).parents[1] / "golden" / "timelines.json"
APP = "story"
TP = TopicPartition("events", 0)
ROUTE = "one configuration"
FIRST_DAY = date(2026, 11, 1)


@dataclass(frozen=True, order=True)
class Record:
    """One record of the drawing; `day` is the day of its event time."""

    offset: int
    event_type: str
    day: date = FIRST_DAY


class Tables(Protocol):
    """The seam: all tables of APP, for the partition TP. Every reading is fresh; nothing is kept between calls."""

    def position(self, event_type: str) -> Position | None:
        """The type's live position; None if the table or its anchor is absent."""

    def version(self, event_type: str) -> int:
        """The table's newest version; -1 if there is no table."""

    def commit_ids(self, event_type: str, after: int) -> frozenset[str]:
        """The ids of our commits in versions greater than `after`."""

    def anchor(self, event_type: str, position: Position) -> None:
        """Create the table and anchor it in one commit; an anchor that is there already stays as it is."""

    def stage(self, event_type: str, epoch: int, records: Sequence[Record]) -> StagedFile:
        """Write records of one day, in order of offset, to a file in the table's folder that no commit names."""

    def commit(self, claim: Claim, commit_id: str) -> None:
        """Files and position in one commit, compare-and-set on (epoch, expected). Raises unless it landed."""

    def offsets(self, event_type: str) -> list[int]:
        """The offset of every committed row, in order; a doubled row shows twice."""

    def paths(self, event_type: str) -> list[str]:
        """The paths of all committed data files, relative to the table's folder."""


class Conflict(Exception):
    """The compare-and-set of a commit failed."""


@dataclass
class _MemoryTable:
    position: Position
    versions: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


@dataclass
class MemoryTables:
    """Tables in memory, stricter than the real ones: what was never staged, or is committed already, is refused.

    files: event type and path -> offsets in it. Nothing removes one (TEMP).
    """

    files: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    tables: dict[str, _MemoryTable] = field(default_factory=dict)

    def position(self, event_type: str) -> Position | None:
        table = self.tables.get(event_type)
        return table.position if table else None

    def version(self, event_type: str) -> int:
        return len(self.tables[event_type].versions) - 1 if event_type in self.tables else -1

    def commit_ids(self, event_type: str, after: int) -> frozenset[str]:
        return frozenset(commit_id for commit_id, _ in self.tables[event_type].versions[after + 1 :])

    def anchor(self, event_type: str, position: Position) -> None:
        self.tables.setdefault(event_type, _MemoryTable(position, [("", ())]))

    def stage(self, event_type: str, epoch: int, records: Sequence[Record]) -> StagedFile:
        offsets = tuple(record.offset for record in records)
        if list(offsets) != sorted(set(offsets)) or len({record.day for record in records}) != 1:
            raise ValueError(f"not the records of one file: {records}")
        path = str(DataFile(partition_of(records[0].day), APP, TP, epoch, offsets[-1], str(uuid.uuid4())))
        self.files[event_type, path] = offsets
        return StagedFile(path, OffsetRange(offsets[0], offsets[-1]), len(offsets), 100 * len(offsets))

    def commit(self, claim: Claim, commit_id: str) -> None:
        event_type = claim.key.event_type
        table = self.tables[event_type]
        if table.position != Position(claim.epoch, claim.expected):
            raise Conflict(f"{claim.key}: expected {claim.expected}, found {table.position}")
        paths = tuple(file.path for file in claim.files)
        if any((event_type, path) not in self.files for path in paths) or set(paths) & set(self.paths(event_type)):
            raise ValueError(f"unknown or committed files in {paths}")
        table.versions.append((commit_id, paths))
        table.position = Position(claim.epoch, claim.new)

    def offsets(self, event_type: str) -> list[int]:
        return sorted(offset for path in self.paths(event_type) for offset in self.files[event_type, path])

    def paths(self, event_type: str) -> list[str]:
        table = self.tables.get(event_type)
        return [path for _, paths in table.versions for path in paths] if table else []


class Fault(Enum):
    """What happens to one offer of a commit."""

    NONE = "it arrives and is answered"
    LOST_REQUEST = "it never arrives"
    LOST_REPLY = "it arrives and its answer is lost"


class Lost(Exception):
    """The injected fault."""


@dataclass
class Task:
    """One exporter process with one partition. Time stands still unless a story moves `now` (seconds).

    log: the whole partition. types: the declared types. seen: every record staged, in order of staging.
    errors: what the commits raised; outcomes: what became of them.
    """

    tables: Tables
    log: Sequence[Record]
    types: tuple[str, ...]
    first: int = -1
    round_records_max: int = 1000
    now: float = 0.0
    writers: dict[WriterKey, Writer] = field(default_factory=dict)
    seen: list[Record] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    outcomes: list[Landed | Unknown | Refused] = field(default_factory=list)

    @property
    def active(self) -> tuple[str, ...]:
        return (DEAD_LETTERS, *self.types)

    def start(self) -> Task:
        """Read every table, anchor what is absent, begin at the positions. Returns itself."""
        for _ in range(3):
            found = verdict(self._states(), DEAD_LETTERS, {0: ROUTE}, ROUTE, self.active)
            if isinstance(found, FirstStart):
                self.tables.anchor(DEAD_LETTERS, Position(0, self.first))
            elif isinstance(found, Agree) and found.unanchored:
                for event_type in found.unanchored:
                    self.tables.anchor(event_type, Position(found.epoch, found.anchor_at))
            elif isinstance(found, Agree):
                self.writers = {
                    WriterKey(name, TP): Writer(WriterKey(name, TP), found.epoch, 1, offset, offset)
                    for name, offset in found.positions.items()
                }
                return self
            else:
                break
        raise RuntimeError(f"cannot start: {found}")

    def _states(self) -> dict[str, TableState]:
        states = {}
        for name in self.active:
            position = self.tables.position(name)
            named = last_named_offsets(self.tables.paths(name), APP)
            states[name] = TableState(position, named.get(TP, {}).get(position.epoch, -1) if position else -1)
        return states

    def read(self, through: int) -> Task:
        """Rounds until every type that is not parked has its records <= `through` staged. Returns itself."""
        budget = Budget(self.round_records_max)
        while plans := plan_round(self.writers, {TP: through + 1}, budget, self.now):
            for plan in plans:
                self.integrate(self.run(plan))
        return self

    def run(self, plan: PartitionPlan) -> Fragment:
        """What the Spark tasks of a round do: drop what is covered or not listed, stage the rest per type and day."""
        files = {}
        for name, bound in plan.bounds.items():
            days: dict[date, list[Record]] = {}
            for record in self.log:
                inside = plan.start <= record.offset < plan.end
                if inside and record.event_type == name and record.offset > bound:
                    days.setdefault(record.day, []).append(record)
            self.seen += sorted(record for records in days.values() for record in records)
            if days:
                files[name] = tuple(self.tables.stage(name, plan.epoch, days[day]) for day in sorted(days))
        return Fragment(plan, files)

    def integrate(self, fragment: Fragment) -> dict[str, str]:
        """Returns the types whose part was discarded, and why."""
        if missing_anchors(self.writers, fragment):
            raise RuntimeError("a story declares all its types")
        result = integrate(self.writers, fragment, self.now)
        self.writers = result.writers
        return result.discarded

    def write(self, event_type: str, fault: Fault = Fault.NONE) -> None:
        """Commit all that is pending of a type: first what is unresolved, then the rest."""
        key = WriterKey(event_type, TP)
        while self.writers[key].claim is not None or self.writers[key].staged:
            self._offer(key, fault)
            if isinstance(self.outcomes[-1], Unknown):
                return

    def beat(self) -> None:
        """Commit every empty marker that is due."""
        for keys in heartbeat.markers_due(self.writers, 0.0, self.now).values():
            for key in keys:
                self._offer(key, Fault.NONE)

    def give_up_for_now(self, event_type: str) -> None:
        """Park a type that cannot be written."""
        key = WriterKey(event_type, TP)
        self.writers[key] = park(self.writers[key], "the story says so", self.now)

    def _offer(self, key: WriterKey, fault: Fault) -> None:
        name = key.event_type
        writer = self.writers[key]
        if writer.claim is None:
            writer = freeze(writer, self.tables.version(name))
        commit_id = str(uuid.uuid4())
        claim = replace(writer.claim, offers=(*writer.claim.offers, commit_id))
        writer = offered(writer, claim)
        if error := staged_range_error(claim):
            raise RuntimeError(error)
        try:
            self._send(claim, commit_id, fault)
        except Exception as error:  # noqa: BLE001 - whatever it was, the table decides (protocol 4.4)
            self.errors.append(error)
        position = self.tables.position(name)
        outcome = resolve(claim, self.tables.commit_ids(name, claim.base_version), position)
        self.outcomes.append(outcome)
        self.writers[key] = self._after(writer, claim, outcome)

    def _send(self, claim: Claim, commit_id: str, fault: Fault) -> None:
        if fault is Fault.LOST_REQUEST:
            raise Lost
        self.tables.commit(claim, commit_id)
        if fault is Fault.LOST_REPLY:
            raise Lost

    def _after(self, writer: Writer, claim: Claim, outcome: Landed | Unknown | Refused) -> Writer:
        if isinstance(outcome, Unknown):
            return writer
        if isinstance(outcome, Landed) and outcome.position == Position(claim.epoch, claim.new):
            return landed(writer, claim, self.now)
        if outcome.position is None:
            raise RuntimeError(f"{claim.key} has lost its position")
        return drop(replace(writer, covered=outcome.position.offset))


@dataclass(frozen=True)
class Way:
    """One way of living through a story; the resume records must be the same in all of them."""

    park: bool = False
    heartbeats: bool = False
    reply_lost: bool = False
    round_records_max: int = 1000


def golden() -> dict[str, Any]:
    """The whole file."""
    return json.loads(GOLDEN.read_text())


def records_of(timeline: dict[str, Any]) -> list[Record]:
    """The drawing's records in order of offset; their event days alternate, so that every file has neighbours."""
    pairs = sorted((offset, name) for name, offsets in timeline["records"].items() for offset in offsets)
    return [Record(offset, name, FIRST_DAY + timedelta(days=at % 2)) for at, (offset, name) in enumerate(pairs)]


def types_of(timeline: dict[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(timeline["records"]))


def new_task(timeline: dict[str, Any], tables: Tables, way: Way) -> Task:
    """A process that starts on whatever the tables hold."""
    task = Task(tables, records_of(timeline), types_of(timeline), round_records_max=way.round_records_max)
    return task.start()


def play(task: Task, step: dict[str, Any], way: Way) -> None:
    """One step of a story: read, write, fail."""
    task.now += 1000.0
    task.read(step["read_through"])
    for name in step.get("fail", []):
        if way.park:
            task.give_up_for_now(name)
        else:
            task.write(name, Fault.LOST_REQUEST)
    for name in step.get("write", []):
        task.write(name, Fault.LOST_REPLY if way.reply_lost else Fault.NONE)
    if way.heartbeats:
        task.beat()


def end_of(records: Iterable[Record]) -> int:
    """An offset beyond all records of a story."""
    return max(record.offset for record in records) + 9


def read_again(timeline: dict[str, Any], tables: Tables, way: Way) -> list[Record]:
    """The records that a process starting now would stage if it read to the end."""
    task = new_task(timeline, tables, way)
    return sorted(task.read(end_of(task.log)).seen)


def finish(task: Task) -> None:
    """Read to the end and write everything."""
    task.now += 1000.0
    task.read(end_of(task.log))
    for name in task.types:
        task.write(name)
