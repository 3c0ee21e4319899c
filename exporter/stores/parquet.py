"""Data files: rows in, one finished Parquet file out, named by its last offset (NAMES).

A file grows in memory, encoded; it reaches the table's folder in one write under its final
name, when its last offset is known. No file is renamed, none is written twice, none is deleted.
The rows of a small one are carried to the driver, which writes them together with others at their commit.
Runs on executors and, for merging, on the driver: pyarrow only.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.arrow.own_columns import KAFKA_COLUMN
from exporter.core.columns import EVENT_TIME
from exporter.core.order import StagingBudget
from exporter.core.writers import StagedFile
from exporter.stores.statistics import RowNotes, statistics
from exporter.stores.store import Store
from offsets import partitions
from offsets.names import FORMAT_VERSION, DataFile, replay_attempt
from offsets.partitions import Partition
from offsets.ranges import OffsetRange, TopicPartition

DICTIONARY_BYTES_MAX = 64 << 10
"""A column whose different values take more is written plain: less CPU, and smaller."""
PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "dictionary_pagesize_limit": DICTIONARY_BYTES_MAX,
    "version": "2.6",
}
"""How pyarrow writes data files."""
ASCENDING = dict.fromkeys((f"{KAFKA_COLUMN}.offset", f"{KAFKA_COLUMN}.timestamp", EVENT_TIME), "DELTA_BINARY_PACKED")
"""Parquet columns that are written as differences: smaller, and less CPU."""
SMALL_BYTES = 64 << 10
"""A file of fewer Arrow bytes is written as SMALL_PARQUET."""
SMALL_PARQUET: dict[str, Any] = {**PARQUET, "compression": "snappy", "compression_level": None}
"""Less CPU: to set zstd up for each column costs as much as all else of a small file does, and saves it nothing."""
CALENDAR = {"org.apache.spark.version": "4.0.0"}
"""In each footer, as Spark writes it. It tells Spark that dates and times are those of the Gregorian calendar in all
centuries; without it Spark 3 refuses those before 1900, which may have been meant for the older one."""


@dataclass(frozen=True)
class FileOrigin:
    """What every file of one writer carries in its name and footer.

    store: of the table's folder. fingerprint: of the table's metadata. footer: further key-values
    (cluster id, topic id, routing fingerprint).
    replay: the number of the replay of dead letters that stages it; 0 for none. compression: codec of all columns;
    empty: that of PARQUET, or of SMALL_PARQUET.
    """

    store: Store
    app: str
    tp: TopicPartition
    epoch: int
    event_type: str
    fingerprint: str
    footer: Mapping[str, str]
    replay: int = 0
    compression: str = ""

    def tags(self, offsets: OffsetRange) -> dict[str, str]:
        """The key-values of a file: in the Parquet footer and in the tags of its `add` action."""
        return {
            "app": self.app,
            "topic": self.tp.topic,
            "partition": str(self.tp.partition),
            "epoch": str(self.epoch),
            "first_offset": str(offsets.first_offset),
            "last_offset": str(offsets.last_offset),
            "event_type": self.event_type,
            "format": str(FORMAT_VERSION),
            **({"replay": str(self.replay)} if self.replay else {}),
            **self.footer,
        }


class GrowingRows:
    """The rows of one file while it grows: Arrow rows first, then encoded row groups."""

    def __init__(self, compression: str = "") -> None:
        """compression: as FileOrigin has it."""
        self.compression = compression
        self.rows = 0
        self.arrow_bytes = 0
        self.pending_bytes = 0
        self._pending: list[pa.Table] = []
        self._sink: pa.BufferOutputStream | None = None
        self._writer: pq.ParquetWriter | None = None
        self._metadata: list[pq.FileMetaData] = []
        self._seen = RowNotes()

    @property
    def encoded_bytes(self) -> int:
        return int(self._sink.tell()) if self._sink is not None else 0

    def hold(self, part: pa.Table) -> None:
        """Some rows that come behind those that were held before."""
        self._pending.append(part)
        self.rows += part.num_rows
        self.pending_bytes += part.nbytes
        self.arrow_bytes += part.nbytes

    def encode(self) -> None:
        """Turn the pending rows into one row group."""
        if not self._pending:
            return
        table = pa.concat_tables(self._pending).combine_chunks().replace_schema_metadata(None)
        self._seen.add(table)
        if self._writer is None:
            self._sink = pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(
                self._sink,
                table.schema,
                metadata_collector=self._metadata,
                **encodings(table.schema),
                **_packing(self.compression, self.pending_bytes < SMALL_BYTES),
            )
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._pending.clear()
        self.pending_bytes = 0

    def ended(self, tags: Mapping[str, str]) -> tuple[pa.Buffer, str]:
        """The file's bytes, and its statistics. tags: for its footer."""
        self.encode()
        if self._writer is None or self._sink is None:
            raise ValueError("a data file has at least one row")
        self._writer.add_key_value_metadata({**CALENDAR, **tags})
        self._writer.close()
        return self._sink.getvalue(), statistics(self._metadata[0], self._writer.schema, self._seen)


