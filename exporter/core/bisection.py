"""Partitions whose rounds fail: how they are read until they are well again (protocol 3.7). Pure.

    a round of several fails ── each of its partitions is read alone
    one alone fails ─────────── half of its range is read, then half of that ...
      that passes ───────────── four times as much is read next
    a single record fails and fails, while it can be read raw: poison
    a round fails with its executors: it is read again as it was; only where that does not end it is read apart, too
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.core.writers import PartitionPlan
from offsets.ranges import TopicPartition

SINGLE_FAILURES_MAX = 3
"""A single record is poison when it has failed so often on its own, while a raw read of it works."""
STUCK_FAILURES = 4
"""After so many failures in a row a partition is said to be stuck."""
FREE_SPAN = 20_000
"""A troubled partition of which so many offsets were read in one round is healthy again."""
LOSSES_MAX = 3
"""Rounds in a row that fail with their executors before their partitions are read apart: a record may be more than an
executor can hold. None is ever poison for it."""


@dataclass(frozen=True)
class Ailing:
    """A partition whose last rounds failed. span: offsets that the next one may have. failures: in a row, and the error
    of the last. alone: of the single record at the offset `at`, in a row, while it could be read raw.
    """

    span: int
    failures: int = 0
    error: str = ""
    alone: int = 0
    at: int = -1


@dataclass(frozen=True)
class Bisection:
    """All troubled partitions. losses: rounds in a row that failed with their executors."""

    ailing: Mapping[TopicPartition, Ailing] = field(default_factory=dict)
    losses: int = 0

    def failed(self, plans: Sequence[PartitionPlan], readable: bool, error: str = "") -> Bisection:
        """After a failed round. readable: its first record could be read raw right after it.

        Only then it counts against a single record: while the broker is silent everything fails, and nothing is to be
        poison for it.
        """
        ailing = dict(self.ailing)
        for plan in plans:
            span = plan.end - plan.start
            one = ailing.get(plan.tp, Ailing(span))
            if len(plans) > 1:
                ailing[plan.tp] = replace(one, span=span, error=error)
                continue
            before = one.alone if one.at == plan.start else 0  # a parked type's plan may begin at another record
            alone = before + 1 if span == 1 and readable else 0
            failures = one.failures + 1
            ailing[plan.tp] = Ailing(max(1, span // 2), failures, error, alone, plan.start)
        return replace(self, ailing=ailing)

    def lost(self, plans: Sequence[PartitionPlan], error: str = "") -> Bisection:
        """After a round that failed with its executors, which is no fault of a record."""
        counted = replace(self, losses=self.losses + 1)
        return counted if counted.losses <= LOSSES_MAX else counted.failed(plans, False, error)

    def passed(self, plans: Sequence[PartitionPlan]) -> Bisection:
        """Note a good round: its partitions may span more again, and are free where enough of them was read."""
        ailing = dict(self.ailing)
        for plan in plans:
            if (one := ailing.get(plan.tp)) is None:
                continue
            if one.span * 4 >= FREE_SPAN:
                del ailing[plan.tp]
            else:
                ailing[plan.tp] = Ailing(one.span * 4)
        return replace(self, ailing=ailing, losses=0)

    def limit(self, plans: Sequence[PartitionPlan], turn: int) -> tuple[PartitionPlan, ...]:
        """The plans as they may run now: by turns the healthy partitions together and a troubled one alone."""
        healthy = tuple(plan for plan in plans if plan.tp not in self.ailing)
        troubled = [plan for plan in plans if plan not in healthy]
        if not troubled or (healthy and turn % 2 == 0):
            return healthy
        plan = troubled[turn // 2 % len(troubled)]
        return (replace(plan, end=min(plan.end, plan.start + self.ailing[plan.tp].span)),)

    def poison(self) -> dict[TopicPartition, int]:
        """Of partitions, the offset of the record that has failed often enough on its own: of no other record."""
        return {tp: one.at for tp, one in sorted(self.ailing.items()) if one.alone >= SINGLE_FAILURES_MAX}

    def stuck(self) -> dict[TopicPartition, str]:
        """The partitions that make no progress, and why."""
        return {tp: one.error for tp, one in sorted(self.ailing.items()) if one.failures >= STUCK_FAILURES}
