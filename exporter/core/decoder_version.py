"""Under which version of the decoder a configuration's values are read (ROUTE, protocol 5.3). Pure.

A version counts only for the configurations in which it may give another verdict: a row or a dead letter, or another
code of a reason. All others keep their fingerprint: an upgrade neither drains nor seals anything of theirs.

    1   the first one
    2   of JSON, a STRUCT may be null in which a BOOLEAN is NOT NULL; until then such a record was a dead letter
    3   what ANOTHER_VERDICT lists; and times in JSON, which may be read as before as well

What can be read as before goes on under the version that was recorded, until its configuration changes otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from exporter.column.spark_json import struct_of
from exporter.column.types import ListType, MapType, ScalarType, StructType, Type, parts
from exporter.core.value_format import ValueFormat

FIRST_DECODER = 1
EMPTY_FLAGS = 2
THIRD_DECODER = 3
_TIMES = (ScalarType("date"), ScalarType("timestamp"), ScalarType("timestamp_ntz"))


@dataclass(frozen=True)
class Decoded:
    """What of a configuration the reading of values goes by.

    schemas: Spark schema JSON of the columns that are decoded, one of each declared type. formats: that a value may
    have. time_is_text: the event time is a text in the value. ignores_case: of any type's fields.
    """

    schemas: Collection[str]
    formats: Collection[ValueFormat]
    time_is_text: bool = False
    ignores_case: bool = False


def decoder_version(decoded: Decoded) -> int:
    """The version that reads such values here."""
    return max(versions_read(decoded))


def versions_read(decoded: Decoded) -> frozenset[int]:
    """The versions under which values of a configuration are read here, letter by letter as those versions did."""
    kinds = [struct_of(schema) for schema in decoded.schemas]
    if any(changes(decoded, kinds) for changes in ANOTHER_VERDICT.values()):
        return frozenset({THIRD_DECODER})
    without = EMPTY_FLAGS if _json(decoded) and any(map(_has_empty_flag, kinds)) else FIRST_DECODER
    return frozenset({without, THIRD_DECODER} if _has_times(decoded, kinds) else {without})


ANOTHER_VERDICT: Mapping[str, Callable[[Decoded, Collection[StructType]], bool]] = {
    "schemas of a registry or of files": lambda of, _: any(form.has_schemas for form in of.formats),
    "schemas that a header names": lambda of, _: _any_is(of, frame="confluent"),
    "schemas in the records": lambda of, _: _any_is(of, kind="connect_json"),
    "documents of MongoDB: NaN and infinities": lambda of, _: _any_is(of, envelope="debezium_mongo"),
    "Debezium's placeholders": lambda of, types: _any_is(of, envelope="debezium") and any(one.fields for one in types),
    "times of DMS are texts": lambda of, _: _any_is(of, envelope="dms"),
    "names that differ by case only": lambda of, _: of.ignores_case,
}
"""Why version 3 may give another verdict -> whether it is so in a configuration."""


def _has_times(of: Decoded, types: Collection[StructType]) -> bool:
    """Whether times are read from texts of JSON: as RFC 3339 allows them, since version 3."""
    return _json(of) and (of.time_is_text or any(part in _TIMES for one in types for part in parts(one)))


def _any_is(of: Decoded, **wanted: str) -> bool:
    return any(getattr(form, name) == value for form in of.formats for name, value in wanted.items())


def _json(of: Decoded) -> bool:
    return any(form.is_read_as_json for form in of.formats)


def _has_empty_flag(kind: Type, nullable: bool = False) -> bool:
    """Whether a BOOLEAN that is NOT NULL may have nothing to hold, as a struct that it is in is null.

    nullable: whether there may be none where this one stands.
    """
    if isinstance(kind, ListType | MapType):
        return _has_empty_flag(kind.inner, kind.nullable)
    return isinstance(kind, StructType) and any(
        (nullable and not one.nullable and one.type == ScalarType("boolean"))
        or _has_empty_flag(one.type, nullable or one.nullable)
        for one in kind.fields
    )
