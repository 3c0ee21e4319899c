"""Data files: names, footers, statistics, merging. No JVM."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.merge import MERGED_FILE_BYTES, SMALL_FILE_BYTES, merge_batches
from exporter.core.order import StagingBudget
from exporter.core.writers import StagedFile
from exporter.executor.dead_letters import coordinates
from exporter.lake.properties import retention_is_safe
from exporter.stores.memory import DISKS, Disk, MemoryStore
from exporter.stores.parquet import SMALL_BYTES, FileOrigin, GrowingFile, give_memory_back, merge
from exporter.stores.stores import STORES, open_store
from offsets.names import DataFile
from offsets.ranges import OffsetRange, TopicPartition
from tests.support.days import partition_of

DAY = partition_of(date(2026, 1, 1))


def origin(folder) -> FileOrigin:
    return FileOrigin(open_store(str(folder)), "app", TopicPartition("t", 0), 0, "a", "f", {"routing": "r"})


def grown(folder, *parts: list[int]) -> StagedFile:
    file = GrowingFile(origin(folder), DAY)
    for part in parts:
        file.add(pa.table({"n": pa.array(part, pa.int64())}), part[0], part[-1])
    return file.finish()


def packed(path) -> list[str]:
    """The codec of each row group, as the footer says it."""
    footer = pq.read_metadata(path)
    return [footer.row_group(group).column(0).compression for group in range(footer.num_row_groups)]


def test_a_file_is_named_by_its_last_offset_and_appears_whole(tmp_path):
    """The name parses back, the size is the file's, the rows are those that were added."""
    staged = grown(tmp_path, [1, 2], [5, 9])
    name = DataFile.parse(staged.path)
    assert (name.partition, name.last_offset, staged.offsets, staged.rows) == (DAY, 9, OffsetRange(1, 9), 4)
    assert (tmp_path / staged.path).stat().st_size == staged.size_bytes
    assert pq.read_table(tmp_path / staged.path, partitioning=None).column("n").to_pylist() == [1, 2, 5, 9]


