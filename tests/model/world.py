"""The small world of protocol.md, sections 3 and 4: its states, and every step that can be taken.

Two processes, one topic partition, the types D (dead letters), A (declared) and C (met at run
time). Nothing coordinates the processes: both believe that they own the partition. Decisions
are those of the project (plan_round, integrate, freeze, resolve, ...); this module plays what
has effects: Kafka, the round's task, Delta's atomic commit, the loss of an answer, crashes.

States are plain tuples, so that they can be hashed; the project's dataclasses are built
from them for each call and taken apart afterwards. Times, versions and ownership counters
do not occur in them, and commit ids are numbered per claim.

    Process  (writers, rounds, orphans)
    Writer   (covered, frontier, staged, claim, parked, filtered)  None: this process knows no position
    File     the offsets of its records, (0, 2)
    Claim    (expected, new, files, offers, status, pending, logged, filtered)
             offers: commit ids; pending: attempts given up that may still land; logged: ids in the table's log
    Attempt  (commit id, expected, new, files, filtered)
    Round    (of this assignment?, start, end, bounds, catch-up of a parked type?)
             bounds: per type the bound, None = type unknown, UNLISTED = known, records dropped
    Table    (position, committed offsets, filtered)               position None: absent
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from exporter.core import heartbeat, outcome, roll
from exporter.core.plan import Budget, expected, plan_round
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import (
    Claim,
    Fragment,
    Parked,
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
from exporter.errors import InvariantBroken
from offsets import crosscheck
from offsets.names import AppId
from offsets.positions import Position, live_position
from offsets.ranges import OffsetRange, TopicPartition
from tests.model.search import remember

State = tuple[Any, ...]
Move = tuple[str, Any, int, int]
"""Text, process afterwards, and the footprint: what it reads and writes, as bits."""
SharedMove = tuple[str, Any, State, int, int]
"""Text, process, tables, and the footprint within the process."""

APP = "model"
TP = TopicPartition("t", 0)
LETTERS = {DEAD_LETTERS: "D", "A": "A", "C": "C"}
"""What a log says at the offsets of each type."""
TYPES = (*LETTERS,)
DECLARED = (DEAD_LETTERS, "A")
FINGERPRINT = "r0"
UNLISTED = -9
ROUNDS = 1 << 6
ALL = (1 << 7) - 1
FRONTIERS = 0b111
CALLED, LOST = "called", "lost"
LIMITS = roll.RollLimits(records_max=1, bytes_max=1, age_max_secs=0.0)
PARKED = Parked("model", 0.0)
OTHERS: State = ("others",)


@dataclass(frozen=True)
class Stopped:
    """The project refused to go on (InvariantBroken or a check before the commit)."""

    reason: str


@dataclass(frozen=True)
class Scope:
    """How large the world is.

    log: the type of the record at each offset, "." = a hole. late: a commit that was given up may land
    later. park: the type `parks` may be parked. anchored: D and A have positions in the first state. drops: a process
    may drop staged files at any time.
    """

    log: str = "AC.D"
    rounds_max: int = 1
    orphans_max: int = 1
    late: bool = False
    park: bool = False
    parks: str = "A"
    reassign: bool = False
    anchored: bool = True
    drops: bool = True

    @property
    def types(self) -> tuple[str, ...]:
        return TYPES if "C" in self.log else DECLARED

    @property
    def declared(self) -> tuple[str, ...]:
        return DECLARED


class World:
    """All steps from a state. Local moves touch one process alone, shared moves read or write tables."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.types = scope.types
        remember(self, "real_claim", "real_writer", "real_writers", "real_plan", "fragment", "unanchored")
        remember(self, "planned", "integrated", "due", "rolled", "landed", "looked", "fresh_from", "position_at")

    # -- states and the project's dataclasses

    def first_state(self) -> tuple[State, State]:
        """Tables, and the state that both processes start from."""
        position = -1 if self.scope.anchored else None
        tables = tuple((position if name in self.scope.declared else None, (), 0) for name in self.types)
        process = self.fresh(tables)
        if isinstance(process, Stopped):
            raise RuntimeError(process.reason)
        return tables, process

    def real_claim(self, name: str, claim: State) -> Claim:
        files = tuple(real_file(file) for file in claim[2])
        return Claim(WriterKey(name, TP), 0, claim[0], claim[1], files, 0, tuple(claim[3]), filtered=claim[7])

    def real_writer(self, name: str, writer: State) -> Writer:
        covered, frontier, staged, claim, parked, filtered = writer
        return Writer(
            WriterKey(name, TP),
            0,
            1,
            covered,
            frontier,
            staged=tuple(real_file(file) for file in staged),
            claim=self.real_claim(name, claim) if claim else None,
            parked=PARKED if parked else None,
            filtered=filtered,
        )

    def real_writers(self, writers: State) -> dict[WriterKey, Writer]:
        known = zip(self.types, writers, strict=True)
        return {WriterKey(name, TP): self.real_writer(name, writer) for name, writer in known if writer}

    def real_plan(self, round_: State) -> PartitionPlan:
        current, start, end, bounds, parked = round_
        listed = {name: b for name, b in zip(self.types, bounds, strict=True) if b is not None and b != UNLISTED}
        unlisted = tuple(name for name, bound in zip(self.types, bounds, strict=True) if bound == UNLISTED)
        return PartitionPlan(TP, 1 if current else 0, 0, start, end, listed, PARKED if parked else None, unlisted)

    def fragment(self, round_: State) -> Fragment:
        """What the round's task stages: its records alone decide, and the plan's bounds (ROUTE)."""
        plan = self.real_plan(round_)
        files, filtered = {}, {}
        for name in self.types:
            if (bound := plan.bound(name)) is None:
                continue
            mine = range(max(plan.start, bound + 1), plan.end)
            if offsets := self.rows(name, mine):
                files[name] = (real_file(offsets),)
            if count := self.left_out(name, mine):
                filtered[name] = count
        return Fragment(plan, files, filtered=filtered)

    def rows(self, name: str, offsets: Iterable[int]) -> State:
        """The offsets of the rows that these records come to in a table: one that has several rows there, as often."""
        return tuple(offset for offset in offsets if self.scope.log[offset] == LETTERS[name])

    def left_out(self, name: str, offsets: Iterable[int]) -> int:
        """How many of these records a filter leaves out of a table."""
        return 0

    # -- local moves

    def local_moves(self, process: State) -> list[Move]:
        """Steps that neither read nor write a table."""
        moves: list[Move] = []
        for step in (self._plans, self._integrations, self._calls, self._drops):
            moves.extend(step(process))
        return moves

    def _plans(self, process: State) -> Iterator[Move]:
        writers, rounds, orphans = process
        if len(rounds) < self.scope.rounds_max:
            for behind in dict.fromkeys(((), rounds)):
                reads = FRONTIERS | ROUNDS if behind else FRONTIERS
                for text, round_ in self.planned(writers, behind):
                    yield text, (writers, (*rounds, round_), orphans), reads, ROUNDS

    def planned(self, writers: State, behind: State) -> list[tuple[str, State]]:
        """Every round that may be planned: what the loop says of it, and the round. behind: as if these had ended."""
        known = [name for name, writer in zip(self.types, writers, strict=True) if writer]
        if not {*self.scope.declared} <= set(known):
            return []
        real = expected(self.real_writers(writers), [self.real_plan(round_) for round_ in behind], 0.0)
        found = {}
        for now in (-1.0, 1.0) if self.scope.park else (1.0,):
            for end in range(1, len(self.scope.log) + 1):
                for plan in plan_round(real, {TP: end}, Budget(len(self.scope.log)), now):
                    bounds = tuple(plan.bounds.get(n, UNLISTED if n in known else None) for n in self.types)
                    round_ = (True, plan.start, plan.end, bounds, plan.parked is not None)
                    found[round_] = f"plans {plan.start}..{plan.end - 1} for {_named(self.types, bounds)}"
        return [(text, round_) for round_, text in found.items()]

    def _integrations(self, process: State) -> Iterator[Move]:
        writers, rounds, orphans = process
        for index, round_ in enumerate(rounds):
            if not self.unanchored(writers, round_):
                text, after, unlisted = self.integrated(writers, round_)
                left = (*rounds[:index], *rounds[index + 1 :])
                yield text, (after, left, orphans), unlisted, FRONTIERS | ROUNDS | unlisted

    def unanchored(self, writers: State, round_: State) -> tuple[str, ...]:
        """The types that the round's fragment waits for."""
        return missing_anchors(self.real_writers(writers), self.fragment(round_))

    def integrated(self, writers: State, round_: State) -> tuple[str, State, int]:
        done = integrate(self.real_writers(writers), self.fragment(round_), 0.0)
        after = tuple(
            writer and _compact(done.writers[WriterKey(name, TP)], writer[3])
            for name, writer in zip(self.types, writers, strict=True)
        )
        text = f"integrates {round_[1]}..{round_[2] - 1}"
        if done.discarded:
            text += ", discards " + ", ".join(sorted(done.discarded))
        return text, after, sum(_claim_bit(i) for i, bound in enumerate(round_[3]) if bound is None)

    def _calls(self, process: State) -> Iterator[Move]:
        """Freeze and call commit; the call raises; the same files are offered again."""
        for index, name in enumerate(self.types):
            writer = process[0][index]
            if not writer:
                continue
            for marker in self.due(name, writer):
                yield self._roll(process, index, marker)
            claim = writer[3]
            if claim and claim[4] == CALLED:
                lost = _put(process, index, _with_claim(writer, _gave_up(claim)))
                yield f"commit of {name} raises, not landed", lost, 0, _claim_bit(index)
                if self.scope.late and len(claim[5]) < self.scope.orphans_max:
                    lost = _put(process, index, _with_claim(writer, _gave_up(claim, pending=True)))
                    yield f"commit of {name} raises, still under way", lost, 0, _claim_bit(index)

    def due(self, name: str, writer: State) -> tuple[bool, ...]:
        """What is due: False a roll, True a marker."""
        real = self.real_writer(name, writer)
        rolls = (False,) if roll.due(real, LIMITS, 0.0, stopping=True) else ()
        return (*rolls, True) if heartbeat.markers_due({real.key: real}, 0.0, 0.0) else rolls

    def _roll(self, process: State, index: int, marker: bool) -> Move:
        text, after = self.rolled(self.types[index], process[0][index], marker)
        if isinstance(after, Stopped):
            return text, after, ALL, ALL
        return text, _put(self._orphaned(process, index), index, after), 1 << index, _claim_bit(index)

    def rolled(self, name: str, writer: State, marker: bool) -> tuple[str, Any]:
        """The writer with its claim, frozen and offered."""
        text = f"{'heartbeat' if marker else 'roll'} {name}"
        try:
            frozen = freeze(self.real_writer(name, writer), 0)
        except InvariantBroken as error:
            return text, Stopped(error.message)
        claim = frozen.claim
        if claim is None:
            raise RuntimeError("freeze left no claim")
        if marker:
            claim = replace(claim, files=())  # an empty marker is a txn and nothing else
        if error_text := staged_range_error(claim):
            return text, Stopped(error_text)
        frozen = offered(frozen, replace(claim, offers=("c1",)))
        text += f" {claim.expected}->{claim.new} with {_files(_claim_of(frozen)[2])}"
        return text, _compact(frozen, (*_claim_of(frozen), CALLED, (), (), claim.filtered))

    def reoffer(self, writer: Writer, claim: State) -> State:
        """Protocol 4.4: the same frozen files once more, under an id of their own."""
        real = writer.claim
        if real is None:
            raise RuntimeError("nothing to offer again")
        again = offered(writer, replace(real, offers=(*real.offers, f"c{len(real.offers) + 1}")))
        return _compact(again, _renumbered((*_claim_of(again), CALLED, *claim[5:])))

    def _drops(self, process: State) -> Iterator[Move]:
        """Stage age, a missing file, a type that cannot be written: drop or park, whenever no call is running."""
        for index, name in enumerate(self.types):
            writer = process[0][index]
            if not writer or (writer[3] and writer[3][4] == CALLED):
                continue
            real = self.real_writer(name, writer)
            left = self._orphaned(process, index)
            both = (1 << index) | _claim_bit(index)
            if self.scope.drops and (writer[2] or writer[1] > writer[0]):
                yield f"drops {name}", _put(left, index, _compact(drop(real), None)), 0, both
            if self.scope.park and LETTERS[name] == self.scope.parks and not writer[4]:
                yield f"parks {name}", _put(left, index, _compact(park(real, "model", 0.0), None)), 0, both

    def _orphaned(self, process: State, index: int) -> State:
        """The claim of a type is about to be forgotten: what may still land of it goes on without an owner."""
        if not self.scope.late:
            return process
        claim = process[0][index] and process[0][index][3]
        attempts = [*claim[5], *([_attempt(claim)] if claim[4] == CALLED else [])] if claim else []
        orphans = (*process[2], *((index, *attempt) for attempt in attempts))
        keep = tuple(sorted(set(orphans)))[-self.scope.orphans_max :]
        return (process[0], process[1], keep)

    # -- shared moves

    def shared_moves(self, process: State, tables: State) -> list[SharedMove]:
        """Steps that read or write a table, each atomic."""
        moves: list[SharedMove] = []
        for step in (self._landings, self._late_landings, self._looks, self._anchors, self._starts):
            moves.extend(step(process, tables))
        return [(text, self._pruned(after, new), new, reads, writes) for text, after, new, reads, writes in moves]

    def _landings(self, process: State, tables: State) -> Iterator[SharedMove]:
        for index, name in enumerate(self.types):
            writer = process[0][index]
            claim = writer and writer[3]
            if not claim or claim[4] != CALLED:
                continue
            new_tables = self.commit(tables, index, _attempt(claim))
            if new_tables is None:
                continue
            left = self._orphaned(_put(process, index, _with_claim(writer, (*claim[:4], LOST, *claim[5:]))), index)
            done = self.landed(name, writer)
            yield f"commit of {name} lands at {claim[1]}", _put(left, index, done), new_tables, 0, _claim_bit(index)
            lost = (*claim[:4], LOST, claim[5], (*claim[6], claim[3][-1]), claim[7])
            yield (
                f"commit of {name} lands at {claim[1]}, answer lost",
                _put(process, index, _with_claim(writer, lost)),
                new_tables,
                0,
                _claim_bit(index),
            )

    def landed(self, name: str, writer: State) -> State:
        """The writer after its commit has landed."""
        real = self.real_writer(name, writer)
        if real.claim is None:
            raise RuntimeError("no claim to land")
        return _compact(landed(real, real.claim, 0.0), None)

    def _late_landings(self, process: State, tables: State) -> Iterator[SharedMove]:
        for index, name in enumerate(self.types):
            writer = process[0][index]
            claim = writer and writer[3]
            for at, attempt in enumerate(claim[5] if claim else ()):
                new_tables = self.commit(tables, index, attempt)
                if new_tables is not None:
                    left = (*claim[5][:at], *claim[5][at + 1 :])
                    after = (*claim[:5], left, (*claim[6], attempt[0]), claim[7])
                    text = f"commit of {name} that was given up lands at {attempt[2]}"
                    yield text, _put(process, index, _with_claim(writer, after)), new_tables, 0, _claim_bit(index)
        for at, (index, *attempt) in enumerate(process[2]):
            new_tables = self.commit(tables, index, tuple(attempt))
            if new_tables is not None:
                after = (*process[:2], (*process[2][:at], *process[2][at + 1 :]))
                yield f"forgotten commit of {self.types[index]} lands at {attempt[2]}", after, new_tables, 0, 0

    def commit(self, tables: State, index: int, attempt: State) -> State | None:
        """Delta's atomic compare-and-set: the tables afterwards, or None if it conflicts (FENCE)."""
        _, expected, new, files, filtered = attempt
        _, committed, counted = tables[index]
        if self.position(tables, index) != Position(0, expected):
            return None
        records = tuple(sorted([*committed, *(offset for file in files for offset in file)]))
        return (*tables[:index], (new, records, counted + filtered), *tables[index + 1 :])

    def _looks(self, process: State, tables: State) -> Iterator[SharedMove]:
        """Protocol 4.4: the call did not return normally; what became of it is found by looking."""
        for index, name in enumerate(self.types):
            writer = process[0][index]
            claim = writer and writer[3]
            if not claim or claim[4] != LOST:
                continue
            text, after, unknown, writes = self.looked(name, writer, tables[index][0])
            left = process if unknown else self._orphaned(process, index)
            yield text, _put(left, index, after), tables, 0, _claim_bit(index) | (writes and 1 << index)

    def looked(self, name: str, writer: State, at: int | None) -> tuple[str, State, bool, bool]:
        """What is said, the writer afterwards, whether the outcome is Unknown, and whether the frontier was moved."""
        real = self.real_writer(name, writer)
        if real.claim is None:
            raise RuntimeError("no claim to resolve")
        found = outcome.resolve(real.claim, writer[3][6], self.position_at(at))
        text = f"looks at {name}: {type(found).__name__.lower()}"
        if isinstance(found, outcome.Unknown):
            again = self.reoffer(real, writer[3])
            return f"{text}, offers {again[3][0]}->{again[3][1]} again", again, True, False
        if isinstance(found, outcome.Landed) and found.position == Position(0, writer[3][1]):
            after = landed(real, real.claim, 0.0)
        else:
            after = self.reread(real, found.position)
        return text, _compact(after, None), False, after.frontier != real.frontier

    def reread(self, writer: Writer, position: Position | None) -> Writer:
        """Somebody else moved the position: drop all that is staged, go on from the table as it is."""
        if position is None:
            raise RuntimeError("a position vanished")
        return drop(replace(writer, covered=position.offset))

    def _anchors(self, process: State, tables: State) -> Iterator[SharedMove]:
        """Anchors that the start or a round's fragment waits for: create by compare-and-set, or adopt."""
        writers = zip(self.types, process[0], strict=True)
        wanted = [name for name, writer in writers if writer is None and name in self.scope.declared][:1]
        for round_ in process[1]:
            wanted.extend(self.unanchored(process[0], round_))
        for name in sorted(set(wanted)):
            index = self.types.index(name)
            at = -1 if name == DEAD_LETTERS else process[0][0][0]
            after = self.anchored(tables, index, at)
            position = after[index][0]
            text = f"anchors {name} at {position}" if after != tables else f"adopts the anchor of {name}, {position}"
            anchored = _put(process, index, (position, position, (), None, False, 0))
            yield text, anchored, after, ROUNDS | _claim_bit(0), _claim_bit(index) | 1 << index

    def anchored(self, tables: State, index: int, at: int) -> State:
        """Protocol 4.7: an existing anchor is adopted, never overwritten."""
        position, *kept = tables[index]
        if position is not None:
            return tables
        return (*tables[:index], (at, *kept), *tables[index + 1 :])

    def _starts(self, process: State, tables: State) -> Iterator[SharedMove]:
        """A crash and a new start, from the tables alone; or the partition is taken away and given back."""
        new = self.fresh(tables)
        if isinstance(new, Stopped):
            yield f"starts: {new.reason}", new, tables, 0, 0
            return
        left = process
        for index in range(len(self.types)) if self.scope.late else ():
            left = self._orphaned(left, index)
        after = (new[0], (), left[2])
        if after != process:
            orphaned = sum(_claim_bit(index) for index in range(3)) if self.scope.late else 0
            yield "crashes and starts again", after, tables, orphaned, 0
        if self.scope.reassign and process[1]:
            stale = tuple((False, *round_[1:]) for round_ in process[1])
            yield "is assigned the partition anew", (new[0], stale, left[2]), tables, ROUNDS, ALL

    def fresh(self, tables: State) -> State | Stopped:
        """A process that has read the tables (protocol 5.1 to 5.3)."""
        return self.fresh_from(tuple(at for at, *_ in tables))

    def fresh_from(self, positions: State) -> State | Stopped:
        read = {n: crosscheck.TableState(self.position_at(at)) for n, at in zip(self.types, positions, strict=True)}
        declared = self.scope.declared
        met = [name for name, state in read.items() if state.position is not None and name not in declared]
        found = crosscheck.verdict(read, DEAD_LETTERS, {0: FINGERPRINT}, FINGERPRINT, (*declared, *met))
        if isinstance(found, crosscheck.FirstStart):
            return ((None,) * len(self.types), (), ())
        if not isinstance(found, crosscheck.Agree):
            return Stopped(f"{found}")
        known = (found.positions.get(name) for name in self.types)
        writers = tuple(None if at is None else (at, at, (), None, False, 0) for at in known)
        return (writers, (), ())

    def position(self, tables: State, index: int) -> Position | None:
        return self.position_at(tables[index][0])

    def position_at(self, at: int | None) -> Position | None:
        transactions = {} if at is None else {str(AppId(APP, TP, 0)): at}
        return live_position(transactions, APP, TP)

    def _pruned(self, process: State, tables: State) -> State:
        """Attempts whose expected position has passed can never land."""
        if isinstance(process, Stopped):
            return process
        orphans = tuple(o for o in process[2] if tables[o[0]][0] is not None and tables[o[0]][0] <= o[2])
        return (*process[:2], orphans)

    # -- a fair run without faults

    def clean_step(self, process: State, tables: State) -> tuple[str, State, State] | None:
        """The next step of one process that is left alone and meets no fault; None if there is nothing to do."""
        shared = [move for move in self.shared_moves(process, tables) if not move[0].endswith("lost")]
        local = self.local_moves(process)
        for starts in ("looks", "anchors", "adopts", "commit"):
            for text, after, new, *_ in shared:
                if text.startswith(starts) and "given up" not in text:
                    return text, after, new
        for words in ("raises, not landed", "integrates", "roll", "heartbeat", "plans"):
            found = [(text, after, tables) for text, after, *_ in local if words in text]
            if found:
                return found[-1]
        return None

    # -- invariants

    def broken(self, tables: State) -> str:
        """The invariant that the tables break, and where; empty if none."""
        for index, name in enumerate(self.types):
            position, committed, _ = tables[index]
            for offset, kind in enumerate(self.scope.log):
                if kind != LETTERS[name]:
                    continue
                if committed.count(offset) > 1:
                    return f"ONCE: record {offset} is committed {committed.count(offset)} times in {name}"
                if position is not None and offset <= position and offset not in committed:
                    return f"COVER: {name} is at {position}, record {offset} is lost"
                dead_letters = tables[0][0]
                if position is None and dead_letters is not None and offset <= dead_letters:
                    return f"ANCHOR: D is at {dead_letters}, {name} has no anchor and record {offset} is lost"
        return ""

    def went_back(self, before: State, after: State) -> str:
        """MONOTONE, for one step."""
        for name, old, new in zip(self.types, before, after, strict=True):
            if old[0] is not None and (new[0] is None or new[0] < old[0]):
                return f"MONOTONE: {name} went back from {old[0]} to {new[0]}"
        return ""

    def finished(self, tables: State) -> bool:
        """Everything of the log is covered by every type."""
        return all(position == len(self.scope.log) - 1 for position, *_ in tables)

    def show(self, tables: State) -> str:
        """The tables in one line."""
        return "  ".join(
            f"{name}={'-' if position is None else position}{_files((committed,)) if committed else '[]'}"
            + (f"-{filtered}" if filtered else "")
            for name, (position, committed, filtered) in zip(self.types, tables, strict=True)
        )


