"""The columns of a manifest: what a task of a round says of the files that it staged, and of what it saw.

first_offset: of a file, else the first one of its partition that the task read. ended: JSON: where the partition's
reading ended in the task, and the ids without a decision in its range. met: JSON: keys of the schemas of an event type.
times: JSON: event type -> greatest time, of the partition (executor/times.py).
unwritten: why files of an event type could not be written; without one, why the storage did not answer at all.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from exporter.arrow.spark_types import as_ddl
from exporter.core.writers import StagedFile
from offsets.ranges import TopicPartition

MANIFEST_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("event_type", pa.string()),
        ("path", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("rows", pa.int64()),
        ("size_bytes", pa.int64()),
        ("arrow_bytes", pa.int64()),
        ("stats", pa.string()),
        ("body", pa.binary()),
        ("counts", pa.string()),
        ("unwritten", pa.string()),
        ("seen", pa.string()),
        ("ended", pa.string()),
        ("met", pa.string()),
        ("times", pa.string()),
    ]
)
MANIFEST_DDL = as_ddl(MANIFEST_SCHEMA)
"""The same, for Spark."""


def file_row(name: str, tp: TopicPartition, file: StagedFile) -> dict[str, Any]:
    """What it says of a finished file."""
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "event_type": name,
        "path": file.path,
        "first_offset": file.offsets.first_offset,
        "last_offset": file.offsets.last_offset,
        "rows": file.rows,
        "size_bytes": file.size_bytes,
        "arrow_bytes": file.arrow_bytes,
        "stats": file.stats,
        "body": file.body or None,
    }