class GrowingFile(GrowingRows):
    """One file of one writer and partition."""

    def __init__(self, origin: FileOrigin, partition: Partition) -> None:
        super().__init__(origin.compression)
        self.origin = origin
        self.partition = partition
        self._first_offset = -1
        self._last_offset = -1

    def add(self, table: pa.Table, first_offset: int, last_offset: int) -> None:
        """Rows in offset order, all beyond what was added before."""
        self.reach(OffsetRange(first_offset, last_offset))
        self.hold(table)

    def reach(self, offsets: OffsetRange) -> None:
        """From here on the rows of these offsets are held, in one part or in several, in offset order."""
        if offsets.first_offset <= self._last_offset:
            raise ValueError(f"offset {offsets.first_offset} after {self._last_offset} in one file")
        if self._first_offset < 0:
            self._first_offset = offsets.first_offset
        self._last_offset = offsets.last_offset

    def finish(self, name: str = "") -> StagedFile:
        """Write the file under its final name; what a manifest says of it. name: of a file that holds no records."""
        offsets = OffsetRange(self._first_offset, self._last_offset)
        body, stats = self.ended(self.origin.tags(offsets))
        name = name or self._name(offsets)
        self.origin.store.write_once(name, body)
        fingerprint = self.origin.fingerprint
        return StagedFile(name, offsets, self.rows, body.size, stats, fingerprint, arrow_bytes=self.arrow_bytes)

    def carried(self, bytes_max: int) -> StagedFile | None:
        """Its rows, for merge() to write; None if they are more than so many bytes, or if some are encoded already."""
        if self._writer is not None or not 0 < self.pending_bytes <= bytes_max:
            return None
        table = pa.concat_tables(self._pending)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as stream:
            stream.write_table(table)
        body, offsets = sink.getvalue().to_pybytes(), OffsetRange(self._first_offset, self._last_offset)
        return StagedFile(
            self._name(offsets), offsets, self.rows, len(body), fingerprint=self.origin.fingerprint, body=body,
            arrow_bytes=self.arrow_bytes,
        )  # fmt: skip

    def _name(self, offsets: OffsetRange) -> str:
        origin, unique = self.origin, uuid.uuid4().hex
        attempt = replay_attempt(origin.replay, unique) if origin.replay else unique
        return str(DataFile(self.partition, origin.app, origin.tp, origin.epoch, offsets.last_offset, attempt))


def _packing(compression: str, is_small: bool) -> Mapping[str, Any]:
    """For pyarrow's writer: how a file is packed."""
    if not compression:
        return SMALL_PARQUET if is_small else PARQUET
    level = PARQUET["compression_level"] if compression == PARQUET["compression"] else None
    return {**PARQUET, "compression": compression, "compression_level": level}


@cache
def encodings(schema: pa.Schema) -> dict[str, Any]:
    """For pyarrow's writer: ASCENDING where all columns of that path hold integers, dictionaries for all others.

    A dot in a name makes two columns of one path.
    """
    pq.ParquetWriter(empty := pa.BufferOutputStream(), schema).close()
    columns = pq.ParquetFile(empty.getvalue()).schema
    types: dict[str, set[str]] = {}
    for number in range(len(columns)):
        types.setdefault(columns.column(number).path, set()).add(columns.column(number).physical_type)
    ascending = {path: encoding for path, encoding in ASCENDING.items() if types.get(path) == {"INT64"}}
    return {"use_dictionary": sorted(types.keys() - ascending.keys()), "column_encoding": ascending}


def give_memory_back() -> None:
    """Let Arrow take this process's memory from the C library. For a driver, which merges small files for months.

    Arrow's own allocator keeps what it had: it is quicker for workers, whose batches are all alike.
    """
    pa.set_memory_pool(pa.system_memory_pool())


class NotWritten(Exception):
    """A file could not be made, or the storage does not take it; what it was to be made of is there."""


def merge(origin: FileOrigin, files: Iterable[StagedFile], room: StagingBudget) -> StagedFile:
    """One file with the rows of several of one writer and partition, in offset order; inputs stay for the sweep.

    Of the rows no more is held than the room allows, however well they were packed. Rows and ranges are equal before
    and after (protocol 4.6). Raises ValueError otherwise, OSError if a file is gone, NotWritten if the one cannot be
    written.
    """
    ordered = sorted(files, key=lambda file: file.offsets)
    growing = GrowingFile(origin, partitions.parse(ordered[0].folder))
    schema: pa.Schema | None = None
    for file in ordered:
        growing.reach(file.offsets)
        for part in _parts(origin.store, file, room.unsplit_bytes // 2):
            schema = schema or part.schema
            growing.hold(part if part.schema == schema else part.cast(schema))
            if growing.pending_bytes >= room.unsplit_bytes:
                with _making():
                    growing.encode()
    with _making():
        merged = growing.finish()
    if merged.rows != sum(file.rows for file in ordered):
        raise ValueError(f"merged {merged.rows} rows of {sum(file.rows for file in ordered)}")
    return merged


@contextmanager
def _making() -> Iterator[None]:
    """Whatever goes wrong is the trouble of the one file. Raises NotWritten."""
    try:
        yield
    except Exception as error:
        raise NotWritten(f"{type(error).__name__}: {error}") from error


def _parts(store: Store, file: StagedFile, bytes_max: int) -> Iterator[pa.Table]:
    """Yield its rows in order, about `bytes_max` at a time. A page may repeat one value, so its size tells nothing."""
    if file.body:
        yield pa.ipc.open_stream(file.body).read_all()
        return
    rows_max = max(1, file.rows * bytes_max // max(1, file.arrow_bytes))
    with store.reader(file.path) as opened, pq.ParquetFile(opened) as source:
        for batch in source.iter_batches(min(file.rows, rows_max), use_threads=False):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
