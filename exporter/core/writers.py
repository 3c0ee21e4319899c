"""Writers: what this process has read, staged and committed, per (event type, topic partition).

Pure: every function takes values and returns values. A writer's three offsets keep

    covered <= last offset of each staged file <= frontier

covered: the position as last read from or written to the table. frontier: through which
offset manifests have been integrated. Dropping sets frontier back to covered, and by that
makes every running round of the writer stale (protocol 3.1, 3.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from exporter.core.backoff import Backoff
from exporter.core.routing import DEAD_LETTERS
from exporter.core.seen import Seen
from exporter.core.valid_through import time_of
from exporter.errors import InvariantBroken
from offsets import Invariant
from offsets.ranges import OffsetRange, TopicPartition, first_overlap

PARKED = Backoff(1.0, 300.0)
"""Between two tries of a type that cannot be written."""


class WriterKey(NamedTuple):
    """One writer: one event type of one topic partition."""

    event_type: str
    tp: TopicPartition


@dataclass(frozen=True)
class StagedFile:
    """A finished file that no commit names yet. path: relative to the table's folder; stats: Delta's JSON.

    fingerprint: of the table that it was staged against (protocol 4.2); columns: that table's schema, as it was or as
    it is planned to be, Spark schema JSON; empty where only the very same table will do. staged_at: monotonic seconds.
    body: of a small one that is written at its commit only, its rows as an Arrow stream; else empty.
    arrow_bytes: what its rows take in memory.
    """

    path: str
    offsets: OffsetRange
    rows: int
    size_bytes: int
    stats: str = "{}"
    fingerprint: str = ""
    staged_at: float = field(default=0.0, compare=False)
    body: bytes = field(default=b"", repr=False)
    arrow_bytes: int = 0
    columns: str = field(default="", repr=False)

    @property
    def folder(self) -> str:
        """That of its partition, relative to the table's folder."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True)
class Parked:
    """A type that cannot be written for now: out of the common plan, retried at `retry_at` (monotonic seconds)."""

    reason: str
    retry_at: float


@dataclass(frozen=True)
class Claim:
    """What one commit says about one partition of one type, frozen in one step (protocol 4.1).

    files empty: a heartbeat, the empty marker. base_version: the table's version before the first offer.
    offers: every commit id under which these files were offered. filtered: records in its range that are in no table by
    a named filter (protocol 3.9). time_ms: the writer's when it was frozen.
    """

    key: WriterKey
    epoch: int
    expected: int
    new: int
    files: tuple[StagedFile, ...]
    base_version: int
    offers: tuple[str, ...] = ()
    filtered: int = 0
    time_ms: int = 0

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Writer:
    """One (event type, topic partition). Times are monotonic seconds; epoch is that of the appId.

    behind_at: since when its frontier is beyond what is covered, if it is. filtered: records in (covered, frontier]
    that are in no table by a named filter (protocol 3.9). time_ms: the greatest time of what it was given of records
    through its frontier, milliseconds since 1970; 0: none (4.12).
    """

    key: WriterKey
    epoch: int
    ownership: int
    covered: int
    frontier: int
    behind_at: float = 0.0
    staged: tuple[StagedFile, ...] = ()
    oldest_at: float = 0.0
    claim: Claim | None = None
    parked: Parked | None = None
    failures: int = 0
    filtered: int = 0
    time_ms: int = 0

    @cached_property
    def staged_bytes(self) -> int:
        return sum(file.size_bytes for file in self.staged)

    @cached_property
    def staged_rows(self) -> int:
        return sum(file.rows for file in self.staged)


Writers = Mapping[WriterKey, Writer]


