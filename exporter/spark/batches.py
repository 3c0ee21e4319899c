"""How much Spark hands to a task of rows at once, as one Arrow batch: so many, and only so many bytes."""

from __future__ import annotations

BATCH_RECORDS = 50_000
BATCH_BYTES = 32 << 20
SIZES = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_RECORDS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
}
"""Options of a session."""
