"""An audit in parts: some offsets each, with the rows that may be of them, by as many processes as there are cores.

A part holds the rows of so many offsets at a time, and nothing of the others: memory does not grow with the topic.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from exporter.operate.audit.compare import Comparison
from exporter.operate.audit.files import LiveFiles, Ranges
from exporter.operate.audit.job import Job, Log
from exporter.operate.audit.known import Known
from exporter.operate.audit.pin import FOREVER, Pinned
from exporter.operate.audit.records import Source, Stretch, Wanted, around
from exporter.operate.audit.rows import Held, Table
from exporter.operate.audit.tally import Tally
from offsets.ranges import TopicPartition

PART_OFFSETS, PART_BYTES = 500_000, 128 << 20
"""At most in a part: so many offsets, or as many as have rows of so many bytes in the data files."""
PROCESS_OFFSETS = 25_000
"""What a process of its own is worth."""
BATCH_RECORDS, BATCH_BYTES = 100_000, 64 << 20
"""Records, and bytes of their values, that are compared at a time."""


@dataclass(frozen=True)
class Work:
    """What one attempt at an audit compares. left_out: offsets that are not read."""

    job: Job
    pinned: Pinned
    logs: Mapping[TopicPartition, Log]
    source: Source
    files: Mapping[str, LiveFiles]
    tables: Sequence[Table]
    left_out: Mapping[TopicPartition, frozenset[int]]

    @cached_property
    def ranges(self) -> Ranges:
        """All offsets that are read."""
        return {tp: (one.first, one.next) for tp, one in self.logs.items()}

    def parts(self, offsets_max: int) -> Iterator[Ranges]:
        """The offsets some at a time; of each partition one range at most in a part."""
        part: dict[TopicPartition, tuple[int, int]] = {}
        room = offsets_max
        for tp, (first, end) in self.ranges.items():
            while first < end:
                part[tp] = first, min(end, first + room)
                room -= part[tp][1] - first
                first = part[tp][1]
                if not room:
                    yield part
                    part, room = {}, offsets_max
        if part:
            yield part

    @property
    def offsets_max(self) -> int:
        """Of a part."""
        adds = [add for one in self.files.values() for add in one.there]
        rows = sum(one.count.rows for one in self.files.values())
        each = sum(add["size"] for add in adds) / rows if rows else 0
        return min(PART_OFFSETS, max(1_000, int(PART_BYTES / each))) if each else PART_OFFSETS

    def of_part(self, part: Ranges) -> Tally:
        """What becomes of its offsets."""
        comparison = self._comparison()
        held = self._held(lambda files, wanted: files.of(part, wanted))
        for stretches in self._stretches(part):
            comparison.compare(stretches, held)
        return comparison.tally

    def of_others(self) -> Tally:
        """What becomes of rows that are of none of the offsets that are read."""
        comparison = self._comparison()
        for held in self._held(lambda files, wanted: files.others(self.ranges, wanted)):
            comparison.strays(held)
            for tp in held.places:
                first, end = self.ranges.get(tp, (FOREVER, FOREVER))
                comparison.compare([Stretch(tp, 0, first, ()), Stretch(tp, end, FOREVER, ())], [held])
        return comparison.tally

    def _comparison(self) -> Comparison:
        tally = Tally({code: name for name, code in self.pinned.codes.items()})
        return Comparison(self.job, self.pinned, Known(self.job, self.pinned, self.logs), self.tables, tally)

    def _held(self, read: Callable[[LiveFiles, pa.Schema], pa.Table]) -> list[Held]:
        found = []
        for table in self.tables:
            rows = read(self.files[table.name], table.schema)
            since = {tp: at for (name, tp), at in self.pinned.since.items() if name == table.name}
            found.append(Held(table, rows, self.job.topics, self.job.from_offsets, since))
        return found

    def _stretches(self, part: Ranges) -> Iterator[list[Stretch]]:
        """All offsets of a part, so many at a time that it is worth it."""
        some: list[Stretch] = []
        count = size = 0
        for one in self._read(part):
            some.append(one)
            count += len(one.records)
            size += sum(record.size for record in one.records)
            if count >= BATCH_RECORDS or size >= BATCH_BYTES:
                yield some
                some, count, size = [], 0, 0
        yield some

    def _read(self, part: Ranges) -> Iterator[Stretch]:
        """The records, and nothing of offsets that are left out."""
        wanted = [Wanted(tp, *bounds) for tp, bounds in part.items()]
        cut = [one for one in wanted if self.left_out.get(one.tp)]
        yield from self.source.stretches([one for one in wanted if one not in cut])
        for one in cut:
            at = one.start
            for piece in around(one, self.left_out[one.tp]):
                if at < piece.start:
                    yield Stretch(one.tp, at, piece.start, ())
                yield from self.source.stretches([piece])
                at = piece.end
            if at < one.end:
                yield Stretch(one.tp, at, one.end, ())


def compared(work: Work) -> Tally:
    """All of it, by processes of its own where it is worth them. Raises what one of them raises."""
    offsets = sum(end - start for start, end in work.ranges.values())
    cores = min(os.cpu_count() or 1, max(1, offsets // PROCESS_OFFSETS))
    if any(one.by_spark is not None for one in work.files.values()):
        cores = 1  # what is Spark's to read is read here
    tally = work.of_others()
    parts = [*work.parts(min(work.offsets_max, max(1, math.ceil(offsets / cores))))]
    if cores == 1:
        for part in parts:
            tally.join(work.of_part(part))
        return tally
    spawned = multiprocessing.get_context("spawn")  # this process has threads, which a fork would not have
    with ProcessPoolExecutor(cores, spawned, _begin, (work,)) as pool:
        for one in pool.map(_of_part, parts):
            tally.join(one)
    return tally


_works: list[Work] = []
"""Of this process, if it is one that was asked."""


def _of_part(part: Ranges) -> Tally:
    return _works[0].of_part(part)


def _begin(work: Work) -> None:
    """Whatever ends the process that asks ends those that it has asked."""
    _works.append(work)
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
