"""The columns of a table as the audit compares them: what a configuration declares, and what the exporter has added.

    declared  stands in the configuration: its type there says what a value must be, the table's how it is stored
    evolved   added by the exporter: marked in the table's schema, everything below it included; never refuses a value
    others'   declared by another configuration: like one that is evolved, for a backfill may have filled it
    apart     declared, but the table lacks it or has it with a type that it cannot have been widened to: not compared
    users'    columns that users have added: as if they were not there

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from exporter.core.columns import EVOLVED, JSON_TEXT
from exporter.proof.contents.scalars import Same, same_in, same_json


@dataclass(frozen=True)
class ScalarOf:
    """A scalar. kind: as the table has it."""

    kind: str
    same: Same
    evolved: bool = False


@dataclass(frozen=True)
class NotCompared:
    """A place whose value is not compared."""

    evolved: bool = False


@dataclass(frozen=True)
class Members:
    """A struct, or a table's columns. fields: without those of users."""

    fields: Mapping[str, Node]
    evolved: bool = False


@dataclass(frozen=True)
class ArrayOf:
    """A place that holds an array."""

    item: Node
    evolved: bool = False


@dataclass(frozen=True)
class MapOf:
    """A place that holds a map."""

    item: Node
    evolved: bool = False


Node: TypeAlias = ScalarOf | NotCompared | Members | ArrayOf | MapOf


@dataclass(frozen=True)
class _Place:
    """Where a type stands. evolved: in a column that the exporter has added. texts: JSON_TEXT of the nearest field.

    at: the path from that field.
    """

    evolved: bool
    texts: frozenset[str] = field(default_factory=frozenset)
    at: str = ""

    def below(self, step: str) -> _Place:
        return _Place(self.evolved, self.texts, f"{self.at}.{step}" if self.at else step)


def shape(declared_json: str, table_json: str, others: Iterable[str] = ()) -> Members:
    """The columns of a table as one configuration has filled them. All are Spark schema JSON.

    others: what other configurations declare of it.
    """
    table = json.loads(table_json)["fields"]
    for text in others:
        table = _marked(table, json.loads(text)["fields"])
    return _members(json.loads(declared_json)["fields"], table, evolved=False)


def _marked(table: list[Any], declared: list[Any]) -> list[Any]:
    """The table's fields, at every level, those that are declared marked as evolved ones are."""
    wanted = {one["name"]: one for one in declared}
    fields = []
    for one in table:
        if (said := wanted.get(one["name"])) is not None:
            metadata = {EVOLVED: "", **(said.get("metadata") or {}), **(one.get("metadata") or {})}
            one = {**one, "metadata": metadata, "type": _marked_type(one["type"], said["type"])}
        fields.append(one)
    return fields


def _marked_type(stored: Any, declared: Any) -> Any:
    if isinstance(stored, str) or isinstance(declared, str) or stored["type"] != declared["type"]:
        return stored
    if stored["type"] == "struct":
        return {**stored, "fields": _marked(stored["fields"], declared["fields"])}
    inner = "elementType" if stored["type"] == "array" else "valueType"
    return {**stored, inner: _marked_type(stored[inner], declared[inner])}


def ours(table_json: str, declared: list[str]) -> list[dict[str, Any]]:
    """The table's columns (Spark schema JSON, parsed) that some configuration declares or the exporter has added."""
    known = {one["name"] for text in declared for one in json.loads(text)["fields"]}
    fields = json.loads(table_json)["fields"]
    return [one for one in fields if one["name"] in known or EVOLVED in (one.get("metadata") or {})]


def _members(declared: list[Any], table: list[Any], evolved: bool) -> Members:
    """What both say of the fields of one struct."""
    wanted = {one["name"]: one for one in declared}
    fields: dict[str, Node] = {}
    for one in table:
        metadata = one.get("metadata") or {}
        said = wanted.pop(one["name"], None)
        if said is not None:
            texts = (said.get("metadata") or {}).get(JSON_TEXT)
            fields[one["name"]] = _node(said["type"], one["type"], _Place(False, _paths(texts)))
        elif evolved or EVOLVED in metadata:
            place = _Place(True, _paths(metadata.get(JSON_TEXT)))
            fields[one["name"]] = _node(one["type"], one["type"], place)
    return Members({**fields, **dict.fromkeys(wanted, NotCompared())}, evolved)


def _paths(text: Any) -> frozenset[str]:
    return frozenset("" if path == "." else path for path in text.split(",")) if text else frozenset()


def _node(declared: Any, stored: Any, place: _Place) -> Node:
    """One type, as declared and as stored; NotCompared if they do not meet."""
    if isinstance(declared, str) or isinstance(stored, str):
        if not (isinstance(declared, str) and isinstance(stored, str)):
            return NotCompared(place.evolved)
        is_text = place.at in place.texts and declared == stored == "string"
        same = same_json if is_text else same_in(declared, stored, place.evolved)
        return (
            NotCompared(place.evolved) if same is None else ScalarOf("JSON" if is_text else stored, same, place.evolved)
        )
    kind = declared["type"]
    if kind != stored["type"]:
        return NotCompared(place.evolved)
    if kind == "struct":
        return _members([] if place.evolved else declared["fields"], stored["fields"], place.evolved)
    if kind == "array":
        return ArrayOf(_node(declared["elementType"], stored["elementType"], place.below("element")), place.evolved)
    if kind == "map":
        return MapOf(_node(declared["valueType"], stored["valueType"], place.below("value")), place.evolved)
    return NotCompared(place.evolved)
