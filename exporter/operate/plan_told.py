"""A plan in the words of whoever starts a task. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exporter.display.units import things
from exporter.operate.start_plan import PartitionStart, StartPlan
from offsets.crosscheck import Agree, FirstStart, Switch


def plan_lines(found: StartPlan) -> Iterator[str]:
    """What a start would do, all partitions together; what stops it is told by its refusals."""
    by = {kind: [one for one in found.partitions if one.verdict == kind.__name__.lower() and one.refusal is None]
          for kind in (FirstStart, Agree, Switch)}  # fmt: skip
    if first := by[FirstStart]:
        tables = len({name for one in first for name in one.begins})
        yield (
            f"{_partitions(first)}: nothing is exported yet. {things(tables, 'table')} will be there, reading begins "
            f"at {_offsets(first)}: {_records(first)} to read"
        )
    if agreed := by[Agree]:
        yield f"{_partitions(agreed)}: goes on where the tables are, at {_offsets(agreed)}: {_records(agreed)} to read"
        if new := sorted({name for one in agreed for name in one.begins}):
            yield f"  {things(len(new), 'table')} will begin: {', '.join(new)}"
        if behind := sorted({name for one in agreed for name in one.held_back_by}):
            yield f"  behind the others: {', '.join(behind)}"
    if switched := by[Switch]:
        yield (
            f"{_partitions(switched)}: the settings have changed. All tables are brought to one position under the "
            f"former ones first, from {_offsets(switched)} on, then it goes on under these: {_records(switched)} "
            "to read"
        )


def _partitions(some: Sequence[PartitionStart]) -> str:
    return str(some[0].tp) if len(some) == 1 else things(len(some), "partition")


def _offsets(some: Sequence[PartitionStart]) -> str:
    floors = sorted(one.floor for one in some if one.floor is not None)
    least, most = floors[0], floors[-1]
    return f"offset {least:,}" if least == most else f"offsets {least:,} to {most:,}"


def _records(some: Sequence[PartitionStart]) -> str:
    return things(sum(one.lag or 0 for one in some), "record")
