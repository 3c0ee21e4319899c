"""Where a record belongs and what its row must hold, as Spark SQL over the raw topic.

Written from the settings (routing.Routing) a second time, on purpose: the audit must not trust
executor/ and formats/, and imports none of them. What a value of a format is to Spark stands in expected/. Where
Spark's reader and the exporter's may rightly differ, the answer is "either" or "not compared", never a finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from exporter.core.columns import EVENT_TIME, JSON_TEXT
from exporter.core.evolved import fields_of
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.operate.audit.expected.expected import values_of
from exporter.operate.audit.expected.values import Values
from offsets.names import table_folder

LETTERS = 0
"""Code of the dead-letter table; event types have 1, 2, ..."""
EITHER = -2
"""Expected code where Spark's reader cannot be trusted to judge the value: any one table will do."""
UNKNOWN = -3
"""Expected code where no routing configuration is known for the offset: not checked."""

COMPARED_BYTES_MAX = 10_000_000
KEPT_BYTES = 32 << 20
"""Of a value that is longer the exporter may keep no more."""
CUTS = "cuts"
"""Metadata of a column by which the table is cut."""
CUTTING_BYTES_MAX = 66
"""Bytes of a text that a folder can be called by, however it is written there."""
NO_TEXT = "__HIVE_DEFAULT_PARTITION__"
"""What a folder calls a null, and so no text of such a column."""
_UNITS_PER_SEC = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SECS_MAX = 40_000 * 86_400
"""A number of more seconds than are in a hundred years is a dead letter, or at least not compared."""


def event_type(routing: Routing) -> Column:
    """The event type of a record: text, null or empty where there is none."""
    source = routing.type_from
    if source.kind == "topic":
        return sf.col("topic")
    if source.kind == "key":
        return sf.col("key").cast("string")
    if source.kind == "header":
        named = sf.filter("headers", lambda header: header["key"] == sf.lit(source.name))
        return sf.try_element_at(named, sf.lit(-1))["value"].cast("string")
    return values_of(routing.value_format.kind).text_at(source.name)


def expected(routing: Routing, codes: Mapping[str, int], name: Column) -> Column:
    """Code of the table that must hold the record unless it is bad: LETTERS where it certainly is, EITHER in doubt.

    codes: event type -> code, for every type with a table or declared somewhere. name: the record's event type.
    """
    accepted = dict(routing.types)
    clashing = {table_folder(n).lower() for n in (*accepted, DEAD_LETTERS)}
    met = {n for n in codes if routing.new_type == "table" and table_folder(n).lower() not in clashing}
    known = [n for n in codes if n != DEAD_LETTERS and (n in accepted or n in met)]
    code = one_of([(name == sf.lit(one), sf.lit(codes[one])) for one in known], "int")
    doubtful = values_of(routing.value_format.kind).doubtful()
    if routing.type_from.kind == "json":
        no_type = sf.when(name.isNull() & doubtful, sf.lit(EITHER)).otherwise(sf.lit(LETTERS))
    else:
        no_type = sf.lit(LETTERS)
    return (
        sf.when(sf.col("value").isNull() | sf.col("timestamp").isNull(), sf.lit(LETTERS))
        .when(sf.octet_length("value") > routing.record_bytes_max, sf.lit(LETTERS))
        .when(code.isNull(), no_type)
        .when(sf.col(whole(routing.value_format.kind)), code)
        .when(doubtful, sf.lit(EITHER))
        .otherwise(sf.lit(LETTERS))
    )


def one_of(cases: Sequence[tuple[Column, Column]], kind: str) -> Column:
    """One flat CASE: the value of the first condition that holds, else null. kind: its type if there are no cases."""
    chosen: Column | None = None
    for condition, value in cases:
        chosen = sf.when(condition, value) if chosen is None else chosen.when(condition, value)
    return sf.lit(None).cast(kind) if chosen is None else chosen


def whole(form: str) -> str:
    """Name of the column that says whether a value of this format can be a good record."""
    return f"whole_{form}"


def wholes(routings: Iterable[Routing]) -> dict[str, Column]:
    """That column for each format of the configurations."""
    return {whole(form): values_of(form).is_whole() for form in sorted({one.value_format.kind for one in routings})}


