"""Types in Spark's JSON, which is the notation that is stored. Pure.

    payload JSON      payload: string, metadata {"exporter.json": "."}
    xs ARRAY<JSON>    xs: array of string, metadata {"exporter.json": "element"}

What was read is written key by key in the order that it had: texts of schemas are compared and in fingerprints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from exporter.column.types import JSON, DecimalType, Field, Fold, ListType, MapType, ScalarType, StructType, Type, leaf

JSON_TEXT = "exporter.json"
"""Metadata of a field that holds JSON as text: where in it, `.`, `element`, `value`, `element.value`."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@lru_cache(maxsize=256)
def read(text: str) -> Type:
    """A type, as it is stored."""
    return type_of(json.loads(text))


def struct_of(text: str) -> StructType:
    """The columns of a schema."""
    found = read(text)
    if not isinstance(found, StructType):
        raise ValueError(f"no struct of columns: {text}")
    return found


def text_of(kind: Type, sort_keys: bool = False) -> str:
    """A type as it is stored. sort_keys: as Spark itself writes it."""
    return json.dumps(as_json(kind), separators=(",", ":"), sort_keys=sort_keys)


def type_of(spark: Any, holds_json: bool = False) -> Type:
    """A type, as parsed JSON. holds_json: whether its field says so of the texts in it."""
    if isinstance(spark, str):
        return JSON if holds_json and spark == "string" else scalar_of(spark)
    if spark["type"] == "struct":
        return StructType(tuple(map(field_of, spark["fields"])), spark)
    if spark["type"] == "array":
        return ListType(type_of(spark["elementType"], holds_json), spark.get("containsNull", True), spark)
    if spark["type"] == "map":
        inner = type_of(spark["valueType"], holds_json)
        return MapType(type_of(spark["keyType"]), inner, spark.get("valueContainsNull", True), spark)
    return ScalarType(spark["type"])


def scalar_of(name: str) -> ScalarType | DecimalType:
    found = _DECIMAL.fullmatch(name)
    return DecimalType(int(found[1]), int(found[2])) if found else ScalarType(name)


def field_of(spark: Mapping[str, Any]) -> Field:
    """A field, as parsed JSON."""
    metadata = spark.get("metadata") or {}
    kind = type_of(spark["type"], JSON_TEXT in metadata)
    said = {key: value for key, value in metadata.items() if key != JSON_TEXT}
    return Field(spark["name"], kind, spark.get("nullable", True), said, spark)


def name_of(kind: Type) -> str:
    """As Spark's JSON calls it; of what has parts which of these it is."""
    written = as_json(kind)
    return written if isinstance(written, str) else str(written["type"])


def _field_json(one: Field, kind: Any) -> dict[str, Any]:
    where = {JSON_TEXT: _json_place(one.type)} if leaf(one.type) == JSON else {}
    said = {"name": one.name, "type": kind, "nullable": one.nullable, "metadata": {**one.metadata, **where}}
    return {**one.text, **said}


def _json_place(kind: Type) -> str:
    steps = []
    while isinstance(kind, ListType | MapType):
        steps.append(kind.step)
        kind = kind.inner
    return ".".join(steps) or "."


def _map_json(of: MapType, key: Any, inner: Any) -> Any:
    key = "json" if of.key == JSON else key  # which is none: nobody takes it for a text
    return {**of.text, "type": "map", "keyType": key, "valueType": inner, "valueContainsNull": of.nullable}


as_json: Fold[Any] = Fold(
    scalar=lambda one: "string" if one == JSON else one.name,
    struct=lambda of, parts: {**of.text, "type": "struct", "fields": [_field_json(one, part) for one, part in parts]},
    list=lambda of, inner: {**of.text, "type": "array", "elementType": inner, "containsNull": of.nullable},
    map=_map_json,
)
"""A type as parsed JSON."""
