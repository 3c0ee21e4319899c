"""One layout: the stretches of records that look alike, cut out of all records of a block that have them.

layouts.py draws it. Runs on Spark executors. Must never cut out what it cannot prove to be unknown fields, none twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import numbered
from exporter.formats.json.objects import objects
from exporter.formats.json.stretches import Stretch, glue_of
from exporter.formats.json.templates import PLAIN_PATTERN, Template, template_of

TEMPLATES_MAX = 4


class CutBlock(NamedTuple):
    """A block without the unknown fields that layouts know.

    texts: for the reader. unknown: of each row, as the judge writes them, null where nothing was cut out. found: the
    number of unknown fields, 0 there. first: the path of the first one, null there.
    """

    texts: pa.BinaryArray
    unknown: pa.StringArray
    found: pa.Int32Array
    first: pa.StringArray

    def part(self, size: int) -> CutBlock:
        """The part with its first rows."""
        return CutBlock(*(column.slice(0, size) for column in self))

    @classmethod
    def none(cls, size: int) -> CutBlock:
        """Nothing is cut out of so many rows, and there are no texts."""
        texts, none = pa.nulls(size, pa.binary()), pa.nulls(size, pa.string())
        return cls(texts, none, pa.repeat(pa.scalar(0, pa.int32()), size), none)


class Layout:
    """Stretches in the order of the record. idle: blocks since a record had them.

    known: for each the fields that its object may have in the reader. sent: for each what followed its first key once.
    """

    def __init__(self, stretches: Sequence[Stretch], known: Sequence[frozenset[str]], sent: Sequence[str]) -> None:
        self.stretches = stretches
        self.idle = 0
        self._known = known
        self._keys = [f"{encode_basestring(stretch.name)}:" for stretch in stretches]
        self._marked: list[str] = []
        self._glue = glue_of(stretches)
        self._first = ".".join(["$", *stretches[0].path, stretches[0].name])
        self._templates: list[list[Template]] = [[] for _ in stretches]
        for at, text in enumerate(sent):
            self._learn(at, text)

    def mark(self, marks: Sequence[str]) -> None:
        """Give each stretch the name of its mark."""
        self._marked = [f'"{mark}":true{stretch.end}' for mark, stretch in zip(marks, self.stretches, strict=True)]

    def _learn(self, at: int, sent: str) -> None:
        """Take stretches as `sent`, which is good, for usual: of as many fields as others, none of another stretch."""
        mine = self._templates[at]
        found = template_of(self.stretches[at].name, sent)
        if found is None or len(mine) >= TEMPLATES_MAX or any(one.fields != found.fields for one in mine):
            return
        beside = [other for i, other in enumerate(self._templates) if i != at]
        if all(found.keys.isdisjoint(one.keys) for other in beside for one in other):
            mine.append(found)

    def cut(self, values: pa.BinaryArray) -> tuple[pa.Int32Array, CutBlock]:
        """The rows of the values that have these stretches without a doubt, and what is cut out of them."""
        rows, parts = self._parts(values)
        size = len(rows)
        texts: list[pa.BinaryArray | str] = []
        unknown: list[pa.BinaryArray | str] = [self._glue[0]]
        found, odd = pa.repeat(pa.scalar(0, pa.int32()), size), pa.repeat(False, size)
        for i, (before, sent) in enumerate(zip(parts[::2], parts[1::2], strict=False)):
            members = self._members(i, sent)
            texts += [before, self._marked[i]]
            unknown += [self._keys[i], members.texts, self._glue[i + 1]]
            found, odd = pc.add(found, members.found), pc.or_(odd, members.odd)
        whole = _text(unknown)
        if len(self.stretches) > 1 and odd.true_count:
            several = pc.and_(odd, whole.is_valid())
            whole = _replaced(whole, several, objects("", whole.filter(several), "", frozenset())[0])
        cut = CutBlock(_text([*texts, parts[-1]]), _utf8(whole), found, pa.repeat(self._first, size))
        if not cut.unknown.null_count:
            return rows, cut
        sure = pc.indices_nonzero(cut.unknown.is_valid())
        return rows.take(sure), CutBlock(*(column.take(sure) for column in cut))

    def _parts(self, values: pa.BinaryArray) -> tuple[pa.Int32Array, list[pa.BinaryArray]]:
        """The rows that look like it; of these what is before, in and behind each stretch."""
        rows, rest = numbered(len(values)), values
        parts: list[pa.BinaryArray] = []
        for stretch in self.stretches:
            for text, last in ((stretch.start, False), (stretch.end, stretch.last)):
                halves = pc.split_pattern(rest, pattern=text, max_splits=1, reverse=last)
                if len(halves.flatten()) < 2 * len(rest):
                    kept = pc.indices_nonzero(pc.equal(halves.value_lengths(), 2))
                    halves, rows, parts = halves.take(kept), rows.take(kept), [part.take(kept) for part in parts]
                before, rest = (halves.flatten().take(at) for at in _every_second(len(rows)))
                parts.append(before)
        return rows, [*parts, rest]

    def _members(self, at: int, sent: pa.BinaryArray) -> _Members:
        """What stands in a stretch behind its first key."""
        templates = self._templates[at]
        fields = templates[0].fields if templates else 1
        patterns = [one.pattern for one in templates] + ([PLAIN_PATTERN] if fields == 1 else [])
        odd = pc.invert(pc.match_substring_regex(sent, f"^(?:{'|'.join(patterns)})$"))
        usual = pa.repeat(pa.scalar(fields, pa.int32()), len(sent))
        if not odd.true_count:
            return _Members(sent, usual, odd)
        texts, found = objects(f"{{{self._keys[at]}", sent.filter(odd), "}", self._known[at])
        if 4 * len(texts) > len(sent) and texts[0].is_valid:
            self._learn(at, texts[0].as_py().decode())
        return _Members(_replaced(sent, odd, texts), _replaced(usual, odd, found), odd)


class _Members(NamedTuple):
    """Of stretches. texts: as the judge writes them, null if in doubt. found: fields. odd: of no usual look."""

    texts: pa.BinaryArray
    found: pa.Int32Array
    odd: pa.BooleanArray


def _text(parts: Sequence[pa.BinaryArray | str]) -> pa.BinaryArray:
    """Row by row what the parts say; null where one of them does."""
    columns = [pa.scalar(part.encode(), pa.binary()) if isinstance(part, str) else part for part in parts]
    if len(columns) == 3 and isinstance(parts[1], str):  # the same, in fewer steps
        return pc.binary_join_element_wise(columns[0], columns[2], columns[1])
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.binary()))


def _replaced(column: pa.Array, where: pa.BooleanArray, by: pa.Array) -> pa.Array:
    return by if len(by) == len(column) else pc.replace_with_mask(column, where, by)


def _utf8(texts: pa.BinaryArray) -> pa.StringArray:
    """The texts, null for those that are not UTF-8."""
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text if text is None else _decoded(text) for text in texts.to_pylist()], pa.string())


def _decoded(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


@lru_cache(maxsize=4)
def _every_second(size: int) -> tuple[pa.Int32Array, pa.Int32Array]:
    """0, 2, 4 and so on, and those between."""
    first = pc.multiply(numbered(size), pa.scalar(2, pa.int32()))
    return first, pc.add(first, pa.scalar(1, pa.int32()))
