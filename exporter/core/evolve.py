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

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.core.columns import EVOLVED, JSON_TEXT, RECORD, Names, is_own, never_added
from exporter.core.evolved import STEPS, columns_of, with_new
from exporter.core.routing import DEAD_LETTERS
from exporter.core.seen import At, Seen

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
_MAP = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}


@dataclass(frozen=True)
class Hint:
    """What a column is to be. kind: a Spark type as parsed JSON. json_paths: where it holds JSON texts (JSON_TEXT)."""

    kind: Any
    json_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evolution:
    """How one table grows. hints: dotted path -> type; `[]` stands for an array's elements: `items[].at`.

    infers: whether columns follow from what was seen too, not from schemas alone.
    """

    hints: Mapping[str, Hint] = field(default_factory=dict)
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


@dataclass(frozen=True)
class _Made:
    """A type for a new column, as parsed JSON, and where it holds JSON texts, relative to the column."""

    kind: Any
    json_paths: tuple[str, ...] = ()


_JSON = _Made("string", (".",))
_CROWDED = _Made(_MAP, ("value",))


def grown(table_json: str, seen: Seen, evolution: Evolution) -> str:
    """The table's schema with the columns that follow from what was seen in `_rescued`; the same text if none does.

    table_json: Spark schema JSON.
    """
    if not evolution.infers:
        return table_json
    table = json.loads(table_json)
    growth = _Growth(evolution, columns_of(table))
    merged = growth.struct(table, seen, "", 0)
    return table_json if merged is table else json.dumps(merged, separators=(",", ":"))


def known_beforehand(table_json: str, fields: Sequence[Mapping[str, Any]], origin: str) -> str:
    """The table's schema with fields of a schema that is known before any record; the same text if it has them all.

    fields: of a Spark schema, as parsed JSON. origin: where they are from, for EVOLVED. A field that the table has as
    another type stays as it is there.
    """
    table = json.loads(table_json)
    merged = _with_fields(table, fields, origin, top=True)
    return table_json if merged is table else json.dumps(merged, separators=(",", ":"))


class _Growth:
    """One table's. left: how many columns it may get."""

    def __init__(self, evolution: Evolution, columns: int) -> None:
        self._hints = evolution.hints
        self._keys_max = evolution.keys_max
        self._left = evolution.columns_max - columns

    def struct(self, have: Any, seen: Seen, path: str, depth: int) -> Any:
        """A struct of the table with what it lacks; itself if that is nothing."""
        known = {one["name"]: one for one in have["fields"]}
        fields = [self._inside(one, seen.fields.get(one["name"]), path, depth) for one in have["fields"]]
        new = [] if seen.crowded else self._within(self._new_fields([*known], seen, path, depth))
        if depth and len(known) + len(new) > self._keys_max:
            new = []
        self._left -= sum(columns_of(one["type"]) for one in new)
        same = not new and all(one is other for one, other in zip(fields, have["fields"], strict=True))
        return have if same else {**have, "fields": with_new(fields, new)}

    def _inside(self, have: Any, seen: Seen | None, path: str, depth: int) -> Any:
        """A field of the table that is there, with what was seen below it."""
        if not seen or (not depth and (is_own(have["name"]) or RECORD in have.get("metadata", {}))):
            return have
        kind = self._kind(have["type"], seen, f"{path}{have['name']}", depth + 1)
        return have if kind is have["type"] else {**have, "type": kind}

    def _kind(self, have: Any, seen: Seen, path: str, depth: int) -> Any:
        """A type of the table, with new fields in the structs that are in it."""
        if not isinstance(have, dict):
            return have
        if have["type"] == "struct":
            return self.struct(have, seen, f"{path}.", depth)
        if have["type"] == "array":
            part, inner, path = "elementType", seen.item, f"{path}[]"
        else:
            part, inner, path = "valueType", _values_of(seen), f"{path}{{}}"
        if inner is None:
            return have
        kind = self._kind(have[part], inner, path, depth)
        return have if kind is have[part] else {**have, part: kind}

    def _new_fields(self, known: Sequence[str], seen: Seen, path: str, depth: int) -> list[Any]:
        """Fields that the struct lacks, in the order of their names; no two that readers take for one another."""
        names = Names(known)
        new = []
        for name in sorted(seen.fields.keys() - set(known)):
            if never_added(name, top=not depth) or names.clash(name):
                continue
            made = self._made(seen.fields[name], f"{path}{name}", depth + 1)
            if made is not None:
                names.add(name)
                new.append(_marked(name, made, seen.fields[name].first))
        return new

    def _within(self, new: list[Any]) -> list[Any]:
        """As many of the fields as the table may get; structs that are too many become maps first."""
        if sum(columns_of(one["type"]) for one in new) <= self._left:
            return new
        small = [_crowded(one) for one in new]
        return small[: max(0, self._left)]

    def _made(self, seen: Seen, path: str, depth: int) -> _Made | None:
        """The type of a new column; None while nothing is in what was seen."""
        kinds = frozenset(seen.kinds)
        if not kinds or (hint := self._hints.get(path)) is None:
            return self._inferred(kinds, seen, path, depth) if kinds else None
        return _Made(hint.kind, hint.json_paths)

    def _inferred(self, kinds: frozenset[str], seen: Seen, path: str, depth: int) -> _Made | None:
        if kinds in _SCALARS:
            return _Made(_SCALARS[kinds])
        if kinds == {"object"}:
            return self._object(seen, path, depth)
        if kinds == {"array"}:
            return self._array(seen, path, depth)
        return _JSON

    def _object(self, seen: Seen, path: str, depth: int) -> _Made | None:
        if depth > STRUCT_DEPTH_MAX:
            return _JSON
        if seen.crowded or len(seen.fields) > self._keys_max:
            return _CROWDED
        fields = self._new_fields((), seen, f"{path}.", depth)
        return _Made({"type": "struct", "fields": fields}) if fields else None

    def _array(self, seen: Seen, path: str, depth: int) -> _Made | None:
        if seen.item is None:
            return None
        if depth > STRUCT_DEPTH_MAX:
            return _JSON
        made = self._made(seen.item, f"{path}[]", depth + 1)
        if made is None:
            return None
        kind = {"type": "array", "elementType": made.kind, "containsNull": True}
        return _Made(kind, tuple("element" if one == "." else f"element.{one}" for one in made.json_paths))


