"""What the values of one event type looked like, place by place: what evolution goes by. Pure.

    value of one record ── add ──> Seen ── to_json ──> the manifest ── merge ──> of all tasks ──> core/evolve.py

Which columns follow does not depend on the order in which records were seen, or on how they were divided among tasks.
A record's verdict never depends on any of this (VERDICT).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NamedTuple, TypeAlias

from exporter.core.columns import is_long

KEYS_KEPT, FIELDS_KEPT = 250, 2_000
"""Different keys of one object that are told apart, and of the whole value; from the next one on an object is only
known to be crowded."""
DEPTH_KEPT = 24
"""Levels below which nothing is told apart: what stands there is in a column of JSON, if in any."""
LONG = 2**63


class At(NamedTuple):
    """The place of a record: topic, partition and offset."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


Kinds: TypeAlias = "Counter[str]"


class Seen:
    """What stood at one place.

    kinds: how many values were of each kind: `boolean`, `integer` (of 64 bits), `big` (an integer beyond), `number`,
    `text`, `object`, `array`. Null is no kind. fields: of objects, by key; not those
    of a key that is too long for a column. item: of arrays, all elements taken
    together. crowded: objects had more different keys than are kept. first: where the first of the values was found,
    in the order of coordinates.
    """

    __slots__ = ("crowded", "fields", "first", "item", "kinds")

    def __init__(self) -> None:
        self.kinds: Kinds = Counter()
        self.fields: dict[str, Seen] = {}
        self.item: Seen | None = None
        self.crowded = False
        self.first: At | None = None

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and self.to_json() == other.to_json()

    def add(self, value: Any, at: At, depth: int = 0) -> None:
        """A value as Python's json reads it, integers exactly; null leaves no trace."""
        if value is None:
            return
        self.kinds[_kind(value)] += 1
        if self.first is None or at < self.first:
            self.first = at
        if depth >= DEPTH_KEPT:
            return
        if type(value) is dict:
            for key, inner in value.items():
                field = None if is_long(key) else self._field(key, depth)
                if field is not None:
                    field.add(inner, at, depth + 1)
        elif type(value) is list and value:
            self.item = self.item or Seen()
            for inner in value:
                self.item.add(inner, at, depth + 1)

    def _field(self, key: str, depth: int) -> Seen | None:
        """None for one key too many."""
        field = self.fields.get(key)
        if field is None and not self.crowded:
            if len(self.fields) < _kept(depth):
                field = self.fields[key] = Seen()
            else:
                self._crowd()
        return field

    def _crowd(self) -> None:
        """Which keys came first says nothing: none is told apart any more."""
        self.crowded = True
        self.fields = {}

    def merge(self, other: Seen, depth: int = 0) -> None:
        """Take in what another task has seen."""
        self.kinds.update(other.kinds)
        if other.first is not None and (self.first is None or other.first < self.first):
            self.first = other.first
        if other.item is not None:
            self.item = self.item or Seen()
            self.item.merge(other.item, depth + 1)
        if self.crowded or other.crowded or len(self.fields.keys() | other.fields.keys()) > _kept(depth):
            self._crowd()
            return
        for key, field in other.fields.items():
            self.fields.setdefault(key, Seen()).merge(field, depth + 1)

    def to_json(self) -> str:
        """Canonical: equal for what is equal."""
        return json.dumps(self._plain(), sort_keys=True, separators=(",", ":"))

    def _plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        if self.kinds:
            plain["k"] = dict(self.kinds)
        if self.first is not None:
            plain["a"] = list(self.first)
        if self.crowded:
            plain["c"] = 1
        if self.fields:
            plain["f"] = {key: field._plain() for key, field in self.fields.items()}
        if self.item is not None:
            plain["i"] = self.item._plain()
        return plain

    @classmethod
    def from_json(cls, text: str) -> Seen:
        """The inverse of `to_json`: what a manifest says was seen."""
        return cls._of(json.loads(text))

    @classmethod
    def _of(cls, plain: dict[str, Any]) -> Seen:
        seen = cls()
        seen.kinds = Counter(plain.get("k", {}))
        seen.first = At(*plain["a"]) if "a" in plain else None
        seen.crowded = "c" in plain
        seen.fields = {key: cls._of(field) for key, field in plain.get("f", {}).items()}
        seen.item = cls._of(plain["i"]) if "i" in plain else None
        return seen


def _kept(depth: int) -> int:
    return KEYS_KEPT if depth else FIELDS_KEPT


def _kind(value: Any) -> str:
    """The kind of a value that is not null. A float that is no number is one that a double cannot hold."""
    kind = type(value)
    if kind is str:
        return "text"
    if kind is int:
        return "integer" if -LONG <= value < LONG else "big"
    if kind is dict:
        return "object"
    if kind is float:
        return "number" if math.isfinite(value) else "big"
    if kind is list:
        return "array"
    if kind is bool:
        return "boolean"
    raise TypeError(f"no value of JSON: {kind.__name__}")
