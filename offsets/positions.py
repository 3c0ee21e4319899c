"""Positions: what the txn actions of a table say about a topic partition.

A position is the last covered offset, inclusive; -1 means anchored before offset 0 and
None means absent. Presence is read from the map of transactions, never from a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offsets.names import AppId, BadName
from offsets.ranges import TopicPartition

TOMBSTONE = 2**63 - 1
"""The version that closes an appId for ever (Long.MaxValue); never a position."""


@dataclass(frozen=True, order=True)
class Position:
    """The last covered offset of one (type, topic partition) in its live epoch."""

    epoch: int
    offset: int

    def __str__(self) -> str:
        return f"{self.offset}" if self.epoch == 0 else f"{self.offset} (epoch {self.epoch})"


def live_position(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> Position | None:
    """The position of the highest epoch whose appId is no tombstone; None if there is none."""
    live = [
        Position(app_id.epoch, version)
        for app_id, version in our_transactions(transactions, app)
        if app_id.tp == tp and app_id.kind is None and version != TOMBSTONE
    ]
    return max(live, default=None)


def our_transactions(transactions: Mapping[str, int], app: str) -> list[tuple[AppId, int]]:
    """The transactions of `app`, parsed; those of other writers are passed over."""
    ours = []
    for text, version in transactions.items():
        if not text.startswith(f"{app}/"):
            continue
        try:
            ours.append((AppId.parse(text), version))
        except BadName:
            continue
    return ours


def floor(positions: Iterable[int]) -> int:
    """FLOOR: the offset at which reading must start, given the positions or frontiers of all listed types."""
    return min(positions) + 1


def should_skip(offset: int, bound: int) -> bool:
    """True if a record at `offset` is already covered for a type whose bound is `bound`."""
    return offset <= bound


def condemned_offsets(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> frozenset[int]:
    """The offsets of `tp` that no task may decode again, from the dead letters' transactions (protocol 3.7).

    A repair withdraws one, by a tombstone, whose row it took away.
    """
    return frozenset(
        version
        for app_id, version in our_transactions(transactions, app)
        if app_id.tp == tp and app_id.kind == "condemned" and version != TOMBSTONE
    )


def last_replay(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> int:
    """The number of the newest replay of dead letters of `tp` into a table; 0 if there was none."""
    numbers = (one.epoch for one, _ in our_transactions(transactions, app) if one.tp == tp and one.kind == "replay")
    return max(numbers, default=0)


def replayed_through(transactions: Mapping[str, int], app: str) -> dict[TopicPartition, int]:
    """The greatest offset of each partition that any replay has added to a table."""
    found: dict[TopicPartition, int] = {}
    for app_id, version in our_transactions(transactions, app):
        if app_id.kind == "replay":
            found[app_id.tp] = max(version, found.get(app_id.tp, -1))
    return found


@dataclass(frozen=True)
class Interval:
    """The offsets (after, through] that one epoch of a table covers."""

    epoch: int
    after: int
    through: int


def first_epoch(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> int:
    """The epoch in which the topic of today began: 0, or that of the last re-base (protocol 7)."""
    ours = our_transactions(transactions, app)
    return max((app_id.epoch for app_id, _ in ours if app_id.tp == tp and app_id.kind == "rebased"), default=0)


def intervals(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> list[Interval]:
    """What a table says it covers of `tp`, epoch by epoch: from its anchor to its seal or live position.

    Epochs before a re-base speak of another topic's offsets and are left out.
    """
    since = first_epoch(transactions, app, tp)
    anchors: dict[int, int] = {}
    ends: dict[int, int] = {}
    for app_id, version in our_transactions(transactions, app):
        if app_id.tp != tp:
            continue
        if app_id.kind == "anchor":
            anchors[app_id.epoch] = version
        elif app_id.kind in (None, "sealed") and version != TOMBSTONE:
            ends[app_id.epoch] = version
    known = sorted(epoch for epoch in anchors if epoch in ends and epoch >= since)
    return [Interval(epoch, anchors[epoch], ends[epoch]) for epoch in known]
