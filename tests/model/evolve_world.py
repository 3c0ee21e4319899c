"""The world of columns that grow (protocol 4.10): tasks that evolve one table, crash, and read again.

One type, A, the dead letters D, and two topic partitions. Each task believes that it owns one of them; two may believe
so of the same one. A task plans columns from what it saw in `_rescued`, reads again with them, and the commit that
names the first such file adds them. Records have a field `f`, an integer or a text, or `g`; one is bad by what is
declared. Where the world promotes, the table has `f` as an INTEGER, and tasks know a schema that says LONG. Which
columns follow, which get a wider type, and which files fit a table, are decisions of the project, as are plans,
integration, claims and outcomes. Played here: the decoder, and Delta, which refuses a commit if the metadata changed
since its snapshot.

    Process  (partition, writers of A and D, round, columns planned for A, times read again in a row, orphans)
    Writer   (covered, frontier, staged, claim)
    File     (offsets, columns)                                columns: number of a schema; 0 for D
    Claim    (expected, new, files, status, logged, base)      base: (columns of the snapshot, columns written)
    Round    (start, end, bound of A, bound of D, columns)     None: nothing is being read
    Orphan   (A or D, claim)                                   a commit that was given up, and may still land
    Tables   ((positions of A, rows of A, columns of A), (positions of D, rows of D))
    Row      (partition, offset, columns of its file); of D: (partition, offset)

Times, commit ids and versions do not occur. A schema is a number within one world: the table's JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from exporter.column.ddl import struct_of_ddl
from exporter.core import heartbeat, outcome, roll
from exporter.core.columns import JSON_TEXT, NO_COLUMNS
from exporter.core.evolve import Evolution, grown, known_beforehand
from exporter.core.evolved import combined, fitting
from exporter.core.plan import Budget, plan_round
from exporter.core.seen import At, Seen
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
    staged_range_error,
)
from exporter.lake.promoting import promoted
from exporter.lake.widening import CHANGES
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import TableView, fingerprint_of
from tests.model.search import remember
from tests.model.world import ALL, CALLED, LIMITS, LOST, Move, SharedMove, State

A, D = 0, 1
NAMES = ("A", "D")
TPS = (TopicPartition("t", 0), TopicPartition("t", 1))
BASED = "based"
"""A claim whose transaction has its snapshot: what the table's columns are in it, and will be."""
BAD = "x"
RECORDS: Mapping[str, Mapping[str, Any]] = {
    "a": {}, "i": {"f": 1}, "b": {"f": 2**40}, "t": {"f": "text"}, "j": {"g": 1}, BAD: {}
}  # fmt: skip
FIT = {"long": (1, 2**40), "integer": (1,), "string": ("text",), "json": ("text", 1)}
"""Type -> the values of RECORDS that it holds."""
EVOLUTION = Evolution()
FRAME = "frame"
MADE_FIRST = 1
MADE = '{"type":"struct","fields":[{"name":"_rescued","type":"string","nullable":true,"metadata":{}}]}'
NARROW = known_beforehand(MADE, struct_of_ddl("f INT").fields, "schema 1")
WIDER = [struct_of_ddl("f BIGINT").fields]


@dataclass(frozen=True)
class EvolveScope:
    """logs: per partition, the kind of the record at each offset. tasks: the partition of each.

    again_max: how often a type is read again in a row. drops: staged files may be dropped at any time. forgets: what is
    planned may be forgotten at any time. late: a commit that was given up may land later. ahead: the table that passes
    a record first, in histories of one order. promotes: whether columns get the wider types of schemas.
    """

    logs: tuple[str, ...] = ("t", "i")
    tasks: str = "01"
    again_max: int = 1
    drops: bool = False
    forgets: bool = False
    late: bool = False
    ahead: str = ""
    promotes: bool = False