@dataclass(frozen=True)
class PartitionPlan:
    """Offsets start..end-1 of one partition, for the listed types (protocol 3.1).

    bounds: listed type -> the offset through which its writer has what it needs already.
    parked: set if this is the catch-up plan of one parked type. unlisted: the active types that are not listed.
    """

    tp: TopicPartition
    ownership: int
    epoch: int
    start: int
    end: int
    bounds: Mapping[str, int]
    parked: Parked | None = None
    unlisted: tuple[str, ...] = ()

    def bound(self, name: str) -> int | None:
        """The offset from which on records of a type are staged, exclusive; None if none are.

        A type that nobody knew when the plan was made gets all that it has in the range (protocol 3.1). A catch-up
        leaves it to the common plan; that of the dead letters does not, for it is anchored where they are (3.6).
        """
        if name in self.bounds:
            return self.bounds[name]
        left_to_others = self.parked is not None and DEAD_LETTERS not in self.bounds
        return None if left_to_others or name in self.unlisted else self.start - 1


@dataclass(frozen=True)
class Fragment:
    """What one round staged for one partition: the plan it echoes and the files per event type.

    unwritten: event type -> why a file of it could not be written; what else was written of such a type is not listed.
    seen: event type -> what was seen in its rows that no column holds. again: event type -> why it is read again.
    missing: schema ids without a decision; the plan then ends before the first record that has one (protocol 3.8).
    met: event type -> the schemas that its records were written by: ids, with what a frame says beside them. filtered:
    event type -> its records beyond the bound that a named filter leaves out; of the dead letters, that no table takes.
    times: the greatest times of what was read, if they were asked for (core/valid_through.py).
    """

    plan: PartitionPlan
    files: Mapping[str, tuple[StagedFile, ...]] = field(default_factory=dict)
    unwritten: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    again: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()
    met: Mapping[str, frozenset[str]] = field(default_factory=dict)
    filtered: Mapping[str, int] = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Integrated:
    """The writers afterwards, and which types of the fragment were discarded and why."""

    writers: dict[WriterKey, Writer]
    discarded: dict[str, str]


def missing_anchors(writers: Writers, fragment: Fragment) -> tuple[str, ...]:
    """ANCHOR: the types of the fragment that have no position yet; it waits until they have one."""
    met = {*fragment.files, *fragment.unwritten}
    return tuple(sorted(name for name in met if WriterKey(name, fragment.plan.tp) not in writers))


def integrate(writers: Writers, fragment: Fragment, now: float) -> Integrated:
    """Take files and frontier of every type of the fragment that may, in one step (protocol 3.1, 3.2)."""
    plan = fragment.plan
    after = dict(writers)
    discarded: dict[str, str] = {}
    if plan.end <= plan.start:  # it ended at its first record (protocol 3.8), and says nothing
        return Integrated(after, {})
    for name in sorted({*plan.bounds, *fragment.files, *fragment.unwritten}):
        key = WriterKey(name, plan.tp)
        writer = writers.get(key)
        files = fragment.files.get(name, ())
        refusal = _refusal(writer, plan, name, {**fragment.again, **fragment.unwritten})
        if writer is None or refusal:
            discarded[name] = refusal or "it has no position yet"
            continue
        after[key] = replace(
            writer,
            frontier=max(writer.frontier, plan.end - 1),
            staged=writer.staged + tuple(replace(file, staged_at=now) for file in files),
            behind_at=writer.behind_at if writer.frontier > writer.covered else now,
            oldest_at=writer.oldest_at if writer.staged else now,
            parked=None,
            filtered=writer.filtered + fragment.filtered.get(name, 0),
            time_ms=max(writer.time_ms, time_of(fragment.times, name)),
        )
    return Integrated(after, discarded)


def integrate_all(
    writers: Writers, fragments: Iterable[Fragment], now: float
) -> tuple[dict[WriterKey, Writer], list[dict[str, str]]]:
    """integrate() of one fragment after the other: the writers afterwards, and what was discarded of each.

    A fragment costs what its own partition's writers do, however many there are of others.
    """
    after, discarded = dict(writers), []
    for fragment in fragments:
        names = {*fragment.plan.bounds, *fragment.files, *fragment.unwritten}
        keys = (WriterKey(name, fragment.plan.tp) for name in names)
        found = integrate({key: after[key] for key in keys if key in after}, fragment, now)
        after |= found.writers
        discarded.append(found.discarded)
    return after, discarded