def test_a_small_file_is_packed_by_what_is_cheap_for_it(tmp_path):
    """zstd costs a small file more than it saves; a file that begins large is packed by it to its end."""
    rows = SMALL_BYTES // 8
    small, large = grown(tmp_path, [*range(9)]), grown(tmp_path, [*range(rows)])
    later = GrowingFile(origin(tmp_path), DAY)
    for part in ([*range(rows)], [rows]):
        later.add(pa.table({"n": pa.array(part, pa.int64())}), part[0], part[-1])
        later.encode()

    found = [packed(tmp_path / file.path) for file in (small, large, later.finish())]
    assert found == [["SNAPPY"], ["ZSTD"], ["ZSTD", "ZSTD"]]


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "none"])
def test_a_codec_that_is_set_is_that_of_every_file(tmp_path, codec):
    """Small ones, large ones and merged ones; the footer says it."""
    chosen = replace(origin(tmp_path), compression=codec)
    files = []
    for first, count in ((0, 9), (9, SMALL_BYTES // 8), (9 + SMALL_BYTES // 8, 9)):
        growing = GrowingFile(chosen, DAY)
        growing.add(pa.table({"n": pa.array(range(count), pa.int64())}), first, first + count - 1)
        files.append(growing.finish())
    files.append(merge(chosen, files, StagingBudget()))
    shown = "UNCOMPRESSED" if codec == "none" else codec.upper()
    assert [packed(tmp_path / file.path) for file in files] == [[shown]] * 4


@pytest.mark.parametrize("rows", [9, SMALL_BYTES // 8])
def test_offsets_and_times_of_records_are_written_as_differences(tmp_path, rows):
    """They grow by little from row to row; all else has dictionaries, at every depth."""
    counted = pa.array(range(rows), pa.int64())
    found = coordinates(TopicPartition("t", 0), 0, counted, counted.cast(pa.timestamp("us", tz="UTC")))
    pairs = pa.array([[("k", [1])]] * rows, pa.map_(pa.string(), pa.list_(pa.int64())))
    file = GrowingFile(origin(tmp_path), DAY)
    file.add(pa.table({"_kafka": found, "n": pa.repeat(1, rows), "m": pairs}), 0, rows - 1)
    staged = file.finish()
    group = pq.read_metadata(tmp_path / staged.path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    by_differences = [one.path_in_schema for one in columns if "DELTA_BINARY_PACKED" in one.encodings]
    assert by_differences == ["_kafka.offset", "_kafka.timestamp"]
    assert all(one.has_dictionary_page for one in columns if one.path_in_schema not in by_differences)
    assert json.loads(staged.stats)["maxValues"]["_kafka"]["offset"] == rows - 1
    read = pq.read_table(tmp_path / staged.path, partitioning=None)
    assert read.column("_kafka").combine_chunks().field("offset").equals(counted) and read.column("m")[0].as_py()


def test_a_column_that_is_called_like_an_offset_and_is_text_is_written(tmp_path):
    """A dot in a name makes the same path in Parquet, also beside the offset itself."""
    kafka = pa.array([{"offset": 1}, {"offset": 2}], pa.struct([("offset", pa.int64())]))
    for more in ({}, {"_kafka": kafka}):
        file = GrowingFile(origin(tmp_path), DAY)
        file.add(pa.table({**more, "_kafka.offset": ["a", "b"]}), 0, 1)
        read = pq.ParquetFile(tmp_path / file.finish().path).read()
        assert read.column("_kafka.offset").to_pylist() == ["a", "b"]


def test_nothing_is_on_disk_before_a_file_is_finished(tmp_path):
    """A task that is killed half-way leaves no half a file."""
    file = GrowingFile(origin(tmp_path), DAY)
    file.add(pa.table({"n": [1]}), 1, 1)
    file.encode()
    assert list(tmp_path.rglob("*")) == []


def test_two_attempts_never_share_a_name(tmp_path):
    """A retried or speculative task leaves a second file, it overwrites none (traps 17, 18)."""
    assert grown(tmp_path, [1]).path != grown(tmp_path, [1]).path


def test_rows_out_of_order_are_refused(tmp_path):
    """A file's range is first to last; an offset that goes back would make it wrong."""
    file = GrowingFile(origin(tmp_path), DAY)
    file.add(pa.table({"n": [5]}), 5, 5)
    with pytest.raises(ValueError, match="after 5"):
        file.add(pa.table({"n": [5]}), 5, 5)


def test_merging_keeps_rows_ranges_and_inputs(tmp_path):
    """One file with all rows in offset order; the inputs stay for the sweep (TEMP, protocol 4.6)."""
    parts = [grown(tmp_path, [7, 8]), grown(tmp_path, [1, 2]), grown(tmp_path, [4])]
    merged = merge(origin(tmp_path), parts, StagingBudget())
    assert (merged.offsets, merged.rows) == (OffsetRange(1, 8), 5)
    assert pq.read_table(tmp_path / merged.path, partitioning=None).column("n").to_pylist() == [1, 2, 4, 7, 8]
    assert all((tmp_path / part.path).exists() for part in parts)


@pytest.mark.parametrize("first_is_written", [True, False])
def test_carried_rows_are_written_with_those_of_files(tmp_path, first_is_written):
    """Nothing is on disk before; afterwards one file with the rows of both kinds, whichever comes first."""
    kind = pa.schema([pa.field("n", pa.struct([pa.field("m", pa.list_(pa.int64()))])), pa.field("t", pa.string())])

    def growing(first: int) -> GrowingFile:
        file = GrowingFile(origin(tmp_path), DAY)
        rows = [{"n": {"m": [first]}, "t": None}, {"n": None, "t": "x"}]
        file.add(pa.Table.from_pylist(rows, kind), first, first + 1)
        return file

    carried = growing(4 if first_is_written else 1).carried(1 << 16)
    assert carried is not None and carried.size_bytes == len(carried.body) and list(tmp_path.rglob("*")) == []
    assert (carried.folder, carried.rows, carried.fingerprint) == (DAY.folder, 2, "f")
    merged = merge(origin(tmp_path), [carried, growing(1 if first_is_written else 4).finish()], StagingBudget())
    table = pq.read_table(tmp_path / merged.path, partitioning=None)
    assert [row["n"] for row in table.to_pylist()] == [{"m": [1]}, None, {"m": [4]}, None]
    assert (merged.offsets, merged.rows, merged.body) == (OffsetRange(1, 5), 4, b"")
    assert json.loads(merged.stats)["numRecords"] == 4
    alone = merge(origin(tmp_path), [carried], StagingBudget())
    assert (alone.offsets, (tmp_path / alone.path).stat().st_size) == (carried.offsets, alone.size_bytes)


def test_only_few_rows_that_are_not_encoded_are_carried(tmp_path):
    """What is larger, or is a row group already, is written as a file."""
    file = GrowingFile(origin(tmp_path), DAY)
    assert file.carried(1 << 16) is None
    file.add(pa.table({"n": [1]}), 1, 1)
    assert file.carried(7) is None and file.carried(0) is None and file.carried(8) is not None
    file.encode()
    assert file.carried(1 << 16) is None and file.finish().rows == 1


def staged(first: int, size: int) -> StagedFile:
    return StagedFile(f"day=2026-01-01/{first}", OffsetRange(first, first), 1, size)


@settings(deadline=None)
@given(st.lists(st.integers(1, 2 * SMALL_FILE_BYTES), max_size=60))
def test_merge_batches_keep_every_file_once_and_in_order(sizes):
    """Only neighbours that are small are joined, up to a size; no file is lost or doubled."""
    files = [staged(index, size) for index, size in enumerate(sizes)]
    batches = merge_batches(list(reversed(files)), StagingBudget())
    assert [file for batch in batches for file in batch] == files
    for batch in batches:
        assert len(batch) == 1 or all(file.size_bytes < SMALL_FILE_BYTES for file in batch)
        assert len(batch) == 1 or sum(file.size_bytes for file in batch) <= MERGED_FILE_BYTES


def test_a_footer_tells_the_calendar_of_dates_and_times(tmp_path):
    """Spark 3 refuses those before 1900 in a file that does not say which one. As Spark itself says it."""
    footer = pq.read_metadata(tmp_path / grown(tmp_path, [1]).path).metadata
    assert footer[b"org.apache.spark.version"] >= b"3.1.0", "the greatest that a reader of Spark asks for"
    assert not {key for key in footer if key.startswith(b"org.apache.spark.legacy")}
    assert footer[b"app"] == b"app"


@pytest.mark.parametrize(
    ("text", "safe"),
    [("interval 1 week", True), ("interval 24 hours", True), ("interval 23 hours", False), ("interval 1 day", True),
     ("interval 0 days", False), ("nonsense", False), ("", False)],
)  # fmt: skip
def test_a_retention_below_one_day_is_unsafe(text, safe):
    """VACUUM deletes staged files after it (protocol 4.2)."""
    assert retention_is_safe(text) is safe


def test_files_are_made_and_merged_in_the_store_that_their_folder_is_of(monkeypatch):
    """Each is written once, under its final name; what is merged is read where it is and stays for the sweep."""
    monkeypatch.setitem(STORES, "memory", MemoryStore.at)
    monkeypatch.setitem(DISKS, "made", Disk())
    folder = "memory://made/lake/a"
    first, second = grown(folder, [1, 2]), grown(folder, [5, 9])
    merged = merge(origin(folder), [second, first], StagingBudget())
    store = open_store(folder)
    assert {file.path: store.size(file.path) for file in (first, second, merged)} == {
        file.path: file.size_bytes for file in (first, second, merged)
    }
    assert pq.read_table(store.reader(merged.path)).column("n").to_pylist() == [1, 2, 5, 9]
    store.delete(first.path)
    with pytest.raises(FileNotFoundError):
        merge(origin(folder), [second, first], StagingBudget())


def test_a_driver_s_arrow_keeps_nothing_for_itself() -> None:
    """What a commit's merging took goes back to the C library, and with it to the system."""
    before = pa.default_memory_pool()
    try:
        give_memory_back()
        assert pa.default_memory_pool().backend_name == "system"
    finally:
        pa.set_memory_pool(before)
