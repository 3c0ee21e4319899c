"""What fastavro reads without logical types, as a document: dates, times, decimals, unions as objects.

What no column can hold is in the document as anything else is: the row has it in `_rescued`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exporter.proof.contents.typed import Day, Floating, Instant
from exporter.proof.readers.reader import NoGoodRecord, decimal_of
from exporter.proof.readers.semantics import meant

AGAIN_MAX = 50
"""Levels of a record inside of itself that a value may have."""
AGAIN = ""
"""Once for each time that a record stands in itself."""
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}


@dataclass(frozen=True)
class Shaping:
    """From what fastavro gives to a document. connect: names of Connect's types count."""

    named: Mapping[str, Any]
    connect: bool

    def of(self, schema: Any, value: Any, above: tuple[str, ...]) -> Any:
        """One value by its type. above: the records that it stands in. Raises NoGoodRecord."""
        if isinstance(schema, str):
            known = schema in self.named
            return self.of(self.named[schema], value, above) if known else _scalar(schema, {}, value)
        if isinstance(schema, list):
            return self._union(schema, value, above)
        kind = schema["type"]
        if kind in ("record", "error"):
            found: Any = self._record(schema, value, above)
        elif kind == "array":
            found = [self._standing(schema["items"], one, above) for one in value]
        elif kind == "map":
            found = {name: self._standing(schema["values"], one, above) for name, one in value.items()}
        elif isinstance(kind, (list, dict)) or kind in self.named:
            found = self.of(kind, value, above)
        else:
            found = _scalar(kind, schema, value)
        if self.connect and "connect.name" in schema and kind not in ("record", "error"):
            parameters = {"scale": schema["scale"]} if "scale" in schema else schema.get("connect.parameters", {})
            return meant(schema["connect.name"], parameters, found)
        return found

    def _record(self, schema: Any, value: Any, above: tuple[str, ...]) -> Any:
        """None of a record that says nothing, whatever its value."""
        name, depth = schema["name"], above.count(AGAIN)
        names = [one for one in above if one != AGAIN]
        if name in names:
            names, depth = names[: names.index(name)], depth + 1
        if depth > AGAIN_MAX:
            raise NoGoodRecord(f"{name} is too deep in itself")
        inside = (*names, name, *[AGAIN] * depth)
        found = {one["name"]: self.of(one["type"], value[one["name"]], inside) for one in schema["fields"]}
        return None if _says_nothing(schema, self.named) else found

    def _standing(self, schema: Any, value: Any, above: tuple[str, ...]) -> Any:
        """A value of which something is left: a record that says nothing is an empty object."""
        found = self.of(schema, value, above)
        return {} if found is None and type(value) in (dict, tuple) else found

    def _union(self, members: list[Any], value: Any, above: tuple[str, ...]) -> Any:
        some = [one for one in members if one != "null"]
        if value is None:
            return None
        member = _member(some, value, self.named)
        if type(value) is tuple:
            value = value[1]
        found = self._standing(member, value, above)
        kinds = {one if isinstance(one, str) else one["type"] for one in some}
        if len(some) == 1 or kinds in ({"int", "long"}, {"float", "double"}):
            return found
        called = [_called(one).lower() for one in members]
        at = next(at for at, one in enumerate(members) if one is member)
        name = called[at] if called[at] not in called[:at] else _full(member)
        return {f"member_{name}": found}


def _says_nothing(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether values of a type are all the same: null, or a record of such."""
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _says_nothing(named[schema], named))
    if isinstance(schema, list):
        return all(one == "null" for one in schema)
    if schema["type"] in ("record", "error"):
        rest = {name: one for name, one in named.items() if name != schema["name"]}
        return all(_says_nothing(one["type"], rest) for one in schema["fields"])
    return bool(schema["type"] == "null")


def _full(member: Any) -> str:
    return member if isinstance(member, str) else str(member.get("name", member["type"]))


def _member(members: list[Any], value: Any, named: Mapping[str, Any]) -> Any:
    """Which one a value is of: named ones come with their name, of the others there is one for each kind."""
    if type(value) is tuple:
        return next(one for one in members if (one if isinstance(one, str) else one.get("name")) == value[0])
    for one in members:
        kind = one if isinstance(one, str) else one["type"]
        if kind in named or kind not in _MADE_OF:
            continue
        if type(value) is _MADE_OF[kind] and not (kind == "int" and _beyond(value)):
            return one
    raise NoGoodRecord("no member of the union")


_MADE_OF: dict[Any, type] = {
    "boolean": bool, "int": int, "long": int, "float": float, "double": float, "string": str, "bytes": bytes,
    "array": list, "map": dict,
}  # fmt: skip


def _beyond(value: Any) -> bool:
    """Whether a number is beyond 32 bits."""
    return not -(2**31) <= value < 2**31


def _called(member: Any) -> str:
    """A member's name in a column: its type, of a named one the name without its namespace."""
    name = member if isinstance(member, str) else member.get("name", member["type"])
    return str(name).rpartition(".")[2]


def _scalar(kind: str, schema: Mapping[str, Any], value: Any) -> Any:
    """By the type and its logical type, if that is one for it."""
    logical = schema.get("logicalType", "")
    if kind == "int" and _beyond(value):
        raise NoGoodRecord("an int beyond 32 bits")
    if kind in ("float", "double"):
        return Floating(value, kind == "float")
    if kind in ("bytes", "fixed"):
        if logical == "decimal" and _is_decimal(kind, schema):
            found = decimal_of(value, schema.get("scale", 0))
            if found and len(found.as_tuple().digits) > schema["precision"]:
                raise NoGoodRecord(f"a decimal of more than {schema['precision']} digits")
            return found
        return str(uuid.UUID(bytes=value)) if logical == "uuid" and len(value) == 16 else value
    if kind == "int" and logical == "date":
        return Day(value)
    head, _, unit = logical.rpartition("-")
    if kind == "long" and head in ("timestamp", "local-timestamp") and unit in _PER_SECOND:
        return Instant(value * 1_000_000 // _PER_SECOND[unit], value)
    return value


def _is_decimal(kind: str, schema: Mapping[str, Any]) -> bool:
    """Whether a logical type is one, by the specification, and a column can hold it; else its values are bytes."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not 0 < precision <= 38:
        return False
    return kind != "fixed" or (precision <= 3 * schema["size"] and 10**precision <= 2 ** (8 * schema["size"] - 1))
