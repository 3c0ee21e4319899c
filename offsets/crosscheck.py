"""The stored views of a partition in, one verdict out (protocol, sections 5.1 to 5.3). Pure.

    tables                                             verdict
    nothing of ours anywhere                           FirstStart
    own routing in force, every table at its epoch     Agree: positions, and who lacks an anchor
    own routing in force, a table is an epoch ahead    Unfinished: its switcher will go on
    own routing once in force, another one now         Superseded
    own routing never in force                         Switch: drain to `through`, then seal
    anything that contradicts itself                   Stop
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from offsets import Invariant
from offsets.positions import Position


@dataclass(frozen=True)
class TableState:
    """What one table says about one topic partition.

    position: None = absent. named_offset: greatest last offset in the names of files committed since the
    last position of ours, for the position's epoch (any, if absent); -1 if none.
    unused: an undeclared type's position that stands where its epoch was anchored. A task that met the type while
    another one switched leaves it in an epoch that is closed.
    """

    position: Position | None
    named_offset: int = -1
    unused: bool = False

    def left_behind(self, epoch: int) -> bool:
        """True if the position was anchored too late, in an epoch that had been closed: as if absent."""
        return self.unused and self.position is not None and self.position.epoch < epoch


@dataclass(frozen=True)
class FirstStart:
    """No table of ours knows the partition: the dead letters are to be anchored first."""


@dataclass(frozen=True)
class Agree:
    """Run. positions: active type -> position; unanchored: active types to be anchored at `anchor_at`."""

    epoch: int
    positions: Mapping[str, int]
    unanchored: tuple[str, ...]
    anchor_at: int


@dataclass(frozen=True)
class Switch:
    """Drain the types of the configuration in force to `through`, then seal epoch + 1, the dead letters last.

    positions: of every type of either configuration. in_force_active: the types that are drained.
    """

    epoch: int
    in_force: str
    through: int
    positions: Mapping[str, Position | None]
    in_force_active: tuple[str, ...] = ()

    @property
    def next_epoch(self) -> int:
        return self.epoch + 1


@dataclass(frozen=True)
class Unfinished:
    """Another task is switching this partition to a new configuration."""

    event_type: str


@dataclass(frozen=True)
class Superseded:
    """A newer configuration has replaced ours."""

    in_force: str


@dataclass(frozen=True)
class Stop:
    """Going on could lose or double records."""

    invariant: Invariant
    reason: str
    hint: str


Verdict = FirstStart | Agree | Switch | Unfinished | Superseded | Stop


def verdict(
    tables: Mapping[str, TableState],
    dead_letters: str,
    history: Mapping[int, str],
    own: str,
    active: tuple[str, ...],
    in_force_active: tuple[str, ...] = (),
    replaced: str = "",
    outranked: bool = False,
) -> Verdict:
    """What to do with one topic partition.

    tables: event type -> state, for every table of ours, the dead letters read last. history: epoch -> routing
    fingerprint, from the same snapshot as the dead letters' position. own: our fingerprint. active: the types of
    our configuration, in_force_active: those of the configuration in force (needed for a switch only). replaced: the
    configuration that has replaced ours in any partition; empty if none has. outranked: the one in force is of a
    greater generation than ours.
    """
    for name, state in sorted(tables.items()):
        if problem := _problem(name, state):
            return problem
    last_read = tables.get(dead_letters)
    if last_read is None or last_read.position is None:
        return _without_dead_letters(tables, dead_letters)
    epoch = last_read.position.epoch
    in_force = history.get(epoch)
    if in_force is None:
        return Stop(
            Invariant.ROUTE,
            f"table {dead_letters} records no routing configuration for epoch {epoch}",
            "its properties were changed by hand; restore them from the table's history",
        )
    if in_force == own:
        return _in_force(tables, active, epoch, last_read.position.offset)
    if own in history.values() or replaced or outranked:
        return Superseded(replaced or in_force)
    if behind := _behind(tables, in_force_active, epoch):
        return behind
    known = {name: tables[name].position if name in tables else None for name in {*active, *in_force_active}}
    in_force_active = tuple(n for n in in_force_active if n not in tables or not tables[n].left_behind(epoch))
    offsets = (position.offset for name in in_force_active if (position := known.get(name)) is not None)
    through = max(offsets, default=last_read.position.offset)
    return Switch(epoch, in_force, through, known, in_force_active)


def replaced_by(own: str, histories: Collection[Mapping[int, str]]) -> str:
    """The configuration that has replaced ours in some partition; empty if none has. histories: one of each."""
    ours = (history[max(history)] for history in histories if own in history.values())
    return next((newest for newest in ours if newest != own), "")


def begins_under(own: str, topic: Collection[Mapping[int, str]], histories: Collection[Mapping[int, str]]) -> str:
    """The configuration that a new partition is to begin under (protocol 5.3).

    topic: the histories of its topic, histories: of all.
    """
    if any(own in history.values() for history in histories):
        return own
    in_force = (history[max(history)] for history in topic)
    return next((one for one in in_force if not replaced_by(one, histories)), own)


def _problem(name: str, state: TableState) -> Stop | None:
    if state.position is None and state.named_offset >= 0:
        return Stop(
            Invariant.ONCE,
            f"table {name} holds files of ours through offset {state.named_offset}, but no position for the partition",
            "they were copied there or the position was removed; put the table back as it was",
        )
    if state.position is not None and state.named_offset > state.position.offset:
        return Stop(
            Invariant.MONOTONE,
            f"table {name} holds a file of ours through offset {state.named_offset}, "
            f"but its position is {state.position.offset}",
            "the position was moved back by hand; `exporter audit` lists the offsets",
        )
    return None


def _without_dead_letters(tables: Mapping[str, TableState], dead_letters: str) -> Verdict:
    """Protocol 5.2: the dead letters are anchored first, so nothing may be there before them."""
    known = sorted(name for name, state in tables.items() if state.position is not None)
    if not known:
        return FirstStart()
    return Stop(
        Invariant.ANCHOR,
        f"table {known[0]} has a position for this partition, but table {dead_letters} has none",
        "the dead-letter table was removed or belongs elsewhere; put it back before starting",
    )


def _in_force(tables: Mapping[str, TableState], active: tuple[str, ...], epoch: int, anchor_at: int) -> Verdict:
    """The verdict where our own configuration is in force (protocol 5.3a)."""
    for name, state in sorted(tables.items()):
        if state.position is not None and state.position.epoch > epoch:
            return Unfinished(name)
    positions: dict[str, int] = {}
    if behind := _behind(tables, active, epoch):
        return behind
    for name in active:
        found = tables.get(name)
        if found is not None and found.position is not None and not found.left_behind(epoch):
            positions[name] = found.position.offset
    unanchored = tuple(name for name in active if name not in positions)
    return Agree(epoch, positions, unanchored, anchor_at)


def _behind(tables: Mapping[str, TableState], names: tuple[str, ...], epoch: int) -> Stop | None:
    """A table that the configuration in force fills is never at an older epoch than the dead letters."""
    for name in names:
        state = tables.get(name)
        position = state.position if state is not None and not state.left_behind(epoch) else None
        if position is not None and position.epoch < epoch:
            return Stop(
                Invariant.ROUTE,
                f"table {name} is at epoch {position.epoch}, the dead letters are at {epoch}",
                "the table was replaced by an older copy; `exporter audit` lists the offsets",
            )
    return None
