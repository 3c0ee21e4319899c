"""What the limit writes: router, decoder, one Parquet file per type; no days, dead letters, positions or manifest.

A module of its own, so that Spark's workers import it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.core.routing import Routing
from exporter.executor.dead_letters import coordinates
from exporter.executor.route import Router
from exporter.executor.stage import located
from exporter.formats.decoder import Decoder
from exporter.stores.parquet import PARQUET, encodings
from offsets.ranges import TopicPartition

COUNTED = pa.schema([("rows", pa.int64())])
PENDING_BYTES_MAX = 96 << 20
"""Arrow bytes before the largest part is encoded: what a task of the exporter has by default, on two cores."""


class PlainSink:
    """Files `<folder>/<type>-<name>.parquet`, encoded as the exporter's are, in row groups of about as many bytes."""

    def __init__(self, folder: str, name: str, routing: Routing, topic: str) -> None:
        self._folder, self._name, self._routing, self._topic = folder, name, routing, topic
        self._router = Router(routing)
        self._decoders: dict[str, Decoder] = {}
        self._pending: dict[str, list[pa.Table]] = defaultdict(list)
        self._bytes: dict[str, int] = defaultdict(int)
        self._writers: dict[str, pq.ParquetWriter] = {}
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """A batch of one partition with the columns of Spark's Kafka source."""
        tp = TopicPartition(self._topic, batch.column("partition")[0].as_py())
        for name, rows in self._router.route(batch).groups.items():
            timestamps = batch.column("timestamp").take(rows)
            decoded = self._decoder(name).decode(batch.column("value").take(rows), timestamps)
            offsets = batch.column("offset").take(rows)
            if len(decoded.good) < len(rows):
                offsets, timestamps = offsets.take(decoded.good), timestamps.take(decoded.good)
            table = located(decoded.table, coordinates(tp, 0, offsets, timestamps))
            self._pending[name].append(table)
            self._bytes[name] += table.nbytes
            self.rows += table.num_rows
        while sum(self._bytes.values()) > PENDING_BYTES_MAX:
            self._encode(max(self._bytes, key=lambda name: self._bytes[name]))

    def close(self) -> int:
        """Finish all files; the rows written."""
        for name in list(self._pending):
            self._encode(name)
        for writer in self._writers.values():
            writer.close()
        return self.rows

    def _encode(self, name: str) -> None:
        table = pa.concat_tables(self._pending.pop(name)).combine_chunks()
        del self._bytes[name]
        if name not in self._writers:
            path = os.path.join(self._folder, f"{name}-{self._name}.parquet")
            schema = table.schema.remove_metadata()
            self._writers[name] = pq.ParquetWriter(path, schema, **encodings(schema), **PARQUET)
        self._writers[name].write_table(table, row_group_size=max(1, table.num_rows))

    def _decoder(self, name: str) -> Decoder:
        if name not in self._decoders:
            self._decoders[name] = Decoder.of(name, self._routing)
        return self._decoders[name]


def spark_task(folder: str, routing: Routing, topic: str) -> Any:
    """The function of mapInArrow: batches in, the number of rows out."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sink = PlainSink(folder, str(os.getpid()), routing, topic)
        for batch in batches:
            if batch.num_rows:
                sink.add(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.close()], pa.int64())], schema=COUNTED)

    return task
