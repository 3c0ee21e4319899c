"""What a configuration makes of the columns of a type, so that a row can be held against its value. Pure.

    value     by the table's names: what fills a renamed column stands at its path, in any case if so wanted
    row       without columns that say nothing of the value: computed ones, constants

What is decoded and not kept stands nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from exporter.core.routing import Routing
from exporter.proof.contents.typed import as_float
from exporter.proof.rules.values import alike, member

_EPOCH = datetime(1970, 1, 1)


class ByNames(NamedTuple):
    """A value, what `_rescued` has of it, and of both, by name, what is called as a column that it does not fill."""

    sent: Mapping[str, Any]
    rest: Mapping[str, Any]
    beside: Sequence[tuple[str, Any, Any]]


@dataclass(frozen=True)
class MadeColumns:
    """Of one type.

    names: column -> its paths. loose: fields that differ from a column by case only fill it. fields: of what is
    decoded, as of a Spark schema. gone: columns, by the table's names, that are not kept as they are. constants: column
    -> value. computed: column -> (SQL, Spark type). opaque: a function of the settings may have changed anything.
    """

    names: Sequence[tuple[str, Sequence[Sequence[str]]]] = ()
    loose: bool = False
    fields: Sequence[Mapping[str, Any]] = ()
    gone: frozenset[str] = frozenset()
    constants: Mapping[str, Any] = field(default_factory=dict)
    computed: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    opaque: bool = False

    @property
    def apart(self) -> frozenset[str]:
        """Columns of which the value says nothing by itself."""
        return frozenset((*self.constants, *self.computed))

    @classmethod
    def of(cls, routing: Routing, event_type: str) -> MadeColumns | None:
        """None of a type whose rows are just read."""
        shape = routing.shape_by_type.get(event_type)
        constants = dict(routing.constants)
        if shape is None:
            return cls(constants=constants) if constants else None
        kinds = {one["name"]: one["type"] for one in json.loads(routing.columns_of(event_type))["fields"]}
        fields = json.loads(shape.decoded)["fields"]
        computed = {name: (text, kinds[name]) for name, text in shape.computed if name in kinds}
        gone = frozenset(shape.drop) | computed.keys()
        names = [(name, [path.split(".") for path in paths]) for name, paths in shape.names]
        return cls(names, shape.case != "exact", fields, gone, constants, computed, bool(shape.python))

    def by_names(self, sent: Mapping[str, Any], rest: Mapping[str, Any], kept: Mapping[str, Any]) -> ByNames:
        """A value and what `_rescued` has of it by the names of the table. kept: the table's columns. Raises Unsure."""
        if self.loose:
            sent, rest = _spelled(sent, self.fields), _spelled(rest, self.fields)
        found, left = {}, {}
        for column, paths in ((column, paths) for column, paths in self.names if column not in self.gone):
            path = next((one for one in paths if _at(sent, one) is not None), None)
            if path is not None:
                found[column], left[column] = _at(sent, path), _at(rest, path)
        kept = {name: one for name, one in kept.items() if name not in dict(self.names)}
        for path in (path for _, paths in self.names for path in paths):
            sent, rest = _without(sent, path, kept) or {}, _without(rest, path, {}) or {}
        parted = {one["name"] for one in self.fields if one["name"] in self.gone and not isinstance(one["type"], str)}
        some = {name: one for name, one in sent.items() if name not in self._decoded_and_gone}
        more = {name: one for name, one in rest.items() if name not in parted}  # of a scalar nothing may be there
        beside = [(name, some.pop(name, None), more.pop(name, None)) for name in dict(self.names)]
        return ByNames({**some, **found}, {**more, **left}, beside)

    @cached_property
    def _decoded_and_gone(self) -> frozenset[str]:
        whole = {path[0] for _, paths in self.names for path in paths if len(path) == 1}
        return frozenset(one["name"] for one in self.fields if one["name"] in self.gone) - whole


def _at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if type(value) is dict else None
    return value


def _without(value: Any, path: Sequence[str], kept: Mapping[str, Any]) -> Any:
    """An object without what stands at a path. kept: what has a column; the rest of the way goes if it is empty."""
    if type(value) is not dict or path[0] not in value:
        return value
    name, *below = path
    others = {key: one for key, one in value.items() if key != name}
    if not below:
        return others
    node = kept.get(name)
    inside = _without(value[name], below, getattr(node, "fields", {}))
    empty = type(inside) is dict and all(one is None for one in inside.values())
    return others if empty and node is None else {**others, name: inside}


def _spelled(value: Any, fields: Sequence[Mapping[str, Any]]) -> Any:
    """An object with the names that its fields are declared by. Raises Unsure."""
    if type(value) is not dict:
        return value
    found: dict[str, Any] = {}
    for name, one in value.items():
        declared = next((field for field in fields if alike(field["name"], name)), None)
        if declared is not None:
            member(value, name, loose=True)
            one, name = _spelled_in(one, declared["type"]), declared["name"]
        found[name] = one
    return found


def _spelled_in(value: Any, kind: Any) -> Any:
    if isinstance(kind, str) or value is None:
        return value
    if kind["type"] == "struct":
        return _spelled(value, kind["fields"])
    if kind["type"] == "array" and type(value) is list:
        return [_spelled_in(one, kind["elementType"]) for one in value]
    if kind["type"] == "map" and type(value) is dict:
        return {name: _spelled_in(one, kind["valueType"]) for name, one in value.items()}
    return value


def is_held(kind: Any, made: Any, held: Any) -> bool:
    """Whether a row holds a value that SQL has made. kind: Spark's type. held: a plain value (rows.py)."""
    if made is None or isinstance(made, OverflowError):
        return made is not None or held is None
    if held is None:
        return False
    if isinstance(kind, str):
        return _is_scalar_held(made, held)
    if kind["type"] == "struct":
        return type(held) is dict and all(
            is_held(one["type"], made[one["name"]], held.get(one["name"])) for one in kind["fields"]
        )
    if kind["type"] == "array":
        inner = kind["elementType"]
        return len(made) == len(held) and all(is_held(inner, *both) for both in zip(made, held, strict=True))
    pairs = dict(made)
    return pairs.keys() == held.keys() and all(is_held(kind["valueType"], pairs[key], held[key]) for key in pairs)


def _is_scalar_held(made: Any, held: Any) -> bool:
    if isinstance(made, datetime):
        plain = made.astimezone(timezone.utc).replace(tzinfo=None) if made.tzinfo else made
        since = plain - _EPOCH
        return bool((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds == held)
    if isinstance(made, date):
        return bool((made - _EPOCH.date()).days == held)
    if isinstance(made, Decimal):
        return Decimal(held) == made
    if isinstance(made, bytes):
        return bool(made == held)
    if isinstance(made, float):
        number = as_float(held)
        return number is not None and (number == made or (number != number and made != made))
    return type(made) is type(held) and bool(made == held)
