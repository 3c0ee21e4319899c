"""What computed columns must hold, by the audit's own evaluation. Knows no driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from exporter.core.routing import Routing
from exporter.operate.audit.rules.expressions import evaluated
from exporter.operate.audit.rules.made import Made
from exporter.operate.audit.rules.sent import Documents
from exporter.operate.audit.rules.sights import Sight
from exporter.operate.audit.rules.values import Unsure, sql_of

Computed = Mapping[str, Any] | None
"""Column -> value; None of a record on which one of them fails."""


class Computing:
    """names: code -> event type, of the tables."""

    def __init__(self, routings: Sequence[Routing], names: Mapping[int, str], documents: Documents) -> None:
        self._routings = routings
        self._names = names
        self._documents = documents
        self._known: dict[tuple[int, int], tuple[Sight, Made] | None] = {}

    def of(self, rows: Sequence[Mapping[str, Any]]) -> Mapping[tuple[int, int], Computed]:
        """By the place of a row and the index of a configuration that may have written it; nothing where it is unsure.

        rows: with what is looked at of their records (sent.py), `code` of the table, and `routings`.
        """
        some: dict[tuple[int, int], list[tuple[int, dict[str, Any]]]] = {}
        sights: dict[tuple[int, int], tuple[Sight, Made]] = {}
        for place, row in enumerate(rows):
            for number in row["routings"]:
                seen = self._seen(number, row["code"])
                if seen is None:
                    continue
                sights[number, row["code"]] = seen
                document = self._documents.of(number, row)
                try:
                    if document is not Unsure:
                        some.setdefault((number, row["code"]), []).append((place, seen[0].row(document, row)))
                except Unsure:
                    continue
        found: dict[tuple[int, int], Computed] = {}
        for (number, code), chosen in some.items():
            found |= {(place, number): one for place, one in self._computed(sights[number, code], chosen)}
        return found

    def _computed(
        self, seen: tuple[Sight, Made], rows: Sequence[tuple[int, dict[str, Any]]]
    ) -> list[tuple[int, Computed]]:
        sight, made = seen
        texts = [f"CAST((\n{text}\n) AS {sql_of(kind)})" for text, kind in made.computed.values()]
        try:
            found = evaluated(texts, sight.rows([row for _, row in rows]))
        except Unsure:
            return []
        told = [None if one is None else dict(zip(made.computed, one, strict=True)) for one in found]
        return [(place, one) for (place, _), one in zip(rows, told, strict=True)]

    def _seen(self, number: int, code: int) -> tuple[Sight, Made] | None:
        """What the SQL of a table sees by one configuration; None where nothing is computed, or cannot be here."""
        key = (number, code)
        if key not in self._known:
            routing, name = self._routings[number], self._names[code]
            made, shape = Made.of(routing, name), routing.shape_by_type.get(name)
            self._known[key] = None
            if made is not None and shape is not None and made.computed and not made.opaque:
                self._known[key] = Sight(shape, [text for text, _ in made.computed.values()]), made
        return self._known[key]
