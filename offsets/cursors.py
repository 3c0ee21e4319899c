"""How far a job has taken its sources, and what of a source is new since then (protocol 9). Pure.

    since (a Cursor, of the job's own commit) ─┬─ slices    offsets (after, through] of each topic partition
    now   (a Cursor, of a pinned version)     ─┤  replays   rows that a replay of dead letters has put below them
                                               └─ setbacks  partitions of which the source took rows back meanwhile
    window(since, now, most) ── how far one run goes: a cursor between the two

In a job's table, as txn actions of the commit with the rows:

    <app>/derive/<job>/<folder of the source>/at/<topic>/<partition>/<epoch>  the last offset taken, inclusive
    <app>/derive/<job>/<folder>/replay/<topic>/<partition>                    the last replay taken, by its number
    <app>/derive/<job>/<folder>/version/<table id>                            the version that was looked through
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from offsets.names import table_folder
from offsets.positions import TOMBSTONE, Position, last_replay, of_partition
from offsets.ranges import TopicPartition
from offsets.rewind import live_positions
from offsets.table_log import TableView


@dataclass(frozen=True)
class FormerTopic:
    """One partition of a topic that was created again: its rows have epochs below `before` (protocol 7.2).

    through: the last offset that the table has of it.
    """

    before: int
    through: int


@dataclass(frozen=True)
class Cursor:
    """A place in one source. positions: all at or below are taken. replays: partition -> the last number taken.

    version, table_id: of the source, through which its replays were looked at; -1 if never. former: of a source, the
    topics of the same name that were before a re-base, oldest first; nothing stores it.
    """

    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)
    replays: Mapping[TopicPartition, int] = field(default_factory=dict)
    version: int = -1
    table_id: str = ""
    former: Mapping[TopicPartition, tuple[FormerTopic, ...]] = field(default_factory=dict)


NOTHING = Cursor()
"""Of a job that has taken nothing yet."""


@dataclass(frozen=True)
class Slice:
    """The offsets (after, through] of one topic partition, of the epochs [first, before): those of one topic.

    before: None if there is no later topic of the name.
    """

    tp: TopicPartition
    after: int
    through: int
    first: int = 0
    before: int | None = None

    @property
    def offsets(self) -> int:
        """How many; some of them may be no record, or none of the table's."""
        return self.through - self.after

    def __str__(self) -> str:
        of = f" of epochs {self.first}..{self.before - 1}" if self.before is not None else ""
        return f"{self.tp} offsets {self.after + 1}..{self.through}{of}"


def whole(view: TableView, app: str) -> Cursor:
    """Everything that an exported table holds at a version."""
    positions = live_positions(view.transactions, app)
    numbers = {tp: last_replay(view.transactions, app, tp) for tp in positions}
    former = {tp: _former(view, app, tp) for tp in positions}
    return Cursor(
        positions,
        {tp: number for tp, number in numbers.items() if number},
        view.version,
        view.table_id,
        {tp: topics for tp, topics in former.items() if topics},
    )


def _former(view: TableView, app: str, tp: TopicPartition) -> tuple[FormerTopic, ...]:
    """By the seal of the last epoch of each, which no later repair draws back."""
    ours = of_partition(view.transactions, app, tp)
    seals = {one.epoch: version for one, version in ours if one.kind == "sealed"}
    found, first = [], 0
    for before in sorted(one.epoch for one, _ in ours if one.kind == "rebased"):
        last = max((epoch for epoch in seals if first <= epoch < before), default=None)
        found.append(FormerTopic(before, -1 if last is None else seals[last]))
        first = before
    return tuple(found)


def slices(since: Cursor, now: Cursor) -> tuple[Slice, ...]:
    """What is new, by partition, oldest topic first; what a later epoch of the same topic means is for setbacks()."""
    return tuple(one for tp in sorted(now.positions) for one in _slices(tp, since, now))


def _slices(tp: TopicPartition, since: Cursor, now: Cursor) -> Iterator[Slice]:
    taken, position, first = since.positions.get(tp), now.positions[tp], 0
    for before, held in [*((one.before, one.through) for one in now.former.get(tp, ())), (None, position.offset)]:
        here = before is None or position.epoch < before
        through = position.offset if here else held
        after = -1 if taken is None or taken.epoch < first else taken.offset
        if (taken is None or before is None or taken.epoch < before) and through > after:
            yield Slice(tp, after, through, first, before)
        if here or before is None:
            return
        first = before


def replayed(since: Cursor, now: Cursor) -> dict[TopicPartition, tuple[int, int]]:
    """Partition -> numbers (after, through] of the replays that are new, and may have put rows below the cursor."""
    numbers = ((tp, since.replays.get(tp, 0), last) for tp, last in sorted(now.replays.items()))
    return {tp: (taken, last) for tp, taken, last in numbers if last > taken and tp in since.positions}


