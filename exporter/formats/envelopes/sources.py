"""Where and when changes were made, of envelopes whose values say their types. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from exporter.arrow.own_columns import CDC_TYPE
from exporter.arrow.years import US_FIRST, US_LAST
from exporter.formats.envelopes.debezium import MONGO_POSITION, OPS, POSITIONS, TIMES
from exporter.formats.envelopes.unavailable import sends_flags


class BadEnvelope(Exception):
    """No record of a writer is an envelope; the text is the reason."""


class Changes(NamedTuple):
    """names: of sources. ts: microseconds. All may be null."""

    names: pa.StringArray
    ts: pa.Int64Array
    positions: pa.StringArray

    def array(self, ops: pa.StringArray) -> pa.StructArray:
        """`_cdc` of records with these ops, without keys; of others than `OPS` it has none."""
        told = pa.array(list(OPS.values())).take(pc.index_in(ops, pa.array(list(OPS))))
        sides = [told, self.ts.cast(US), self.names, pa.nulls(len(ops), pa.string()), self.positions]
        return pa.StructArray.from_arrays(sides, fields=list(CDC_TYPE))


class SourceTexts:
    """Reads them of records of one type."""

    def __init__(self, record: pa.StructType, mongo: bool) -> None:
        """Raises BadEnvelope."""
        at = record.get_field_index("source")
        source = record.field(at).type if at >= 0 else pa.struct([])
        if not pa.types.is_struct(source):
            raise BadEnvelope(f"bad_envelope: $.source is {source}, not an object")
        self._mongo = mongo
        self._texts = [
            _path(source, name, pa.types.is_string)
            for name in (("db", "collection") if mongo else ("schema", "db", "table"))
        ]
        self._times = [
            (_path(source if holder else record, name, pa.types.is_integer, holder), unit)
            for holder, name, unit in TIMES
        ]
        groups = (MONGO_POSITION,) if mongo else POSITIONS
        self._positions = [[_path(source, name, _in_position) for name in names] for names in groups]
        texts = {field.name for field in source if pa.types.is_string(field.type)}
        self._senders = [["source", name] if name in texts else None for name in ("connector", "version")]
        self._gtid = _path(source, "gtid", pa.types.is_string)

    def names(self, record: pa.StructArray) -> pa.StringArray:
        """The source of each record, null where it names none."""
        parts = [_at(record, path, pa.string()) for path in self._texts]
        parts = [pc.if_else(pc.equal(part, ""), None, part) for part in parts]
        first = parts[0] if self._mongo else pc.coalesce(parts[0], parts[1])
        return pc.binary_join_element_wise(first, parts[-1], ".")

    def flags(self, record: pa.StructArray) -> list[bool]:
        """Whether 28 times true may stand for an array, in each record."""
        sides = [[None] * len(record) if path is None else pc.struct_field(record, path).to_pylist()
                 for path in self._senders]  # fmt: skip
        return [sends_flags(connector, version) for connector, version in zip(*sides, strict=True)]

    def changes(self, record: pa.StructArray, bad: dict[int, str]) -> Changes:
        """bad: gets those whose time no table holds."""
        return Changes(self.names(record), self._moments(record, bad), self._places(record))

    def _moments(self, record: pa.StructArray, bad: dict[int, str]) -> pa.Int64Array:
        micros = pa.nulls(len(record), pa.int64())
        for path, unit in self._times:
            if path is None or not micros.null_count:
                continue
            sent = _at(record, path, pa.int64())
            beyond = pc.and_(micros.is_null(), _outside(sent, unit))
            for row in pc.indices_nonzero(beyond).to_pylist():
                bad.setdefault(row, f"bad_envelope: $.{'.'.join(path)} lies outside the years 1 to 9999 in UTC")
            safe = pc.if_else(_outside(sent, unit), 0, sent)
            micros = pc.coalesce(micros, pc.multiply(safe, unit))
        return micros

    def _places(self, record: pa.StructArray) -> pa.StringArray:
        """The position of each record in its source."""
        found = pa.nulls(len(record), pa.string())
        for group in self._positions:
            if group[0] is None or not found.null_count:
                continue
            parts = [_at(record, path, pa.string()) for path in group if path is not None]
            told = _by_colons(parts[::-1] if self._mongo else parts)
            found = pc.coalesce(found, pc.if_else(parts[0].is_valid(), told, None))
        gtid = _at(record, self._gtid, pa.string())
        more = pc.binary_join_element_wise(found, pc.if_else(pc.equal(gtid, ""), None, gtid), "@")
        return pc.coalesce(more, found)


def _by_colons(parts: Sequence[pa.StringArray]) -> pa.StringArray:
    """What is there of some texts, by colons. (To skip nulls as it joins, pyarrow 26 drops rows of nulls only.)"""
    whole, *rest = parts
    for part in rest:
        whole = pc.coalesce(pc.binary_join_element_wise(whole, part, ":"), whole, part)
    return whole


def _in_position(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))


def _path(
    holder: pa.StructType, name: str, fits: Callable[[pa.DataType], bool], above: str = "source"
) -> Sequence[str] | None:
    """The path of a field of a record; None if it has none. Raises BadEnvelope if it is of another type."""
    at = holder.get_field_index(name)
    path = [above, name] if above else [name]
    if at < 0 or pa.types.is_null(holder.field(at).type):
        return None
    if not fits(holder.field(at).type):
        raise BadEnvelope(f"bad_envelope: $.{'.'.join(path)} is {holder.field(at).type}")
    return path


def _at(record: pa.StructArray, path: Sequence[str] | None, kind: pa.DataType) -> pa.Array:
    """What stands at a path, as another type."""
    return pa.nulls(len(record), kind) if path is None else pc.struct_field(record, list(path)).cast(kind)


def _outside(sent: pa.Int64Array, unit: int) -> pa.BooleanArray:
    """Whether a moment in so many microseconds is one that no table holds."""
    low, high = -(-US_FIRST // unit), US_LAST // unit
    return pc.fill_null(pc.or_(pc.less(sent, low), pc.greater(sent, high)), False)
