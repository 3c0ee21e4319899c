"""How far a job has taken its sources, and what of a source is new since then (protocol 9). Pure.

    since (a Cursor, of the job's own commit) ─┬─ slices    offsets (after, through] of each topic partition
    now   (a Cursor, of a pinned version)     ─┤  replays   rows that a replay of dead letters has put below them
                                               └─ setbacks  partitions of which the source took rows back meanwhile

In a job's table, as txn actions of the commit with the rows:

    <app>/derive/<job>/<folder of the source>/at/<topic>/<partition>/<epoch>  the last offset taken, inclusive
    <app>/derive/<job>/<folder>/replay/<topic>/<partition>                    the last replay taken, by its number
    <app>/derive/<job>/<folder>/version/<table id>                            the version that was looked through
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from offsets.names import table_folder
from offsets.positions import TOMBSTONE, Position, first_epoch, last_replay, of_partition
from offsets.ranges import TopicPartition
from offsets.rewind import live_positions
from offsets.table_log import TableView


@dataclass(frozen=True)
class Cursor:
    """A place in one source. positions: all at or below are taken. replays: partition -> the last number taken.

    version, table_id: of the source, through which its operations were looked at; -1 if never.
    """

    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)
    replays: Mapping[TopicPartition, int] = field(default_factory=dict)
    version: int = -1
    table_id: str = ""


NOTHING = Cursor()
"""Of a job that has taken nothing yet."""


@dataclass(frozen=True)
class Slice:
    """The offsets (after, through] of one topic partition."""

    tp: TopicPartition
    after: int
    through: int


def whole(view: TableView, app: str) -> Cursor:
    """Everything that an exported table holds at a version."""
    positions = live_positions(view.transactions, app)
    numbers = {tp: last_replay(view.transactions, app, tp) for tp in positions}
    return Cursor(positions, {tp: number for tp, number in numbers.items() if number}, view.version, view.table_id)


def slices(since: Cursor, now: Cursor) -> tuple[Slice, ...]:
    """What is new, by partition; the epoch of a cursor says nothing here: what it means is for setbacks()."""
    found = []
    for tp, position in sorted(now.positions.items()):
        taken = since.positions.get(tp)
        after = -1 if taken is None else taken.offset
        if position.offset > after:
            found.append(Slice(tp, after, position.offset))
    return tuple(found)


def replayed(since: Cursor, now: Cursor) -> dict[TopicPartition, tuple[int, int]]:
    """Partition -> numbers (after, through] of the replays that are new."""
    numbers = ((tp, since.replays.get(tp, 0), last) for tp, last in sorted(now.replays.items()))
    return {tp: (taken, last) for tp, taken, last in numbers if last > taken}


@dataclass(frozen=True)
class Setback:
    """A partition whose offsets beyond `through` the source took back, and may have given again, since the cursor.

    rebased: the offsets are those of another topic of the same name.
    """

    tp: TopicPartition
    taken: int
    through: int
    rebased: bool = False


def setbacks(since: Cursor, view: TableView, app: str) -> tuple[Setback, ...]:
    """What later epochs of a source say of the rows that were taken: one begins below the cursor (protocol 7)."""
    found = []
    for tp, taken in sorted(since.positions.items()):
        ours = of_partition(view.transactions, app, tp)
        begun = [version for one, version in ours if one.kind == "anchor" and one.epoch > taken.epoch]
        begun = [version for version in begun if version != TOMBSTONE]
        if first_epoch(view.transactions, app, tp) > taken.epoch:
            found.append(Setback(tp, taken.offset, -1, rebased=True))
        elif begun and min(begun) < taken.offset:
            found.append(Setback(tp, taken.offset, min(begun)))
    return tuple(found)


def head_of(app: str, job: str, source: str = "") -> str:
    """What the appIds of a job, or those of one of its sources, begin with. source: an event type."""
    head = f"{app}/derive/{job}/"
    return f"{head}{table_folder(source)}/" if source else head


def run_id(app: str, job: str) -> str:
    """The appId of a job's run: counts its commits, and is what two of the same job collide in."""
    return f"{head_of(app, job)}run"


def as_transactions(cursor: Cursor, app: str, job: str, source: str) -> dict[str, int]:
    """The txn actions that say it: appId -> version."""
    head = head_of(app, job, source)
    said = {f"{head}at/{tp.topic}/{tp.partition}/{at.epoch}": at.offset for tp, at in cursor.positions.items()}
    said |= {f"{head}replay/{tp.topic}/{tp.partition}": number for tp, number in cursor.replays.items()}
    return said | ({f"{head}version/{cursor.table_id}": cursor.version} if cursor.table_id else {})


def cursor_of(transactions: Mapping[str, int], app: str, job: str, source: str) -> Cursor:
    """The inverse of as_transactions(), from all that a table says; of a partition its highest epoch counts.

    Of the table ids of a source that was made anew, that of the greatest version counts: whoever asks compares it.
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
        if app_id.startswith(head):
            yield app_id.removeprefix(head).split("/"), version

