"""Spark schema JSON -> the Arrow schema of an event type's columns.

What a format cannot carry without loss, or no table of ours can hold, is a ConfigError that names the column's path,
at start-up and not at the first record. What Spark's fields are marked with (core/columns.py) the Arrow fields are,
too; a mark of a JSON text stands at the very field that holds it. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from exporter.arrow.spark_types import arrow_scalar
from exporter.column.spark_json import read
from exporter.column.types import JSON, ListType, MapType, ScalarType, StructType, Type
from exporter.core.columns import EVOLVED
from exporter.errors import ConfigError
from exporter.formats.marks import JSON_MARK, evolved_mark

SCHEMA_DEPTH_MAX = 50
"""Levels of struct, array and map; far below what any JSON engine in use can recurse."""


def arrow_schema(spark_schema_json: str, event_type: str, form: str) -> pa.Schema:
    """The Arrow schema of `StructType.json()` text; nullable=false is kept where it is declared.

    form: name of the format, for messages.

    Raises ConfigError for a type that has no form in such values here and for empty structs. Names are for
    core/columns.py to judge.
    """
    return _Declared(event_type, form).schema(read(spark_schema_json))


class _Place(NamedTuple):
    """A column or a part of one. path: as messages show it. evolved: nobody declared it."""

    path: str
    depth: int
    evolved: bool = False

    def inside(self, shown: str) -> _Place:
        """What is one level below."""
        return self._replace(path=self.path + shown, depth=self.depth + 1)


class _Declared:
    """The columns that are declared for one event type."""

    def __init__(self, event_type: str, form: str) -> None:
        self._event_type = event_type
        self._form = form

    def schema(self, spec: Type) -> pa.Schema:
        if not isinstance(spec, StructType):
            raise self._refused("", "the schema is not a struct of columns", "give it as columns: `a INT, b STRING`")
        return pa.schema(self._fields(spec, _Place("", 1)))

    def _fields(self, struct: StructType, at: _Place) -> list[pa.Field]:
        """The children of one struct."""
        if not struct.fields:
            raise self._refused(at.path, "a struct without fields cannot be stored", "declare fields or drop it")
        fields = []
        for one in struct.fields:
            path = f"{at.path}.{one.name}" if at.path else one.name
            here = _Place(path, at.depth, at.evolved or EVOLVED in one.metadata)
            mark = evolved_mark(one.metadata[EVOLVED]) if EVOLVED in one.metadata else {}
            fields.append(self._field(one.name, one.type, one.nullable, here, mark))
        return fields

    def _field(self, name: str, kind: Type, nullable: bool, at: _Place, mark: dict[bytes, bytes]) -> pa.Field:
        """A field of a struct, an element, or the value of a map. mark: further metadata."""
        mark = {**mark, **JSON_MARK} if kind == JSON else mark
        return pa.field(name, self._type(kind, at), nullable=nullable or at.evolved, metadata=mark or None)

    def _type(self, kind: Type, at: _Place) -> pa.DataType:
        if at.depth > SCHEMA_DEPTH_MAX:
            raise self._refused(at.path, f"nested deeper than {SCHEMA_DEPTH_MAX} levels", "flatten it")
        if isinstance(kind, StructType):
            return pa.struct(self._fields(kind, at._replace(depth=at.depth + 1)))
        if isinstance(kind, ListType):
            return pa.list_(self._field("element", kind.inner, kind.nullable, at.inside(kind.shown), {}))
        if isinstance(kind, MapType):
            if kind.key != ScalarType("string"):
                what = f"a map's keys must be STRING: {self._form} has no others"
                raise self._refused(at.path, what, "use MAP<STRING, ...>")
            return pa.map_(pa.string(), self._field("value", kind.inner, kind.nullable, at.inside(kind.shown), {}))
        try:
            return arrow_scalar(kind)
        except KeyError:
            raise self._unsupported(kind.name, at.path) from None

    def _unsupported(self, kind: str, path: str) -> ConfigError:
        what = f"type {kind.upper()} has no {self._form} form here"
        hint = "use STRING, a number, BOOLEAN, DATE, TIMESTAMP, BINARY, STRUCT, ARRAY or MAP"
        return self._refused(path, what, hint)

    def _refused(self, path: str, what: str, hint: str) -> ConfigError:
        where = f"types.{self._event_type}" + (f", column {path}" if path else "")
        return ConfigError(f"{where}: {what}", hint)
