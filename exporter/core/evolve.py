"""Which columns follow from what was seen, and how a table grows by them. Pure.

    seen so far              column                  what does not fit later
    ------------------------------------------------------------------------------------------------------------------
    true, false              BOOLEAN                 stays in `_rescued`
    integers of 64 bits      BIGINT                  stays in `_rescued`
    other numbers (and such) DOUBLE                  an integer that it would round stays in `_rescued`
    text                     STRING                  stays in `_rescued`
    objects                  STRUCT of its fields    field by field
    arrays                   ARRAY of its elements   the whole array stays in `_rescued`
    null, {} or [] alone     none yet                -
    kinds that do not meet   JSON                    nothing: it holds any value
    larger integers (alone)  JSON                    nothing
    more than keys_max keys  MAP<STRING, JSON>       what is no object stays in `_rescued`
    a path with a hint       the hint's type         stays in `_rescued`

A table that would have more than columns_max columns gets new objects as MAP<STRING, JSON>, and of other new fields
none. A field whose name no column can have, or that Delta has for itself, or that is longer than 255 bytes stays in
`_rescued`. No column that is there is ever changed.

A field that was made so is marked in the table's schema (EVOLVED) with where it was seen first, and everything below
it counts as marked. The table's schema is the one place where this is known: it is no part of any configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import JSON, Field, ListType, MapType, ScalarType, StructType, Type, together
from exporter.core.columns import EVOLVED, RECORD, Names, is_own, never_added
from exporter.core.evolved import columns_of, with_new
from exporter.core.routing import DEAD_LETTERS
from exporter.core.seen import Seen

STRUCT_DEPTH_MAX = 16
"""Levels of objects and arrays that become columns; what is below is JSON."""
_SCALARS = {
    frozenset({"boolean"}): "boolean",
    frozenset({"integer"}): "long",
    frozenset({"number"}): "double",
    frozenset({"integer", "number"}): "double",
    frozenset({"big", "number"}): "double",
    frozenset({"big", "integer", "number"}): "double",
    frozenset({"text"}): "string",
}
_CROWDED = MapType(ScalarType("string"), JSON)


@dataclass(frozen=True)
class Evolution:
    """How one table grows. hints: dotted path -> type; `[]` stands for an array's elements: `items[].at`.

    infers: whether columns follow from what was seen too, not from schemas alone.
    """

    hints: Mapping[str, Type] = field(default_factory=dict)
    keys_max: int = 100
    columns_max: int = 1_000
    infers: bool = True


@dataclass(frozen=True)
class Evolutions:
    """Which tables grow, and how. default: of the types that are not named; None: they do not."""

    default: Evolution | None = None
    types: Mapping[str, Evolution | None] = field(default_factory=dict)

    def of(self, event_type: str) -> Evolution | None:
        return None if event_type == DEAD_LETTERS else self.types.get(event_type, self.default)


def grown(table_json: str, seen: Seen, evolution: Evolution) -> str:
    """The table's schema with the columns that follow from what was seen in `_rescued`; the same text if none does.

    table_json: Spark schema JSON.
    """
    if not evolution.infers:
        return table_json
    table = struct_of(table_json)
    merged = _Growth(evolution, columns_of(table)).struct(table, seen, "", 0)
    return table_json if merged == table else text_of(merged)


def known_beforehand(table_json: str, fields: Sequence[Field], origin: str) -> str:
    """The table's schema with fields of a schema that is known before any record; the same text if it has them all.

    origin: where they are from, for EVOLVED. A field that the table has as another type stays as it is there.
    """
    table = struct_of(table_json)
    merged = _with_fields(table, fields, origin, top=True)
    return table_json if merged == table else text_of(merged)


class _Growth:
    """One table's. left: how many columns it may get."""

    def __init__(self, evolution: Evolution, columns: int) -> None:
        self._hints = evolution.hints
        self._keys_max = evolution.keys_max
        self._left = evolution.columns_max - columns

    def struct(self, have: StructType, seen: Seen, path: str, depth: int) -> StructType:
        """A struct of the table with what it lacks."""
        known = have.named
        fields = [self._inside(one, seen.fields.get(one.name), path, depth) for one in have.fields]
        new = [] if seen.crowded else self._within(self._new_fields([*known], seen, path, depth))
        if depth and len(known) + len(new) > self._keys_max:
            new = []
        self._left -= sum(columns_of(one.type) for one in new)
        return with_new(have, fields, new)

    def _inside(self, have: Field, seen: Seen | None, path: str, depth: int) -> Field:
        """A field of the table that is there, with what was seen below it."""
        if not seen or (not depth and (is_own(have.name) or RECORD in have.metadata)):
            return have
        return replace(have, type=self._kind(have.type, seen, f"{path}{have.name}", depth + 1))

    def _kind(self, have: Type, seen: Seen, path: str, depth: int) -> Type:
        """A type of the table, with new fields in the structs that are in it."""
        if isinstance(have, StructType):
            return self.struct(have, seen, f"{path}.", depth)
        if not isinstance(have, ListType | MapType):
            return have
        inner = seen.item if isinstance(have, ListType) else _values_of(seen)
        return have if inner is None else replace(have, inner=self._kind(have.inner, inner, path + have.shown, depth))

    def _new_fields(self, known: Sequence[str], seen: Seen, path: str, depth: int) -> list[Field]:
        """Fields that the struct lacks, in the order of their names; no two that readers take for one another."""
        names = Names(known)
        new = []
        for name in sorted(seen.fields.keys() - set(known)):
            if never_added(name, top=not depth) or names.clash(name):
                continue
            made = self._made(seen.fields[name], f"{path}{name}", depth + 1)
            if made is not None:
                names.add(name)
                new.append(Field(name, made, metadata={EVOLVED: str(seen.fields[name].first or "")}))
        return new

    def _within(self, new: list[Field]) -> list[Field]:
        """As many of the fields as the table may get; structs that are too many become maps first."""
        if sum(columns_of(one.type) for one in new) <= self._left:
            return new
        small = [_crowded(one) for one in new]
        return small[: max(0, self._left)]

    def _made(self, seen: Seen, path: str, depth: int) -> Type | None:
        """The type of a new column; None while nothing is in what was seen."""
        kinds = frozenset(seen.kinds)
        return self._hints.get(path) or self._inferred(kinds, seen, path, depth) if kinds else None

    def _inferred(self, kinds: frozenset[str], seen: Seen, path: str, depth: int) -> Type | None:
        if kinds in _SCALARS:
            return ScalarType(_SCALARS[kinds])
        if kinds == {"object"}:
            return self._object(seen, path, depth)
        if kinds == {"array"}:
            return self._array(seen, path, depth)
        return JSON

    def _object(self, seen: Seen, path: str, depth: int) -> Type | None:
        if depth > STRUCT_DEPTH_MAX:
            return JSON
        if seen.crowded or len(seen.fields) > self._keys_max:
            return _CROWDED
        fields = self._new_fields((), seen, f"{path}.", depth)
        return StructType(tuple(fields)) if fields else None

    def _array(self, seen: Seen, path: str, depth: int) -> Type | None:
        if seen.item is None:
            return None
        if depth > STRUCT_DEPTH_MAX:
            return JSON
        made = self._made(seen.item, f"{path}[]", depth + 1)
        return None if made is None else ListType(made)


