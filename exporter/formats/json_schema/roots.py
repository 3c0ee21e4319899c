"""JSON Schemas that are a choice at their root: `oneOf` (or `anyOf`) of several objects, most often by reference. Pure.

A value is of the choice that it fits: all of its `required` members are there, and each text in a member with a `const`
or an `enum` of texts is one of these. Of several that fit, the one that asks for most members in this way; if two ask
for as many, or none fits, the value is of no choice in particular: it has no name, and the columns are those that all
choices share. A schema with a title, or with `properties` of its own, is one: its title names all values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from exporter.core.schemas import SchemaText
from exporter.errors import ConfigError
from exporter.formats.json_schema.columns import NoColumn, SchemaWalk, columns_at, json_columns, parsed_text, title
from exporter.formats.spark_columns import Registered

_WORDS = ("oneOf", "anyOf")


@dataclass(frozen=True)
class RootChoice:
    """One object that a value may be. name: its title, else what it is referred to by. required: members that it has.

    texts: member -> the texts that it may be.
    """

    name: str
    required: frozenset[str]
    texts: Mapping[str, frozenset[str]]

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Whether a value may be this."""
        told = all(value[name] in texts for name, texts in self.texts.items() if isinstance(value.get(name), str))
        return told and self.required <= value.keys()

    @property
    def asked(self) -> int:
        """For how many members it asks."""
        return len(self.required | self.texts.keys())


@lru_cache(256)
def choices(schema: SchemaText) -> tuple[RootChoice, ...]:
    """In the order of the schema; none if it is no choice of several objects, or cannot be read."""
    try:
        whole = parsed_text(schema)
    except ConfigError:
        return ()
    if not isinstance(whole, dict) or title(schema) or "properties" in whole:
        return ()
    found = [_choice(one, schema) for one in _parts(whole)]
    several = [one for one in found if one is not None]
    return tuple(several) if len(several) == len(found) > 1 else ()


def choice_columns(schema: SchemaText, place: str, connect: bool) -> Registered:
    """The columns of a schema; of one that is a choice those of the one with the number `place`, without it those that
    all have alike. Raises ConfigError for text that is no JSON."""
    some = choices(schema)
    if not some:
        return json_columns(schema, place, connect)
    whole = parsed_text(schema)
    found = [columns_at(schema, part, one.name) for part, one in zip(_parts(whole), some, strict=True)]
    if place.isdecimal() and int(place) < len(found):
        return found[int(place)]
    first, *others = found
    shared = [one for one in first.fields if all(one in other.fields for other in others)]
    return Registered("", shared, {})


def choice_places(schema: SchemaText) -> Sequence[str]:
    """The places of a schema that have columns: the numbers of its choices."""
    return [str(number) for number, _ in enumerate(choices(schema))] or ("",)


def _parts(whole: Mapping[str, Any]) -> list[Any]:
    """The schemas of a choice, without null."""
    some: list[Any] = next((whole[word] for word in _WORDS if isinstance(whole.get(word), list)), [])
    return [one for one in some if not (isinstance(one, dict) and one.get("type") == "null")]


def chosen(some: tuple[RootChoice, ...], body: bytes) -> int | None:
    """The number of the choice that a value is of; None: of none in particular, or it is no JSON object."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    fit = [(one.asked, number) for number, one in enumerate(some) if one.fits(value)]
    most = max((asked for asked, _ in fit), default=0)
    best = [number for asked, number in fit if asked == most]
    return best[0] if len(best) == 1 else None


def _choice(schema: Any, document: SchemaText) -> RootChoice | None:
    """None of what is no object with properties."""
    called = str(schema.get("$ref", "")) if isinstance(schema, dict) else ""
    try:
        found, _, _ = SchemaWalk(document).resolved(schema, document, "$", ())
    except NoColumn:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("properties"), dict):
        return None
    name, required = found.get("title"), found.get("required")
    texts = {member: told for member, one in found["properties"].items() if (told := _texts(one))}
    return RootChoice(
        name if isinstance(name, str) and name else called.rpartition("/")[2],
        frozenset(one for one in required if isinstance(one, str)) if isinstance(required, list) else frozenset(),
        texts,
    )


def _texts(schema: Any) -> frozenset[str]:
    """The texts that a member may be, if it may be no others."""
    if not isinstance(schema, dict):
        return frozenset()
    some = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(some, list) or not some or not all(isinstance(one, str) for one in some):
        return frozenset()
    return frozenset(some)
