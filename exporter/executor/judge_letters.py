"""What becomes of dead letters under another configuration, by the exporter's own decoding. Runs on Spark executors.

    batch of dead letters -> frames -> route -> decode -> the same batch with `target` or `verdict`

A row's verdict depends on that row, the routing configuration and the recorded schemas alone (ROUTE), so that what is
fed is exactly what the exporter would have written. Nothing is staged here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.own_columns import RECORD_FIELDS
from exporter.arrow.spark_types import as_ddl
from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas
from exporter.executor.route import Router
from exporter.formats.decoder import Decoder
from exporter.formats.frames import ids_without_text, readable, unread

RECORD = pa.schema([*RECORD_FIELDS, ("epoch", pa.int32())])
"""A dead letter as Spark's Kafka source would give the record, and the epoch that it was read in. In this order, by
which alone mapInArrow knows them; a join changes it."""
JUDGED_DDL = as_ddl([*RECORD, pa.field("target", pa.string()), pa.field("verdict", pa.string())])
"""target: event type whose table gets the row, else null. verdict: why it stays a dead letter, else null."""
IDS_DDL = "id bigint"


def judge(routing: Routing, schemas: KnownSchemas, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow. schemas: texts alone (KnownSchemas.texts)."""
    judges: dict[str, _Judge] = {}
    for batch in batches:
        if not batch.num_rows:
            continue
        targets: list[Any] = [None] * batch.num_rows
        verdicts: list[Any] = [None] * batch.num_rows
        for topic in pc.unique(batch.column("topic")).to_pylist():
            if topic not in judges:
                judges[topic] = _Judge(routing, topic, schemas)
            rows = pc.indices_nonzero(pc.equal(batch.column("topic"), topic))
            judges[topic].judge(batch.take(rows), rows.to_pylist(), targets, verdicts)
        columns = [*batch.columns, pa.array(targets, pa.string()), pa.array(verdicts, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "target", "verdict"])


def missing_ids(
    routing: Routing, schemas: KnownSchemas, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: one row per letter whose schema id has no text."""
    for batch in batches:
        for topic in pc.unique(batch.column("topic")).to_pylist():
            values = batch.column("value").filter(pc.equal(batch.column("topic"), topic))
            ids = ids_without_text(values, routing.format_of(topic), schemas)
            yield pa.RecordBatch.from_arrays([pa.array(ids, pa.int64())], names=["id"])


class _Judge:
    """Of the letters of one topic."""

    def __init__(self, routing: Routing, topic: str, schemas: KnownSchemas) -> None:
        self._routing = routing
        self._topic = topic
        self._schemas = schemas
        self._router = Router(routing, topic, schemas)
        self._decoders: dict[str, Decoder] = {}

    def judge(self, batch: pa.RecordBatch, at: list[int], targets: list[Any], verdicts: list[Any]) -> None:
        """Fill in what becomes of the rows. at: where each of the batch's rows stands in the lists."""
        framed = unread(batch.column("value"), self._routing.format_of(self._topic), self._schemas)
        routed = self._router.route(readable(batch, framed)).without(framed.unknown)
        for name, rows in routed.groups.items():
            of_type = rows.to_pylist()
            values, times = batch.column("value").take(rows), batch.column("timestamp").take(rows)
            decoded = self._decoder(name).decode(values, times)
            for index in decoded.good.to_pylist():
                targets[at[of_type[index]]] = name
            for index, _, reason in decoded.bad:
                verdicts[at[of_type[index]]] = reason
        for dead in routed.dead.to_pylist():
            verdicts[at[dead["index"]]] = dead["reason"]

    def _decoder(self, name: str) -> Decoder:
        if name not in self._decoders:
            self._decoders[name] = Decoder.of(name, self._routing, topic=self._topic, schemas=self._schemas)
        return self._decoders[name]
