"""What accidents did to a table, read from its log: which operations, and which offsets are gone (MONOTONE).

    last commit of the app ─ its checked_through ─┬─ the versions since ─ RESTORE, REPLACE, overwrite
                                                  └─ per partition: held, the offset through which
                                                     the table certainly has everything

RESTORE leaves positions where they are, ahead of the rows; what the table holds is what it held at the version
that it went back to. An overwrite takes files away; the table holds what lies before the first of their rows.
A log entry that a power cut left empty takes back what it was to add. That is exported again by itself, unless a
checksum or a later commit builds on it. Reads only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from exporter.errors import InvariantBroken, LogCleaned, TableUnreadable
from exporter.lake.table import DeltaTable
from offsets import Invariant
from offsets.positions import KINDS_SETTLED, Position, first_epoch, last_replay, poison_offsets
from offsets.ranges import TopicPartition
from offsets.rewind import Setback, first_anchor, held, live_positions
from offsets.table_log import EMPTY, LoggedCommit, TableView, own_metadata, same_files_before

EMPTY_LOOK_MAX = 32
"""Versions that are looked at for empty entries though a task has passed them: what is older than that was on disk."""
REPAIRS = ("rewind", "rebase", "adopt")
"""Actions that leave nothing of an earlier accident."""
BEGIN = (*REPAIRS, "skip", "seal")
"""Actions that begin an epoch of a partition."""
SHOWN_MAX = 8
"""Partitions that a message names."""
HINT = (
    "`exporter repair --rewind` shows what it would do, `--apply` does it: "
    "the positions go back to what the table has, and the missing records are exported again"
)


@dataclass(frozen=True)
class AccidentLoss:
    """One partition of a table that an accident hit: its position, and through which offset the table holds all."""

    position: Position
    held: int
    withdrawn: bool = False

    @property
    def is_real(self) -> bool:
        """True if anything has to be exported again. withdrawn: the row of a poison record is gone."""
        return self.held < self.position.offset or self.withdrawn


class AppHistory:
    """A table's log as one app sees it, up to the version of a view."""

    def __init__(self, table: DeltaTable, app: str, view: TableView) -> None:
        self._table = table
        self._app = app
        self.view = view
        self._views = {view.version: view}
        self._files: dict[int, list[dict[str, Any]]] = {}
        self._older: dict[int, Mapping[TopicPartition, AccidentLoss]] = {}
        self._own: dict[int, dict[str, Any]] = {}
        self._taken: dict[int, TakenFiles] = {}

    @cached_property
    def since(self) -> tuple[LoggedCommit, ...]:
        """The versions whose operations no task of the app has looked at, or not as they are now, oldest first.

        With the empty ones that tasks have passed: most likely before they were empty. Raises LogCleaned.
        """
        later: list[LoggedCommit] = []
        for version in range(self.view.version, -1, -1):
            logged = self._table.logged(version)
            metadata = own_metadata(logged.user_metadata)
            if metadata.get("app") == self._app:
                through = int(metadata.get("checked_through", version - 1))
                later += self._table.commits(through, version - 1)
                later += map(self._table.logged, self._empty_since_repair(through))
                return tuple(sorted(later, key=lambda one: one.version))
            later.append(logged)
        return tuple(reversed(later))

    def _empty_since_repair(self, through: int) -> list[int]:
        """Empty entries up to a version that a task took for looked at, except those before a repair; newest first."""
        found = self._table.empty_entries(through, EMPTY_LOOK_MAX)
        while found and any(metadata.get("action") in REPAIRS for metadata in self._own_after(found[-1])):
            found.pop()
        return found

    def _own_at(self, version: int) -> dict[str, Any]:
        """What a commit says of itself, empty if it is not the app's; read once, however many partitions ask."""
        if version not in self._own:
            said = own_metadata(self._table.logged(version).user_metadata)
            self._own[version] = said if said.get("app") == self._app else {}
        return self._own[version]

    def _own_after(self, version: int) -> list[dict[str, Any]]:
        """What the app's own commits after a version say of themselves."""
        return [said for one in range(version + 1, self.view.version + 1) if (said := self._own_at(one))]

    def begun_by(self, tp: TopicPartition, epoch: int) -> str:
        """What has begun an epoch of a partition: a repair by its action, or a seal; empty if the log does not tell.

        Tasks of other partitions may have committed since.
        """
        try:
            for version in range(self.view.version, -1, -1):
                metadata = self._own_at(version)
                said = metadata.get("partitions", {}).get(str(tp), {})
                if metadata.get("action") in BEGIN and said.get("epoch") == epoch:
                    return str(metadata["action"])
        except LogCleaned:
            return ""
        return ""

    @cached_property
    def accidents(self) -> tuple[LoggedCommit, ...]:
        return tuple(one for one in self.since if one.rewinds and not (one.operation == EMPTY and self._made_good(one)))

    def _made_good(self, empty: LoggedCommit) -> bool:
        """True if nobody built on an empty entry: what it was to add is exported again, or will be."""
        setbacks = (self._emptied(empty.version, tp) for tp in live_positions(self.view.transactions, self._app))
        return all(one.through >= one.was for one in setbacks)

    @cached_property
    def losses(self) -> Mapping[TopicPartition, AccidentLoss]:
        """What the accidents did to each partition that has a position. Raises LogCleaned, TableUnreadable."""
        transactions, found = self.view.transactions, {}
        for tp, position in live_positions(transactions, self._app).items():
            through = held(position.offset, [self._setback(logged, tp) for logged in self.accidents])
            poison = poison_offsets(transactions, self._app, tp, KINDS_SETTLED) if self.accidents else frozenset()
            found[tp] = AccidentLoss(position, through, any(offset > through for offset in poison))
        return found

    def _at(self, version: int) -> TableView:
        if version not in self._views:
            self._views[version] = self._table.view_at(version)
        return self._views[version]

    def _files_at(self, version: int) -> list[dict[str, Any]]:
        if version not in self._files:
            self._files[version] = self._table.files_at(version)
        return self._files[version]

    def _setback(self, logged: LoggedCommit, tp: TopicPartition) -> Setback:
        """What one accident did to one partition."""
        if logged.operation == EMPTY:
            return self._emptied(logged.version, tp)
        position, start = self._at(logged.version).position(self._app, tp), self._start(tp)
        if position is None:
            return Setback(start, start, restored=False)
        if logged.operation == "RESTORE":
            then = self._restored_to(logged)
            through = min([self._held_at(then, tp, start), *(offset - 1 for offset in self._poison_since(then, tp))])
            return Setback(position.offset, max(start, through), True)
        return Setback(position.offset, max(start, self._first_lost(logged, tp, start) - 1), False)

    def _poison_since(self, version: int, tp: TopicPartition) -> frozenset[int]:
        """The poison records since a version, wherever its position was: their rows are not in it (protocol 3.7)."""
        both = self.view.transactions, self._at(version).transactions
        now, then = (poison_offsets(one, self._app, tp, KINDS_SETTLED) for one in both)
        return now - then

    def _emptied(self, version: int, tp: TopicPartition) -> Setback:
        """What is gone lies between the position before and the one that the next commit, or the table now, goes by."""
        said = (metadata.get("partitions", {}).get(str(tp), {}) for metadata in self._own_after(version))
        position, start = self.view.position(self._app, tp), self._start(tp)
        now = start if position is None else position.offset
        was = next((one["expected"] for one in said if "expected" in one), now)
        return Setback(was, max(start, self._held_at(version - 1, tp, start)) if version else start, restored=False)

    def _start(self, tp: TopicPartition) -> int:
        """The offset up to which the table does not have to hold anything."""
        start = first_anchor(self.view.transactions, self._app, tp, self._since_epoch(tp))
        return -1 if start is None else start

    def _since_epoch(self, tp: TopicPartition) -> int:
        return first_epoch(self.view.transactions, self._app, tp)

    def _restored_to(self, logged: LoggedCommit) -> int:
        """Raises TableUnreadable if the log does not tell."""
        if isinstance(logged.restored_to, int):
            return logged.restored_to
        before, now = self._paths(logged.version - 1), self._paths(logged.version)
        found = same_files_before(before, now, self._backwards(logged.version - 1))
        if found is None:
            raise TableUnreadable(
                f"table {self._table.event_type}: the log does not tell which version the RESTORE at version "
                f"{logged.version} went back to",
                "RESTORE it once more, to a version by its number",
            )
        return found

    def _paths(self, version: int) -> set[str]:
        return {add["path"] for add in self._files_at(version)}

    def _backwards(self, version: int) -> Iterator[LoggedCommit]:
        for one in range(version, -1, -1):
            yield self._table.logged(one)

    def _held_at(self, version: int, tp: TopicPartition, start: int) -> int:
        """What the table held at an older version, which may itself lie after an accident."""
        then = self._at(version)
        position = then.position(self._app, tp)
        if position is None or position.epoch < self._since_epoch(tp):
            return start
        if version not in self._older:
            self._older[version] = AppHistory(self._table, self._app, then).losses
        return self._older[version][tp].held

    def _first_lost(self, logged: LoggedCommit, tp: TopicPartition, start: int) -> int:
        """A lower bound of the offsets whose rows an overwrite took away, by the tags and statistics of its files."""
        if logged.version not in self._taken:
            gone = set(logged.removed)
            before = self._files_at(logged.version - 1)
            self._taken[logged.version] = TakenFiles([add for add in before if add["path"] in gone])
        return self._taken[logged.version].first(tp, self._since_epoch(tp), start)

    def broken(self) -> InvariantBroken:
        """The one message: table, operation, partitions, offsets, and the command that helps."""
        last, hint = self.accidents[-1], f"{self._lost_replays()}{HINT}"
        what = f"table {self._table.event_type}: {last.operation} at version {last.version}"
        try:
            losses = self.losses
        except LogCleaned as cleaned:
            return InvariantBroken(
                Invariant.MONOTONE,
                f"{what} took it back behind its positions, and how far cannot be told: {cleaned.message}",
                "RESTORE it to a version that its log still holds, then: " + hint,
            )
        real = {tp: loss for tp, loss in losses.items() if loss.is_real}
        if real:
            return InvariantBroken(
                Invariant.MONOTONE, f"{what} took it back behind its positions; missing: {shown(real)}", hint
            )
        at = ", ".join(f"{tp} through {loss.position}" for tp, loss in [*losses.items()][:SHOWN_MAX])
        return InvariantBroken(
            Invariant.MONOTONE, f"{what} wrote over its history; nothing seems to be missing: {at or 'no offset'}", hint
        )

    def _lost_replays(self) -> str:
        """What to do first where a RESTORE took away rows that a replay of dead letters had added.

        Nothing else has them. They lie below the positions, often from before the settings in force: no rewind
        exports them again.
        """
        last = self.accidents[-1]
        try:
            if last.operation != "RESTORE":
                return ""
            then = self._at(self._restored_to(last))
        except TableUnreadable:
            return ""
        gone = [
            str(tp)
            for tp in live_positions(self.view.transactions, self._app)
            if last_replay(then.transactions, self._app, tp) < last_replay(self.view.transactions, self._app, tp)
        ]
        if not gone:
            return ""
        return (
            f"replayed dead letters of {', '.join(gone[:SHOWN_MAX])} went with it and are nowhere else: "
            f"RESTORE the table TO VERSION AS OF {last.version - 1} first; then: "
        )


