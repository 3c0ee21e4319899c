"""Spark schema JSON -> the Arrow schema of an event type's columns.

What a format cannot carry without loss, or no table of ours can hold, is a ConfigError that names the column's path,
at start-up and not at the first record. What Spark's fields are marked with (core/columns.py) the Arrow fields are,
too; a mark of a JSON text stands at the very field that holds it. Pure.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from exporter.arrow.spark_types import arrow_scalar
from exporter.core.columns import EVOLVED, JSON_TEXT
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
    return _Declared(event_type, form).schema(json.loads(spark_schema_json))


class _Place(NamedTuple):
    """A column or a part of one. path: as messages show it. relative: from the nearest field of a struct.

    json_paths: where that field holds JSON texts (JSON_TEXT). evolved: nobody declared it.
    """

    path: str
    depth: int
    relative: str = ""
    json_paths: frozenset[str] = frozenset()
    evolved: bool = False

    @property
    def holds_json(self) -> bool:
        return (self.relative or ".") in self.json_paths

    def inside(self, shown: str, step: str) -> _Place:
        """What is one level below."""
        relative = f"{self.relative}.{step}" if self.relative else step
        return self._replace(path=self.path + shown, depth=self.depth + 1, relative=relative)


class _Declared:
    """The columns that are declared for one event type."""

    def __init__(self, event_type: str, form: str) -> None:
        self._event_type = event_type
        self._form = form

    def schema(self, spec: Any) -> pa.Schema:
        if not isinstance(spec, dict) or spec.get("type") != "struct":
            raise self._refused("", "the schema is not a struct of columns", "give it as columns: `a INT, b STRING`")
        return pa.schema(self._fields(spec["fields"], _Place("", 1)))

    def _fields(self, specs: list[dict[str, Any]], at: _Place) -> list[pa.Field]:
        """The children of one struct."""
        if not specs:
            raise self._refused(at.path, "a struct without fields cannot be stored", "declare fields or drop it")
        fields = []
        for spec in specs:
            metadata = spec.get("metadata", {})
            path = f"{at.path}.{spec['name']}" if at.path else spec["name"]
            json_paths = frozenset(metadata[JSON_TEXT].split(",")) if JSON_TEXT in metadata else frozenset[str]()
            here = _Place(path, at.depth, "", json_paths, at.evolved or EVOLVED in metadata)
            mark = evolved_mark(metadata[EVOLVED]) if EVOLVED in metadata else {}
            fields.append(self._field(spec["name"], spec["type"], spec["nullable"], here, mark))
        return fields

    def _field(self, name: str, spec: Any, nullable: bool, at: _Place, mark: dict[bytes, bytes]) -> pa.Field:
        """A field of a struct, an element, or the value of a map. mark: further metadata."""
        kind = self._type(spec, at)
        mark = {**mark, **JSON_MARK} if pa.types.is_string(kind) and at.holds_json else mark
        return pa.field(name, kind, nullable=nullable or at.evolved, metadata=mark or None)

    def _type(self, spec: Any, at: _Place) -> pa.DataType:
        """The Arrow type of one Spark type (a name, or an object for nested types)."""
        if at.depth > SCHEMA_DEPTH_MAX:
            raise self._refused(at.path, f"nested deeper than {SCHEMA_DEPTH_MAX} levels", "flatten it")
        if isinstance(spec, str):
            return self._primitive(spec, at.path)
        kind = spec.get("type")
        if kind == "struct":
            return pa.struct(self._fields(spec["fields"], at._replace(depth=at.depth + 1)))
        if kind == "array":
            inside = at.inside("[]", "element")
            return pa.list_(self._field("element", spec["elementType"], spec["containsNull"], inside, {}))
        if kind == "map":
            if spec["keyType"] != "string":
                what = f"a map's keys must be STRING: {self._form} has no others"
                raise self._refused(at.path, what, "use MAP<STRING, ...>")
            inside = at.inside("{}", "value")
            return pa.map_(pa.string(), self._field("value", spec["valueType"], spec["valueContainsNull"], inside, {}))
        raise self._unsupported(str(kind), at.path)

    def _primitive(self, name: str, path: str) -> pa.DataType:
        found = arrow_scalar(name)
        if found is None:
            raise self._unsupported(name, path)
        return found

    def _unsupported(self, kind: str, path: str) -> ConfigError:
        what = f"type {kind.upper()} has no {self._form} form here"
        hint = "use STRING, a number, BOOLEAN, DATE, TIMESTAMP, BINARY, STRUCT, ARRAY or MAP"
        return self._refused(path, what, hint)

    def _refused(self, path: str, what: str, hint: str) -> ConfigError:
        where = f"types.{self._event_type}" + (f", column {path}" if path else "")
        return ConfigError(f"{where}: {what}", hint)
