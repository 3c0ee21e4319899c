"""JSON values, by Spark's own JSON reader (Jackson)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from exporter.core.routing import EventTime, TypeFrom

WHOLE = "whole_json"
_SAFE = frozenset({"string", "long", "integer", "short", "byte", "boolean"})
"""Types that Spark's from_json and the exporter read alike in every value that the exporter accepts."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_ @:/-]+\Z")
_DOUBTFUL = '[0-9.eE+-]{800}|[^"]{40000}'
"""Longer numbers and names are refused by Spark's JSON reader but not by the exporter's."""
_UNITS_PER_SEC = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SECS_MAX = 40_000 * 86_400
"""A number of more seconds than are in a hundred years is a dead letter, or at least not compared."""


class JsonValues:
    """See Values."""

    def event_type(self, source: TypeFrom) -> Column:
        """The text of a field."""
        return text_at(source.name)

    def event_time(self, source: EventTime) -> Column:
        """What Spark makes of a field's text."""
        text = text_at(source.path)
        if source.unit == "iso":
            return text.try_cast("timestamp")
        number, unit = text.try_cast("bigint"), _UNITS_PER_SEC[source.unit]
        bounded = sf.when(number.between(-unit * _SECS_MAX, unit * _SECS_MAX), number)
        if source.unit == "ns":
            micros = sf.round((bounded - sf.pmod(bounded, sf.lit(1_000))) / sf.lit(1_000))
            return sf.timestamp_micros(micros.cast("bigint"))
        return sf.timestamp_micros(bounded * sf.lit(1_000_000 // unit))

    def is_whole(self) -> Column:
        """True of a JSON object by Spark's reader (which takes some text that is no JSON)."""
        return sf.col(WHOLE)

    def doubtful(self) -> Column:
        """True of a text with numbers or names that are longer than Spark's reader takes."""
        return sf.col("text").rlike(_DOUBTFUL)

    def says_null(self) -> Column:
        """No text of JSON does."""
        return sf.lit(False)

    def compares(self, name: str, kind: Any) -> bool:
        """Safe types, also in structs and arrays, and doubles at the top."""
        return name != "_corrupt_record" and (kind == "double" or _is_safe(kind))

    def parsed(self, fields: Sequence[Mapping[str, Any]]) -> Column:
        """By from_json."""
        return sf.from_json("text", StructType.fromJson({"type": "struct", "fields": list(fields)}))


def wholes() -> dict[str, Column]:
    """The column that `is_whole` looks at, so that a value is looked at once for it."""
    return {WHOLE: sf.json_object_keys("text").isNotNull()}


def text_at(path: str) -> Column:
    """What stands at a dotted path, as text: by get_json_object where its own paths can say it, else by a schema."""
    parts = path.split(".")
    if all(_PLAIN_PATH.match(part) for part in parts):
        return sf.get_json_object("text", "$" + "".join(f"['{part}']" for part in parts))
    kind: Any = "string"
    for part in reversed(parts):
        kind = {"type": "struct", "fields": [{"name": part, "type": kind, "nullable": True, "metadata": {}}]}
    found = sf.from_json("text", StructType.fromJson(kind))
    for part in parts:
        found = found.getField(part)
    return found


def _is_safe(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind in _SAFE
    if kind.get("type") == "struct":
        return all(_is_safe(field["type"]) for field in kind["fields"])
    return kind.get("type") == "array" and _is_safe(kind["elementType"])