def shown(losses: Mapping[TopicPartition, AccidentLoss]) -> str:
    """events-0 offsets 120..199, events-1 offsets 7..9"""
    parts = [f"{tp} offsets {loss.held + 1}..{loss.position.offset}" for tp, loss in sorted(losses.items())]
    return ", ".join(parts[:SHOWN_MAX]) + (f" and {len(parts) - SHOWN_MAX} more" if len(parts) > SHOWN_MAX else "")


def check_accidents(table: DeltaTable, app: str, view: TableView, logged: Sequence[LoggedCommit]) -> None:
    """MONOTONE: raises InvariantBroken if one of the commits took the table back behind its positions.

    Not if it has been repaired since: whoever worked before then finds its epoch closed.
    """
    if any(one.rewinds for one in logged):
        history = AppHistory(table, app, view)
        if history.accidents:
            raise history.broken()


def gone(event_type: str, what: str, positions: Mapping[TopicPartition, int]) -> InvariantBroken:
    """The one message for a table that is not there any more, or is another one. positions: as far as is known."""
    far = ", ".join(f"{tp} through offset {offset}" for tp, offset in sorted(positions.items())[:SHOWN_MAX])
    return InvariantBroken(
        Invariant.MONOTONE,
        f"table {event_type} {what}; what it had is missing: {far or 'nothing yet'}",
        "put its folder back as it was, or: `exporter repair --rewind` shows what it would do, `--apply` does it: "
        "the table begins anew and its records are exported again as far as the topic still has them",
    )


