"""An audit in parts: some offsets each, with the rows that may be of them, by as many processes as there are cores.

A part holds the rows of so many offsets at a time, and nothing of the others: memory does not grow with the topic.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from exporter.lake.later import Later
from exporter.operate.audit.compare import Comparison
from exporter.operate.audit.files import LiveFiles, Ranges
from exporter.operate.audit.job import AuditJob, PartitionLog
from exporter.operate.audit.known import Known
from exporter.operate.audit.pin import FOREVER, PinnedTables
from exporter.operate.audit.records import AuditedOffsets, AuditedStretch, AuditedTopic, around
from exporter.operate.audit.rows import AuditedTable, TableRows
from exporter.operate.audit.spread import spread
from exporter.operate.audit.tally import AuditTally
from offsets.ranges import TopicPartition

PART_OFFSETS, PART_BYTES = 500_000, 128 << 20
"""About as much is a part: so many offsets, or as many as have rows of so many bytes in the data files."""
RANGE_OFFSETS = 25_000
"""Of one partition in a part of several, at least."""
PROCESS_OFFSETS, CLUSTER_OFFSETS = 25_000, 2_000_000
"""What a process of its own is worth, and Spark's start."""
BATCH_RECORDS, BATCH_BYTES = 100_000, 64 << 20
"""Records, and bytes of their values, that are compared at a time."""
TELL_SECS = 0.5
Tell = Callable[[int, int], None]
"""Called now and then: so many offsets are compared, of so many."""


def untold(_done: int, _of: int) -> None:
    """Nobody wants to know how far it is."""


@dataclass(frozen=True)
class Work:
    """What one attempt at an audit compares. left_out: offsets that are not read."""

    job: AuditJob
    pinned: PinnedTables
    logs: Mapping[TopicPartition, PartitionLog]
    source: AuditedTopic
    files: Mapping[str, LiveFiles]
    tables: Sequence[AuditedTable]
    left_out: Mapping[TopicPartition, frozenset[int]]

    @cached_property
    def ranges(self) -> Ranges:
        """All offsets that are read."""
        return {tp: (one.first, one.next) for tp, one in self.logs.items()}

    @property
    def offsets(self) -> int:
        """How many are read."""
        return sum(end - start for start, end in self.ranges.values())

    @property
    def offsets_max(self) -> int:
        """Of a part."""
        adds = [add for one in self.files.values() for add in one.there]
        rows = sum(one.count.rows for one in self.files.values())
        each = sum(add["size"] for add in adds) / rows if rows else 0
        return min(PART_OFFSETS, max(1_000, int(PART_BYTES / each))) if each else PART_OFFSETS

    def of_part(self, part: Ranges, done: Callable[[int], None]) -> AuditTally:
        """What becomes of its offsets. done: called with the number of those that have come to their end."""
        comparison = self._comparison()
        held = self._held(lambda files, wanted: files.of(part, wanted))
        for stretches in self._stretches(part):
            comparison.compare(stretches, held)
            done(sum(one.end - one.start for one in stretches))
        return comparison.tally

    def of_others(self) -> AuditTally:
        """What becomes of rows that are of none of the offsets that are read, nor before those that are asked for."""
        comparison, asked = self._comparison(), self.job.from_offsets
        known = {tp: (0 if asked.get(tp, 0) >= first else first, end) for tp, (first, end) in self.ranges.items()}
        for held in self._held(lambda files, wanted: files.others(known, wanted)):
            comparison.strays(held)
            for tp in held.places:
                first, end = self.ranges.get(tp, (FOREVER, FOREVER))
                comparison.compare([AuditedStretch(tp, 0, first, ()), AuditedStretch(tp, end, FOREVER, ())], [held])
        return comparison.tally

    def _comparison(self) -> Comparison:
        tally = AuditTally({code: name for name, code in self.pinned.codes.items()})
        return Comparison(self.job, self.pinned, Known(self.job, self.pinned, self.logs), self.tables, tally)

    def _held(self, read: Callable[[LiveFiles, pa.Schema], pa.Table]) -> list[TableRows]:
        found = []
        for table in self.tables:
            rows = read(self.files[table.name], table.schema)
            since = {tp: at for (name, tp), at in self.pinned.since.items() if name == table.name}
            found.append(TableRows(table, rows, self.job.topics, self.job.from_offsets, since))
        return found

    def _stretches(self, part: Ranges) -> Iterator[list[AuditedStretch]]:
        """All offsets of a part, so many at a time that it is worth it."""
        some: list[AuditedStretch] = []
        count = size = 0
        for one in self._read(part):
            some.append(one)
            count += len(one.records)
            size += sum(record.size for record in one.records)
            if count >= BATCH_RECORDS or size >= BATCH_BYTES:
                yield some
                some, count, size = [], 0, 0
        yield some

    def _read(self, part: Ranges) -> Iterator[AuditedStretch]:
        """The records, and nothing of offsets that are left out."""
        wanted = [AuditedOffsets(tp, *bounds) for tp, bounds in part.items()]
        cut = [one for one in wanted if self.left_out.get(one.tp)]
        yield from self.source.stretches([one for one in wanted if one not in cut])
        for one in cut:
            at = one.start
            for piece in around(one, self.left_out[one.tp]):
                if at < piece.start:
                    yield AuditedStretch(one.tp, at, piece.start, ())
                yield from self.source.stretches([piece])
                at = piece.end
            if at < one.end:
                yield AuditedStretch(one.tp, at, one.end, ())


