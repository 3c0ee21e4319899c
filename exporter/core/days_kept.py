"""How long tables keep their rows, and which partitions are too old by now. Pure.

    today - days ── midnight, UTC ── begin of the partition that it falls into ── bound: all before it is too old

So only whole partitions go, and what the bound says is gone is gone as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, timezone

from exporter.core.routing import DEAD_LETTERS
from offsets.partitions import DAY, Partition, Spec

NO_TIME = DAY.of_key(0)
"""Where dead letters stand whose record has no timestamp."""


@dataclass(frozen=True)
class DaysKept:
    """Days, 0: for ever. named: by event type. others: of the types that are not named."""

    named: Mapping[str, int] = field(default_factory=dict)
    others: int = 0
    dead_letters: int = 0

    def of(self, event_type: str) -> int:
        return self.dead_letters if event_type == DEAD_LETTERS else self.named.get(event_type, self.others)


def bound_of(spec: Spec, now: datetime, days: int) -> datetime:
    """Before which rows are too old, UTC. now: UTC. days: at least 1."""
    midnight = datetime.combine(now.date() - timedelta(days=days), time.min, timezone.utc)
    return Spec(spec.time).at(midnight).begin or midnight


def is_too_old(event_type: str, partition: Partition, bound: datetime) -> bool:
    """Whether all rows of a partition are. One without a time says nothing of its rows."""
    if event_type == DEAD_LETTERS and partition == NO_TIME:
        return False
    return partition.begin is not None and partition.begin < bound
