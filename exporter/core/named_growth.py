"""How a table grows if its columns are not all called as the fields that fill them. Pure.

    `_rescued`, field by field     what it says of the table           decoded for the table that has it
    {"user": {"id": {"x": 1}}}     `uid` STRUCT lacks a field x        user STRUCT<id STRUCT<..., x>>
    {"user": {"mail": "a"}}        there is no column `user`           user STRUCT<id ..., mail>
    {"uid": 1}                     nothing: `uid` is another's         uid is unknown

with uid = "user.id". So a column of `names` grows by what stands at its paths, and what is unknown beside them becomes
columns under its own names; but never under a name that another field, an expression or a constant fills.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from exporter.core.columns import folded
from exporter.core.evolved import STEPS, combined
from exporter.core.naming import decoded_schema, named_columns
from exporter.core.routing import Routing
from exporter.core.seen import Seen


class NamedGrowth:
    """Of the table of one type."""

    def __init__(self, routing: Routing, event_type: str) -> None:
        shape = routing.shape_by_type.get(event_type)
        self._decoded = routing.decoded_of(event_type)
        self._names = () if shape is None else shape.names
        self._columns = named_columns(self._decoded, self._names)
        declared = _fields(routing.columns_of(event_type))
        self._not_of_values = declared.keys() - _fields(self._columns).keys()
        self._others = {*self._not_of_values, *(column for column, _ in self._names)}
        self._ignores_case = routing.ignores_case(event_type)

    def decoded(self, table_json: str) -> str:
        """What is decoded: the declared columns, and what evolution has made of the table. All Spark schema JSON."""
        table = json.loads(table_json)
        kept = [one for one in table["fields"] if one["name"] not in self._not_of_values]
        grown = combined(self._columns, json.dumps({**table, "fields": kept}))
        return decoded_schema(grown, self._names)

    def seen(self, seen: Seen) -> Seen:
        """What was seen of the values' fields as if they were called as their columns."""
        found: dict[str, Seen] = {}
        for column, paths in self._names:
            for path in paths:
                seen, there = _taken(seen, path.split("."))
                if there is not None:
                    found.setdefault(column, Seen()).merge(there, depth=1)
        left = {name: one for name, one in seen.fields.items() if name not in self._others}
        return _with_fields(seen, {**left, **found})

    def fields(self, fields: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The same for fields of a Spark schema that are known beforehand, as parsed JSON."""
        left: list[Any] = [*fields]
        if self._ignores_case:
            left = _spelled(left, _fields(self._decoded))
        found: dict[str, Any] = {}
        for column, paths in self._names:
            for path in paths:
                left, there = _without(left, path.split("."))
                if there is not None:
                    found.setdefault(column, {**there, "name": column})
        return [*(one for one in left if one["name"] not in self._others), *found.values()]


def naming_of(routing: Routing, event_type: str) -> NamedGrowth | None:
    """None of a type whose columns are called as the fields that fill them, and are filled by nothing else."""
    shaped = event_type in routing.shape_by_type or routing.constants
    return NamedGrowth(routing, event_type) if shaped else None


def _fields(schema_json: str) -> dict[str, Any]:
    return {one["name"]: one for one in json.loads(schema_json)["fields"]}


def _with_fields(seen: Seen, fields: Mapping[str, Seen]) -> Seen:
    made = Seen()
    made.kinds, made.item, made.crowded, made.first = seen.kinds, seen.item, seen.crowded, seen.first
    made.fields = {**fields}
    return made


def _taken(seen: Seen, where: Sequence[str]) -> tuple[Seen, Seen | None]:
    """What was seen but for what was at a path, and that."""
    name, *below = where
    if name not in seen.fields:
        return seen, None
    others = {key: one for key, one in seen.fields.items() if key != name}
    if not below:
        return _with_fields(seen, others), seen.fields[name]
    rest, there = _taken(seen.fields[name], below)
    return _with_fields(seen, {**others, name: rest}), there


def _without(fields: Sequence[Any], where: Sequence[str]) -> tuple[list[Any], Any]:
    """Fields but for the one at a path, and that; None if there is none."""
    name, *below = where
    found = next((one for one in fields if one["name"] == name), None)
    if found is None or not below:
        return [one for one in fields if one is not found], found
    kind = found["type"]
    if not (isinstance(kind, dict) and kind["type"] == "struct"):
        return [*fields], None
    rest, there = _without(kind["fields"], below)
    changed = [{**found, "type": {**kind, "fields": rest}}] if rest else []
    return [other for one in fields for other in (changed if one is found else [one])], there


def _spelled(fields: Sequence[Any], known: Mapping[str, Any]) -> list[Any]:
    """Fields by the names of known ones that differ by case only."""
    by_fold = {folded(name): one for name, one in known.items()}
    made = []
    for one in fields:
        like = by_fold.get(folded(one["name"]))
        made.append(one if like is None else {**one, "name": like["name"], "type": _inside(one["type"], like["type"])})
    return made


def _inside(kind: Any, like: Any) -> Any:
    if not (isinstance(kind, dict) and isinstance(like, dict) and kind["type"] == like["type"]):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": _spelled(kind["fields"], {one["name"]: one for one in like["fields"]})}
    part = STEPS[kind["type"]]
    return {**kind, part: _inside(kind[part], like[part])}
