"""Merging at a commit: what is joined is decided by what it takes in memory, not by what is left of it on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.core.merge import merge_batches
from exporter.core.order import StagingBudget
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.writers import PartitionPlan, StagedFile
from exporter.executor.stage import stage
from exporter.rounds.told import round_result
from exporter.stores.parquet import FileOrigin, GrowingFile, merge
from exporter.stores.stores import open_store
from offsets.ranges import OffsetRange, TopicPartition
from tests.support.days import partition_of
from tests.support.orders import order_of

VALUE = b"the same bad record again" * 400
"""10 kB, of which a file has one copy and memory as many as there are rows."""
ROWS = 800
ROOM = StagingBudget(64 << 20)


def origin(folder: Path) -> FileOrigin:
    return FileOrigin(open_store(str(folder)), "app", TopicPartition("t", 0), 0, "a", "f", {})


def same_again(folder: Path, first: int, groups: int = 1) -> StagedFile:
    """A file of ROWS rows with one value, in so many row groups."""
    file = GrowingFile(origin(folder), partition_of(date(2026, 1, 31)))
    for start in range(first, first + ROWS, ROWS // groups):
        rows = range(start, start + ROWS // groups)
        file.add(pa.table({"n": pa.array(rows, pa.int64()), "value": pa.repeat(VALUE, len(rows))}), start, rows[-1])
        file.encode()
    return file.finish()


@contextmanager
def counted() -> Iterator[pa.MemoryPool]:
    """All that Arrow takes from here on is taken from a pool of its own."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


def test_files_that_are_small_on_disk_only_are_merged_in_bounded_memory(tmp_path: Path) -> None:
    """Forty files of 3 kB are 320 MB of rows: one file of row groups comes out, and few of them are held at a time."""
    files = [same_again(tmp_path, number * ROWS, 2 ** (number % 3)) for number in range(40)]
    total = sum(file.arrow_bytes for file in files)
    assert total > 300 << 20 and max(file.size_bytes for file in files) < 20_000
    with counted() as pool:
        merged = merge(origin(tmp_path), files, ROOM)
    assert pool.max_memory() < ROOM.bytes
    assert (merged.offsets, merged.rows) == (OffsetRange(0, 40 * ROWS - 1), 40 * ROWS)
    read = pq.ParquetFile(tmp_path / merged.path)
    assert read.read(["n"]).column("n").to_pylist() == list(range(40 * ROWS))
    assert read.num_row_groups <= total // ROOM.unsplit_bytes + 1, "groups are filled up"


def test_a_file_of_one_large_row_group_is_read_in_slices(tmp_path: Path) -> None:
    """The room holds a part of it only."""
    files = [same_again(tmp_path, 0), same_again(tmp_path, ROWS)]
    room = StagingBudget(4 << 20)
    with counted() as pool:
        merged = merge(origin(tmp_path), files, room)
    assert pool.max_memory() < room.bytes and merged.rows == 2 * ROWS


@pytest.mark.parametrize("large", [0, 1, 2])
def test_a_file_whose_rows_fill_a_group_is_not_merged(large: int) -> None:
    """Whatever little it takes on disk: nothing would be gained, and all of it would be held."""
    files = [
        StagedFile(f"day=2026-01-31/{number}", OffsetRange(number, number), 1, 9_000,
                   arrow_bytes=500 << 20 if number == large else 1_000)
        for number in range(3)
    ]  # fmt: skip
    names = [[file.offsets.first_offset for file in batch] for batch in merge_batches(files, ROOM)]
    assert names == {0: [[0], [1, 2]], 1: [[0], [1], [2]], 2: [[0, 1], [2]]}[large]


def test_a_round_tells_what_the_rows_of_its_files_take_in_memory(tmp_path: Path) -> None:
    """Three thousand bad records that are all the same: a few kB of file, 30 MB of rows; so they are not merged."""
    tp, rows = TopicPartition("t", 0), 3_000
    columns = {
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.repeat(pa.scalar(VALUE, pa.binary()), rows),
        "topic": pa.repeat(tp.topic, rows),
        "partition": pa.repeat(pa.scalar(0, pa.int32()), rows),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.repeat(pa.scalar(1_767_225_600_000_000, pa.timestamp("us", "UTC")), rows),
    }
    routing = Routing(TypeFrom("json", "type"), EventTime("json", "ts"), (), event_time_ahead_max_secs=86_400)
    plan = PartitionPlan(tp, 0, 0, 0, rows, {DEAD_LETTERS: -1})
    order = order_of(tmp_path, routing, {tp: plan}, {}, {tp: {}}, carried_bytes=1 << 20)
    (manifest,) = stage(order, iter([pa.RecordBatch.from_pydict(columns)]))
    (fragment,) = round_result(order, manifest.to_pylist()).fragments
    (file,) = fragment.files[DEAD_LETTERS]
    assert file.size_bytes < 200_000 and rows * len(VALUE) < file.arrow_bytes < 2 * rows * len(VALUE)
    another = replace(file, offsets=OffsetRange(rows, 2 * rows))
    assert [len(batch) for batch in merge_batches([file, another], ROOM)] == [1, 1]
