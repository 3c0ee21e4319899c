"""Which event type each record of a batch belongs to (ROUTE). Runs on Spark executors.

Pure: the answer for a record depends on that record and the routing configuration,
never on its neighbours. It judges no more of a value than its event type needs;
formats/decoder.py does the rest. The good path makes no Python object per record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import KEPT_BYTES, VALUE_BYTES
from exporter.core.routing import Routing
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas
from exporter.core.shapes import COUNT, renamed
from exporter.formats.format import Peek
from exporter.formats.formats import format_of
from exporter.formats.named_by_headers import last_header
from exporter.text import shorten

NO_ROWS = pa.array([], pa.int32())
TYPES_KEPT = 10_000
"""Event types of which a router remembers where they go; those of garbage may be as many as records."""
_COUNTED = ""
"""No type is called so."""
DEAD_SCHEMA = pa.schema(
    [
        pa.field("index", pa.int32(), nullable=False),
        pa.field("event_type", pa.string()),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Routed:
    """A routed batch: each row is in a group or several, in `dead`, or in `counted`.

    event_types: string per row, renamed, null = cannot be determined. groups: event type of the table -> ascending
    int32 row indices, only types that have rows, in order of first appearance. dead: a
    RecordBatch of DEAD_SCHEMA, ascending by index; `stage` is size or route. counted: rows that no table takes.
    """

    event_types: pa.StringArray
    groups: dict[str, pa.Int32Array]
    dead: pa.RecordBatch
    counted: pa.Int32Array

    def without(self, barred: Mapping[int, str]) -> Routed:
        """The same, but the rows of `barred` are dead for the reason given there, whatever else is wrong with them."""
        if not barred:
            return self
        rows = pa.array(sorted(barred), pa.int32())
        groups = {name: found.filter(pc.invert(pc.is_in(found, rows))) for name, found in self.groups.items()}
        names = self.event_types.take(rows).to_pylist()
        dead = [row for row in self.dead.to_pylist() if row["index"] not in barred]
        dead += [
            {"index": row, "event_type": name, "stage": "route", "reason": barred[row]}
            for row, name in zip(rows.to_pylist(), names, strict=True)
        ]
        dead.sort(key=lambda row: row["index"])
        live = {name: found for name, found in groups.items() if len(found)}
        counted = self.counted.filter(pc.invert(pc.is_in(self.counted, rows)))
        return Routed(self.event_types, live, pa.RecordBatch.from_pylist(dead, schema=DEAD_SCHEMA), counted)


class Router:
    """Routes batches of Kafka records; holds no state between batches."""

    def __init__(self, routing: Routing, topic: str = "", schemas: KnownSchemas = NO_SCHEMAS) -> None:
        """topic: that the batches are of. schemas: what is decided of schema ids."""
        self._routing = routing
        self._from = routing.type_from
        self._destinations = lru_cache(TYPES_KEPT)(self._found_destinations)
        self._renamed = lru_cache(TYPES_KEPT)(lambda name: renamed(routing.renames, name))
        self._peek: Peek | None = None
        if self._from.kind in ("json", "schema", "source"):
            self._peek = format_of(routing.format_of(topic), schemas).peek(self._from)

    def route(self, batch: pa.RecordBatch) -> Routed:
        """Route a batch with the columns of Spark's Kafka source (headers optional)."""
        values = batch.column("value")
        sizes = pc.binary_length(values)
        kept = batch.column(KEPT_BYTES) if KEPT_BYTES in batch.schema.names else sizes
        if VALUE_BYTES in batch.schema.names:
            sizes = pc.coalesce(batch.column(VALUE_BYTES), sizes.cast(pa.int64()))
        long = pc.fill_null(pc.greater(sizes, self._routing.record_bytes_max), False)
        types, reasons = self._types(batch, values, long)
        if self._routing.renames:
            sent = types.dictionary_encode()
            names = [self._renamed(name) for name in sent.dictionary.to_pylist()]
            types = pa.array(names, pa.string()).take(sent.indices)
        groups, live = self._groups(types, pc.or_(long, values.is_null()))
        counted = groups.pop(_COUNTED, NO_ROWS)
        dead_rows = pc.indices_nonzero(pc.invert(live)).to_pylist()
        return Routed(types, groups, self._dead(dead_rows, types, values, (sizes, kept), reasons), counted)

    def _types(
        self, batch: pa.RecordBatch, values: pa.BinaryArray, long: pa.BooleanArray
    ) -> tuple[pa.StringArray, dict[int, str]]:
        """Event type per row, and the reason for rows where it is null and not obvious."""
        if self._peek is not None:
            return self._peek.types(values, long)
        reasons: dict[int, str] = {}
        if self._from.kind == "topic":
            types = batch.column("topic").cast(pa.string())
        elif self._from.kind == "key":
            types, reasons = _utf8(batch.column("key"), "the key")
        else:
            told = last_header(batch.column("headers"), self._from.name) if "headers" in batch.schema.names else None
            told = pa.nulls(batch.num_rows, pa.binary()) if told is None else told
            types, reasons = _utf8(told, f"the header {self._from.name!r}")
        return pc.if_else(pc.equal(types, ""), None, types), reasons

    def _groups(
        self, types: pa.StringArray, unusable: pa.BooleanArray
    ) -> tuple[dict[str, pa.Int32Array], pa.BooleanArray]:
        """Row indices per usable type, and which rows are in one of them."""
        usable = pc.if_else(unusable, None, types)
        encoded = usable.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        by_type = pc.array_sort_indices(encoded.indices).cast(pa.int32())  # stable; rows without a type come last
        parts: dict[str, list[pa.Int32Array]] = {}
        start = 0
        for name, rows in zip(names, _counts(encoded.indices, len(names)), strict=True):
            for destination in self._destinations(name):
                parts.setdefault(destination, []).append(by_type.slice(start, rows))
            start += rows
        groups = {name: _together(found) for name, found in parts.items()}
        live = pa.array([bool(self._destinations(name)) for name in names], pa.bool_()).take(encoded.indices)
        return groups, pc.fill_null(live, False)

    def _found_destinations(self, name: str) -> tuple[str, ...]:
        """The tables that take an event type; _COUNTED for one that is counted, nothing for a dead letter."""
        found = self._routing.taking(name) or self._routing.taking_unrouted
        return (_COUNTED,) if not found and self._routing.unrouted == COUNT else found

    def _dead(
        self,
        rows: list[int],
        types: pa.StringArray,
        values: pa.BinaryArray,
        lengths: tuple[pa.Array, pa.Array],
        reasons: dict[int, str],
    ) -> pa.RecordBatch:
        """One row of DEAD_SCHEMA per dead record. lengths: what was sent of each value, and what of it is there."""
        sizes, kept = lengths
        found: list[tuple[int, str | None, str, str]] = []
        limit = self._routing.record_bytes_max
        taken = types.take(pa.array(rows, pa.int32())).to_pylist()
        for row, name in zip(rows, taken, strict=True):
            value = values[row]
            if not value.is_valid:
                found.append((row, name, "route", "tombstone: the value is null"))
            elif (size := sizes[row].as_py()) > limit:
                found.append((row, name, "size", _too_long(size, limit, kept[row].as_py())))
            elif name is None:
                found.append((row, name, "route", reasons.get(row, self._no_type())))
            else:
                found.append((row, name, "route", self._unknown(name)))
        columns = [pa.array([dead[i] for dead in found], field.type) for i, field in enumerate(DEAD_SCHEMA)]
        return pa.RecordBatch.from_arrays(columns, schema=DEAD_SCHEMA)

    def _unknown(self, name: str) -> str:
        """The reason of a type that has no table."""
        if self._routing.new_type != "table":
            return f"unknown_type: {shorten(name)}"
        return f"bad_type_name: {shorten(self._routing.clash(name))}"

    def _no_type(self) -> str:
        where = "key" if self._from.kind == "key" else f"{self._from.kind} {self._from.name!r}"
        return f"no_type: the {where} is missing, null or empty"


def _too_long(size: int, limit: int, kept: int) -> str:
    cut = f", the first {kept} are kept" if kept < size else ""
    return f"too_long: {size} bytes, the limit is {limit}{cut}"


def _together(parts: list[pa.Int32Array]) -> pa.Int32Array:
    """Rows of several event types that have one destination, ascending."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_arrays(parts)
    return rows.take(pc.array_sort_indices(rows))


def _counts(codes: pa.Int32Array, most: int) -> list[int]:
    """How often each code from 0 to most - 1, of which none is missing, is there."""
    found = {one["values"]: one["counts"] for one in pc.value_counts(codes).to_pylist()}
    return [found[code] for code in range(most)]


def _utf8(values: pa.BinaryArray, what: str) -> tuple[pa.StringArray, dict[int, str]]:
    """Bytes as text; what is not UTF-8 becomes null with a reason."""
    try:
        return values.cast(pa.string()), {}
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        reasons: dict[int, str] = {}
        for row, raw in enumerate(values.to_pylist()):
            try:
                texts.append(None if raw is None else raw.decode())
            except UnicodeDecodeError as bad:
                texts.append(None)
                reasons[row] = f"not_utf8: byte {bad.start} of {what}"
        return pa.array(texts, pa.string()), reasons

