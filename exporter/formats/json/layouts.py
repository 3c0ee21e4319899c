"""Where the records of a type hold unknown fields, and how these are cut out of a whole block at once.

Records of a type are mostly written by one program, so their unknown fields stand between the same known ones. A layout
knows these places by the text around them:

    {"id":7,"at":{"x":1,"z":0.5},"u":"?","w":[1,2],"n":3}     a record of which z, u and w are unknown
                        └S┘   E  └S┘             └E─┘         its stretches: unknown fields that follow each other
    {"id":7,"at":{"x":1,"§1":true},"§2":true,"n":3}           the text for the reader, with a mark for each stretch
    {"at":{"z":0.5},"u":"?","w":[1,2]}                        the unknown fields

No place is believed. The reader takes the text only if each mark stands in the object where its stretch belongs (or in
a map, so they are counted), and no record has such a field itself; and each stretch is proven alone to be
members of an object, unknown ones, none twice: by a pattern if it looks as others did, else by msgspec. So the record
is good JSON with the stretches, too. All other records stay as they are. Runs on Spark executors. What it remembers is
speed, never a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from secrets import token_hex

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import numbered
from exporter.formats.json.layout import CutBlock, Layout
from exporter.formats.json.leaves import Means
from exporter.formats.json.shapes import Child, Struct, shape_of
from exporter.formats.json.stretches import Path, Stretch, members_of, stretches_of
from exporter.formats.json.text import PARSE_ERRORS
from exporter.formats.json.unknown import Splitter

LAYOUTS_MAX = 8
"""With more the names of unknown fields are taken for data: those records go the other way."""
IDLE_MAX = 64
"""Blocks without a record of a layout, after which it is forgotten."""
SEEN_MAX = 64
"""Layouts seen once that are remembered until they are seen again."""
LEARNT_BYTES_MAX = 64 << 10
STRETCHES_MAX = 16
MARK = token_hex(8)
"""How the names of marks begin. Drawn by each process: no record can have such a field."""


class Layouts:
    """The layouts of one type, at first none."""

    def __init__(self, root: Struct) -> None:
        self._shape = root
        self._slots: dict[tuple[Path, int], str] = {}
        self._splitter = Splitter(root)
        self._layouts: list[Layout] = []
        self._seen: dict[tuple[Stretch, ...], None] = {}

    def cut(self, values: pa.BinaryArray) -> CutBlock | None:
        """The values without the unknown fields that are known by now; None if there are none."""
        if not self._layouts:
            return None
        rows, rest = numbered(len(values)), values
        done: list[tuple[pa.Int32Array, CutBlock]] = []
        for layout in self._layouts:
            here, cut = layout.cut(rest)
            layout.idle = 0 if len(here) else layout.idle + 1
            if len(here):
                done.append((rows.take(here) if len(here) < len(rows) else rows, cut))
                rows, rest = _without(rows, here), _without(rest, here)
        self._layouts = [layout for layout in self._layouts if layout.idle < IDLE_MAX]
        return _in_order([*done, (rows, CutBlock.none(len(rest))._replace(texts=rest))]) if done else None

    def learn(self, raw: bytes) -> bool:
        """Look at a good record that has unknown fields. True if they will be cut out from now on."""
        if len(raw) > LEARNT_BYTES_MAX or len(self._layouts) >= LAYOUTS_MAX:
            return False
        try:
            text = raw.decode()
            members = list(members_of(text, text.index("{"), self._shape, ()))
        except (*PARSE_ERRORS, IndexError):
            return False
        found = dict(stretches_of(text, members))
        stretches = tuple(found)
        everywhere = self._splitter.split(raw)
        if everywhere is None or everywhere.found.count > sum(not member.known for member in members):
            return False
        if len(stretches) > STRETCHES_MAX or any(stretches == one.stretches for one in self._layouts):
            return False
        if stretches not in self._seen:
            self._seen = {stretches: None} if len(self._seen) >= SEEN_MAX else {**self._seen, stretches: None}
            return False
        del self._seen[stretches]
        known = [frozenset(_struct_at(self._shape, stretch.path).children) for stretch in stretches]
        layout = Layout(stretches, known, list(found.values()))
        layout.mark(self._marks(stretches))
        self._layouts = sorted([*self._layouts, layout], key=lambda one: len(one.stretches), reverse=True)
        return True

    def _marks(self, stretches: Sequence[Stretch]) -> list[str]:
        """Names that are known in the object of their stretch only, and there for one of them."""
        before: Counter[Path] = Counter()
        marks = []
        for stretch in stretches:
            slot = (stretch.path, before[stretch.path])
            before[stretch.path] += 1
            marks.append(self._slots.setdefault(slot, f"{MARK}{len(self._slots)}"))
        return marks

    @property
    def marks(self) -> dict[str, Path]:
        """All marks that there may be in texts by now, and the object of each."""
        return {mark: path for (path, _), mark in self._slots.items()}

    def marked(self, root: Struct) -> Struct:
        """The shape, or one with the same fields, with all marks that there may be in texts by now."""
        return _with_marks(root, (), self.marks)


def _struct_at(root: Struct, path: Path) -> Struct:
    """The object at a path of which each name leads to an object."""
    for name in path:
        node = root.children[name].node
        if not isinstance(node, Struct):
            raise TypeError(f"{name} of {path} is no object")
        root = node
    return root


def _with_marks(node: Struct, path: Path, marks: Mapping[str, Path]) -> Struct:
    """The shape with a flag for each mark. What is not a struct of structs is the same node."""
    children = {
        name: replace(child, node=_with_marks(child.node, (*path, name), marks))
        if isinstance(child.node, Struct)
        else child
        for name, child in node.children.items()
    }
    here = [mark for mark, place in marks.items() if place == path]
    flags = {mark: Child(shape_of(pa.bool_(), Means()), True, declared=False) for mark in here}
    return Struct({**children, **flags}, node.target)


def _without(column: pa.Array, rows: pa.Int32Array) -> pa.Array:
    """All but some, which are not none."""
    if len(rows) == len(column):
        return column.slice(0, 0)
    return column.filter(pc.invert(pc.is_in(numbered(len(column)), value_set=rows)))


def _in_order(parts: Sequence[tuple[pa.Int32Array, CutBlock]]) -> CutBlock:
    """One of several, each with the rows that it is of."""
    parts = [(rows, cut) for rows, cut in parts if len(rows)]
    if len(parts) == 1:
        return parts[0][1]
    order = pc.array_sort_indices(pa.concat_arrays([rows for rows, _ in parts]))
    return CutBlock(
        *(pa.concat_arrays(columns).take(order) for columns in zip(*(cut for _, cut in parts), strict=True))
    )
