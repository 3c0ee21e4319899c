"""What the maintenance of a table has to do, from its files and its log. Pure.

    partition ── ended, and event_time_late_max_secs more ── closed: nothing more is expected for it
    files     ── smallest first, packed into bins of at most file_bytes_max ── a bin of two or more is rewritten as one

The same packing as Delta's own OPTIMIZE, so that what is due now is not due again right after it. The clock here
decides when work is worth its while, never what is right: a record that comes for a closed partition is just appended.
Positions are none of its business: OPTIMIZE, checkpoint and VACUUM leave every txn action as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from exporter.sql_text import column, literal
from offsets.partitions import Partition

CHECKPOINT_COMMITS = 20
"""Commits since the last checkpoint from which on a reader's start is worth one."""


@dataclass(frozen=True)
class Due:
    """A closed partition that is worth rewriting: files that go, and their bytes."""

    partition: Partition
    files: int
    bytes: int

    @property
    def condition(self) -> str:
        """What is true in SQL of the partition's rows, and of no others; empty if it is of all rows."""
        types = {one.name: one.type for one in self.partition.spec.time_columns}
        values = self.partition.values.items()
        return " AND ".join(_equals(name, text, types.get(name, "string")) for name, text in values)


def _equals(name: str, text: str | None, kind: str) -> str:
    """kind: as Spark's JSON has it. OPTIMIZE takes no parameters."""
    if text is None:
        return f"{column(name)} IS NULL"
    if kind == "integer":
        return f"{column(name)} = {int(text)}"
    return f"{column(name)} = {'DATE' if kind == 'date' else ''}{literal(text)}"


def due_partitions(
    sizes: Mapping[Partition, Sequence[int]], now: datetime, late_secs: float, file_bytes_max: int
) -> list[Due]:
    """The partitions to be rewritten, oldest first. sizes: bytes of each live file. now: UTC."""
    due = []
    for partition in sorted(partition for partition in sizes if partition.is_closed(now, late_secs)):
        merged = [size for packed in bins(sizes[partition], file_bytes_max) if len(packed) > 1 for size in packed]
        if merged:
            due.append(Due(partition, len(merged), sum(merged)))
    return due


def bins(sizes: Iterable[int], bytes_max: int) -> list[list[int]]:
    """Files below bytes_max, smallest first, each bin filled before the next one. Source: Delta's OptimizeExecutor."""
    packed: list[list[int]] = []
    filled = 0
    for size in sorted(size for size in sizes if size < bytes_max):
        if not packed or filled + size > bytes_max:
            packed.append([])
            filled = 0
        packed[-1].append(size)
        filled += size
    return packed
