"""What a repair does to each table and partition (protocol, section 7). Pure.

    accidents of a table ──> held: the offset through which it certainly holds everything
    all tables of a partition ──> Move: the live epoch closed, the next one begun; one epoch for all of them
    rows of its live files ──> removed with the move, or deleted before it where a file has rows on both sides

Nothing is ever moved back under the same appId: a zombie could not tell it from its own past (ABA).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from offsets.names import AppId
from offsets.positions import (
    TOMBSTONE,
    Position,
    by_partition,
    first_epoch,
    live_position,
    of_partition,
    our_transactions,
)
from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class Setback:
    """What one accident did to one partition of a table.

    was: the position at the accident's version. through: the offset through which the table certainly holds
    everything afterwards. restored: the whole table became that of an older version, so that this alone counts;
    otherwise (an overwrite) rows were taken away from what was there.
    """

    was: int
    through: int
    restored: bool


def held(position: int, setbacks: Sequence[Setback]) -> int:
    """The offset through which a table certainly holds everything, once. setbacks: in the order in which they happened.

    What a RESTORE brought beyond the position of then may have been exported once more since.
    """
    through: int | None = None
    for one in setbacks:
        if one.restored:
            through = min(one.through, one.was)
        elif one.through < one.was:
            through = one.through if through is None else min(through, one.through)
    return position if through is None else min(position, through)


def first_anchor(transactions: Mapping[str, int], app: str, tp: TopicPartition, since: int = 0) -> int | None:
    """Where the first epoch from `since` on begins (exclusive): nothing at or before it is this table's to hold."""
    anchors = {
        app_id.epoch: version
        for app_id, version in of_partition(transactions, app, tp)
        if app_id.kind == "anchor" and app_id.epoch >= since
    }
    return anchors[min(anchors)] if anchors else None


def same_since(history: Mapping[int, str], epoch: int, since: int = 0) -> int:
    """The earliest epoch from `since` on from which the configuration has been that of `epoch`.

    history: epoch -> routing fingerprint; an epoch that no table is in any more may lack.
    """
    earliest = epoch
    for one in sorted((e for e in history if since <= e < epoch), reverse=True):
        if history[one] != history.get(epoch):
            break
        earliest = one
    return earliest


@dataclass(frozen=True)
class Move:
    """One partition of one table: its live epoch is closed, the next one begins at `new`. old None: a new table.

    cuts: rows beyond the new position are taken away with it; a table that only follows keeps what it has.
    """

    old: Position | None
    new: Position
    cuts: bool = False


def next_epoch(dead_letters: Position, positions: Mapping[str, Position], moving: Collection[str]) -> int:
    """The epoch that every table of a partition is to reach.

    moving: the tables that leave their epoch whatever it is. Tables that an interrupted repair has moved already
    are there; the dead letters, which are moved last, never are.
    """
    taken = [position.epoch + (name in moving) for name, position in positions.items()]
    return max([dead_letters.epoch + 1, *taken])


def moves(
    dead_letters: str, positions: Mapping[str, Position], targets: Mapping[str, int], active: Collection[str]
) -> dict[str, Move]:
    """Table -> move, for one partition; empty if nothing is to be done.

    positions: of every table, the dead letters' (named by `dead_letters`) included. targets: table -> new offset, for
    the tables that must be moved; one without a position is made anew. The other active ones follow into the same
    epoch, each at its own position. If no table must be moved, one that is ahead of the dead letters' epoch shows
    that a repair was interrupted: the rest follows.
    """
    epoch = next_epoch(positions[dead_letters], positions, targets)
    ahead = any(position.epoch > positions[dead_letters].epoch for position in positions.values())
    if not targets and not ahead:
        return {}
    found: dict[str, Move] = {}
    for name in sorted({*positions, *targets}):
        old = positions.get(name)
        if name in targets:
            found[name] = Move(old, Position(epoch, targets[name]), cuts=True)
        elif old is not None and old.epoch < epoch and name in active:
            found[name] = Move(old, Position(epoch, old.offset))
    return found


