"""Whole contents compared in Spark's Python workers: rows of both sides in, what differs out. Knows no driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas
from exporter.operate.audit.contents.compare import NOTHING_SURE, Configured, Difference
from exporter.operate.audit.expected.expected import by_spark
from exporter.operate.audit.readers.reader import Refused, Undecided
from exporter.operate.audit.readers.reading import NOTHING, Headers, Reading, Readings
from exporter.operate.audit.rules.computing import Computing
from exporter.operate.audit.rules.sent import Documents
from offsets.ranges import TopicPartition

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
    routings: tuple[Routing, ...],
    tables: Mapping[int, Table],
    schemas: Mapping[str, KnownSchemas],
    bytes_max: int,
    replayed: Mapping[TopicPartition, int] = NOTHING,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of mapInArrow. schemas: what is decided of the ids of each registry. bytes_max: longer values are
    not looked at. replayed: as in Reading."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known: dict[tuple[int, int], Configured] = {}
        readings = Readings(schemas, replayed)
        names = {code: one.name for code, one in tables.items()}
        computing = Computing(routings, names, Documents(routings, readings, bytes_max))
        compared = skipped = 0
        for batch in batches:
            differing = []
            rows = batch.to_pylist()
            computed = computing.of(rows) if is_computed(routings) else {}
            for place, row in enumerate(rows):
                made = {n: computed.get((place, n), NOTHING_SURE) for n in row["routings"]} if computed else {}
                places = None if row["skipped"] else _differences(row, known, routings, tables, readings, made)
                if places is None:
                    skipped += 1
                    continue
                compared += 1
                if places:
                    at = {name: row[name] for name in ("code", "topic", "partition", "offset")}
                    differing.append({**at, **places[0]._asdict(), "places": len(places)})
            if differing:
                yield pa.RecordBatch.from_pylist(differing, schema=_COUNTED)
        yield pa.RecordBatch.from_pylist([{"compared": compared, "skipped": skipped}], schema=_COUNTED)

    return run


def is_computed(routings: Sequence[Routing]) -> bool:
    """Whether columns of some type are computed, which takes more of their records than the values."""
    return any(shape.computed for one in routings for _, shape in one.shapes)


def _document(
    reading: Reading, is_earlier: bool, tp: TopicPartition, offset: int, headers: Headers, value: bytes
) -> Any:
    try:
        sent = reading.read(value, tp, offset, headers, is_row=True)
    except Refused as refused:
        if not is_earlier:
            raise
        raise Undecided("an earlier version may have taken it") from refused
    if not sent.comparable:
        raise Undecided
    return sent.document


def _differences(
    row: Mapping[str, Any],
    known: dict[tuple[int, int], Configured],
    routings: tuple[Routing, ...],
    tables: Mapping[int, Table],
    readings: Readings,
    computed: Mapping[int, Mapping[str, Any] | None],
) -> list[Difference] | None:
    """Where a row differs by all of the configurations that may have written it; by the first of them, if so.

    None if nothing can be said of its value by one of them. computed: by the index of a configuration.
    """
    first: list[Difference] = []
    tp = TopicPartition(row["topic"], row["partition"])
    for number in row["routings"]:
        key, routing = (row["code"], number), routings[number]
        if key not in known:
            table = tables[row["code"]]
            configured = Configured.of(routing, table.name, table.schema_json)
            by_sql = not by_spark(routing.format_of(tp.topic))  # which then compares all event times
            known[key] = replace(configured, time=None) if by_sql else configured
        reading = readings.of(routing.format_of(tp.topic), routing.registry)
        try:
            found = known[key].differences(
                row["value"], row["held"], row["rescued"], row["at"],
                partial(_document, reading, routing.is_earlier, tp, row["offset"], row["headers"]),
                computed.get(number, NOTHING_SURE),
            )  # fmt: skip
        except Undecided:
            return None
        if not found:
            return []
        first = first or found
    return first
