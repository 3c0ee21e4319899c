"""Avro values, by fastavro without its logical types: what these make of a number or of bytes is told here.

    fastavro ── numbers, texts, bytes, dicts, lists ── avro_shapes.py ── a document

Bytes behind a value, an int beyond 32 bits and a decimal with more digits than its type has are refused: fastavro
takes these.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.proof.readers.avro_rest import Rest
from exporter.proof.readers.avro_shapes import Shaping
from exporter.proof.readers.reader import NoGoodRecord, NoValue, SentValue, Undecided, base128

DEPTH_MAX = 100
SINGLE_OBJECT = b"\xc3\x01"


@dataclass(frozen=True)
class AvroSchemas:
    """One writer's schema. plain: for fastavro, without logical types. whole, named: as written, by full names.

    branches: of a union at the root; None of one that is null.
    """

    plain: Any
    whole: Any
    named: Mapping[str, Any]
    branches: tuple[AvroSchemas | NoGoodRecord | None, ...] = ()

    @property
    def name(self) -> str:
        """Full name of the record."""
        return str(self.whole["name"])

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other full names of it."""
        space = self.name.rpartition(".")[0]
        return tuple(one if "." in one or not space else f"{space}.{one}" for one in self.whole.get("aliases", ()))


class AvroValues:
    """See Reader. Raises ConfigError where fastavro is not installed."""

    def __init__(self, form: ValueFormat) -> None:
        try:
            import fastavro
        except ImportError as error:
            hint = "pip install 'kafka-delta-exporter[audit]'"
            raise ConfigError("Avro values are audited by fastavro, which is not installed", hint) from error
        self._fastavro = fastavro
        self._form = form
        self._plans: dict[SchemaText, AvroSchemas | NoGoodRecord | Undecided] = {}
        self._whole = self._of_files()
        records = [one for plan in self._whole for one in (plan.branches or (plan,)) if isinstance(one, AvroSchemas)]
        self._files = {one.name: one for one in records}
        single = self._whole if form.frame == "single_object" else []
        self._by_fingerprint = {self._fingerprint(plan): plan for plan in single}

    def read(self, body: bytes, schema: SchemaText | None) -> SentValue:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        plan, body = self._plan(body, schema)
        plan, body = _branch(plan, body)
        by = self._reader(plan)
        found = self._document(body, plan, by)
        if by is not plan:
            written = self._document(body, plan, plan)
            found = Rest(by.named, plan.named).added(found, written, by.whole, plan.whole)
        return SentValue(found or {}, plan.name)

    def _document(self, body: bytes, plan: AvroSchemas, by: AvroSchemas) -> Any:
        """A value of a writer's, as the other one reads it."""
        stream = io.BytesIO(body)
        try:
            wanted = None if by is plan else by.plain
            raw = self._fastavro.schemaless_reader(stream, plan.plain, wanted, return_named_type=True)
        except (RecursionError, MemoryError) as error:
            raise Undecided(str(error)) from error
        except Exception as error:
            raise NoGoodRecord(f"fastavro: {error!r}") from error
        if stream.tell() != len(body):
            raise NoGoodRecord(f"{len(body) - stream.tell()} bytes behind the value")
        return Shaping(by.named, self._form.semantic_types == "connect").of(by.whole, raw, ())

    def _plan(self, body: bytes, schema: SchemaText | None) -> tuple[AvroSchemas, bytes]:
        """What reads a value, and what is to be read."""
        if schema is not None:
            return self._of_registry(schema), body
        if self._form.frame == "single_object":
            plan = self._by_fingerprint.get(body[2:10]) if body[:2] == SINGLE_OBJECT else None
            if plan is None:
                raise NoGoodRecord("no fingerprint of a schema that is known")
            return plan, body[10:]
        if self._form.message:
            plan = self._files.get(self._form.message)
        else:
            unions = [one for one in self._whole if any(isinstance(branch, AvroSchemas) for branch in one.branches)]
            found = unions or [*self._files.values()]
            plan = found[0] if len(found) == 1 else None
        if plan is None:
            raise Undecided("it is not told which of the schemas these values have")
        return plan, body

    def _reader(self, writer: AvroSchemas) -> AvroSchemas:
        """By which a writer's values are read: the file's that has its name, or has it as an alias; else as written."""
        found = [self._files[writer.name]] if writer.name in self._files else []
        found = found or [one for one in self._files.values() if writer.name in one.aliases]
        return found[0] if len(found) == 1 else writer

    def _of_registry(self, schema: SchemaText) -> AvroSchemas:
        if schema not in self._plans:
            try:
                self._plans[schema] = self._made([*_in_order(schema)], defaults=False)
            except (NoGoodRecord, Undecided) as error:
                self._plans[schema] = error
        found = self._plans[schema]
        if isinstance(found, (NoGoodRecord, Undecided)):
            raise type(found)(*found.args)  # a new one: the same would grow by a traceback each time
        return found

    def _of_files(self) -> list[AvroSchemas]:
        """A file may name what another one has, in any order."""
        left, done, found = [text for _, text in self._form.schemas], list[str](), list[AvroSchemas]()
        while left:
            tried = [(text, self._tried([text]) or self._tried([*done, text])) for text in left]
            usable = [(text, plan) for text, plan in tried if plan is not None]
            if not usable:
                break
            for text, plan in usable:
                left.remove(text)
                done.append(text)
                found.append(plan)
        return found

    def _tried(self, texts: list[str]) -> AvroSchemas | None:
        try:
            return self._made(texts, defaults=True)
        except (NoGoodRecord, Undecided):
            return None

    def _made(self, texts: Iterable[str], defaults: bool) -> AvroSchemas:
        """Of the last of these texts; it refers to the others. Raises NoGoodRecord for one that no table can have.

        defaults: whether other values are read by it; else they mean nothing, and fastavro may not like them. Raises
        Undecided for what it does not like otherwise.
        """
        named, plain_named = dict[str, Any](), dict[str, Any]()
        plain = whole = None
        dropped = {"logicalType"} if defaults else {"logicalType", "default"}
        try:
            for text in texts:
                given = json.loads(text)
                whole = self._fastavro.parse_schema(_without(given, {"default"}), named_schemas=named)
                plain = self._fastavro.parse_schema(_without(given, dropped), named_schemas=plain_named)
            if type(whole) is list:
                same = cast(list[Any], plain)  # it differs in logical types alone
                branches = tuple(_alone(one, other, plain_named, named) for one, other in zip(same, whole, strict=True))
                return AvroSchemas(plain, whole, named, branches)
            found = _alone(plain, whole, plain_named, named)
        except NoGoodRecord:
            raise
        except Exception as error:
            raise Undecided(f"the schema: {error!r}") from error
        if not isinstance(found, AvroSchemas):
            raise found or NoGoodRecord("the schema is no record")
        return found

    def _fingerprint(self, plan: AvroSchemas) -> bytes:
        whole = _without(_defined(plan.whole, plan.named, set()), {"logicalType"})
        form = self._fastavro.schema.to_parsing_canonical_form(whole)
        return bytes.fromhex(self._fastavro.schema.fingerprint(form, "CRC-64-AVRO"))