def move_transactions(
    transactions: Mapping[str, int], app: str, tp: TopicPartition, move: Move, rebased: bool = False
) -> dict[str, int]:
    """The txn actions of one move: tombstone and seal of the old epoch, position and anchor of the new one.

    A seal beyond the new position is drawn back to it, so that every offset is covered by one epoch alone. A poison
    record whose row goes away is spared again, for tables have passed it; one that any table held is withdrawn, for
    this move may be that of the table. rebased: the new epoch belongs to another topic, so the old seals stay what they
    were and every poison record is withdrawn.
    """
    new = move.new
    versions = {str(AppId(app, tp, new.epoch)): new.offset, str(AppId(app, tp, new.epoch, "anchor")): new.offset}
    if rebased:
        versions[str(AppId(app, tp, new.epoch, "rebased"))] = new.offset
    since = first_epoch(transactions, app, tp)
    for app_id, version in of_partition(transactions, app, tp):
        if version == TOMBSTONE:
            continue
        if app_id.kind in ("spared", "skipped", "held"):  # their number is an offset
            loses_row = app_id.kind == "skipped" and move.cuts and app_id.epoch > new.offset
            if rebased or app_id.kind == "held" or loses_row:
                versions[str(app_id)] = TOMBSTONE
            if loses_row and not rebased:
                versions[str(AppId(app, tp, app_id.epoch, "spared"))] = new.epoch
        elif app_id.epoch >= new.epoch:
            continue
        elif app_id.kind is None:
            sealed = version if rebased else min(version, new.offset)
            versions[str(app_id)] = TOMBSTONE
            versions[str(AppId(app, tp, app_id.epoch, "sealed"))] = sealed
        elif app_id.kind == "sealed" and not rebased and app_id.epoch >= since and version > new.offset:
            versions.setdefault(str(app_id), new.offset)
        elif app_id.kind == "condemned" and (rebased or (move.cuts and app_id.epoch >= since and version > new.offset)):
            versions[str(app_id)] = TOMBSTONE
            if not rebased:
                versions[str(AppId(app, tp, version, "spared"))] = new.epoch
    return versions


def adopted_transactions(transactions: Mapping[str, int], former: str, app: str) -> dict[str, int]:
    """All that a table remembers of `former`, under `app`; the former's live appIds become tombstones."""
    versions: dict[str, int] = {}
    for app_id, version in our_transactions(transactions, former):
        versions[str(replace(app_id, app=app))] = version
        if app_id.kind is None:
            versions[str(app_id)] = TOMBSTONE
    return versions


def live_positions(transactions: Mapping[str, int], app: str) -> dict[TopicPartition, Position]:
    """Every partition that a table has a position of."""
    found = {tp: live_position(transactions, app, tp) for tp in by_partition(transactions, app)}
    return {tp: position for tp, position in sorted(found.items()) if position is not None}


@dataclass(frozen=True)
class FileRows:
    """The rows of one partition and epoch in one live file, first and last offset inclusive."""

    path: str
    tp: TopicPartition
    epoch: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True)
class Bound:
    """Rows of `tp` beyond offset `after`, of epochs from `since` on, have to go."""

    tp: TopicPartition
    after: int
    since: int = 0

    def takes(self, rows: FileRows) -> bool:
        return rows.tp == self.tp and rows.epoch >= self.since and rows.last_offset > self.after

    def takes_all(self, rows: FileRows) -> bool:
        return self.takes(rows) and rows.first_offset > self.after


@dataclass(frozen=True)
class Cut:
    """removed: files whose rows are all beyond a bound. mixed: files with rows on both sides."""

    removed: tuple[str, ...]
    mixed: tuple[str, ...]


def cut(files: Iterable[FileRows], bounds: Sequence[Bound]) -> Cut:
    """Which files a rewind removes whole, and which need a DELETE of rows first."""
    by_path: dict[str, list[FileRows]] = {}
    for rows in files:
        by_path.setdefault(rows.path, []).append(rows)
    of: dict[TopicPartition, list[Bound]] = {}
    for bound in bounds:
        of.setdefault(bound.tp, []).append(bound)
    removed, mixed = [], []
    for path, parts in sorted(by_path.items()):
        if all(any(bound.takes_all(part) for bound in of.get(part.tp, ())) for part in parts):
            removed.append(path)
        elif any(bound.takes(part) for part in parts for bound in of.get(part.tp, ())):
            mixed.append(path)
    return Cut(tuple(removed), tuple(mixed))