def _refusal(writer: Writer | None, plan: PartitionPlan, name: str, refused: Mapping[str, str]) -> str:
    """Why the plan's result must not be integrated for this type; empty if it may."""
    if writer is None:
        return "it has no position yet"
    if name in refused:
        return refused[name]
    if writer.ownership != plan.ownership or writer.epoch != plan.epoch:
        return "the partition was assigned anew or switched since the plan"
    if name not in plan.bounds:
        unknown_then = writer.covered == writer.frontier == plan.start - 1 and not writer.staged
        return "" if unknown_then else "it became active since the plan, at another position"
    if writer.parked != plan.parked:
        return "it was parked or retried since the plan"
    # Equal, not "at least": what lies between two rounds may have been dropped meanwhile (3.1).
    if not plan.start - 1 <= plan.bounds[name] == writer.frontier:
        return f"its frontier is {writer.frontier}, the plan's bound was {plan.bounds[name]}"
    return ""


def drop(writer: Writer) -> Writer:
    """Forget what is staged; the files stay for the sweep (TEMP) and running rounds become stale."""
    return replace(writer, time_ms=0, staged=(), frontier=writer.covered, claim=None, oldest_at=0.0, filtered=0)


def park(writer: Writer, reason: str, now: float) -> Writer:
    """Take a type out of the common plan, and try it again after PARKED (protocol 3.6)."""
    retry_at = now + PARKED.after(writer.failures)
    return replace(drop(writer), parked=Parked(reason, retry_at), failures=writer.failures + 1)


def freeze(writer: Writer, base_version: int) -> Writer:
    """Freeze staged files and frontier as the writer's next claim. The caller has checked that none is open."""
    if writer.claim is not None:
        raise InvariantBroken(Invariant.COVER, f"{writer.key} has an unresolved commit already")
    if writer.frontier <= writer.covered:
        raise InvariantBroken(Invariant.FENCE, f"{writer.key}: {writer.frontier} is not beyond {writer.covered}")
    claim = Claim(
        writer.key, writer.epoch, writer.covered, writer.frontier, writer.staged, base_version,
        filtered=writer.filtered, time_ms=writer.time_ms,
    )  # fmt: skip
    return replace(writer, claim=claim)


def offered(writer: Writer, claim: Claim) -> Writer:
    """Remember the claim as it was offered, commit id included."""
    return replace(writer, claim=claim) if writer.claim is not None else writer


def landed(writer: Writer, claim: Claim, now: float) -> Writer:
    """The claim is in the table and nobody has moved the position since: keep what came after the freeze."""
    # By offsets, not by identity: a merge may have replaced the claim's files by one (4.6).
    kept = tuple(file for file in writer.staged if file.offsets.first_offset > claim.new)
    return replace(
        writer,
        covered=claim.new,
        frontier=max(writer.frontier, claim.new),
        staged=kept,
        claim=None,
        behind_at=now,
        oldest_at=min((file.staged_at for file in kept), default=0.0),
        failures=0,
        # What was counted after the freeze is the next commit's to say (COUNT, 3.9).
        filtered=max(0, writer.filtered - claim.filtered),
    )


def staged_range_error(claim: Claim) -> str:
    """Why the claim breaks COVER, FENCE or NAMES; empty if it does not (protocol 4.2)."""
    if claim.new <= claim.expected:
        return f"new position {claim.new} is not beyond {claim.expected}"
    by_folder: dict[str, list[OffsetRange]] = {}
    for file in claim.files:
        if file.offsets.first_offset <= claim.expected or file.offsets.last_offset > claim.new:
            return f"{file.path} holds {file.offsets}, outside ({claim.expected}, {claim.new}]"
        by_folder.setdefault(file.folder, []).append(file.offsets)
    return next((error for folder, ranges in by_folder.items() if (error := _overlap_error(folder, ranges))), "")


def _overlap_error(folder: str, ranges: Iterable[OffsetRange]) -> str:
    clash = first_overlap(ranges)
    return f"files of {folder} share offsets: {clash[0]} and {clash[1]}" if clash else ""