def _alone(
    plain: Any, whole: Any, plain_named: Mapping[str, Any], named: Mapping[str, Any]
) -> AvroSchemas | NoGoodRecord | None:
    """What reads values that are of one type; None of null."""
    if whole == "null":
        return None
    if type(whole) is str:
        plain, whole = plain_named.get(whole), named.get(whole)
    if type(whole) is not dict or whole["type"] not in ("record", "error"):
        return NoGoodRecord("the schema is no record")
    try:
        _check(whole, named, ())
    except NoGoodRecord as refused:
        return refused
    if type(plain) is dict:  # as parsed, with all that it may name
        plain = {**plain, "__fastavro_parsed": True, "__named_schemas": dict(plain_named)}
    return AvroSchemas(plain, whole, named)


def _branch(plan: AvroSchemas, body: bytes) -> tuple[AvroSchemas, bytes]:
    """The branch that a value of a union is of, and what follows its number. Raises NoValue, and NoGoodRecord."""
    if not plan.branches:
        return plan, body
    number, size = base128(body, 0, 10, "the number of a branch is cut off")
    if number % 2 or number // 2 >= len(plan.branches):
        raise NoGoodRecord("no such branch")
    found, rest = plan.branches[number // 2], body[size:]
    if found is None:
        raise NoGoodRecord("bytes behind a null") if rest else NoValue("the null of a union")
    if isinstance(found, NoGoodRecord):
        raise NoGoodRecord(*found.args)
    return found, rest


def _in_order(schema: SchemaText) -> Iterable[str]:
    """The texts of all that a schema refers to, each behind what it refers to itself, then its own."""
    found: dict[str, None] = {}

    def add(one: SchemaText) -> None:
        for _, other in one.references:
            add(other)
        found.setdefault(one.text)

    add(schema)
    return found


def _without(schema: Any, dropped: Collection[str]) -> Any:
    """A schema without some of its attributes, at any level."""
    if isinstance(schema, list):
        return [_without(one, dropped) for one in schema]
    if isinstance(schema, dict):
        return {key: _without(one, dropped) for key, one in schema.items() if key not in dropped}
    return schema


def _defined(schema: Any, named: Mapping[str, Any], done: set[str]) -> Any:
    """A schema in which each name is defined where it stands first."""
    if isinstance(schema, list):
        return [_defined(one, named, done) for one in schema]
    if isinstance(schema, str):
        return schema if schema in done or schema not in named else _defined(named[schema], named, done)
    done |= {schema["name"]} if "name" in schema else set()
    fields = [{**one, "type": _defined(one["type"], named, done)} for one in schema.get("fields", ())]
    inner = {key: _defined(schema[key], named, done) for key in ("items", "values") if key in schema}
    return {**schema, **({"fields": fields} if "fields" in schema else {}), **inner}


def _check(schema: Any, named: Mapping[str, Any], above: tuple[str, ...]) -> None:
    """Raises NoGoodRecord for a schema that is too deep, Undecided for one that repeats what takes no bytes: a few
    bytes would keep fastavro busy for minutes."""
    if len(above) > DEPTH_MAX:
        raise NoGoodRecord("the schema is too deep")
    if isinstance(schema, list):
        for one in schema:
            _check(one, named, above)
    elif isinstance(schema, str):
        if schema in named and schema not in above:
            _check(named[schema], named, above)
    elif schema["type"] in ("record", "error"):
        for field in schema["fields"]:
            _check(field["type"], named, (*above, schema["name"]))
    elif schema["type"] in ("array", "map"):
        inner = schema["items" if schema["type"] == "array" else "values"]
        _check(inner, named, (*above, ""))
        if schema["type"] == "array" and _takes_nothing(inner, named):
            raise Undecided("items that take no bytes")
    elif isinstance(schema["type"], (list, dict)):
        _check(schema["type"], named, above)


def _takes_nothing(schema: Any, named: Mapping[str, Any]) -> bool:
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _takes_nothing(named[schema], named))
    if isinstance(schema, list):
        return False
    kind = schema["type"]
    if kind in ("record", "error"):
        rest = {name: one for name, one in named.items() if name != schema["name"]}  # one in itself takes what it takes
        return all(_takes_nothing(one["type"], rest) for one in schema["fields"])
    return bool(kind == "fixed" and schema["size"] == 0) or kind == "null"
