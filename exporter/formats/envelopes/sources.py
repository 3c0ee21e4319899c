"""Where and when changes were made, of envelopes whose values say their types. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.years import US_FIRST, US_LAST
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.change import cdc_of
from exporter.formats.envelopes.debezium import OPS, TIMES, Debezium
from exporter.formats.envelopes.unavailable import sends_flags


class Changes(NamedTuple):
    """names: of sources. ts: microseconds. All may be null. beyond: the rows whose time no table holds."""

    names: pa.StringArray
    ts: pa.Int64Array
    positions: pa.StringArray
    beyond: Sequence[int]

    def array(self, ops: pa.StringArray) -> pa.StructArray:
        """`_cdc` of records with these ops, without keys; of others than `OPS` it has none."""
        told = pa.array(list(OPS.values())).take(pc.index_in(ops, pa.array(list(OPS))))
        return cdc_of(told, self.ts, self.names, self.positions)


class SourceTexts:
    """Reads them of records of one type."""

    def __init__(self, record: pa.StructType, envelope: Debezium) -> None:
        """record: the envelope's type. Raises BadEnvelope where its source is no object."""
        at = record.get_field_index("source")
        source = record.field(at).type if at >= 0 else pa.struct([])
        if not pa.types.is_struct(source):
            raise DeadLetter(f"bad_envelope: $.source is {source}, not an object")
        self._source = source
        self._texts = [_path(source, name, pa.types.is_string) for name in envelope.names]
        self._times = [
            (_path(source if holder else record, name, pa.types.is_integer, holder), unit)
            for holder, name, unit in TIMES
        ]
        self._positions = [
            (_path(source, member, _in_position), [_path(source, name, _in_position) for name in names])
            for member, names in envelope.positions
        ]
        texts = {field.name for field in source if pa.types.is_string(field.type)}
        self._senders = [["source", name] if name in texts else None for name in ("connector", "version")]
        self._gtid = _path(source, "gtid", pa.types.is_string)

    def names(self, record: pa.StructArray) -> pa.StringArray:
        """The source of each record, null where it names none."""
        parts = [_at(record, path, pa.string()) for path in self._texts]
        parts = [pc.if_else(pc.equal(part, ""), None, part) for part in parts]
        return pc.binary_join_element_wise(pc.coalesce(*parts[:-1]), parts[-1], ".")

    def flags(self, record: pa.StructArray) -> list[bool]:
        """Whether 28 times true may stand for an array, in each record."""
        sides = [[None] * len(record) if path is None else pc.struct_field(record, path).to_pylist()
                 for path in self._senders]  # fmt: skip
        return [sends_flags(connector, version) for connector, version in zip(*sides, strict=True)]

    def plain(self, record: pa.StructArray) -> pa.StructArray:
        """The sources with nothing but their texts and integers."""
        told = [field.name for field in self._source if _in_position(field.type)]
        columns = [pc.struct_field(record, ["source", name]) for name in told]
        return pa.table(columns, told).to_struct_array().combine_chunks() if told else pa.nulls(len(record))

    def changes(self, record: pa.StructArray) -> Changes:
        """What is told of each record."""
        micros, beyond = self._moments(record)
        return Changes(self.names(record), micros, self._places(record), beyond)

    def _moments(self, record: pa.StructArray) -> tuple[pa.Int64Array, list[int]]:
        micros, found = pa.nulls(len(record), pa.int64()), list[int]()
        for path, unit in self._times:
            if path is None or not micros.null_count:
                continue
            sent = _at(record, path, pa.int64())
            outside = _outside(sent, unit)
            found += pc.indices_nonzero(pc.and_(micros.is_null(), outside)).to_pylist()
            micros = pc.coalesce(micros, pc.multiply(pc.if_else(outside, 0, sent), unit))
        return micros, found

    def _places(self, record: pa.StructArray) -> pa.StringArray:
        """The position of each record in its source."""
        found = pa.nulls(len(record), pa.string())
        for needed, group in self._positions:
            if needed is None or not found.null_count:
                continue
            told = _by_colons([_at(record, path, pa.string()) for path in group if path is not None])
            found = pc.coalesce(found, pc.if_else(pc.struct_field(record, needed).is_valid(), told, None))
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
    """The path of a field of a record; None if it has none. Raises DeadLetter if it is of another type."""
    at = holder.get_field_index(name)
    path = [above, name] if above else [name]
    if at < 0 or pa.types.is_null(holder.field(at).type):
        return None
    if not fits(holder.field(at).type):
        raise DeadLetter(f"bad_envelope: $.{'.'.join(path)} is {holder.field(at).type}")
    return path


def _at(record: pa.StructArray, path: Sequence[str] | None, kind: pa.DataType) -> pa.Array:
    """What stands at a path, as another type."""
    return pa.nulls(len(record), kind) if path is None else pc.struct_field(record, list(path)).cast(kind)


def _outside(sent: pa.Int64Array, unit: int) -> pa.BooleanArray:
    """Whether a moment in so many microseconds is one that no table holds."""
    low, high = -(-US_FIRST // unit), US_LAST // unit
    return pc.fill_null(pc.or_(pc.less(sent, low), pc.greater(sent, high)), False)