def window(since: Cursor, now: Cursor, most: int) -> Cursor:
    """How far a run goes that takes at most about so many offsets: `now`, or a cursor on the way there.

    Each partition that has something new gets an equal share, of its oldest topic only. Replays are taken as a whole:
    what they put beyond the cursor is of a slice, sooner or later.
    """
    new = slices(since, now)
    if sum(one.offsets for one in new) <= most:
        return now
    oldest = {one.tp: one for one in reversed(new)}
    share = max(1, most // len(oldest))
    positions = {**now.positions}
    for tp, one in oldest.items():
        epoch = now.positions[tp].epoch if one.before is None else min(now.positions[tp].epoch, one.before - 1)
        positions[tp] = Position(epoch, min(one.through, one.after + share))
    return replace(now, positions=positions)


@dataclass(frozen=True)
class CursorSetback:
    """A partition whose offsets beyond `through` the source took back, and may have given again, since the cursor."""

    tp: TopicPartition
    taken: int
    through: int


def setbacks(since: Cursor, view: TableView, app: str) -> tuple[CursorSetback, ...]:
    """What later epochs of a source say of the rows that were taken: one begins below the cursor (protocol 7.1).

    An epoch of another topic of the same name says nothing: no row of the former one went (protocol 7.2).
    """
    found = []
    for tp, taken in sorted(since.positions.items()):
        ours = of_partition(view.transactions, app, tp)
        later = [one.epoch for one, _ in ours if one.kind == "rebased" and one.epoch > taken.epoch]
        before = min(later, default=TOMBSTONE)
        begun = [at for one, at in ours if one.kind == "anchor" and taken.epoch < one.epoch < before]
        through = min(begun, default=taken.offset)
        if through < taken.offset:
            found.append(CursorSetback(tp, taken.offset, through))
    return tuple(found)


def head_of(app: str, job: str, source: str = "") -> str:
    """What the appIds of a job, or those of one of its sources, begin with. source: an event type."""
    head = f"{app}/derive/{job}/"
    return f"{head}{table_folder(source)}/" if source else head


def run_id(app: str, job: str) -> str:
    """The appId of a job's run: counts its commits, and is what two of the same job collide in."""
    return f"{head_of(app, job)}run"


def rebuilt_id(app: str, job: str) -> str:
    """The appId that says which run has begun a job's table anew last."""
    return f"{head_of(app, job)}rebuilt"


def rebuilds(transactions: Mapping[str, int], app: str, job: str) -> int:
    """The run that began a job's table anew last, after another one had made it; 0 if none did."""
    return transactions.get(rebuilt_id(app, job), 0)


def as_transactions(cursor: Cursor, app: str, job: str, source: str) -> dict[str, int]:
    """The txn actions that say it: appId -> version."""
    head = head_of(app, job, source)
    said = {f"{head}at/{tp.topic}/{tp.partition}/{at.epoch}": at.offset for tp, at in cursor.positions.items()}
    said |= {f"{head}replay/{tp.topic}/{tp.partition}": number for tp, number in cursor.replays.items()}
    return said | ({f"{head}version/{cursor.table_id}": cursor.version} if cursor.table_id else {})


def superseded(transactions: Mapping[str, int], said: Mapping[str, int], app: str, job: str) -> dict[str, int]:
    """Tombstones for all that a job's table says of cursors and `said` does not: a job that begins anew forgets them.

    Else an epoch, or a table's id, of before would go on being the greatest.
    """
    head = head_of(app, job)
    parts = {one: one.removeprefix(head).split("/") for one in transactions if one.startswith(head)}
    return {one: TOMBSTONE for one in parts if parts[one][1:2] in (["at"], ["replay"], ["version"]) and one not in said}


def cursor_of(transactions: Mapping[str, int], app: str, job: str, source: str) -> Cursor:
    """The inverse of as_transactions(), from all that a table says; of a partition its highest epoch counts.

    Of several table ids that of the greatest version counts; whoever begins anew leaves one, by superseded().
    """
    positions: dict[TopicPartition, Position] = {}
    replays: dict[TopicPartition, int] = {}
    versions: dict[str, int] = {}
    for parts, version in _under(transactions, head_of(app, job, source)):
        kind, rest = parts[0], parts[1:]
        if kind == "version":
            versions[rest[0]] = version
        elif kind == "replay":
            replays[TopicPartition(rest[0], int(rest[1]))] = version
        elif kind == "at":
            tp, at = TopicPartition(rest[0], int(rest[1])), Position(int(rest[2]), version)
            positions[tp] = max(at, positions.get(tp, at))
    table_id = max(versions, key=lambda one: versions[one], default="")
    return Cursor(positions, replays, versions.get(table_id, -1), table_id)


def _under(transactions: Mapping[str, int], head: str) -> Iterator[tuple[list[str], int]]:
    for app_id, version in transactions.items():
        if app_id.startswith(head) and version != TOMBSTONE:
            yield app_id.removeprefix(head).split("/"), version

