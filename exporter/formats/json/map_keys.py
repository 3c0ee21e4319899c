"""The keys that the maps of a shape have had: with them the reader can take a map for an object of known fields.

That way a map costs no Python step per record (wrapped.py). Fields that are null and fields that are missing look
alike to the reader, the entries of a map do not: values that may hold an entry with null are left to the other way.
Entries come in the order of their keys, so that no record's row depends on its neighbours.
Runs on Spark executors. Knows shapes, no records; what it remembers is speed, never a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import numbered
from exporter.formats.json.shapes import Map, Node, Struct, nodes_of

KEYS_MAX = 64
"""Different keys of all maps together beyond which they are taken for data, not for names."""
KEYS_TEXT_MAX = 4_096
"""Characters of all of them, likewise. A pattern of much longer ones is refused by Arrow's engine (RE2)."""

_NULL = b"null"
_PLAIN = re.compile(r'[^\x00-\x1f"\\]*')
_BLANKS = r"[ \t\r\n]*"
_ESCAPED_KEY = r'\\.[^"\\]*"'
"""The end of a key from its last escape on. Such a key may be any of the known ones."""


class MapKeys:
    """The known keys of all maps of one shape. schema: one column `v` with maps as objects; None: no key is known."""

    def __init__(self, root: Struct) -> None:
        self._root = root
        self._keys: dict[int, list[str]] = {id(node): [] for node in nodes_of(root) if isinstance(node, Map)}
        self._are_data = False
        self._null_entry = ""
        self.schema: pa.Schema | None = None

    def fit(self, values: pa.BinaryArray, document: pa.Buffer) -> bool:
        """Whether these values, which the document holds, may be read by `schema`: no entry of a map can be null."""
        if self.schema is None:
            return False
        if document.to_pybytes().find(_NULL) < 0:
            return True
        return not pc.any(pc.match_substring_regex(values, self._null_entry)).as_py()

    def learn(self, read: pa.StructArray) -> None:
        """Note the keys of what was read otherwise."""
        if self._are_data:
            return
        before = self._count()
        for node, column in _maps(self._root, read):
            found = pc.unique(column.values.field(0)).to_pylist()
            self._keys[id(node)] = sorted({*self._keys[id(node)], *found})
        every = {key for keys in self._keys.values() for key in keys}
        many = self._count() > KEYS_MAX or sum(map(len, every)) > KEYS_TEXT_MAX
        if many or not all(map(_PLAIN.fullmatch, every)):
            self._are_data, self.schema = True, None
        elif self._count() > before:
            self.schema = pa.schema([pa.field("v", as_objects(self._root, self._fields))])
            names = "|".join(map(re.escape, sorted(every)))
            self._null_entry = rf'(?s:"(?:{names})"|{_ESCAPED_KEY}){_BLANKS}:{_BLANKS}null'

    def _count(self) -> int:
        return sum(map(len, self._keys.values()))

    def entries(self, read: pa.StructArray) -> pa.StructArray:
        """What was read by `schema`, as the shape's reader type."""
        return self._with_entries(self._root, read)

    def _fields(self, node: Map) -> pa.DataType:
        return pa.struct([pa.field(key, node.item.node.reader) for key in self._keys[id(node)]])

    def _with_entries(self, node: Struct, read: pa.StructArray) -> pa.StructArray:
        columns = []
        for i, child in enumerate(node.children.values()):
            column = read.field(i)
            if isinstance(child.node, Map):
                column = _entries(child.node, column, self._keys[id(child.node)])
            elif isinstance(child.node, Struct):
                column = self._with_entries(child.node, column)
            columns.append(column)
        return pa.StructArray.from_arrays(columns, fields=list(node.reader), mask=read.is_null())


def as_objects(node: Struct, fields: Callable[[Map], pa.DataType]) -> pa.DataType:
    """The reader's type with maps as objects. Maps stand below structs only, none in another."""

    def kind(below: Node) -> pa.DataType:
        if isinstance(below, Map):
            return fields(below)
        return as_objects(below, fields) if isinstance(below, Struct) else below.reader

    return pa.struct([pa.field(name, kind(child.node)) for name, child in node.children.items()])


def _maps(node: Struct, read: pa.StructArray) -> Iterator[tuple[Map, pa.ListArray]]:
    """Each map and its column."""
    for i, child in enumerate(node.children.values()):
        if isinstance(child.node, Map):
            yield child.node, read.field(i)
        elif isinstance(child.node, Struct):
            yield from _maps(child.node, read.field(i))


def _entries(node: Map, objects: pa.StructArray, keys: list[str]) -> pa.ListArray:
    """The fields that are not null, row by row in the order of the keys, as the node's reader type."""
    rows, width = len(objects), len(keys)
    if not width:
        return pa.ListArray.from_arrays(
            pa.repeat(pa.scalar(0, pa.int32()), rows + 1), pa.array([], node.reader.value_type),
            type=node.reader, mask=objects.is_null(),
        )  # fmt: skip
    wide, high = pa.scalar(width, pa.int32()), pa.scalar(rows, pa.int32())
    cells = numbered(rows * width)
    row = pc.divide(cells, wide)
    key = pc.subtract(cells, pc.multiply(row, wide))
    at = pc.add(pc.multiply(key, high), row)
    columns = pa.concat_arrays([objects.field(i) for i in range(width)])
    there = columns.is_valid().take(at)
    so_far = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(there.cast(pa.int32()))])
    offsets = so_far.take(pc.multiply(numbered(rows + 1), wide))
    names, values = pa.array(keys, pa.string()).take(key.filter(there)), columns.take(at.filter(there))
    entries = pa.StructArray.from_arrays([names, values], fields=list(node.reader.value_type))
    return pa.ListArray.from_arrays(offsets, entries, type=node.reader, mask=objects.is_null())