def event_time(routing: Routing) -> Column:
    """The event time of a record as a timestamp, null where this SQL cannot tell it for sure."""
    source = routing.event_time
    if source.kind == "record":
        return sf.col("timestamp")
    text = values_of(routing.value_format.kind).text_at(source.path)
    if source.unit == "iso":
        return text.try_cast("timestamp")
    number, unit = text.try_cast("bigint"), _UNITS_PER_SEC[source.unit]
    bounded = sf.when(number.between(-unit * _SECS_MAX, unit * _SECS_MAX), number)
    if source.unit == "ns":
        micros = sf.round((bounded - sf.pmod(bounded, sf.lit(1_000))) / sf.lit(1_000))
        return sf.timestamp_micros(micros.cast("bigint"))
    return sf.timestamp_micros(bounded * sf.lit(1_000_000 // unit))


def event_day(routing: Routing) -> Column:
    """The day of that event time, in UTC."""
    return event_time(routing).cast("date")


def kept_time(routing: Routing, codes: Mapping[str, int], code: Column) -> Column:
    """Microseconds that `_event_time` must say of a record, if it is not null; null where they cannot be told.

    Nor are they of a type whose configuration declares a column of that name itself: there its value stands.
    """
    own = [codes[name] for name, schema in routing.types if name in codes and declares_event_time(schema)]
    micros = sf.unix_micros(event_time(routing))
    return sf.when(~code.isin(own), micros) if own else micros


def declares_event_time(schema_json: str) -> bool:
    """Whether a schema of an earlier version has a column of the name that is now the exporter's."""
    return any(field["name"].lower() == EVENT_TIME for field in json.loads(schema_json)["fields"])


def compared_columns(
    formats: Iterable[str], schemas: Sequence[str], table_json: str, cut_by: Sequence[str] = ()
) -> tuple[dict[str, Any], ...]:
    """Fields (Spark schema JSON) whose values are compared: the same in the table and all `schemas`, and read alike.

    formats: those that values may have. cut_by: the table's partition columns, which do not hold every text.
    """
    table = {field["name"]: _bare(field["type"]) for field in json.loads(table_json)["fields"]}
    declared = [{field["name"]: field for field in json.loads(schema)["fields"]} for schema in schemas]
    opinions = [values_of(form) for form in formats]
    common: list[dict[str, Any]] = []
    for name, field in (declared[0] if declared else {}).items():
        of_name = [one[name] for one in declared if name in one]
        kinds = [_bare(one["type"]) for one in of_name]
        same = len(kinds) == len(declared) and all(kind == table.get(name) for kind in kinds)
        same = same and not any(map(_holds_json, of_name))
        if same and all(values.compares(name, kinds[0]) for values in opinions):
            marks = {CUTS: True} if name in cut_by else {}
            common.append({"name": name, "type": field["type"], "nullable": True, "metadata": marks})
    return tuple(common)


def _holds_json(field: Mapping[str, Any]) -> bool:
    """Whether there are texts of any JSON in a column, which Spark reads otherwise; its whole content is compared."""
    return any(JSON_TEXT in one.get("metadata", {}) for one in (field, *fields_of(field["type"])))


def _bare(kind: Any) -> Any:
    """A Spark type without what does not change its values: nullability and comments."""
    if isinstance(kind, dict):
        dropped = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {key: _bare(value) for key, value in kind.items() if key not in dropped}
    return [_bare(item) for item in kind] if isinstance(kind, list) else kind


def checksum(timestamp: Column, fields: Sequence[Mapping[str, Any]], value: Any) -> Column:
    """64 bits over the Kafka timestamp and the fields, nulls told apart. value: name -> column."""
    parts = [sf.unix_micros(timestamp)]
    for field in fields:
        column = value(field["name"])
        column = _short(column) if CUTS in field["metadata"] and field["type"] == "string" else column
        column = column + sf.lit(0.0) if field["type"] == "double" else column  # -0.0 and 0.0 are one number
        parts += [column.isNull(), column]
    return sf.xxhash64(*parts)


def _short(text: Column) -> Column:
    """Texts that a partition's value can be for sure; all others as null, which they are in the table, or may be."""
    short = sf.octet_length(text).between(1, CUTTING_BYTES_MAX) & ~text.contains("\0")
    return sf.when(short & (text != NO_TEXT), text)


def record_checksum(
    form: str, fields_by_code: Mapping[int, Sequence[Mapping[str, Any]]], expected_code: Column
) -> Column:
    """The checksum that the row of a record must have in its type's table; null where it is not compared.

    form: the format of the record's value.
    """
    values = values_of(form)
    cases = [(expected_code == code, _parsed_checksum(values, fields)) for code, fields in fields_by_code.items()]
    found = one_of(cases, "bigint")
    comparable = sf.col(whole(form)) & (sf.octet_length("value") <= COMPARED_BYTES_MAX)
    return sf.when(comparable, found)


def _parsed_checksum(values: Values, fields: Sequence[Mapping[str, Any]]) -> Column:
    if not fields:
        return sf.xxhash64(sf.unix_micros("timestamp"))
    # The lambda's argument stands for the parsed value, so that it is parsed once, however many fields it has.
    once = sf.array(values.parsed(fields))
    return sf.transform(once, lambda row: checksum(sf.col("timestamp"), fields, row.getField)).getItem(0)


def sane_timestamp() -> Column:
    """The Kafka timestamp, null where no table can hold it: before year 1 or after 9999."""
    micros = sf.unix_micros("timestamp")
    return sf.when(micros.between(-62_135_596_800_000_000, 253_402_300_799_999_999), sf.col("timestamp"))


def letter_checksum() -> Column:
    """64 bits over what a dead letter keeps of its record: timestamp, key, headers, and value or the beginning of it.

    A record without headers has null or none.
    """
    value = sf.col("value")
    kept = sf.when(sf.octet_length(value) > KEPT_BYTES, sf.substring(value, 1, KEPT_BYTES)).otherwise(value)
    headers = sf.transform("headers", lambda one: sf.struct(one["key"], one["value"].isNull(), one["value"]))
    return sf.xxhash64(
        sf.unix_micros("timestamp"), sf.col("key").isNull(), sf.col("key"), value.isNull(), kept, headers
    )
