"""The world of two partitions: one commit of a type carries the claims of both (protocol 4.1, 4.3, 4.4).

Two processes, one type, two topic partitions. Nothing coordinates the processes: each believes that
it owns both, which holds every mixture of an owner of one and a zombie of the other. Reading and
integrating is one step here (overlapping rounds are world.py's), committing is taken apart: what
is due is frozen and offered together with what is offered again, one commit at a time, and the
outcome is found per partition by the project's own `resolve`. What the loop in task/service.py does with
an outcome is played in `settled`.

    Process  (writers, call, logged, orphans)
    Writer   (covered, frontier, staged, claim)                None: revoked or refused, to be read again
    Claim    (expected, new, files, offers)                    offers: commit ids
    Call     (commit id, ((partition, expected, new, files), ...), status)     None: no commit is under way
    Orphan   (commit id, claims)                               given up, or of a life before; may still land
    Table    per partition (position, committed offsets)

Commit ids are numbered per process; those that can be neither in the log nor land any more are
forgotten. Reductions: the search's footprints (search.py), and the two processes are interchangeable.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from exporter.core import heartbeat, outcome, roll
from exporter.core.plan import Budget, plan_round
from exporter.core.writers import (
    Claim,
    Fragment,
    Writer,
    WriterKey,
    drop,
    freeze,
    integrate,
    landed,
    offered,
    staged_range_error,
)
from exporter.errors import InvariantBroken
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.model.world import CALLED, LIMITS, LOST, Move, SharedMove, State, Stopped, _offsets, _put, real_file

TYPE = "A"
TPS = (TopicPartition("t", 0), TopicPartition("t", 1))
BOTH = 0b11
CALL = 0b100
EVERYTHING = BOTH | CALL


@dataclass(frozen=True)
class PairScope:
    """logs: per partition the records, "A" or "." (a hole). drops, revokes: at any time. late: as in world.py."""

    logs: tuple[str, str] = ("A", "A")
    drops: bool = False
    revokes: bool = False
    late: bool = False
    markers: bool = True


class PairWorld:
    """All steps from a state. Local moves touch one process alone, shared moves read or write the table."""

    def __init__(self, scope: PairScope) -> None:
        self.scope = replace(scope, logs=tuple(scope.logs))

    def first_state(self) -> tuple[State, State]:
        tables = tuple((-1, ()) for _ in TPS)
        return tables, (tuple((-1, -1, (), None) for _ in TPS), None, (), ())

    # -- the project's dataclasses

    def real_claim(self, p: int, claim: State) -> Claim:
        files = tuple(real_file(file) for file in claim[2])
        return Claim(WriterKey(TYPE, TPS[p]), 0, claim[0], claim[1], files, 0, tuple(claim[3]))

    def real_writer(self, p: int, writer: State) -> Writer:
        covered, frontier, staged, claim = writer
        files = tuple(real_file(file) for file in staged)
        real = self.real_claim(p, claim) if claim else None
        return Writer(WriterKey(TYPE, TPS[p]), 0, 1, covered, frontier, staged=files, claim=real)

    # -- local moves

    def local_moves(self, process: State) -> list[Move]:
        moves: list[Move] = []
        for step in (self._reads, self._offers, self._fails, self._drops):
            moves.extend(step(process))
        return [(text, _numbered(after), reads, writes) for text, after, reads, writes in moves]

    def _reads(self, process: State) -> Iterator[Move]:
        """A round: planned, read and integrated."""
        for p, writer in enumerate(process[0]):
            log = self.scope.logs[p]
            for end in range(writer[1] + 2, len(log) + 1) if writer else ():
                real = self.real_writer(p, writer)
                for plan in plan_round({real.key: real}, {TPS[p]: end}, Budget(len(log)), 0.0):
                    bound = plan.bounds[TYPE]
                    mine = (o for o in range(plan.start, plan.end) if log[o] == TYPE and o > bound)
                    files = {TYPE: (real_file(offsets),)} if (offsets := tuple(mine)) else {}
                    done = integrate({real.key: real}, Fragment(plan, files), 0.0).writers[real.key]
                    yield f"reads p{p} to {end - 1}", _put(process, p, _compact(done)), 1 << p, 1 << p

    def _offers(self, process: State) -> Iterator[Move]:
        """Freeze any of the due writers; claims that were offered before ride along; one commit at a time."""
        writers, call, *_ = process
        if call is not None or None in writers:
            return
        real = [self.real_writer(p, writer) for p, writer in enumerate(writers)]
        again = [p for p, writer in enumerate(real) if writer.claim is not None]
        due = [p for p, writer in enumerate(real) if self._is_due(writer)]
        for count in range(0 if again else 1, len(due) + 1):
            for fresh in itertools.combinations(due, count):
                yield self._offer(process, real, fresh, again)

    def _is_due(self, writer: Writer) -> bool:
        return bool(
            roll.due(writer, LIMITS, 0.0, stopping=True)
            or (self.scope.markers and heartbeat.markers_due({writer.key: writer}, 0.0, 0.0))
        )

    def _offer(self, process: State, real: list[Writer], fresh: tuple[int, ...], again: list[int]) -> Move:
        text = "offers " + ", ".join([*(f"p{p}" for p in fresh), *(f"p{p} again" for p in again)])
        used = sum(1 << p for p in {*fresh, *again}) | (BOTH if None in process[0] else 0)
        commit_id = f"c{1 + max((int(one[1:]) for one in _ids(process)), default=0)}"
        after = process
        claims = []
        for p in sorted({*fresh, *again}):
            try:
                frozen = freeze(real[p], 0) if p in fresh else real[p]
            except InvariantBroken as error:
                return text, Stopped(error.message), EVERYTHING, EVERYTHING
            if frozen.claim is None:
                raise RuntimeError("freeze left no claim")
            if problem := staged_range_error(frozen.claim):
                return text, Stopped(problem), EVERYTHING, EVERYTHING
            frozen = offered(frozen, replace(frozen.claim, offers=(*frozen.claim.offers, commit_id)))
            after = _put(after, p, _compact(frozen))
            claims.append((p, *after[0][p][3][:3]))
        after = (after[0], (commit_id, tuple(claims), CALLED), *after[2:])
        return text + ": " + _claims(tuple(claims)), after, BOTH | CALL, used | CALL

    def _fails(self, process: State) -> Iterator[Move]:
        writers, call, logged, orphans = process
        if call is not None and call[2] == CALLED:
            lost = (*call[:2], LOST)
            yield "the commit raises, not landed", (writers, lost, logged, orphans), CALL, CALL
            if self.scope.late and not orphans:
                yield "the commit raises, still under way", (writers, lost, logged, (call[:2],)), CALL, CALL

    def _drops(self, process: State) -> Iterator[Move]:
        """Stage age, or the partition is taken away while a commit that names it may be under way."""
        for p, writer in enumerate(process[0]):
            if writer and self.scope.drops and not writer[3] and writer[1] > writer[0]:
                yield f"drops p{p}", _put(process, p, _compact(drop(self.real_writer(p, writer)))), 1 << p, 1 << p
            if writer and self.scope.revokes:
                yield f"p{p} is revoked", _put(process, p, None), 1 << p, 1 << p

    # -- shared moves

    def shared_moves(self, process: State, tables: State) -> list[SharedMove]:
        moves: list[SharedMove] = []
        for step in (self._landings, self._looks, self._recovers, self._crashes):
            moves.extend(step(process, tables))
        return [(text, self._pruned(after, new), new, reads, writes) for text, after, new, reads, writes in moves]

    def _landings(self, process: State, tables: State) -> Iterator[SharedMove]:
        writers, call, logged, orphans = process
        for at, (commit_id, claims) in enumerate(orphans):
            new = self.commit(tables, claims)
            if new is not None:
                after = (writers, call, (*logged, commit_id), (*orphans[:at], *orphans[at + 1 :]))
                yield f"a commit that was given up lands: {_claims(claims)}", after, new, CALL, CALL
        if call is None or call[2] != CALLED:
            return
        new = self.commit(tables, call[1])
        if new is None:
            return
        lost = (writers, (*call[:2], LOST), (*logged, call[0]), orphans)
        yield "the commit lands, answer lost", lost, new, CALL, CALL
        after = (writers, None, (*logged, call[0]), orphans)
        for p, *claim in call[1]:
            writer = writers[p]
            if writer and writer[3] and writer[3][:3] == tuple(claim):
                after = _put(after, p, self.settled(p, writer, outcome.Landed(Position(0, claim[1]))))
        yield "the commit lands", after, new, EVERYTHING, EVERYTHING

    def _looks(self, process: State, tables: State) -> Iterator[SharedMove]:
        """Protocol 4.4: the call did not return normally; what became of each claim is found by looking."""
        writers, call, logged, orphans = process
        if call is None or call[2] != LOST:
            return
        after = (writers, None, logged, orphans)
        texts = []
        for p, *claim in call[1]:
            writer = writers[p]
            if not writer or not writer[3] or writer[3][:3] != tuple(claim):
                continue
            found = outcome.resolve(self.real_claim(p, writer[3]), logged, Position(0, tables[p][0]))
            texts.append(f"p{p} {type(found).__name__.lower()}")
            after = _put(after, p, self.settled(p, writer, found))
        yield "looks: " + ", ".join(texts or ["nothing is ours"]), after, tables, EVERYTHING, EVERYTHING

    def settled(self, p: int, writer: State, found: outcome.Outcome) -> State | None:
        """What the loop makes of an outcome: None = dropped, the partition is read again from its table."""
        real = self.real_writer(p, writer)
        if real.claim is None:
            raise RuntimeError("no claim to settle")
        if isinstance(found, outcome.Unknown):
            return writer
        if isinstance(found, outcome.Landed) and found.position == Position(0, real.claim.new):
            return _compact(landed(real, real.claim, 0.0))
        return None

    def _recovers(self, process: State, tables: State) -> Iterator[SharedMove]:
        """A fresh reading, once no commit is under way (4.1: what it names is unresolved until then)."""
        for p, writer in enumerate(process[0]):
            if writer is None and process[1] is None:
                at = tables[p][0]
                yield f"reads p{p} again: {at}", _put(process, p, (at, at, (), None)), tables, CALL, 1 << p

    def _crashes(self, process: State, tables: State) -> Iterator[SharedMove]:
        under_way = [process[1][:2]] if self.scope.late and process[1] and process[1][2] == CALLED else []
        after = ((None, None), None, (), (*process[3], *under_way)[-1:])
        if after != process:
            yield "crashes and starts again", after, tables, EVERYTHING, EVERYTHING

    def commit(self, tables: State, claims: State) -> State | None:
        """Delta's atomic compare-and-set over all partitions of the commit: afterwards, or None if one conflicts."""
        if any(tables[p][0] != expected for p, expected, *_ in claims):
            return None
        after = list(tables)
        for p, _, new, files in claims:
            after[p] = (new, tuple(sorted([*tables[p][1], *(offset for file in files for offset in file)])))
        return tuple(after)

    def _pruned(self, process: State, tables: State) -> State:
        """Commits whose expected positions have passed can never land."""
        writers, call, logged, orphans = process
        left = tuple(one for one in orphans if all(tables[p][0] <= expected for p, expected, *_ in one[1]))
        return _numbered((writers, call, logged, left))

    # -- a fair run without faults, and the invariants

    def clean_step(self, process: State, tables: State) -> tuple[str, State, State] | None:
        for text, after, new, *_ in self.shared_moves(process, tables):
            if text.startswith(("looks", "the commit lands", "reads")) and "lost" not in text:
                return text, after, new
        for words in ("raises, not landed", "offers", "reads"):
            found = [move for move in self.local_moves(process) if words in move[0]]
            if found:
                return found[-1][0], found[-1][1], tables
        return None

    def broken(self, tables: State) -> str:
        """ONCE and COVER, for each partition."""
        for p, (position, committed) in enumerate(tables):
            for offset, kind in enumerate(self.scope.logs[p]):
                if committed.count(offset) > 1:
                    return f"ONCE: record {offset} of p{p} is committed {committed.count(offset)} times"
                if kind == TYPE and offset <= position and offset not in committed:
                    return f"COVER: p{p} is at {position}, record {offset} is lost"
        return ""

    def went_back(self, before: State, after: State) -> str:
        for p, (old, new) in enumerate(zip(before, after, strict=True)):
            if new[0] < old[0]:
                return f"MONOTONE: p{p} went back from {old[0]} to {new[0]}"
        return ""

    def finished(self, tables: State) -> bool:
        return all(tables[p][0] == len(log) - 1 for p, log in enumerate(self.scope.logs))

    def show(self, tables: State) -> str:
        return "  ".join(f"p{p}={position}{list(committed)}" for p, (position, committed) in enumerate(tables))


