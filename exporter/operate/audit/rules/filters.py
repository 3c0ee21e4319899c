"""What the filters of types take out, by the audit's own evaluation of them. Knows no driver.

Each row by itself: true keeps it, false and null take it out, a failure makes it a dead letter. Where a value cannot be
told for sure, or a function of the settings has to do with it, either may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from exporter.core.routing import Routing
from exporter.core.shapes import Shape
from exporter.operate.audit.codes import EITHER, LETTERS, sifted
from exporter.operate.audit.rules.expressions import evaluated
from exporter.operate.audit.rules.sights import Sight
from exporter.operate.audit.rules.values import Unsure


def sifts(shape: Shape) -> bool:
    """Whether a table may keep less than all that it takes."""
    return bool(shape.where or shape.python)


def has_filters(routing: Routing) -> bool:
    """Whether some type does."""
    return any(sifts(shape) for _, shape in routing.shapes)


class Filter:
    """Of one table. code: the table's."""

    def __init__(self, shape: Shape, code: int) -> None:
        self._code = code
        self._text = shape.where
        self._sight = Sight(shape, [shape.where]) if shape.where and not shape.python else None

    def judged(self, documents: Sequence[Any], records: Sequence[Mapping[str, Any]]) -> list[int]:
        """What must become of each record, as a code: the table's, `sifted` of it, LETTERS or EITHER.

        documents: their values; Unsure in place of one of which nothing can be said.
        """
        found = [EITHER] * len(documents)
        if self._sight is None:
            return found
        places, rows = [], []
        for at, (document, record) in enumerate(zip(documents, records, strict=True)):
            if document is Unsure:
                continue
            try:
                rows.append(self._sight.row(document, record))
            except Unsure:
                continue
            places.append(at)
        kept = {True: self._code, False: sifted(self._code), None: sifted(self._code)}
        try:
            judged = evaluated([self._text], self._sight.rows(rows))
        except Unsure:
            return found
        for at, values in zip(places, judged, strict=True):
            found[at] = LETTERS if values is None else kept[values[0]]
        return found
