"""What found no column: the values in `_rescued`, by path. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.core.seen import At, Seen
from exporter.operate.infer.looks import Look


class RescuedRow(NamedTuple):
    """rows: that have something there. kinds: kind -> values. column: the DDL type of the table's column of that path,
    which the values do not fit; empty if there is none. outgrown: how many of them a wider type of its kind would hold.
    """

    path: str
    rows: int
    kinds: Mapping[str, int]
    column: str
    outgrown: int = 0


def rescued_rows(texts: Iterable[str], columns: Mapping[str, str]) -> tuple[RescuedRow, ...]:
    """Most rows first. texts: of `_rescued`. columns: path -> DDL type."""
    seen, look = Seen(), Look()
    for number, text in enumerate(texts):
        value = json.loads(text)
        seen.add(value, At("", 0, number))
        look.add(value, seen, number)
    found = _told(seen, look, "", columns)
    return tuple(sorted(found, key=lambda row: (-row.rows, row.path)))


def _told(seen: Seen, look: Look, path: str, columns: Mapping[str, str]) -> Iterator[RescuedRow]:
    """The fields of objects; of one that has a column of fields, those in it. An array keeps its places by nulls."""
    if seen.crowded:
        yield RescuedRow(f"{path}.*" if path else "*", look.records, dict(seen.kinds), "")
    for name in sorted(seen.fields.keys() & look.fields.keys()):
        where = inside = f"{path}.{name}" if path else name
        inner, below, column = seen.fields[name], look.fields[name], columns.get(where, "")
        while set(inner.kinds) == {"array"} and column.endswith("STRUCT>") and inner.item and below.item:
            inner, below, inside, column = inner.item, below.item, f"{inside}[]", _element(column)
        in_struct = column == "STRUCT" and "object" in inner.kinds
        if in_struct:
            yield from _told(inner, below, inside, columns)
        kinds = {kind: count for kind, count in sorted(inner.kinds.items()) if not (in_struct and kind == "object")}
        if kinds:
            column = columns.get(where, "")
            yield RescuedRow(inside, below.records, kinds, column, _outgrown(kinds, column))


def _outgrown(kinds: Mapping[str, int], column: str) -> int:
    wider = WIDER.get(column.partition("(")[0], ())
    return sum(kinds.get(kind, 0) for kind in wider)


WIDER = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT"), ("integer",)),
    **dict.fromkeys(("FLOAT", "DECIMAL"), ("integer", "number")),
}
"""Type of a column -> kinds of values of which there is a wider type."""


def _element(column: str) -> str:
    """The type in an array's."""
    return column.removeprefix("ARRAY<").removesuffix(">")