def _compact(writer: Writer) -> State:
    claim = writer.claim
    files = tuple(_offsets(file) for file in writer.staged)
    frozen = claim and (claim.expected, claim.new, tuple(_offsets(file) for file in claim.files), claim.offers)
    return (writer.covered, writer.frontier, files, frozen)


def _ids(process: State) -> list[str]:
    """Every commit id that the process or the log may still name, oldest first."""
    writers, call, logged, orphans = process
    ids = {one for writer in writers if writer and writer[3] for one in writer[3][3]}
    return sorted(ids | ({call[0]} if call else set()) | {one[0] for one in orphans} | set(logged))


def _numbered(process: State) -> State:
    """Ids that no claim names or that can never be in the log are forgotten, the others numbered again."""
    if isinstance(process, Stopped):
        return process
    writers, call, logged, orphans = process
    named = {one for writer in writers if writer and writer[3] for one in writer[3][3]}
    alive = {*logged, *(one[0] for one in orphans), *([call[0]] if call else [])}
    kept = sorted((named & alive) | {one[0] for one in orphans} | ({call[0]} if call else set()), key=_number)
    ids = {old: f"c{at}" for at, old in enumerate(kept, 1)}
    return (
        tuple(
            writer and (*writer[:3], writer[3] and (*writer[3][:3], tuple(ids[o] for o in writer[3][3] if o in ids)))
            for writer in writers
        ),
        call and (ids[call[0]], *call[1:]),
        tuple(sorted(ids[one] for one in logged if one in ids and one in named)),
        tuple((ids[one[0]], one[1]) for one in orphans),
    )


def _number(commit_id: str) -> int:
    return int(commit_id[1:])


def _claims(claims: State) -> str:
    return ", ".join(f"p{p} {expected}->{new} {list(map(list, files))}" for p, expected, new, files in claims)