def in_parts(ranges: Ranges, offsets_max: int, abreast: int = 1) -> Iterator[Ranges]:
    """The offsets, about so many at a time, of so many partitions abreast; of more where these have no more."""
    some: dict[TopicPartition, tuple[int, int]] = {}
    count = 0
    for tp, (first, end) in ranges.items():
        some[tp] = first, end
        count += end - first
        if len(some) >= abreast and count >= offsets_max:
            yield from _cut(some, math.ceil(count / offsets_max))
            some, count = {}, 0
    yield from _cut(some, math.ceil(count / offsets_max))


def worth_abreast(files: Iterable[LiveFiles], partitions: int, offsets_max: int) -> int:
    """Of how many partitions a part should have offsets, so that the fewest bytes of data files are read again.

    A file is read by each part that has some of its offsets. What OPTIMIZE has packed is of one time and of all
    partitions: then of all of them. A file of one partition may reach over many of its offsets: then of that one alone.
    Short ranges cost the consumer more than they bring.
    """
    most = max(1, min(partitions, offsets_max // RANGE_OFFSETS))
    shapes = [shape for one in files for shape in one.shapes()]

    def bytes_read(abreast: int) -> float:
        each = offsets_max / abreast
        return sum(
            size * (1 if alone else math.ceil(partitions / abreast)) * (1 + span / each) for size, span, alone in shapes
        )

    return min((1 << power for power in range(most.bit_length())), key=bytes_read)


def _cut(ranges: Ranges, count: int) -> Iterator[Ranges]:
    """Each of them into so many pieces, of which one a range is in a part."""
    for nth in range(count):
        pieces = {
            tp: (first + (end - first) * nth // count, first + (end - first) * (nth + 1) // count)
            for tp, (first, end) in ranges.items()
        }
        yield {tp: (start, end) for tp, (start, end) in pieces.items() if start < end}


def compared(work: Work, tell: Tell, later: Later) -> AuditTally:
    """All of it, by a cluster or by processes of its own where it is worth them. Raises what one of them raises.

    later: the lake's session, where it is on a cluster.
    """
    here = any(one.by_spark is not None for one in work.files.values())  # what is Spark's to read is read here
    cores = 1 if here else min(os.cpu_count() or 1, max(1, work.offsets // PROCESS_OFFSETS))
    session = later.session if later.on_cluster and not here and work.offsets >= CLUSTER_OFFSETS else None
    cores = cores if session is None else max(cores, session.sparkContext.defaultParallelism)
    tally = work.of_others()
    most = min(work.offsets_max, max(1, math.ceil(work.offsets / cores)))
    parts = [*in_parts(work.ranges, most, worth_abreast(work.files.values(), len(work.ranges), most))]
    if session is not None:
        found = _spread(work, parts, tell, session)
    else:
        found = _here(work, parts, tell) if cores == 1 else _spawned(work, parts, tell, cores)
    for part in found:
        tally.join(part)
    return tally


def _spread(work: Work, parts: Sequence[Ranges], tell: Tell, session: Any) -> Iterator[AuditTally]:
    """The parts, compared by a cluster's executors."""

    def of_part(number: int) -> AuditTally:
        return work.of_part(parts[number], lambda more: None)

    def done(some: int) -> None:
        tell(work.offsets * some // len(parts), work.offsets)

    return spread(session, of_part, len(parts), done, TELL_SECS)


def _here(work: Work, parts: Sequence[Ranges], tell: Tell) -> Iterator[AuditTally]:
    """The parts, compared one after the other in this process."""
    at = 0

    def done(more: int) -> None:
        nonlocal at
        at += more
        tell(at, work.offsets)

    for part in parts:
        yield work.of_part(part, done)


def _spawned(work: Work, parts: Sequence[Ranges], tell: Tell, cores: int) -> Iterator[AuditTally]:
    """So many at a time, as they come to their end."""
    spawned = multiprocessing.get_context("spawn")  # this process has threads, which a fork would not have
    counter = spawned.Value("q")
    with ProcessPoolExecutor(cores, spawned, _begin, (work, counter)) as pool:
        left = {pool.submit(_of_part, part) for part in parts}
        try:
            while left:
                ended, left = wait(left, TELL_SECS, FIRST_EXCEPTION)
                tell(counter.value, work.offsets)
                yield from (one.result() for one in ended)
        finally:
            pool.shutdown(cancel_futures=True)  # one has failed: nobody waits for the others


_asked: list[tuple[Work, Any]] = []
"""Of this process, if it is one that was asked: the work, and the counter of all that is done."""


def _of_part(part: Ranges) -> AuditTally:
    work, counter = _asked[0]

    def done(more: int) -> None:
        with counter.get_lock():
            counter.value += more

    return work.of_part(part, done)


def _begin(work: Work, counter: Any) -> None:
    """Whatever ends the process that asks ends those that it has asked."""
    _asked.append((work, counter))
    parent = multiprocessing.parent_process()

    def ended() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=ended, daemon=True).start()
