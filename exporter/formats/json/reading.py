"""What the fast reader makes of some values: the declared columns and the event time, or a doubt. On Spark executors.

Must never take a record of another event type than the one it was routed by (ROUTE), or one that is in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import bytes_of
from exporter.formats.json.asked import JsonAsked
from exporter.formats.json.layouts import MARK
from exporter.formats.json.leaves import JsonLeaf
from exporter.formats.json.shapes import Map, Node, Struct, nodes_of
from exporter.formats.json.values import Unproven
from exporter.formats.json.wrapped import WrappedReader

_NAMED_ROW = re.compile(r" (?:in row|at string index) (\d+)$")
"""How the reader's errors, and those of Arrow's check of UTF-8, end where they tell the record."""


@dataclass(frozen=True)
class TakenValues:
    """What the reader made of some values: the declared columns, the event time as sent, timestamps cut."""

    columns: list[pa.Array | pa.ChunkedArray]
    time: pa.Array | None
    cut: int


NO_MARKS: Mapping[str, Sequence[str]] = {}


class FastReader:
    """The fast reader of one shape. marks: flags in it that stand for what was cut out of a text, and their objects."""

    def __init__(self, root: Struct, asked: JsonAsked, marks: Mapping[str, Sequence[str]]) -> None:
        self._root = root
        maps = any(isinstance(node, Map) for node in nodes_of(root))
        self._marks = [[*path, mark] for mark, path in marks.items()] if maps else []
        self._asked = asked
        self._wrapped = WrappedReader(root)

    def take(self, values: pa.BinaryArray, seen: bool = False) -> TakenValues | None:
        """All values, or None if one of them is in doubt. seen: the classifier or the judge has passed each."""
        return self.take_or_name(values, seen)[0]

    def take_or_name(self, values: pa.BinaryArray, seen: bool = False) -> tuple[TakenValues | None, int | None]:
        """As take; if it is None, the position of a doubtful value where the reader names one. That is a hint only."""
        if values.null_count:
            return None, values.is_null().index(True).as_py()
        cutter, large, route = self._asked.cutter, self._asked.large, self._asked.route
        cutter.count = large.count = 0
        try:
            parsed = self._wrapped.read(values)
            columns = self._root.columns(parsed)
            time = self._time(parsed)
        except (pa.ArrowInvalid, Unproven) as why:
            told = _NAMED_ROW.search(str(why))
            at = len(values) if told is None else int(told[1])
            return None, at if at < len(values) else None
        if large.count and not seen:  # of an integer it cannot tell whether it was rounded
            return None, None
        if self._marks and not self._all_stand(values, parsed):
            return None, None
        if route and len(parsed):
            fits = self._asked.said.fitting(_at(parsed, route))
            if fits.false_count:
                return None, None
        return TakenValues(columns, time, cutter.count), None

    def _all_stand(self, values: pa.BinaryArray, parsed: pa.StructArray) -> bool:
        """Whether no mark in the values has become a key of a map."""
        standing: int = sum(len(column) - column.null_count for column in (_at(parsed, path) for path in self._marks))
        return standing == bytes_of(values).count(MARK.encode())

    def _time(self, parsed: pa.StructArray) -> pa.Array | None:
        """The event time; what is cut of it counts once, whether a column holds it or not."""
        if not self._asked.time:
            return None
        leaf, declared = self._leaf(self._asked.time)
        before = self._asked.cutter.count
        time = leaf.convert(_at(parsed, self._asked.time))
        if declared:
            self._asked.cutter.count = before
        return time

    def _leaf(self, path: Sequence[str]) -> tuple[JsonLeaf, bool]:
        """The leaf at a known path, and whether a column holds it."""
        node: Node = self._root
        declared = True
        for name in path:
            if not isinstance(node, Struct):
                break
            child = node.children[name]
            node, declared = child.node, declared and child.declared
        if not isinstance(node, JsonLeaf):
            raise TypeError(f"what stands at {path} is no scalar")
        return node, declared


class ShapeReaders:
    """What reads the values of one shape. shaped: the shape; with True its timestamps are read as text and cut."""

    def __init__(
        self, shaped: Callable[[bool], Struct], asked: JsonAsked, marks: Mapping[str, Sequence[str]] = NO_MARKS
    ) -> None:
        self.root = shaped(False)
        self.plain = FastReader(self.root, asked, marks)
        self._shaped = shaped
        self._asked = asked
        self._marks = marks

    @cached_property
    def long(self) -> FastReader:
        """The reader that cuts fraction digits 7-9. Made on first use: few topics need it, and each type takes time."""
        return FastReader(self._shaped(True), self._asked, self._marks)

    @cached_property
    def counts_large(self) -> bool:
        """Whether the reader may meet numbers that it must not take before somebody else has seen them."""
        return any(isinstance(node, JsonLeaf) and node.is_exact for node in nodes_of(self.root))

    @cached_property
    def classify(self) -> Callable[[bytes | None], Any]:
        """msgspec's reading of one value. Raises what msgspec raises, or TypeError."""
        decode: Callable[[Any], Any] = msgspec.json.Decoder(self.root.spec).decode
        return decode


def _at(parsed: pa.StructArray, path: Sequence[str]) -> pa.Array:
    """The column at a path; null where a parent is."""
    column: pa.Array = parsed
    for name in path:
        column = pc.struct_field(column, name)
    return column
