"""Whole contents compared in Spark's Python workers: rows of both sides in, what differs out. Knows no driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.operate.audit.contents.compare import Configured, Difference
from exporter.operate.audit.expected.expected import values_of

CONTENTS_DDL = (
    "code int, topic string, partition int, offset bigint, path string, in_topic string, in_table string, "
    "places int, compared bigint, skipped bigint"
)
"""Of a row that differs: where first, and at how many places. Of a task: compared and skipped rows."""
_COUNTED = pa.schema([
    ("code", pa.int32()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
    ("path", pa.string()), ("in_topic", pa.string()), ("in_table", pa.string()),
    ("places", pa.int32()), ("compared", pa.int64()), ("skipped", pa.int64()),
])  # fmt: skip


@dataclass(frozen=True)
class Table:
    """What workers need to know of a table. schema_json: Spark schema JSON."""

    name: str
    schema_json: str


def comparing(
    routings: tuple[Routing, ...], tables: Mapping[int, Table]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of mapInArrow."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known: dict[tuple[int, int], Configured] = {}
        compared = skipped = 0
        for batch in batches:
            differing = []
            for row in batch.to_pylist():
                if row["skipped"]:
                    skipped += 1
                    continue
                compared += 1
                places = _differences(row, known, routings, tables)
                if places:
                    at = {name: row[name] for name in ("code", "topic", "partition", "offset")}
                    differing.append({**at, **places[0]._asdict(), "places": len(places)})
            if differing:
                yield pa.RecordBatch.from_pylist(differing, schema=_COUNTED)
        yield pa.RecordBatch.from_pylist([{"compared": compared, "skipped": skipped}], schema=_COUNTED)

    return run


def _differences(
    row: Mapping[str, Any],
    known: dict[tuple[int, int], Configured],
    routings: tuple[Routing, ...],
    tables: Mapping[int, Table],
) -> list[Difference]:
    """Where a row differs by all of the configurations that may have written it; by the first of them, if so."""
    first: list[Difference] = []
    for number in row["routings"]:
        key = (row["code"], number)
        if key not in known:
            table = tables[row["code"]]
            known[key] = Configured.of(routings[number], table.name, table.schema_json)
        read = values_of(routings[number].value_format.kind).document
        found = known[key].differences(row["value"], row["held"], row["rescued"], row["at"], read)
        if not found:
            return []
        first = first or found
    return first
