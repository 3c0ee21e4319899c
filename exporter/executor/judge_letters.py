"""What becomes of dead letters under another configuration, by the exporter's own decoding. Runs on Spark executors.

    batch of dead letters -> route -> decode -> the same batch with `target` or `verdict`

A row's verdict depends on that row and the routing configuration alone (ROUTE), so that what is fed is exactly what
the exporter would have written. Nothing is staged here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from exporter.arrow.own_columns import RECORD_FIELDS
from exporter.arrow.spark_types import as_ddl
from exporter.core.routing import Routing
from exporter.executor.route import Router
from exporter.formats.decoder import Decoder

RECORD = pa.schema([*RECORD_FIELDS, ("epoch", pa.int32())])
"""A dead letter as Spark's Kafka source would give the record, and the epoch that it was read in. In this order, by
which alone mapInArrow knows them; a join changes it."""
JUDGED_DDL = as_ddl([*RECORD, pa.field("target", pa.string()), pa.field("verdict", pa.string())])
"""target: event type whose table gets the row, else null. verdict: why it stays a dead letter, else null."""


def judge(routing: Routing, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow."""
    router, decoders = Router(routing), dict[str, Decoder]()
    for batch in batches:
        if batch.num_rows:
            yield _judged(routing, router, decoders, batch)


def _judged(routing: Routing, router: Router, decoders: dict[str, Decoder], batch: pa.RecordBatch) -> pa.RecordBatch:
    targets: list[str | None] = [None] * batch.num_rows
    verdicts: list[str | None] = [None] * batch.num_rows
    routed = router.route(batch)
    for name, rows in routed.groups.items():
        if name not in decoders:
            decoders[name] = Decoder.of(name, routing)
        at = rows.to_pylist()
        decoded = decoders[name].decode(batch.column("value").take(rows), batch.column("timestamp").take(rows))
        for index in decoded.good.to_pylist():
            targets[at[index]] = name
        for index, _, reason in decoded.bad:
            verdicts[at[index]] = reason
    for dead in routed.dead.to_pylist():
        verdicts[dead["index"]] = dead["reason"]
    columns = [*batch.columns, pa.array(targets, pa.string()), pa.array(verdicts, pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "target", "verdict"])
