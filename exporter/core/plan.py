"""Which offsets the next round reads, and for whom (FLOOR). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from exporter.core.writers import Fragment, PartitionPlan, Writer, Writers, integrate_all
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
"""Records of the very first round, where the brokers do not tell how large they are."""


def plan_round(
    writers: Writers, ends: Mapping[TopicPartition, int], budget: Budget, now: float
) -> tuple[PartitionPlan, ...]:
    """One plan per partition that has something to read; the budget is shared evenly, leftovers included.

    ends: topic partition -> offset after the last readable record (last stable offset or high watermark).
    """
    by_partition: dict[TopicPartition, list[Writer]] = defaultdict(list)
    for key, writer in writers.items():
        by_partition[key.tp].append(writer)
    wanted = [
        plan
        for tp, mine in sorted(by_partition.items(), key=lambda item: item[0])
        if tp in ends and (plan := _plan_partition(sorted(mine, key=_event_type), tp, ends[tp], now))
    ]
    limited = []
    left = budget.records
    for index, plan in enumerate(sorted(wanted, key=lambda plan: plan.end - plan.start)):
        share = max(1, left // (len(wanted) - index))
        end = min(plan.end, plan.start + share)
        left -= end - plan.start
        limited.append(replace(plan, end=end))
    return tuple(sorted(limited, key=lambda plan: plan.tp))


def spare(plan: PartitionPlan, poison_offsets: Collection[int]) -> PartitionPlan:
    """The plan without the offsets of poison records, which may not even be readable: it ends before the next one.

    One that begins at such an offset is for all of them in a row, and nothing of it is read.
    """
    if plan.start not in poison_offsets:
        return replace(plan, end=min((at for at in poison_offsets if plan.start < at < plan.end), default=plan.end))
    return replace(plan, end=next((at for at in range(plan.start, plan.end) if at not in poison_offsets), plan.end))


def expected(writers: Writers, running: Sequence[PartitionPlan], now: float) -> Writers:
    """The writers as they will be once the running plans are integrated, to plan the round after them.

    If they end otherwise, the bounds of the new plan do not match and its result is discarded,
    like that of any stale plan (protocol 3.1).
    """
    return integrate_all(writers, map(Fragment, running), now)[0] if running else writers


def _event_type(writer: Writer) -> str:
    return writer.key.event_type


def _plan_partition(writers: Sequence[Writer], tp: TopicPartition, end: int, now: float) -> PartitionPlan | None:
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
    unlisted = tuple(name for writer in writers if (name := writer.key.event_type) not in bounds)
    first = listed[0]
    return PartitionPlan(tp, first.ownership, first.epoch, start, end, bounds, first.parked, unlisted)
