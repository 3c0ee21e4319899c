"""Records whose schemas stand in frames or in headers, and what becomes of each: in a task, and in a replay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.arrow.own_columns import HEADERS_TYPE
from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas
from exporter.executor.framing import Framing
from exporter.executor.judge_dead_letters import judge
from exporter.executor.readers import TaskReaders
from exporter.formats.frames import Framed, read_values, readable, reframed
from offsets.ranges import TopicPartition
from tests.support.decoded_rows import rows_of, there
from tests.support.orders import order_of

TP = TopicPartition("t", 0)


def batch_of(
    values: Sequence[bytes | None], headers: Sequence[Sequence[tuple[str, bytes | None]]] | None = None
) -> pa.RecordBatch:
    """Records from offset 0 on."""
    count = len(values)
    told = headers and [[{"key": name, "value": value} for name, value in one] for one in headers]
    return pa.record_batch({
        "key": pa.nulls(count, pa.binary()), "value": pa.array(values, pa.binary()),
        "topic": pa.array(["t"] * count), "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()), "timestamp": pa.array([1_741_608_000_000_000] * count, US),
        "headers": pa.array(told or [None] * count, HEADERS_TYPE),
    })  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What becomes of one record: `type` and `document`, of columns and `_rescued`, of a row; else the reason."""

    type: str = ""
    document: Any = None
    reason: str = ""

    @property
    def code(self) -> str:
        return self.reason.partition(":")[0]


def read_all(batch: pa.RecordBatch, routing: Routing, known: KnownSchemas) -> dict[int, Verdict]:
    """Offset -> verdict, by what stages records; nothing of what waits."""
    readers = TaskReaders(order_of("", routing, {}, schemas=known))
    found: dict[int, Verdict] = {}
    for part, frames in Framing(lambda _: routing.value_format, known).cut(batch, TP):
        if part.num_rows and frames is not None:
            found |= _read(part, frames, readers)
    return found


def _read(part: pa.RecordBatch, frames: Framed, readers: TaskReaders) -> dict[int, Verdict]:
    offsets, found = part.column("offset").to_pylist(), dict[int, Verdict]()
    routed = readers.router("t").route(readable(reframed(part, frames), frames)).without(frames.unknown)
    for row in routed.dead.to_pylist():
        found[offsets[row["index"]]] = Verdict(reason=row["reason"])
    for name, rows in routed.groups.items():
        values, times = read_values(part, frames).take(rows), part.column("timestamp").take(rows)
        decoded = readers.decoder(name, "t").decode(values, times)
        for row, one in zip(rows.to_pylist(), rows_of(decoded, "_event_time"), strict=True):
            found[offsets[row]] = Verdict(reason=one) if isinstance(one, str) else Verdict(name, _document(one))
    return found


def _document(row: dict[str, Any]) -> dict[str, Any]:
    rest = row.pop("_rescued")
    row.pop("_cdc", None)
    return {**there(row), **json.loads(rest or "{}")}


def judged(batch: pa.RecordBatch, routing: Routing, known: KnownSchemas) -> list[Any]:
    """What a replay makes of records that were dead letters."""
    dead_letters = batch.append_column("epoch", pa.array([0] * batch.num_rows, pa.int32()))
    dead_letters = dead_letters.append_column("of_type", pa.nulls(batch.num_rows, pa.string()))
    (found,) = judge(routing, known.texts, iter([dead_letters]))
    return list(found.column("targets").to_pylist())
