"""What the filters of types take out, by the audit's own evaluation of them. Knows no driver.

Each row by itself: true keeps it, false and null take it out, a failure makes it a dead letter. Where a value cannot be
told for sure, or a function of the settings is not installed here, either may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.core.shapes import Shape
from exporter.proof.codes import DEAD_LETTER, EITHER, sifted
from exporter.proof.rules.expressions import evaluated
from exporter.proof.rules.functions import KEPT, SqlFunction
from exporter.proof.rules.sights import SqlSight
from exporter.proof.rules.values import Unsure


def sifts(shape: Shape) -> bool:
    """Whether a table may keep less than all that it takes."""
    return bool(shape.where or shape.python)


def has_filters(routing: Routing) -> bool:
    """Whether the rows of some type are filtered."""
    return any(sifts(shape) for _, shape in routing.shapes)


class Filter:
    """Of one table. code: the table's."""

    def __init__(self, shape: Shape, code: int) -> None:
        self._code = code
        self._text = shape.where
        self._sight = SqlSight(shape, [shape.where], whole=bool(shape.python))
        self._function: SqlFunction | None = None
        self._known = True
        try:
            self._function = SqlFunction(shape) if shape.python else None
        except Unsure:
            self._known = False

    def judged(self, documents: Sequence[Any], records: Sequence[Mapping[str, Any]]) -> list[int]:
        """What must become of each record, as a code: the table's, `sifted` of it, DEAD_LETTER or EITHER.

        documents: their values; Unsure in place of one of which nothing can be said.
        """
        found = [EITHER] * len(documents)
        places, rows = [], []
        for at, (document, record) in enumerate(zip(documents, records, strict=True)):
            if document is Unsure or not self._known:
                continue
            try:
                rows.append(self._sight.row(document, record))
            except Unsure:
                continue
            places.append(at)
        try:
            told = self._told(self._sight.rows(rows))
        except Unsure:
            return found
        for at, expected in zip(places, told, strict=True):
            found[at] = expected
        return found

    def _told(self, rows: pa.Table) -> list[int]:
        if self._function is None:
            return self._filtered(rows)
        found = [DEAD_LETTER] * rows.num_rows
        for first, made in self._function.made(rows):
            kept = made.column(KEPT)
            told = iter(self._filtered(made.filter(kept).drop_columns([KEPT])))
            for at, one in enumerate(kept.to_pylist(), first):
                found[at] = next(told) if one else sifted(self._code)
        return found

    def _filtered(self, rows: pa.Table) -> list[int]:
        if not self._text:
            return [self._code] * rows.num_rows
        kept = {True: self._code, False: sifted(self._code), None: sifted(self._code)}
        return [DEAD_LETTER if one is None else kept[one[0]] for one in evaluated([self._text], rows)]
