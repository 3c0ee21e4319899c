"""What the rules of configurations make of each record, told in one pass over the records of the topics.

    event type ── renames, matches, unrouted ── the tables that take it
    value ── the filter of each of them ── whether it keeps the record

Rows in, the same rows with one column more out, in Spark's workers. Knows no driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas
from exporter.operate.audit.expected.expected import by_spark
from exporter.operate.audit.readers.reading import NOTHING, Readings
from exporter.operate.audit.rules.filters import Filter, sifts
from exporter.operate.audit.rules.routes import Routes
from exporter.operate.audit.rules.sent import Documents, record_of
from offsets.ranges import TopicPartition

TAKER_DDL = "struct<code: int, expected: int>"
"""One table that takes a record, or what stands for none. expected: what must become of a good record there."""
RULED_DDL = f"array<array<{TAKER_DDL}>>"
"""The takers, by the index of a configuration; null of one that was not asked for."""
_LIKE_JSON = re.compile(r"[-0-9\[{]|true$|false$")
"""An event type that may be no text in the value: Spark's reader gives the text of anything."""
_RULED = pa.list_(pa.list_(pa.struct([("code", pa.int32()), ("expected", pa.int32())])))


def ruling(
    routings: Sequence[Routing],
    codes: Mapping[str, int],
    schemas: Mapping[str, KnownSchemas],
    bytes_max: int,
    replayed: Mapping[TopicPartition, int] = NOTHING,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of mapInArrow. codes: event type -> code. Of each row the column `asked` says by which
    configurations: their index, and the event type that the record has by it.

    schemas: by the name of a registry. bytes_max: longer values are not looked at. replayed: as in Reading.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ruler = _Ruler(routings, codes, Documents(routings, Readings(schemas, replayed), bytes_max))
        for batch in batches:
            ruled = pa.array(ruler.ruled(batch), _RULED)
            yield pa.RecordBatch.from_arrays([*batch.columns, ruled], names=[*batch.schema.names, "ruled"])

    return run


class _Ruler:
    """By each configuration."""

    def __init__(self, routings: Sequence[Routing], codes: Mapping[str, int], documents: Documents) -> None:
        self._documents = documents
        self._routings = routings
        self._routes = [Routes(one, codes) for one in routings]
        self._filters = {
            (number, codes[name]): Filter(shape, codes[name])
            for number, routing in enumerate(routings)
            for name, shape in routing.shapes
            if sifts(shape)
        }

    def ruled(self, batch: pa.RecordBatch) -> list[list[list[dict[str, int]] | None]]:
        """For each row one entry for each configuration."""
        found: list[list[list[dict[str, int]] | None]] = []
        sifting: dict[tuple[int, int], list[tuple[int, dict[str, int]]]] = {}
        for row, asked in enumerate(batch.column("asked").to_pylist()):
            entries: list[list[dict[str, int]] | None] = [None] * len(self._routes)
            for number, name in ((one["routing"], one["event_type"]) for one in asked):
                if number is None:
                    continue
                said = self._said(batch, row, number, name)
                takers = [{"code": code, "expected": code} for code in self._routes[number].takers(said)]
                entries[number] = takers
                for one in takers:
                    if (number, one["code"]) in self._filters:
                        sifting.setdefault((number, one["code"]), []).append((row, one))
            found.append(entries)
        self._sift(batch, sifting)
        return found

    def _said(self, batch: pa.RecordBatch, row: int, number: int, name: str | None) -> str | None:
        """The event type of a record; None if what Spark has read is no text in the value."""
        routing = self._routings[number]
        if name is None or routing.type_from.kind != "json" or not _LIKE_JSON.match(name):
            return name
        record = record_of(batch, row)
        if not by_spark(routing.format_of(record["topic"])):
            return name
        return self._documents.text_at(number, record, routing.type_from.name)

    def _sift(
        self, batch: pa.RecordBatch, sifting: Mapping[tuple[int, int], Sequence[tuple[int, dict[str, int]]]]
    ) -> None:
        """What filters make of those records that they see. sifting: (row, taker) by configuration and table."""
        read: dict[tuple[int, int], tuple[Mapping[str, Any], Any]] = {}
        for (number, code), some in sifting.items():
            for row, _ in some:
                if (number, row) not in read:
                    record = record_of(batch, row)
                    read[number, row] = record, self._documents.of(number, record)
            records, documents = zip(*(read[number, row] for row, _ in some), strict=True)
            judged = self._filters[number, code].judged(documents, records)
            for (_, one), expected in zip(some, judged, strict=True):
                one["expected"] = expected
