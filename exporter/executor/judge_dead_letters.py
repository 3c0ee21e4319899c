"""What becomes of dead letters under another configuration, by the exporter's own decoding. Runs on Spark executors.

    batch of dead letters -> frames -> route -> decode -> shape -> the same batch with `targets` or `verdict`

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
from exporter.core.order import Destination, StagingOrder
from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas
from exporter.executor.readers import TaskReaders
from exporter.executor.shaping import shaped
from exporter.formats.frames import Framed, ids_without_text, in_parts, read_values, readable, reframed, unread
from exporter.formats.places import emptied

RECORD = pa.schema([*RECORD_FIELDS, ("epoch", pa.int32()), ("of_type", pa.string())])
"""A dead letter as Spark's Kafka source would give the record, the epoch that it was read in, and the type that it is
of: null where it is of the whole record (protocol 3.9). In this order, by which alone mapInArrow knows them; a join
changes it."""
JUDGED_DDL = as_ddl([*RECORD, pa.field("targets", pa.list_(pa.string())), pa.field("verdict", pa.string())])
"""targets: event types whose tables get the row, else null. verdict: why it stays a dead letter, else null."""
STAYS = {
    "filtered": "a filter leaves them out",
    "unrouted": "their event types are of no table and would be counted",
    "of_another_type": "their records are not of their type any more",
}
"""Verdict of a dead letter that nothing is wrong with -> why it is left as it is."""
IDS_DDL = "id string"
"""A number that may have more than 64 bits."""


def judge(routing: Routing, schemas: KnownSchemas, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow. schemas: texts alone (KnownSchemas.texts)."""
    judges = _Judge(routing, schemas)
    for batch in batches:
        if not batch.num_rows:
            continue
        targets: list[list[str]] = [[] for _ in range(batch.num_rows)]
        verdicts: list[Any] = [None] * batch.num_rows
        for topic in pc.unique(batch.column("topic")).to_pylist():
            rows = pc.indices_nonzero(pc.equal(batch.column("topic"), topic))
            judges.judge(topic, batch.take(rows), rows.to_pylist(), targets, verdicts)
        told = [None if verdict else names for names, verdict in zip(targets, verdicts, strict=True)]
        columns = [*batch.columns, pa.array(told, pa.list_(pa.string())), pa.array(verdicts, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "targets", "verdict"])


def missing_ids(
    routing: Routing, schemas: KnownSchemas, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: one row per dead letter whose schema id has no text."""
    for batch in batches:
        for topic in pc.unique(batch.column("topic")).to_pylist():
            of_topic = batch.filter(pc.equal(batch.column("topic"), topic))
            ids = ids_without_text(of_topic, routing.format_of(topic), schemas)
            yield pa.RecordBatch.from_arrays([pa.array(map(str, ids), pa.string())], names=["id"])


class _Judge:
    """Reads dead letters by what reads the records of a task."""

    def __init__(self, routing: Routing, schemas: KnownSchemas) -> None:
        self._schemas = schemas
        self._readers = TaskReaders(StagingOrder(Destination("", ""), routing, {}, {}, {}, schemas=schemas))

    def judge(
        self, topic: str, batch: pa.RecordBatch, at: list[int], targets: list[list[str]], verdicts: list[Any]
    ) -> None:
        """Fill in what becomes of the rows of a topic: targets, or a verdict. at: where each row stands in the lists.

        A dead letter of one type is judged for that type alone; one of a whole record stays if a table of it refuses.
        """
        form = self._readers.form(topic)
        for part, framed in in_parts(batch, lambda one: unread(one, form, self._schemas)):
            self._judge(topic, part, framed, at[: part.num_rows], targets, verdicts)
            at = at[part.num_rows :]

    def _judge(
        self,
        topic: str,
        batch: pa.RecordBatch,
        framed: Framed,
        at: list[int],
        targets: list[list[str]],
        verdicts: list[Any],
    ) -> None:
        sent = emptied(reframed(batch, framed), self._readers.form(topic), self._schemas)
        routed = self._readers.router(topic).route(readable(sent, framed)).without(framed.unknown)
        left = ["of_another_type"] * batch.num_rows
        for name, group in routed.groups.items():
            rows = group.filter(_may_go_to(name, batch.column("of_type").take(group)))
            if not len(rows):
                continue
            values, times = read_values(batch, framed).take(rows), batch.column("timestamp").take(rows)
            decoded = self._readers.decoder(name, topic).decode(values, times)
            found = shaped(name, decoded, self._readers.shaper(name), batch, rows, topic)
            for row in found.rows.to_pylist():
                targets[at[row]].append(name)
            for row in found.filtered.to_pylist():
                left[row] = "filtered"
            for row, _, _, reason in sorted(found.bad):
                verdicts[at[row]] = verdicts[at[row]] or reason
        for row in routed.counted.to_pylist():
            left[row] = "unrouted"
        for dead in routed.dead.to_pylist():
            verdicts[at[dead["index"]]] = dead["reason"]
        for row, place in enumerate(at):
            if not targets[place] and verdicts[place] is None:
                verdicts[place] = left[row]


def _may_go_to(name: str, of_types: pa.StringArray) -> pa.BooleanArray:
    """Which dead letters of these types may go to a table."""
    return pc.fill_null(pc.equal(of_types, name), True)