def _values_of(seen: Seen) -> Seen | None:
    """The values of a map, all keys taken together."""
    together = Seen()
    for one in seen.fields.values():
        together.merge(one, depth=1)
    return together or None


def _marked(name: str, made: _Made, first: At | None) -> dict[str, Any]:
    return _field(name, made, str(first) if first else "")


def _field(name: str, made: _Made, origin: str) -> dict[str, Any]:
    metadata = {EVOLVED: origin}
    if made.json_paths:
        metadata[JSON_TEXT] = ",".join(made.json_paths)
    return {"name": name, "type": made.kind, "nullable": True, "metadata": metadata}


def _crowded(one: dict[str, Any]) -> dict[str, Any]:
    """A new field that takes one column only."""
    if columns_of(one["type"]) == 1:
        return one
    is_struct = one["type"]["type"] == "struct"
    return _field(one["name"], _CROWDED if is_struct else _JSON, one["metadata"][EVOLVED])


def _with_fields(have: Any, fields: Sequence[Mapping[str, Any]], origin: str, top: bool) -> Any:
    """A struct with the fields that it lacks, marked; itself if that is nothing."""
    wanted = {one["name"]: one for one in fields}
    kept = []
    for one in have["fields"]:
        inner = wanted.pop(one["name"], None)
        is_values = inner is not None and RECORD not in one.get("metadata", {})
        kind = _with_inside(one["type"], inner["type"], origin) if inner and is_values else one["type"]
        kept.append(one if kind is one["type"] else {**one, "type": kind})
    names = Names(one["name"] for one in have["fields"])
    new = [
        {**one, "nullable": True, "metadata": {**one.get("metadata", {}), EVOLVED: origin}}
        for name, one in wanted.items()
        if not never_added(name, top=top) and not names.clash(name)
    ]
    if not new and all(one is other for one, other in zip(kept, have["fields"], strict=True)):
        return have
    return {**have, "fields": with_new(kept, new)}


def _with_inside(have: Any, want: Any, origin: str) -> Any:
    if not (isinstance(have, dict) and isinstance(want, dict) and have["type"] == want["type"]):
        return have
    if have["type"] == "struct":
        return _with_fields(have, want["fields"], origin, top=False)
    part = STEPS[have["type"]]
    kind = _with_inside(have[part], want[part], origin)
    return have if kind is have[part] else {**have, part: kind}
