"""What computed columns must hold, by the audit's own evaluation. Knows no driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from exporter.core.routing import Routing
from exporter.proof.rules.expressions import evaluated
from exporter.proof.rules.made import MadeColumns
from exporter.proof.rules.sights import SqlSight
from exporter.proof.rules.values import Unsure, sql_of

Computed = Mapping[str, Any] | None
"""Column -> value; None of a record on which one of them fails."""


class ComputedFrom(NamedTuple):
    """What computed columns of one row are asked for. of: by what the answer is known. record: as SQL sees it.

    document: its value; Unsure in place of one of which nothing can be said.
    """

    of: Any
    number: int
    code: int
    document: Any
    record: Mapping[str, Any]


class Computing:
    """names: code -> event type, of the tables."""

    def __init__(self, routings: Sequence[Routing], names: Mapping[int, str]) -> None:
        self._routings = routings
        self._names = names
        self._known: dict[tuple[int, int], tuple[SqlSight, MadeColumns] | None] = {}

    def computes(self, number: int, code: int) -> bool:
        """Whether a configuration computes columns of a table that can be computed here."""
        return self._seen(number, code) is not None

    def of(self, asked: Iterable[ComputedFrom]) -> dict[Any, Computed]:
        """By what each was asked for; nothing where it is unsure."""
        some: dict[tuple[int, int], list[tuple[Any, dict[str, Any]]]] = {}
        for one in asked:
            seen = self._seen(one.number, one.code)
            if seen is None or one.document is Unsure:
                continue
            try:
                some.setdefault((one.number, one.code), []).append((one.of, seen[0].row(one.document, one.record)))
            except Unsure:
                continue
        found: dict[Any, Computed] = {}
        for key, chosen in some.items():
            seen = self._seen(*key)
            found |= self._computed(seen, chosen) if seen is not None else ()
        return found

    def _computed(
        self, seen: tuple[SqlSight, MadeColumns], rows: Sequence[tuple[Any, dict[str, Any]]]
    ) -> list[tuple[Any, Computed]]:
        sight, made = seen
        texts = [f"CAST((\n{text}\n) AS {sql_of(kind)})" for text, kind in made.computed.values()]
        try:
            found = evaluated(texts, sight.rows([row for _, row in rows]))
        except Unsure:
            return []
        told = [None if one is None else dict(zip(made.computed, one, strict=True)) for one in found]
        return [(place, one) for (place, _), one in zip(rows, told, strict=True)]

    def _seen(self, number: int, code: int) -> tuple[SqlSight, MadeColumns] | None:
        """What the SQL of a table sees by one configuration; None where nothing is computed, or cannot be here."""
        key = (number, code)
        if key not in self._known:
            routing, name = self._routings[number], self._names[code]
            made, shape = MadeColumns.of(routing, name), routing.shape_by_type.get(name)
            self._known[key] = None
            if made is not None and shape is not None and made.computed and not made.opaque:
                self._known[key] = SqlSight(shape, [text for text, _ in made.computed.values()]), made
        return self._known[key]
