"""Records that were erased: where they stood, and what tables know of it (ERASED, protocol 4.16). Pure.

    _erased.records/<app>    a table of their coordinates; <app>/erased = how many erasures it holds
    each other table         exporter.erasing = n    what was read without erasures 1..n is not committed here
                             exporter.erased = n     no row of these is in it
                             <app>/erased = n        that there are so many; a RESTORE takes the other two back

An offset is one of its topic: where a topic was created again, it is another record's. The epoch tells.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY, TableView

ERASING_PROPERTY = "exporter.erasing"
ERASED_PROPERTY = "exporter.erased"


def erased_app_id(app: str) -> str:
    """The appId of a count of erasures; no AppId of a partition has two parts."""
    return f"{app}/erased"


def erasures_known(views: Iterable[TableView]) -> int:
    """Of how many erasures some tables know, of which app they are; 0: of none."""
    return max((_known(view) for view in views), default=0)


def erasing(view: TableView) -> int:
    """Through which erasure a table takes nothing that was read without it."""
    return int(view.properties.get(ERASING_PROPERTY, 0))


def erased(view: TableView) -> int:
    """Through which erasure a table has no rows."""
    return int(view.properties.get(ERASED_PROPERTY, 0))


def _known(view: TableView) -> int:
    app = view.properties.get(APP_PROPERTY, "")
    return max(erasing(view), view.transactions.get(erased_app_id(app), 0))


@dataclass(frozen=True)
class Erased:
    """The records of all erasures. number: of these. places: topic partition -> (offset, epoch) of each, ascending."""

    number: int = 0
    places: Mapping[TopicPartition, Sequence[tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, number: int, places: Iterable[tuple[str, int, int, int]]) -> Erased:
        """places: topic, partition, epoch and offset of each record, in any order and maybe more than once."""
        found: dict[TopicPartition, set[tuple[int, int]]] = defaultdict(set)
        for topic, partition, epoch, offset in places:
            found[TopicPartition(topic, partition)].add((offset, epoch))
        return cls(number, {tp: sorted(some) for tp, some in found.items()})

    def offsets(self, tp: TopicPartition, since: int, start: int = 0, end: int = 2**63) -> frozenset[int]:
        """Those from start to end - 1 of the topic of today. since: the epoch in which it began."""
        some = self.places.get(tp, ())
        first, last = bisect_left(some, (start, 0)), bisect_left(some, (end, 0))
        return frozenset(offset for offset, epoch in some[first:last] if epoch >= since)
