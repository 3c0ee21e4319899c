"""The fast reader: pyarrow's JSON reader over a whole batch, believed only where it is proven.

    the batch   every value wrapped as {"v":value}, joined by a separator that no value can hold
    maps        pyarrow has none: it sees each map as an object with the fields that such maps have had
                (map_keys.py); where they have others, it passes over what is in it, and msgspec cuts out
                the keys and, as bytes, the values, which pyarrow then reads in a second parse as one list

To pass over a map's keys pyarrow has to pass over all unknown fields, so with maps it is msgspec
that proves each value to be one object without unknown ones. Keys that occur twice: pyarrow finds
them among fields, also within a map's values; among a map's keys they are counted here.
Runs on Spark executors. Must never give a row for a record that it cannot prove: it raises Unproven.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from exporter.formats.json.map_keys import MapKeys, as_objects
from exporter.formats.json.parts import every_member, members_of
from exporter.formats.json.shapes import List, Map, Node, Struct, nodes_of
from exporter.formats.json.specs import list_of, or_null
from exporter.formats.json.text import PARSE_ERRORS
from exporter.formats.json.values import Unproven


class WrappedReader:
    """Reads values as a struct array of the shape's reader type. Remembers keys of maps: speed, never a verdict."""

    def __init__(self, root: Struct) -> None:
        self._root = root
        self._cut: Any = None
        kind = root.reader
        if any(isinstance(node, Map) and not node.entries for node in nodes_of(root)):
            self._cut = msgspec.json.Decoder(_cut_spec(root)).decode
            kind = as_objects(root, lambda node: pa.struct([]))
        self._keys = MapKeys(root)
        self._schema = pa.schema([pa.field("v", kind)])

    def read(self, values: pa.BinaryArray) -> pa.StructArray:
        """One row per value. Raises ArrowInvalid or Unproven if a value is in doubt."""
        if not len(values):
            return pa.array([], self._root.reader)
        document = _wrapped(values)
        if self._cut is None:
            return _read(document, len(values), self._schema, "error")
        if self._keys.fit(values, document):
            try:
                return self._keys.entries(_read(document, len(values), self._keys.schema, "error"))
            except (pa.ArrowInvalid, Unproven):
                pass  # there may be other keys; if not, it is refused below
        cut = self._cut
        try:
            records = [cut(raw) for raw in values.to_pylist()]
        except PARSE_ERRORS as error:
            raise Unproven from error
        found = _fill_struct(self._root, _read(document, len(values), self._schema, "ignore"), records)
        self._keys.learn(found)
        return found


def _cut_spec(node: Node) -> Any:
    """msgspec's type that refuses unknown fields, and leaves maps and all values as they are."""
    if isinstance(node, Struct):
        fields = [(f"f{i}", or_null(_cut_spec(c.node)), None) for i, c in enumerate(node.children.values())]
        names = {f"f{i}": name for i, name in enumerate(node.children)}
        return msgspec.defstruct("Cut", fields, rename=names, forbid_unknown_fields=True, gc=False)
    if isinstance(node, List) and any(isinstance(below, Struct) for below in nodes_of(node)):
        return list_of(or_null(_cut_spec(node.item.node)))
    return msgspec.Raw


def _fill_struct(node: Struct, parsed: pa.StructArray, records: list[Any]) -> pa.StructArray:
    """The reader's struct array with its hollow maps filled from what msgspec cut out."""
    columns, changed = [], False
    for i, child in enumerate(node.children.values()):
        column = parsed.field(i)
        if any(isinstance(below, Map) for below in nodes_of(child.node)):
            name, changed = f"f{i}", True
            below = [None if record is None else getattr(record, name) for record in records]
            if isinstance(child.node, Map):
                column = _fill_map(child.node, column, below)
            elif isinstance(child.node, Struct):
                column = _fill_struct(child.node, column, below)
        columns.append(column)
    if not changed:
        return parsed
    return pa.StructArray.from_arrays(columns, fields=list(node.reader), mask=parsed.is_null())


def _fill_map(node: Map, hollow: pa.StructArray, texts: list[msgspec.Raw | None]) -> pa.ListArray:
    """The entries of one map column, as the node's reader type."""
    try:
        maps = [_entries(text) for text in texts]
    except PARSE_ERRORS as error:
        raise Unproven from error
    if hollow.null_count != maps.count(None):
        raise Unproven
    sizes = pa.array([len(entries) if entries else 0 for entries in maps], pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(sizes)])
    keys = pa.array(list(chain.from_iterable(entries for entries in maps if entries)), pa.string())
    values = _read_list(node.item.node.reader, [raw for entries in maps if entries for raw in entries.values()])
    entries = pa.StructArray.from_arrays([keys, values], fields=list(node.reader.value_type))
    return pa.ListArray.from_arrays(offsets, entries, type=node.reader, mask=hollow.is_null())


def _entries(text: msgspec.Raw | None) -> dict[str, msgspec.Raw] | None:
    """The keys of a map in order and, as sent, their values; None for null. Raises Unproven if a key occurs twice.

    Each key has a colon: no more colons than different keys, then no key occurs twice. Else they are counted.
    """
    raw = b"null" if text is None else bytes(text)
    if raw == b"null":
        return None
    found: dict[str, msgspec.Raw] = members_of(raw)
    if raw.count(b":") > len(found) < len(every_member(raw)):
        raise Unproven
    return {key: found[key] for key in sorted(found)}


def _read_list(kind: pa.DataType, raws: list[msgspec.Raw]) -> pa.Array:
    """JSON values, each proven to be one, as an array. Raises ArrowInvalid or Unproven. UTF-8 is checked before."""
    if not raws:
        return pa.array([], kind)
    schema = pa.schema([pa.field("v", pa.list_(kind))])
    table = _parsed(pa.py_buffer(b'{"v":[' + b",".join(raws) + b"]}"), schema, "error")
    column = table.column(0)
    if table.num_rows != 1 or table.num_columns != 1 or column.num_chunks != 1:
        raise Unproven
    table.validate(full=True)
    values = column.chunk(0).flatten()
    if len(values) != len(raws):
        raise Unproven
    return values


def _parsed(document: pa.Buffer, schema: pa.Schema, unknown: str) -> pa.Table:
    """One parse in one block, by an explicit schema."""
    return pj.read_json(
        pa.BufferReader(document),
        read_options=pj.ReadOptions(use_threads=False, block_size=document.size + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unknown),
    )


def _wrapped(values: pa.BinaryArray) -> pa.Buffer:
    """All values in one text, each as {"v":value}. UTF-8 is checked here because the reader does not: ArrowInvalid.

    `}` newline `{` can stand neither in a string nor in an object, so each separator ends a
    document: there are at least as many rows as values, and exactly as many only if each value is
    one document.
    """
    edge = pa.array([b""], pa.binary())
    parts = pa.concat_arrays([edge, values, edge])
    values.view(pa.string()).validate(full=True)
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(parts)], parts), b'}\n{"v":')[0].as_buffer()
    return joined.slice(2, joined.size - 2 - len(b'{"v":'))


def _read(document: pa.Buffer, rows: int, schema: pa.Schema, unknown: str) -> pa.StructArray:
    """What _wrapped made of so many values, in one parse; unknown: error or ignore. Raises ArrowInvalid or Unproven."""
    table = _parsed(document, schema, unknown)
    if table.num_rows != rows or table.num_columns != 1:
        raise Unproven
    table.validate(full=True)
    column = table.column(0)
    if column.num_chunks != 1 or column.null_count:
        raise Unproven
    return column.chunk(0)
