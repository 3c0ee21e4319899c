"""Which offsets the next round reads, and for whom (FLOOR). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.writers import PartitionPlan, Writer, Writers
from offsets.positions import floor
from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class Budget:
    """How much one round may read: records over all partitions, from record and byte limits."""

    records: int

    @classmethod
    def of(cls, records_max: int, bytes_max: int, bytes_per_record: float) -> Budget:
        """bytes_per_record: as seen in recent rounds; 0 when nothing has been seen yet, then a small round probes."""
        if bytes_per_record <= 0:
            return cls(min(records_max, PROBE_RECORDS))
        return cls(max(1, min(records_max, int(bytes_max / bytes_per_record))))


PROBE_RECORDS = 20_000
"""Records of the very first round, when the size of a record is not known."""


def plan_round(
    writers: Writers, ends: Mapping[TopicPartition, int], budget: Budget, now: float
) -> tuple[PartitionPlan, ...]:
    """One plan per partition that has something to read; the budget is shared evenly, leftovers included.

    ends: topic partition -> offset after the last readable record (last stable offset or high watermark).
    """
    wanted = [
        plan
        for tp in sorted({key.tp for key in writers})
        if tp in ends and (plan := _plan_partition(_of(writers, tp), tp, ends[tp], now))
    ]
    limited = []
    left = budget.records
    for index, plan in enumerate(sorted(wanted, key=lambda plan: plan.end - plan.start)):
        share = max(1, left // (len(wanted) - index))
        end = min(plan.end, plan.start + share)
        left -= end - plan.start
        limited.append(
            PartitionPlan(plan.tp, plan.ownership, plan.epoch, plan.start, end, plan.bounds, plan.parked)
        )
    return tuple(sorted(limited, key=lambda plan: plan.tp))


def _of(writers: Writers, tp: TopicPartition) -> list[Writer]:
    return [writer for key, writer in sorted(writers.items()) if key.tp == tp]


def _plan_partition(writers: Iterable[Writer], tp: TopicPartition, end: int, now: float) -> PartitionPlan | None:
    """The catch-up of a parked type whose time has come, else the common plan; None if nothing is new."""
    listed = [writer for writer in writers if writer.parked is None]
    for writer in writers:
        if writer.parked is not None and writer.parked.retry_at <= now and writer.frontier + 1 < end:
            listed = [writer]
            break
    if not listed:
        return None
    start = floor(writer.frontier for writer in listed)
    if start >= end:
        return None
    bounds = {writer.key.event_type: writer.frontier for writer in listed}
    return PartitionPlan(tp, listed[0].ownership, listed[0].epoch, start, end, bounds, listed[0].parked)
