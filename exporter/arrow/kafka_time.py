"""Which Kafka timestamps a table can hold: those of the years 1 to 9999.

A producer that gives micro- or nanoseconds for milliseconds writes of the year 55,000 and later. Such a record is a
dead letter with its coordinates and its value; its `_kafka.timestamp` is null and its day is NO_DAY. And the columns
that the exact way to read a record (fetch/exact.py) has beside those of whole batches.
"""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

KAFKA_MS = "kafka_ms"
"""A column of who reads timestamps that microseconds do not hold: milliseconds since 1970, as Kafka has them."""
VALUE_BYTES = "value_bytes"
"""A column of who keeps only the first bytes of very long values (fetch/exact.py): how many there were; null
for others."""
TIMESTAMP_TYPE = "timestampType"
"""As Spark's source calls it: 0 where the producer gave the timestamp, 1 where the broker did."""
KEPT_BYTES = "kept_bytes"
"""A column of who reads values in another frame than they were sent in (formats/frames.py): how many are there."""
LEAST_US, MOST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
NO_DAY = date(1970, 1, 1)
"""The day of a dead letter without a timestamp that a table can hold: the same for whoever reads it, whenever."""
US = pa.timestamp("us", tz="UTC")


def held(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
    """The batch with null for each timestamp that no table can hold, and row -> the reason, for these.

    KAFKA_MS is taken out: where it is, what is null in `timestamp` is out of range.
    """
    names = batch.schema.names
    at, times = names.index("timestamp"), batch.column("timestamp").cast(US)
    micros = times.view(pa.int64())
    if KAFKA_MS in names:
        millis = batch.column(KAFKA_MS)
        out = pc.is_null(times)
        batch = batch.drop_columns([KAFKA_MS])
    else:
        ends = pc.min_max(micros)
        if not batch.num_rows or (ends["min"].as_py() >= LEAST_US and ends["max"].as_py() <= MOST_US):
            return batch, {}
        millis = pc.divide(micros, 1000)
        out = pc.or_(pc.less(micros, LEAST_US), pc.greater(micros, MOST_US))
    rows = pc.indices_nonzero(out)
    if not len(rows):
        return batch, {}
    reasons = zip(rows.to_pylist(), millis.take(rows).to_pylist(), strict=True)
    batch = batch.set_column(at, "timestamp", pc.if_else(out, pa.scalar(None, US), times))
    return batch, {row: f"kafka_timestamp_out_of_range: {ms} ms since 1970" for row, ms in reasons}
