"""Days as partitions of a table."""

from __future__ import annotations

from datetime import date

from offsets import partitions
from offsets.partitions import Partition


def partition_of(day: date) -> Partition:
    """The partition of a UTC day."""
    return partitions.parse(f"day={day}")