def _values_of(seen: Seen) -> Seen | None:
    """The values of a map, all keys taken together."""
    together = Seen()
    for one in seen.fields.values():
        together.merge(one, depth=1)
    return together or None


def _crowded(one: Field) -> Field:
    """A new field that takes one column only."""
    if columns_of(one.type) == 1:
        return one
    return replace(one, type=_CROWDED if isinstance(one.type, StructType) else JSON)


def _with_fields(have: StructType, fields: Sequence[Field], origin: str, top: bool) -> StructType:
    """A struct with the fields that it lacks, marked."""
    wanted = {one.name: one for one in fields}
    kept = [_with_inside(one, wanted.pop(one.name, one), origin) for one in have.fields]
    names = Names(one.name for one in have.fields)
    new = [
        replace(one, nullable=True, metadata={**one.metadata, EVOLVED: origin})
        for name, one in wanted.items()
        if not never_added(name, top=top) and not names.clash(name)
    ]
    return with_new(have, kept, new)


def _with_inside(have: Field, want: Field, origin: str) -> Field:
    if RECORD in have.metadata:
        return have
    below = together(have.type, want.type, lambda one, other: _with_fields(one, other.fields, origin, False), _kept)
    return replace(have, type=below)


def _kept(have: Type, _: Type) -> Type:
    return have
