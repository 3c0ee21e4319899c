"""Text and bytes: a value is one column, `value`, and nothing in it is looked at. Runs on Spark executors.

    value     into a column BINARY as it is; into a column STRING, or of the kind string, if it is UTF-8
    another column   null: a value has no fields
    no such column   the value is an unknown field: {"value": "..."}, of bytes in base64
"""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import all_but, numbered
from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.format import Peek, Read, Reader
from exporter.formats.marks import is_evolved
from exporter.formats.schema import arrow_schema

VALUE = "value"
"""The one column."""


class Raw:
    """The format of values that nobody looks into."""

    def __init__(self, form: ValueFormat) -> None:
        self._is_text = form.kind == "string"

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """Implements `Format.schema`: the Arrow schema of a type's columns."""
        found = arrow_schema(spark_json, event_type, "raw")
        for field in found:
            if is_evolved(field):
                continue
            if field.name == VALUE and not _fits(field.type):
                what = f"types.{event_type}, column value: a raw value is text or bytes, not {field.type}"
                raise ConfigError(what, "declare it as STRING or BINARY")
            if field.name != VALUE and not field.nullable:
                what = f"types.{event_type}, column {field.name}: a raw value is the column `value` and has no other"
                raise ConfigError(what, "leave it out: `[types.<event type>]` needs no columns with this format")
        return found

    def peek(self, source: TypeFrom) -> Peek:
        """Implements `Format.peek`: what finds event types in values."""
        raise ConfigError("raw values have no fields", "take the event type from a header, the key or the topic")

    def reader(self, event_type: str, schema: pa.Schema, routing: Routing, json_text: JsonText = "as_sent") -> Reader:
        """Implements `Format.reader`: what reads a type's values into columns."""
        return RawReader(schema, routing, self._is_text)


class RawReader:
    """Reads values as they are."""

    def __init__(self, schema: pa.Schema, routing: Routing, is_text: bool) -> None:
        self._schema = schema
        self._policy = routing.unknown_fields
        at = schema.get_field_index(VALUE)
        self._has_column = at >= 0 and _fits(schema.field(at).type)
        self._keeps_all = not len(schema)
        self._is_text = is_text or (self._has_column and pa.types.is_string(schema.field(at).type))

    def read(self, values: pa.BinaryArray) -> Read:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        refused = self._refused(values)
        rows = all_but(numbered(len(values)), sorted(refused))
        taken = values if not refused else values.take(rows)
        columns = [self._column(field, taken) for field in self._schema]
        rescued, ignored = pa.nulls(len(taken), pa.string()), pa.nulls(len(taken), pa.int32())
        if not self._has_column and (self._keeps_all or self._policy == "rescue"):
            rescued = pa.array([self._unknown(one) for one in taken.to_pylist()], pa.string())
        elif not self._has_column:
            ignored = pa.repeat(pa.scalar(1, pa.int32()), len(taken))
        return Read(rows, columns, None, rescued, ignored, refused)

    def _refused(self, values: pa.BinaryArray) -> dict[int, str]:
        refused: dict[int, str] = {}
        if values.null_count:
            empty = pc.indices_nonzero(values.is_null()).to_pylist()
            refused = dict.fromkeys(empty, "tombstone: the value is null")
        if self._policy == "dead_letter" and not self._has_column and not self._keeps_all:
            return {row: refused.get(row, "unknown_field: $.value") for row in range(len(values))}
        return refused | (_not_text(values) if self._is_text else {})

    def _column(self, field: pa.Field, values: pa.BinaryArray) -> pa.Array:
        if field.name == VALUE and _fits(field.type):
            return values.cast(field.type)
        return pa.nulls(len(values), field.type)

    def _unknown(self, value: bytes) -> str:
        """A value's text as `_rescued` has it."""
        text = value.decode() if self._is_text else base64.b64encode(value).decode()
        return json.dumps({VALUE: text}, ensure_ascii=False, separators=(",", ":"))


def _fits(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _not_text(values: pa.BinaryArray) -> dict[int, str]:
    """The rows that are not UTF-8, each with the first byte that is not."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return {row: why for row, raw in enumerate(values.to_pylist()) if raw is not None and (why := _bad_byte(raw))}
    return {}


def _bad_byte(raw: bytes) -> str:
    try:
        raw.decode()
    except UnicodeDecodeError as bad:
        return f"not_utf8: byte {bad.start} of the value"
    return ""
