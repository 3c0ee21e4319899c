"""Avro schemas as values: parsed, with names resolved, in canonical form, with their fingerprint. Pure.

Attributes that the specification does not know stay (`props`), and a logical type that it does not allow where it
stands is none, as it says. What an exporter's columns can be made of is not decided here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from exporter.core.schemas import SchemaText

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NAMED = frozenset(("record", "enum", "fixed"))
_LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}
_EMPTY = 0xC15D213AA4D7A795


class BadAvroSchema(ValueError):
    """A schema that cannot be parsed; the text says why."""


class UndefinedName(BadAvroSchema):
    """A name that nothing defines. It may be defined in another file."""


@dataclass(eq=False)
class Schema:
    """One schema. Equal is only what is the same: a name stands for one object, so a recursive one refers to itself.

    name: full name of what has one, aliases likewise. items: of arrays, and the values of maps. default: of an enum.
    logical: only where it is allowed.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    items: Schema | None = None
    branches: tuple[Schema, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    props: Mapping[str, Any] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        """The name without its namespace; of what has none its kind."""
        return self.name.rpartition(".")[2] or self.kind


@dataclass(frozen=True, eq=False)
class AvroField:
    """One field of a record. default: parsed JSON, of meaning if `has_default`."""

    name: str
    schema: Schema
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


def parsed(schema: SchemaText) -> Schema:
    """A schema with all that it refers to. Raises BadAvroSchema."""
    outer: _Outer = {}
    try:
        _load(schema, outer, set())
        return _Parser(outer).schema(_json(schema.text), "")
    except RecursionError:
        raise BadAvroSchema("it is nested too deep") from None


def parsed_files(files: Iterable[tuple[str, str]]) -> list[Schema]:
    """The schemas of files, (name, text), by their names; they may use each other's. Raises BadAvroSchema."""
    outer: _Outer = {}
    found: dict[str, Schema] = {}
    waiting = {name: _json(text, name) for name, text in files}
    while waiting:
        before, why = len(waiting), ""
        for name, spec in list(waiting.items()):
            parser = _Parser(outer)
            try:
                found[name] = parser.schema(spec, "")
            except UndefinedName as error:
                why = f"{name}: {error}"
                continue
            except RecursionError:
                raise BadAvroSchema(f"{name}: it is nested too deep") from None
            except BadAvroSchema as error:
                raise BadAvroSchema(f"{name}: {error}") from None
            _tell(parser, outer)
            del waiting[name]
        if len(waiting) == before:
            raise BadAvroSchema(why)
    return [found[name] for name in sorted(found)]


def records_of(schemas: Iterable[Schema]) -> list[Schema]:
    """The records that values may be: the schemas themselves, and the branches of those that are unions."""
    return [one for schema in schemas for one in (schema.branches or (schema,)) if one.kind == "record"]


def named_in(schema: Schema, found: dict[str, Schema] | None = None) -> dict[str, Schema]:
    """Full name -> schema, of all that has one in a schema."""
    found = {} if found is None else found
    if schema.name in found:
        return found
    if schema.name:
        found[schema.name] = schema
    for below in (*(one.schema for one in schema.fields), *schema.branches, *([schema.items] if schema.items else ())):
        named_in(below, found)
    return found


_Outer: TypeAlias = "dict[str, list[Schema]]"
"""Full name -> what other texts define it as."""


def _load(schema: SchemaText, outer: _Outer, loaded: set[str]) -> None:
    """Define what a schema refers to, each text once."""
    for name, below in schema.references:
        if below.text in loaded:
            continue
        loaded.add(below.text)
        _load(below, outer, loaded)
        parser = _Parser(outer)
        try:
            parser.schema(_json(below.text), "")
        except BadAvroSchema as error:
            raise BadAvroSchema(f"its reference {name}: {error}") from None
        _tell(parser, outer)


def _tell(parser: _Parser, outer: _Outer) -> None:
    """What a text has defined may be used by others."""
    for name, schema in parser.names.items():
        outer.setdefault(name, []).append(schema)


def _json(text: str, name: str = "") -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadAvroSchema(f"{name + ': ' if name else ''}it is no JSON: {error}") from None
    except RecursionError:
        raise BadAvroSchema(f"{name + ': ' if name else ''}it is nested too deep") from None


class _Parser:
    """Parses one text. outer: what others define. names: what it has defined itself."""

    def __init__(self, outer: _Outer) -> None:
        self._outer = outer
        self.names: dict[str, Schema] = {}

    def schema(self, spec: Any, space: str) -> Schema:
        """space: the namespace around it."""
        if isinstance(spec, str):
            return self._called(spec, space)
        if isinstance(spec, list):
            return self._union(spec, space)
        if not isinstance(spec, dict):
            raise BadAvroSchema(f"{json.dumps(spec)[:80]} is no schema")
        kind = spec.get("type")
        if isinstance(kind, (dict, list)):  # {"type": {"type": ...}}
            return self.schema(kind, space)
        if kind in NAMED or kind == "error":
            return self._named(spec, "record" if kind == "error" else kind, space)
        if kind == "array":
            return Schema("array", items=self.schema(_given(spec, "items", kind), space), props=_props(spec))
        if kind == "map":
            return Schema("map", items=self.schema(_given(spec, "values", kind), space), props=_props(spec))
        if kind in PRIMITIVES:
            logical, precision, scale = _logical(spec, kind, 0)
            return Schema(kind, logical=logical, precision=precision, scale=scale, props=_props(spec))
        if isinstance(kind, str):
            return self._called(kind, space)
        raise BadAvroSchema("a schema has no type")

    def _called(self, name: str, space: str) -> Schema:
        if name in PRIMITIVES:
            return Schema(name)
        full = name if "." in name or not space else f"{space}.{name}"
        if found := self.names.get(full) or self.names.get(name):
            return found
        others = self._outer.get(full) or self._outer.get(name) or []
        if not others:
            raise UndefinedName(f"nothing is called {name!r}")
        if len({canonical(one) for one in others}) > 1:
            raise BadAvroSchema(f"{name!r} is defined in several ways")
        return others[0]

    def _union(self, specs: list[Any], space: str) -> Schema:
        branches = tuple(self.schema(one, space) for one in specs)
        if not branches:
            raise BadAvroSchema("a union has no branch")
        names = [one.name or one.kind for one in branches]
        if "union" in names or len(set(names)) < len(names):
            raise BadAvroSchema(f"a union has these branches: {', '.join(names)}")
        return Schema("union", branches=branches)

    def _named(self, spec: dict[str, Any], kind: str, space: str) -> Schema:
        name = _given(spec, "name", kind)
        if not isinstance(name, str) or not name.strip("."):
            raise BadAvroSchema(f"{name!r} is no name of a {kind}")
        given = spec.get("namespace")
        if "." in name:
            space, _, name = name.rpartition(".")
        elif isinstance(given, str):
            space = given
        full = f"{space}.{name}" if space else name
        if full in self.names or full in PRIMITIVES:
            raise BadAvroSchema(f"{full!r} is defined twice")
        aliases = tuple(one if "." in one or not space else f"{space}.{one}" for one in _texts(spec, "aliases"))
        found = self.names[full] = Schema(kind, full, aliases, props=_props(spec))
        if kind == "record":
            found.fields = self._fields(_given(spec, "fields", full), full, space)
        elif kind == "enum":
            found.symbols = _texts(spec, "symbols")
            found.default = spec.get("default")
            if not found.symbols or len(set(found.symbols)) < len(found.symbols):
                raise BadAvroSchema(f"the enum {full!r} has no symbols, or one twice")
            if found.default is not None and found.default not in found.symbols:
                raise BadAvroSchema(f"the enum {full!r} has a default that is none of its symbols")
        else:
            size = _given(spec, "size", full)
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise BadAvroSchema(f"{size!r} is no size of the fixed {full!r}")
            found.size = size
            found.logical, found.precision, found.scale = _logical(spec, "fixed", size)
        return found

    def _fields(self, specs: Any, record: str, space: str) -> tuple[AvroField, ...]:
        if not isinstance(specs, list):
            raise BadAvroSchema(f"the record {record!r} has no list of fields")
        found: dict[str, AvroField] = {}
        for spec in specs:
            name = spec.get("name") if isinstance(spec, dict) else None
            if not isinstance(name, str) or not name or name in found:
                raise BadAvroSchema(f"the record {record!r} has a field without a name, or one twice: {name!r}")
            schema = self.schema(_given(spec, "type", f"{record}.{name}"), space)
            found[name] = AvroField(name, schema, _texts(spec, "aliases"), "default" in spec, spec.get("default"))
        return tuple(found.values())


def _given(spec: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in spec:
        raise BadAvroSchema(f"{where} has no {name!r}")
    return spec[name]


def _texts(spec: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = spec.get(name, ())
    if not isinstance(found, Sequence) or isinstance(found, str) or not all(isinstance(one, str) for one in found):
        raise BadAvroSchema(f"{name!r} is no list of texts")
    return tuple(found)


_KNOWN = frozenset(
    ("type", "name", "namespace", "aliases", "fields", "symbols", "items", "values", "size", "default", "order", "doc")
)


def _props(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in _KNOWN}


def _logical(spec: Mapping[str, Any], kind: str, size: int) -> tuple[str, int, int]:
    """The logical type with its precision and scale; an empty name if there is none that is allowed."""
    logical = spec.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = spec.get("precision"), spec.get("scale", 0)
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in (precision, scale))
        if not whole or precision is None or precision <= 0 or not 0 <= scale <= precision:
            return "", 0, 0
        if kind == "fixed" and (precision > 3 * size or 10**precision > 2 ** (8 * size - 1)):
            return "", 0, 0
        return "decimal", precision, scale
    allowed = (
        (isinstance(logical, str) and _LOGICAL.get(logical) == kind)
        or (logical == "uuid" and (kind == "string" or (kind == "fixed" and size == 16)))
        or (logical == "duration" and kind == "fixed" and size == 12)
    )
    return (str(logical), 0, 0) if allowed else ("", 0, 0)


def canonical(schema: Schema) -> str:
    """The parsing canonical form of a schema (Avro's specification)."""
    return _canonical(schema, set())


def _canonical(schema: Schema, seen: set[str]) -> str:
    if schema.kind == "union":
        return f"[{','.join(_canonical(one, seen) for one in schema.branches)}]"
    if schema.items is not None:
        below = _canonical(schema.items, seen)
        return f'{{"type":"{schema.kind}","{"items" if schema.kind == "array" else "values"}":{below}}}'
    if schema.kind not in NAMED:
        return _quoted(schema.kind)
    if schema.name in seen:
        return _quoted(schema.name)
    seen.add(schema.name)
    head = f'{{"name":{_quoted(schema.name)},"type":"{schema.kind}",'
    if schema.kind == "enum":
        return f'{head}"symbols":[{",".join(map(_quoted, schema.symbols))}]}}'
    if schema.kind == "fixed":
        return f'{head}"size":{schema.size}}}'
    fields = (f'{{"name":{_quoted(one.name)},"type":{_canonical(one.schema, seen)}}}' for one in schema.fields)
    return f'{head}"fields":[{",".join(fields)}]}}'


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _crc_table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (_EMPTY & -(number & 1))
        table.append(number)
    return table


_CRC = _crc_table()


def fingerprint(schema: Schema) -> int:
    """CRC-64-AVRO of the canonical form: what stands in front of a single object, little-endian."""
    crc = _EMPTY
    for byte in canonical(schema).encode():
        crc = (crc >> 8) ^ _CRC[(crc ^ byte) & 0xFF]
    return crc
