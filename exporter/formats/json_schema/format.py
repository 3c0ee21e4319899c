"""JSON with a schema: read as JSON, with columns and names that the schema gives. Runs on Spark executors.

A value is not validated: what the table cannot hold is kept in `_rescued`, or refused where a column is declared.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.envelopes.texts import EnvelopedTexts
from exporter.formats.format import Format, Peek, Reader
from exporter.formats.frames import HEAD, NO_ID, confluent_ids
from exporter.formats.json.format import Json
from exporter.formats.json_schema.columns import title
from exporter.formats.json_schema.meaning import MeantReader
from exporter.formats.json_schema.roots import RootChoice, choices, chosen
from exporter.formats.unframed import Unframed, unframed

NO_CHOICE = "no_type: the value fits none of what its schema may be, or several alike"


class JsonSchema:
    """The format of JSON objects with a schema, of a registry or from a file."""

    def __init__(self, form: ValueFormat, schemas: KnownSchemas) -> None:
        self._form = form
        self._schemas = schemas
        made: Format = Json() if form.envelope == "none" else EnvelopedTexts(Json(), form)
        self._inner: Format = Unframed(made) if form.is_framed else made
        self._connect = form.semantic_types == "connect"

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """Implements `Format.schema`: the Arrow schema of a type's columns."""
        return self._inner.schema(spark_json, event_type)

    def peek(self, source: TypeFrom) -> Peek:
        """Implements `Format.peek`: what finds event types in values."""
        if source.kind != "schema":
            return self._inner.peek(source)
        if self._form.is_framed:
            return _Titles(self._schemas, source)
        texts = [SchemaText("JSON", text) for _, text in self._form.schemas]
        if len(texts) == 1 and choices(texts[0]):
            return _Chosen(texts[0], source)
        names = [title(text) for text in texts]
        if len(names) != 1 or not names[0]:
            what = "a value without a frame has the name of its schema if there is one schema, and that has a title"
            raise ConfigError(what, "take the event type from a field, a header, the key or the topic")
        return _One(_named(names[0], source))

    def reader(self, event_type: str, schema: pa.Schema, routing: Routing, json_text: JsonText = "as_sent") -> Reader:
        """Implements `Format.reader`: what reads a type's values into columns."""
        inner = self._inner.reader(event_type, schema, routing, json_text)
        if not self._connect:
            return inner
        return MeantReader(inner, self._form, self._schemas, schema, routing.event_time)


def _named(name: str, source: TypeFrom) -> str:
    """A title as the event type is to be called."""
    return name.rpartition(".")[2] if source.name == "short" else name


class _One:
    """A Peek where all values have one type."""

    def __init__(self, name: str) -> None:
        self._name = name

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """Implements `Peek.types`: the event type of each value, or why there is none."""
        named = pa.repeat(pa.scalar(self._name, pa.string()), len(values))
        return pc.if_else(pc.or_(skipped, values.is_null()), pa.scalar(None, pa.string()), named), {}


class _Chosen:
    """A Peek of bare values of one schema that is a choice."""

    def __init__(self, schema: SchemaText, source: TypeFrom) -> None:
        self._choices = choices(schema)
        self._source = source

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """Implements `Peek.types`: the event type of each value, or why there is none."""
        asked = pc.if_else(skipped, None, values).to_pylist()
        names = [None if body is None else _name_of(self._choices, body, self._source) for body in asked]
        reasons = {row: NO_CHOICE for row, name in enumerate(names) if name is None and asked[row] is not None}
        return pa.array(names, pa.string()), reasons


def _name_of(some: tuple[RootChoice, ...], body: bytes, source: TypeFrom) -> str | None:
    """The event type of a value whose schema is a choice."""
    number = chosen(some, body)
    return None if number is None else _named(some[number].name, source) or None


class _Titles:
    """A Peek that goes by the titles of schemas, or of the choice that a value is of."""

    def __init__(self, schemas: KnownSchemas, source: TypeFrom) -> None:
        self._schemas = schemas
        self._source = source
        self._known: dict[int, str] = {NO_ID: ""}

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """Implements `Peek.types`: the event type of each value, or why there is none."""
        _, refused = unframed(values)
        ids = confluent_ids(values).tolist()
        asked = [not skip for skip in skipped.to_pylist()]
        names = [self._title(one) or None if wanted else None for one, wanted in zip(ids, asked, strict=True)]
        unnamed = [row for row, name in enumerate(names) if name is None and asked[row] and values[row].is_valid]
        reasons: dict[int, str] = {}
        for row in unnamed:
            some = () if row in refused else self._choices(ids[row])
            names[row] = _name_of(some, values[row].as_py()[HEAD:], self._source) if some else None
            if names[row] is None:
                none = NO_CHOICE if some else f"no_type: the schema of id {self._schemas.called(ids[row])} has no title"
                reasons[row] = refused.get(row) or none
        return pa.array(names, pa.string()), reasons

    def _choices(self, schema_id: int) -> tuple[RootChoice, ...]:
        schema = self._schemas.text(schema_id)
        return () if schema is None else choices(schema)

    def _title(self, schema_id: int) -> str:
        if schema_id not in self._known:
            schema = self._schemas.text(schema_id)
            self._known[schema_id] = _named(title(schema), self._source) if schema is not None else ""
        return self._known[schema_id]