@cache
def real_file(offsets: State) -> StagedFile:
    path = "day=2026-01-01/" + "-".join(map(str, offsets))
    return StagedFile(path, OffsetRange(offsets[0], offsets[-1]), len(offsets), len(offsets))


def _compact(writer: Writer, claim: State | None) -> State:
    """A project's writer as a tuple; the claim's part that the world knows is handed in."""
    staged = tuple(_offsets(file) for file in writer.staged)
    keep = claim if writer.claim is not None else None
    return (writer.covered, writer.frontier, staged, keep, writer.parked is not None, writer.filtered)


def _claim_bit(index: int) -> int:
    """The footprint of what a writer has staged, claimed and covered; 1 << index is that of its frontier."""
    return 1 << (3 + index)


def _claim_of(writer: Writer) -> State:
    claim = writer.claim
    if claim is None:
        raise RuntimeError("no claim")
    return (claim.expected, claim.new, tuple(_offsets(file) for file in claim.files), claim.offers)


def _offsets(file: StagedFile) -> State:
    return tuple(int(part) for part in file.path.rpartition("/")[2].split("-"))


def _renumbered(claim: State) -> State:
    """Commit ids that can never be in the log are forgotten, the others numbered again."""
    *_, offers, status, pending, logged, filtered = claim
    known = {attempt[0] for attempt in pending} | set(logged) | {offers[-1]}
    ids = {old: f"c{at}" for at, old in enumerate((one for one in offers if one in known), 1)}
    pending = tuple((ids[attempt[0]], *attempt[1:]) for attempt in pending)
    return (*claim[:3], tuple(ids.values()), status, pending, tuple(ids[one] for one in logged), filtered)