class EvolveWorld:
    """All steps from a state. Local moves touch one process alone, shared moves read or write a table."""

    def __init__(self, scope: EvolveScope) -> None:
        self.scope = scope
        self.schemas = ["", NARROW if scope.promotes else MADE]
        remember(self, "grows", "adds", "planned", "integrated", "due", "kinds", "real_file")

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        return tuple(map(int, self.scope.tasks)), tuple(f"T{n + 1}p{p}" for n, p in enumerate(self.scope.tasks))

    def first_state(self) -> tuple[State, State]:
        positions = tuple(-1 for _ in TPS)
        tables = ((positions, (), 1), (positions, ()))
        return tables, tuple(self.fresh(int(p), tables) for p in self.scope.tasks)

    def fresh(self, p: int, tables: State) -> State:
        """A task that has read the tables."""
        writers = tuple((tables[name][0][p], tables[name][0][p], (), None) for name in (A, D))
        return (p, writers, None, tables[A][2], 0, ())

    # -- columns

    def number_of(self, schema_json: str) -> int:
        if schema_json not in self.schemas:
            self.schemas.append(schema_json)
        return self.schemas.index(schema_json)

    def kinds(self, columns: int) -> dict[str, str]:
        """Column -> what it holds."""
        marked = json.loads(combined(NO_COLUMNS, self.schemas[columns]))["fields"]
        return {one["name"]: "json" if JSON_TEXT in one["metadata"] else one["type"] for one in marked}

    def former(self, columns: int) -> dict[str, str]:
        """Column -> the type that readers are told it had."""
        noted = {one["name"]: one["metadata"].get(CHANGES) for one in json.loads(self.schemas[columns])["fields"]}
        return {name: changes[0]["fromType"] for name, changes in noted.items() if changes}

    def grows(self, columns: int, p: int, offsets: State) -> int:
        """The columns with what the records that were read with them leave in `_rescued`."""
        seen = Seen()
        for offset in offsets:
            record = RECORDS[self.scope.logs[p][offset]]
            left = {name: value for name, value in record.items() if not self.is_held(name, value, columns)}
            seen.add(left, At(TPS[p].topic, p, offset))
        return self.number_of(grown(self.schemas[columns], seen, EVOLUTION))

    def is_held(self, name: str, value: Any, columns: int) -> bool:
        """Whether a value is in its column; else it is in `_rescued`."""
        kind = self.kinds(columns).get(name)
        return kind is not None and value in FIT[kind]

    def adds(self, columns: int, files: State) -> int:
        """A table's columns with those of the files; 0 if they do not fit (protocol 4.2)."""
        schema = self.schemas[columns]
        view = TableView(0, "table", fingerprint_of(FRAME, schema), {}, schema_json=schema, frame=FRAME)
        wider = fitting(view, [self.real_file(file) for file in files])
        return self.number_of(wider) if wider is not None else 0

    # -- the decoder

    def table_of(self, kind: str, columns: int) -> int:
        """VERDICT: the record and what is declared decide; the table's evolved columns do not."""
        return D if kind == BAD else A

    def is_unfit(self, kind: str, columns: int) -> bool:
        """Whether a value of the record does not fit its column. Nothing but a mutant asks."""
        known = RECORDS[kind].items()
        return any(name in self.kinds(columns) and not self.is_held(name, value, columns) for name, value in known)

    def records(self, p: int, round_: State, name: int) -> State:
        """The offsets that a round stages for a table."""
        start, end, *bounds, columns = round_
        log = self.scope.logs[p]
        return tuple(o for o in range(start, end) if o > bounds[name] and self.table_of(log[o], columns) == name)

    # -- the project's dataclasses

    def real_file(self, file: State) -> StagedFile:
        offsets, columns = file
        path, columns_json = f"day=2026-01-01/{'-'.join(map(str, offsets))}@{columns}", self.schemas[columns]
        fingerprint = fingerprint_of(FRAME, columns_json)
        range_ = OffsetRange(offsets[0], offsets[-1])
        return StagedFile(path, range_, len(offsets), 1, fingerprint=fingerprint, columns=columns_json)

    def real_writer(self, p: int, name: int, writer: State) -> Writer:
        covered, frontier, staged, claim = writer
        key = WriterKey(NAMES[name], TPS[p])
        files = tuple(self.real_file(file) for file in staged)
        real = Claim(key, 0, claim[0], claim[1], tuple(map(self.real_file, claim[2])), 0, ("c1",)) if claim else None
        return Writer(key, 0, 1, covered, frontier, staged=files, claim=real)

    def real_writers(self, p: int, writers: State) -> dict[WriterKey, Writer]:
        real = (self.real_writer(p, name, writer) for name, writer in enumerate(writers))
        return {writer.key: writer for writer in real}

    # -- local moves

    def local_moves(self, process: State) -> list[Move]:
        """Steps that neither read nor write a table."""
        p, writers, round_, columns, *_ = process
        moves: list[tuple[str, Any]] = []
        if round_ is None:
            moves.extend((text, (*process[:2], new, *process[3:])) for text, new in self.planned(p, writers, columns))
        else:
            moves.append(self.integrated(process))
        for name, writer in enumerate(writers):
            moves.extend((text, _put(process, name, after)) for text, after in self.due(p, name, writer))
            moves.extend(self._gives_up(process, name))
            if self.scope.drops and (writer[3] is None or writer[3][3] == LOST) and writer[1] > writer[0]:
                real = drop(self.real_writer(p, name, writer))
                moves.append((f"drops {NAMES[name]}", _put(process, name, _compact(real, None))))
        if self.scope.forgets and columns != MADE_FIRST:
            moves.append(("forgets what is planned", (*process[:3], MADE_FIRST, *process[4:])))
        return [(text, after, ALL, ALL) for text, after in moves]

    def _gives_up(self, process: State, name: int) -> Iterator[tuple[str, State]]:
        """A commit raises, not landed so far; late: what is under way goes on without an owner."""
        writer = process[1][name]
        claim = writer[3]
        if claim is None or claim[3] != (BASED if name == A else CALLED):
            return
        lost = _put(process, name, (*writer[:3], (*claim[:3], LOST, claim[4], None)))
        yield f"raises: commit of {NAMES[name]}", lost
        if self.scope.late and not process[5]:
            yield f"gives up a commit of {NAMES[name]}", (*lost[:5], ((name, claim),))

    def planned(self, p: int, writers: State, columns: int) -> list[tuple[str, State]]:
        """Every round that may be planned, with the columns that are planned now."""
        found = []
        log = self.scope.logs[p]
        for end in range(1, len(log) + 1):
            for plan in plan_round(self.real_writers(p, writers), {TPS[p]: end}, Budget(len(log)), 0.0):
                round_ = (plan.start, plan.end, plan.bounds[NAMES[A]], plan.bounds[NAMES[D]], columns)
                found.append((f"plans {plan.start}..{plan.end - 1} with {self.shown(columns)}", round_))
        return list(dict.fromkeys(found))

    def integrated(self, process: State) -> tuple[str, State]:
        """The round has ended: what it saw may give columns, and then A is read again with them, so many times."""
        p, writers, round_, columns, again, orphans = process
        start, end, *bounds, read_with = round_
        wants = self.grows(read_with, p, self.records(p, round_, A)) != read_with
        is_left = wants and again < self.scope.again_max
        files = {}
        for name in (A, D):
            if offsets := self.records(p, round_, name):
                files[NAMES[name]] = (self.real_file((offsets, read_with if name == A else 0)),)
        plan = PartitionPlan(TPS[p], 1, 0, start, end, dict(zip(NAMES, bounds, strict=True)))
        left = {NAMES[A]: "its new fields are to be columns"} if is_left else {}
        done = integrate(self.real_writers(p, writers), Fragment(plan, files, again=left), 0.0)
        after = tuple(
            _compact(done.writers[WriterKey(NAMES[name], TPS[p])], writer[3]) for name, writer in enumerate(writers)
        )
        more = self.grows(columns, p, self.records(p, round_, A))
        text = f"integrates {start}..{end - 1}" + "".join(f", not {name}" for name in sorted(done.discarded))
        text += f", plans {self.shown(more)}" if more != columns else ""
        return text, (p, after, None, more, again + 1 if is_left else 0, orphans)

    def due(self, p: int, name: int, writer: State) -> list[tuple[str, State]]:
        """The writer with its claim, frozen and offered: of what is staged, or a heartbeat."""
        real = self.real_writer(p, name, writer)
        rolls = roll.due(real, LIMITS, 0.0, stopping=True)
        if not rolls and not heartbeat.markers_due({real.key: real}, 0.0, 0.0):
            return []
        claim = freeze(real, 0).claim
        if claim is None or (error := staged_range_error(replace(claim, files=claim.files if rolls else ()))):
            raise RuntimeError(error if claim else "freeze left no claim")
        files = tuple(_file(file) for file in claim.files) if rolls else ()
        text = f"offers {NAMES[name]} {claim.expected}->{claim.new} with {len(files) or 'no'} files"
        return [(text, (*writer[:3], (claim.expected, claim.new, files, CALLED, False, None)))]

    # -- shared moves

    def shared_moves(self, process: State, tables: State) -> list[SharedMove]:
        moves: list[tuple[str, Any, State]] = []
        for name, writer in enumerate(process[1]):
            status = writer[3] and writer[3][3]
            if status == CALLED and name == A:
                moves.append(self._opens(process, tables))
            elif status in (CALLED, BASED):
                moves.extend(self._lands(process, name, tables))
            elif status == LOST:
                moves.append(self._looks(process, name, tables))
        moves.extend(self._lands_late(process, tables))
        moves.extend(self._promotes(process, tables))
        if (new := (*self.fresh(process[0], tables)[:5], process[5])) != process:
            moves.append(("crashes and starts again", new, tables))
        return [(*move, ALL, ALL) for move in moves]

    def _promotes(self, process: State, tables: State) -> Iterator[tuple[str, State, State]]:
        """A commit of metadata alone, on the table as it is; the task goes on from there (protocol 4.10)."""
        schema, found = promoted(self.schemas[tables[A][2]], WIDER if self.scope.promotes else ())
        if found:
            wider = self.number_of(schema)
            table = (*tables[A][:2], wider)
            yield f"widens A to {self.shown(wider)}", (*process[:3], wider, *process[4:]), (table, tables[D])

    def _opens(self, process: State, tables: State) -> tuple[str, State, State]:
        """A transaction of A begins: the files are compared with its snapshot (protocol 4.2)."""
        writer = process[1][A]
        base = tables[A][2]
        after = self.adds(base, writer[3][2])
        if not after:
            return self._looks(process, A, tables, is_stale=True)
        claim = (*writer[3][:3], BASED, writer[3][4], (base, after))
        text = "begins a commit of A" + (f" that makes it {self.shown(after)}" if after != base else "")
        return text, _put(process, A, (*writer[:3], claim)), tables

    def _lands(self, process: State, name: int, tables: State) -> Iterator[tuple[str, State, State]]:
        p = process[0]
        writer = process[1][name]
        expected, new, files, *_ = writer[3]
        after = self.commit(tables, p, name, writer[3])
        if after is None or self._is_out_of_order(name, after, p):
            return
        real = self.real_writer(p, name, writer)
        if real.claim is None:
            raise RuntimeError("no claim to land")
        done = _compact(landed(real, real.claim, 0.0), None)
        text = f"commit of {NAMES[name]} lands at {new}"
        yield text, _put(process, name, done), after
        lost = (*writer[:3], (expected, new, files, LOST, True, None))
        yield f"{text}, answer lost", _put(process, name, lost), after

    def _lands_late(self, process: State, tables: State) -> Iterator[tuple[str, State, State]]:
        p = process[0]
        for name, claim in process[5]:
            after = self.commit(tables, p, name, claim)
            if after is None or self._is_out_of_order(name, after, p):
                continue
            left = (*process[:5], ())
            writer = process[1][name]
            if writer[3] and writer[3][:3] == claim[:3]:
                left = _put(left, name, (*writer[:3], (*writer[3][:4], True, *writer[3][5:])))
            yield f"commit of {NAMES[name]} that was given up lands", left, after

    def commit(self, tables: State, p: int, name: int, claim: State) -> State | None:
        """Delta's atomic compare-and-set of position and metadata: the tables afterwards, None if it conflicts."""
        expected, new, files, _, _, base = claim
        positions, rows, *columns = tables[name]
        if positions[p] != expected:
            return None
        if base is not None:
            if columns[0] != base[0]:
                return None
            columns = [base[1]]
        mine = ((p, offset, *([one] if name == A else [])) for offsets, one in files for offset in offsets)
        moved = (*positions[:p], new, *positions[p + 1 :])
        table = (moved, tuple(sorted([*rows, *mine])), *columns)
        return (*tables[:name], table, *tables[name + 1 :])

    def _is_out_of_order(self, name: int, after: State, p: int) -> bool:
        first = self.scope.ahead
        return bool(first) and NAMES[name] != first and after[name][0][p] > after[NAMES.index(first)][0][p]

    def _looks(self, process: State, name: int, tables: State, is_stale: bool = False) -> tuple[str, State, State]:
        """Protocol 4.4, and 4.2 if the files do not fit: drop them, and go on from the table as it is."""
        p = process[0]
        writer = process[1][name]
        real = self.real_writer(p, name, writer)
        if real.claim is None:
            raise RuntimeError("no claim to resolve")
        found = outcome.resolve(real.claim, ("c1",) if writer[3][4] else (), Position(0, tables[name][0][p]))
        text = f"looks at {NAMES[name]}: {type(found).__name__.lower()}"
        if isinstance(found, outcome.Unknown) and not is_stale:
            again = (*writer[:3], (*writer[3][:3], CALLED, False, None))
            return f"{text}, offers again", _put(process, name, again), tables
        at = writer[0] if isinstance(found, outcome.Unknown) else tables[name][0][p]
        if isinstance(found, outcome.Landed) and at == writer[3][1]:
            after = landed(real, real.claim, 0.0)
        else:
            text += ", drops" + " what does not fit" * is_stale
            after = drop(replace(real, covered=at))
        left = _put(process, name, _compact(after, None))
        return text, (*left[:3], tables[A][2], *left[4:]) if name == A else left, tables

    # -- a fair run without faults

    def clean_step(self, process: State, tables: State) -> tuple[str, State, State] | None:
        """The next step of one task that is left alone, and takes the other partition when it is done with its own."""
        shared = [move[:3] for move in self.shared_moves(process, tables) if not move[0].endswith("lost")]
        moves = [*shared, *((text, after, tables) for text, after, *_ in self.local_moves(process))]
        for words in ("looks", "begins", "commit", "raises", "integrates", "offers", "plans"):
            if found := [move for move in moves if move[0].startswith(words)]:
                return found[-1]
        return "takes the other partition", self.fresh(1 - process[0], tables), tables

    def finished(self, tables: State) -> bool:
        ends = tuple(len(log) - 1 for log in self.scope.logs)
        return all(tables[name][0] == ends for name in (A, D))

    def rescued(self, tables: State) -> tuple[str, ...]:
        """The values of A that are in no column, as <field>@<partition>/<offset>."""
        return tuple(
            f"{name}@{p}/{offset}"
            for p, offset, columns in tables[A][1]
            for name, value in RECORDS[self.scope.logs[p][offset]].items()
            if not self.is_held(name, value, columns)
        )

    # -- invariants

    def broken(self, tables: State) -> str:
        """The invariant that the tables break, and where; empty if none."""
        for p, log in enumerate(self.scope.logs):
            for offset in range(len(log)):
                rows = [NAMES[name] for name in (A, D) for row in tables[name][1] if row[:2] == (p, offset)]
                if len(rows) > 1:
                    return f"ONCE: record {p}/{offset} is in {rows}"
                if not rows and min(tables[name][0][p] for name in (A, D)) >= offset:
                    return f"COVER: both tables are past record {p}/{offset}, and none has it"
        have, was = self.kinds(tables[A][2]), self.former(tables[A][2])
        for p, offset, columns in tables[A][1]:
            for name, kind in self.kinds(columns).items():
                if kind not in (have.get(name), was.get(name)):
                    return f"COLUMNS: the file of {p}/{offset} has {name} as {kind}, the table as {have.get(name)}"
        return ""

    def went_back(self, before: State, after: State) -> str:
        """MONOTONE for positions; and a column, once there, stays what it is, with what the table notes of it.

        Or has a wider type, and the table notes which it had.
        """
        for name in (A, D):
            if any(new < old for old, new in zip(before[name][0], after[name][0], strict=True)):
                return f"MONOTONE: {NAMES[name]} went back"
        was, now = (json.loads(self.schemas[tables[A][2]])["fields"] for tables in (before, after))
        former, there = self.former(after[A][2]), {one["name"] for one in now}
        widened = [one for one in was if former.get(one["name"]) == one["type"] and one["name"] in there]
        changed = [one for one in was if one not in now and one not in widened]
        return f"COLUMNS: {changed[0]} is not there any more" if changed else ""

    def shown(self, columns: int) -> str:
        return "{" + " ".join(f"{name}:{kind}" for name, kind in self.kinds(columns).items()) + "}"

    def show(self, tables: State) -> str:
        """The tables in one line."""
        (at, rows, columns), (dead_letters_at, dead_letters) = tables
        of_a = " ".join(f"{p}/{offset}{self.shown(one)}" for p, offset, one in rows)
        of_d = " ".join(f"{p}/{offset}" for p, offset in dead_letters)
        return f"A={at[0]},{at[1]}[{of_a}] {self.shown(columns)} D={dead_letters_at[0]},{dead_letters_at[1]}[{of_d}]"


def _compact(writer: Writer, claim: State | None) -> State:
    staged = tuple(_file(file) for file in writer.staged)
    return (writer.covered, writer.frontier, staged, claim if writer.claim is not None else None)


def _file(file: StagedFile) -> State:
    offsets, _, columns = file.path.rpartition("/")[2].partition("@")
    return tuple(map(int, offsets.split("-"))), int(columns)


def _put(process: State, name: int, writer: State) -> State:
    return (process[0], (*process[1][:name], writer, *process[1][name + 1 :]), *process[2:])
