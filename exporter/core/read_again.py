"""Rows that are read again for new columns: how often that was done, and how far the next plan goes (protocol 3.1).

    first reading   ──────────┤           new fields: columns are planned for them
    again           ──────────┤           to the same end: what is behind it might bring new fields again
    the next plan             ├────────>
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from exporter.core.writers import PartitionPlan
from offsets.ranges import TopicPartition

TIMES_MAX = 3
"""Times in a row that the same rows of one type are read again: then they wait no longer."""
ROUNDS_MAX = 2
"""Of so many rounds the rows of one type may be on their way: one is read, another waits behind it."""


@dataclass(frozen=True)
class _Rows:
    """Those of a type beyond one offset. end: of the plan that read them last, exclusive. times: as above."""

    end: int
    times: int


class ReadAgain:
    """What one task reads again. Belongs to its loop."""

    def __init__(self) -> None:
        self._rows: dict[TopicPartition, dict[str, dict[int, _Rows]]] = {}
        """Of a partition and an event type, by the offset beyond which they are: the last to be noted stand last."""

    def __bool__(self) -> bool:
        return bool(self._rows)

    def once_more(self, plan: PartitionPlan, event_type: str) -> bool:
        """Note that the rows of a type that the plan has read are to be read again; False if they wait no longer."""
        times = self.taken(plan, event_type) + 1
        if times > TIMES_MAX:
            return False
        mine = self._rows.setdefault(plan.tp, {}).setdefault(event_type, {})
        mine[_beyond(plan, event_type)] = _Rows(plan.end, times)
        while len(mine) > ROUNDS_MAX:  # rows that were lost since are not waited for
            del mine[next(iter(mine))]
        return True

    def taken(self, plan: PartitionPlan, event_type: str) -> int:
        """The rows of a type that the plan has read are integrated as they are; how often they were read again."""
        by_type = self._rows.get(plan.tp, {})
        mine = by_type.get(event_type, {})
        rows = mine.pop(_beyond(plan, event_type), None)
        if not mine:
            by_type.pop(event_type, None)
        if not by_type:
            self._rows.pop(plan.tp, None)
        return rows.times if rows is not None else 0

    def cut(self, plan: PartitionPlan) -> PartitionPlan:
        """The plan, which reads rows that it reads again no further than they were read before."""
        by_type = self._rows.get(plan.tp)
        if by_type is None:  # as nearly always: the plans of all partitions come here
            return plan
        again = [mine[plan.bounds[name]] for name, mine in by_type.items() if plan.bounds.get(name) in mine]
        return replace(plan, end=min([plan.end, *(rows.end for rows in again)]))


def _beyond(plan: PartitionPlan, event_type: str) -> int:
    bound = plan.bound(event_type)
    return plan.start - 1 if bound is None else bound
