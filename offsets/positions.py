"""Positions: what the txn actions of a table say about a topic partition.

A position is the last covered offset, inclusive; -1 means anchored before offset 0 and
None means absent. Presence is read from the map of transactions, never from a default.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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


class Transactions(Mapping[str, int]):
    """The txn actions of a table: appId -> version. Those of an app are parsed once, however many partitions ask."""

    def __init__(self, versions: Mapping[str, int]) -> None:
        self._versions = dict(versions)
        self._parsed: dict[str, Mapping[TopicPartition, Sequence[Ours]]] = {}

    def __getitem__(self, app_id: str) -> int:
        return self._versions[app_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)

    def __repr__(self) -> str:
        return repr(self._versions)

    def by_partition(self, app: str) -> Mapping[TopicPartition, Sequence[Ours]]:
        """What by_partition() makes of them."""
        if app not in self._parsed:
            self._parsed[app] = by_partition(self._versions, app)
        return self._parsed[app]


Ours = tuple[AppId, int]
"""A transaction of ours: its appId, parsed, and its version."""


def by_partition(transactions: Mapping[str, int], app: str) -> Mapping[TopicPartition, Sequence[Ours]]:
    """The transactions of `app`, parsed, per partition; those of other writers are passed over."""
    if isinstance(transactions, Transactions):
        return transactions.by_partition(app)
    found: dict[TopicPartition, list[Ours]] = defaultdict(list)
    for text, version in transactions.items():
        if not text.startswith(f"{app}/"):
            continue
        try:
            app_id = AppId.parse(text)
        except BadName:
            continue
        found[app_id.tp].append((app_id, version))
    return dict(found)


def of_partition(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> Sequence[Ours]:
    """The transactions of `app` that speak of one partition, parsed."""
    return by_partition(transactions, app).get(tp, ())


def our_transactions(transactions: Mapping[str, int], app: str) -> list[Ours]:
    """The transactions of `app`, parsed, one partition after the other."""
    return [one for ours in by_partition(transactions, app).values() for one in ours]


def live_position(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> Position | None:
    """The position of the highest epoch whose appId is no tombstone; None if there is none."""
    live = [
        Position(app_id.epoch, version)
        for app_id, version in of_partition(transactions, app, tp)
        if app_id.kind is None and version != TOMBSTONE
    ]
    return max(live, default=None)


def floor(positions: Iterable[int]) -> int:
    """FLOOR: the offset at which reading must start, given the positions or frontiers of all listed types."""
    return min(positions) + 1


KINDS_WITH_ROW = frozenset({"condemned", "skipped"})
"""Of poison records whose dead-letter row came with them."""
KINDS_SETTLED = KINDS_WITH_ROW | {"held"}
"""Of poison records of which it is known where they are."""
KINDS_POISON = KINDS_SETTLED | {"spared"}


def poison_offsets(
    transactions: Mapping[str, int], app: str, tp: TopicPartition, kinds: Collection[str] = KINDS_POISON
) -> frozenset[int]:
    """The offsets of `tp` that no task may read again, from the dead letters' transactions (protocol 3.7).

    One that is withdrawn, or is of another kind by now, has a tombstone.
    """
    return frozenset(
        version if app_id.kind == "condemned" else app_id.epoch
        for app_id, version in of_partition(transactions, app, tp)
        if app_id.kind in kinds and version != TOMBSTONE
    )


def spared_offsets(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> frozenset[int]:
    """Those of the poison records of which it is not known yet where they are."""
    return poison_offsets(transactions, app, tp, {"spared"})


def last_replay(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> int:
    """The number of the newest replay of dead letters of `tp` into a table; 0 if there was none."""
    numbers = (one.epoch for one, _ in of_partition(transactions, app, tp) if one.kind == "replay")
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
    return max(topic_begins(transactions, app, tp), default=0)


def topic_begins(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> list[int]:
    """The epochs in which another topic of the same name began, ascending; that of the first one is left out."""
    return sorted(app_id.epoch for app_id, _ in of_partition(transactions, app, tp) if app_id.kind == "rebased")


def intervals(transactions: Mapping[str, int], app: str, tp: TopicPartition) -> list[Interval]:
    """What a table says it covers of `tp`, epoch by epoch: from its anchor to its seal or live position.

    Epochs before a re-base speak of another topic's offsets and are left out.
    """
    since = first_epoch(transactions, app, tp)
    anchors: dict[int, int] = {}
    ends: dict[int, int] = {}
    for app_id, version in of_partition(transactions, app, tp):
        if app_id.kind == "anchor":
            anchors[app_id.epoch] = version
        elif app_id.kind in (None, "sealed") and version != TOMBSTONE:
            ends[app_id.epoch] = version
    known = sorted(epoch for epoch in anchors if epoch in ends and epoch >= since)
    return [Interval(epoch, anchors[epoch], ends[epoch]) for epoch in known]
