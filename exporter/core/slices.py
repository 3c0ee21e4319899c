"""How the offset ranges of one round are cut and shared by Spark's tasks. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SLICE_RECORDS_MIN = 20_000
"""A range is cut for several cores only where each slice has about so many offsets."""
FAT = 1.5
"""A range of so many times a core's share is cut: less would give one core two slices while another has one."""
TASKS_PER_CORE = 16
"""So many partitions for each core share tasks whatever their sizes, and none is cut: each task is told of all
partitions of the round, so a task for each of them would cost their square. A partition's slices never share: another
task might have one between two of them (NAMES)."""


@dataclass(frozen=True)
class Slices:
    """records_max: offsets of a slice, None if nothing is cut. tasks: that share all slices, None for one task each."""

    records_max: int | None = None
    tasks: int | None = None


def slices(sizes: Sequence[int], cores: int) -> Slices:
    """sizes: offsets per partition, not empty.

    A fat partition is cut, so that all cores have work. Many partitions of about the same size, or with next to nothing
    in them, share tasks: a task costs what many records do, and in one of several partitions Kafka is read
    while Python works on the one before.
    """
    records, largest = sum(sizes), max(sizes)
    share = max(SLICE_RECORDS_MIN, math.ceil(records / cores))
    crowded = len(sizes) > TASKS_PER_CORE * cores
    if largest > FAT * share and not crowded:
        return Slices(records_max=share)
    alike = largest * len(sizes) <= 2 * records
    if len(sizes) > cores and (alike or records <= SLICE_RECORDS_MIN):
        return Slices(tasks=cores)
    return Slices(tasks=TASKS_PER_CORE * cores if crowded else None)