class TakenFiles:
    """The files that an operation took away: which offsets they may hold, by their tags, else by their statistics."""

    def __init__(self, adds: Iterable[Mapping[str, Any]]) -> None:
        """adds: the `add` actions of files that are gone."""
        self._tagged: dict[TopicPartition, list[tuple[int, int]]] = {}
        self._told: list[tuple[int | None, int | None, int | None]] = []
        for add in adds:
            tags = add.get("tags") or {}
            if {"topic", "partition", "epoch", "first_offset"} <= tags.keys():
                tp = TopicPartition(tags["topic"], int(tags["partition"]))
                self._tagged.setdefault(tp, []).append((int(tags["epoch"]), int(tags["first_offset"])))
                continue
            stats = json.loads(add.get("stats") or "{}")
            least, most = (stats.get(end, {}).get("_kafka", {}) for end in ("minValues", "maxValues"))
            self._told.append((least.get("partition"), most.get("partition"), least.get("offset")))

    def first(self, tp: TopicPartition, since: int, start: int) -> int:
        """The first offset of `tp` that they may hold in epochs from `since` on; the greatest of all if there is none.

        start: nothing lies before it; so it is where the statistics do not tell.
        """
        firsts = [first for epoch, first in self._tagged.get(tp, ()) if epoch >= since]
        for least, most, offset in self._told:
            if least is None or most is None or offset is None:
                firsts.append(start + 1)
            elif least <= tp.partition <= most:
                firsts.append(int(offset))
        return min(firsts, default=2**63 - 1)