def _attempt(claim: State) -> State:
    return (claim[3][-1], claim[0], claim[1], claim[2], claim[7])


def _gave_up(claim: State, pending: bool = False) -> State:
    attempts = (*claim[5], _attempt(claim)) if pending else claim[5]
    return (*claim[:4], LOST, attempts, *claim[6:])


def _with_claim(writer: State, claim: State) -> State:
    return (*writer[:3], claim, *writer[4:])


def _put(process: State, index: int, writer: State) -> State:
    writers = (*process[0][:index], writer, *process[0][index + 1 :])
    return (writers, *process[1:])


def _named(types: tuple[str, ...], bounds: State) -> str:
    return " ".join(f"{n}>{b}" for n, b in zip(types, bounds, strict=True) if b is not None and b != UNLISTED)


def _files(files: State) -> str:
    return "+".join("[" + ",".join(map(str, file)) + "]" for file in files) or "no file"


class Others(World):
    """One process against everything that any number of others could legally do at any moment.

    The second "process" of a search is the state OTHERS: it moves a position to any higher offset and commits
    just the records in between, and anchors C wherever no record of C is passed. If each step of the one
    process keeps the invariants against it, then, step by step, so does any number of processes.
    """

    def local_moves(self, process: State) -> list[Move]:
        return [] if process == OTHERS else super().local_moves(process)

    def shared_moves(self, process: State, tables: State) -> list[SharedMove]:
        return list(self._others(tables)) if process == OTHERS else super().shared_moves(process, tables)

    def _others(self, tables: State) -> Iterator[SharedMove]:
        for index, name in enumerate(self.types):
            position, committed, filtered = tables[index]
            for to in range(-1 if position is None else position + 1, len(self.scope.log)):
                passed = range(0 if position is None else position + 1, to + 1)
                mine = self.rows(name, passed)
                if position is None and mine:
                    continue
                moved = (to, tuple(sorted([*committed, *mine])), filtered + self.left_out(name, passed))
                after = (*tables[:index], moved, *tables[index + 1 :])
                dead_letters_first = after[0][0] is not None
                if dead_letters_first and not self.broken(after):
                    yield f"{name} is moved to {to} by others", OTHERS, after, 0, 0
