"""Columns of which a schema says a wider type than they have: the schema's own promotion, `int` to `long`. Pure.

Columns that are evolved alone: a declared one has the type that is declared (lake/schema.py). Of two schemas side by
side the wider type counts, whichever was met first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from exporter.column.spark_json import name_of, struct_of, text_of
from exporter.column.types import Field, ListType, MapType, ScalarType, StructType, Type
from exporter.core.columns import EVOLVED, RECORD
from exporter.lake import widening


class Outgrown(NamedTuple):
    """A place in a table. path: dotted, `element` and `value` for what is in arrays and maps. have, want: types."""

    path: str
    have: str
    want: str

    def __str__(self) -> str:
        return f"{self.path} from {self.have} to {self.want}"


def promoted(
    table_json: str, wanted: Iterable[Sequence[Field]], fixed: Collection[str] = ()
) -> tuple[str, tuple[Outgrown, ...]]:
    """The table's schema with the wider types that schemas say of its evolved columns, and which columns these are.

    The same text if there are none. wanted: of each schema its fields. fixed: columns that keep their type, for they
    cut the table. Readers are told of each change (widening.CHANGES).
    """
    walk, table = _Walk(fixed=frozenset(fixed)), struct_of(table_json)
    for one in wanted:
        table = walk.struct(table, one, "", False)
    return (text_of(table), tuple(walk.found)) if walk.found else (table_json, ())


def widest(fields: Sequence[Field], others: Iterable[Sequence[Field]]) -> Sequence[Field]:
    """The fields with the wider types that others say of them; of columns that no table has yet."""
    walk, found = _Walk(noted=False), StructType(tuple(fields))
    for one in others:
        found = walk.struct(found, one, "", True)
    return found.fields


@dataclass
class _Walk:
    """found: what was outgrown, grows. noted: whether the change of a type is noted where it is made."""

    noted: bool = True
    fixed: frozenset[str] = frozenset()
    found: list[Outgrown] = field(default_factory=list)

    def struct(self, have: StructType, want: Sequence[Field], path: str, evolved: bool) -> StructType:
        """path: of the struct, with a dot behind it. evolved: whether it is in such a field."""
        wanted = {one.name: one for one in want}
        fields = (self._field(one, wanted.get(one.name, one), path, evolved) for one in have.fields)
        return replace(have, fields=tuple(fields))

    def _field(self, have: Field, want: Field, path: str, evolved: bool) -> Field:
        if have is want or RECORD in have.metadata:
            return have
        at = _Place(path + have.name, evolved or EVOLVED in have.metadata)
        kind = self._type(have.type, want.type, at, ())
        noted = {widening.CHANGES: [*have.metadata.get(widening.CHANGES, ()), *at.changes]} if at.changes else {}
        return replace(have, type=kind, metadata={**have.metadata, **(noted if self.noted else {})})

    def _type(self, have: Type, want: Type, at: _Place, within: tuple[str, ...]) -> Type:
        shown = ".".join((at.path, *within))
        if isinstance(have, StructType) and isinstance(want, StructType):
            return self.struct(have, want.fields, f"{shown}.", at.evolved)
        if isinstance(have, ListType | MapType) and isinstance(want, ListType | MapType) and have.step == want.step:
            return replace(have, inner=self._type(have.inner, want.inner, at, (*within, have.step)))
        no_feature = want == ScalarType("timestamp_ntz")  # a table may not have it
        if not widening.is_wider(have, want) or no_feature or not at.evolved or shown in self.fixed:
            return have
        at.changes.append(widening.change(have, want, within))
        self.found.append(Outgrown(shown, name_of(have), name_of(want)))
        return want


@dataclass(frozen=True)
class _Place:
    """A field. evolved: it, or what it is in, is marked. changes: of types in it, grows."""

    path: str
    evolved: bool
    changes: list[dict[str, str]] = field(default_factory=list)
