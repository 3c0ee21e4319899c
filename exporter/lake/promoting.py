"""Columns of which a schema says a wider type than they have: the schema's own promotion, `int` to `long`. Pure.

Columns that are evolved alone: a declared one has the type that is declared (lake/schema.py). Of two schemas side by
side the wider type counts, whichever was met first.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from exporter.core.columns import EVOLVED, JSON_TEXT, RECORD
from exporter.lake import widening

Fields = Sequence[Mapping[str, Any]]
"""Of a Spark schema, as parsed JSON."""


class Outgrown(NamedTuple):
    """A place in a table. path: dotted, `element` and `value` for what is in arrays and maps. have, want: types."""

    path: str
    have: str
    want: str

    def __str__(self) -> str:
        return f"{self.path} from {self.have} to {self.want}"


def promoted(
    table_json: str, wanted: Iterable[Fields], fixed: Collection[str] = ()
) -> tuple[str, tuple[Outgrown, ...]]:
    """The table's schema with the wider types that schemas say of its evolved columns, and which columns these are.

    The same text if there are none. wanted: of each schema its fields. fixed: columns that keep their type, for they
    cut the table. Readers are told of each change (widening.CHANGES).
    """
    walk, table = _Walk(fixed=frozenset(fixed)), json.loads(table_json)
    fields = table["fields"]
    for one in wanted:
        fields = walk.fields(fields, one, "", False)
    if not walk.found:
        return table_json, ()
    return json.dumps({**table, "fields": fields}, separators=(",", ":")), tuple(walk.found)


def widest(fields: Fields, others: Iterable[Fields]) -> Fields:
    """The fields with the wider types that others say of them; of columns that no table has yet."""
    walk = _Walk(noted=False)
    for one in others:
        fields = walk.fields(fields, one, "", True)
    return fields


@dataclass
class _Walk:
    """found: what was outgrown, grows. noted: whether the change of a type is noted where it is made."""

    noted: bool = True
    fixed: frozenset[str] = frozenset()
    found: list[Outgrown] = field(default_factory=list)

    def fields(self, have: Fields, want: Fields, path: str, evolved: bool) -> list[Mapping[str, Any]]:
        """The fields of a struct. path: of the struct, with a dot behind it. evolved: whether it is in such a field."""
        wanted = {one["name"]: one for one in want}
        return [self._field(one, wanted.get(one["name"], one), path, evolved) for one in have]

    def _field(self, have: Mapping[str, Any], want: Mapping[str, Any], path: str, evolved: bool) -> Mapping[str, Any]:
        metadata = have.get("metadata", {})
        if have is want or RECORD in metadata or JSON_TEXT in metadata or JSON_TEXT in want.get("metadata", {}):
            return have
        at = _Place(path + have["name"], evolved or EVOLVED in metadata)
        kind = self._type(have["type"], want["type"], at, ())
        if kind == have["type"]:
            return have
        noted = {widening.CHANGES: [*metadata.get(widening.CHANGES, ()), *at.changes]} if at.changes else {}
        return {**have, "type": kind, "metadata": {**metadata, **(noted if self.noted else {})}}

    def _type(self, have: Any, want: Any, at: _Place, within: tuple[str, ...]) -> Any:
        shown = ".".join((at.path, *within))
        if isinstance(have, dict) and isinstance(want, dict) and have["type"] == want["type"]:
            if have["type"] == "struct":
                return {**have, "fields": self.fields(have["fields"], want["fields"], f"{shown}.", at.evolved)}
            part, step = ("elementType", "element") if have["type"] == "array" else ("valueType", "value")
            return {**have, part: self._type(have[part], want[part], at, (*within, step))}
        is_wider = widening.is_wider(have, want) and want != "timestamp_ntz"  # a table may not have the feature for it
        if not (is_wider and at.evolved) or shown in self.fixed:
            return have
        at.changes.append(widening.change(have, want, within))
        self.found.append(Outgrown(shown, have, want))
        return want


@dataclass(frozen=True)
class _Place:
    """A field. evolved: it, or what it is in, is marked. changes: of types in it, grows."""

    path: str
    evolved: bool
    changes: list[dict[str, str]] = field(default_factory=list)
