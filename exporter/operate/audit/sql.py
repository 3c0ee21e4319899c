"""Where a record belongs and what its row must hold, as Spark SQL over the raw topic.

Written from the settings (routing.Routing) a second time, on purpose: the audit must not trust
executor/ and formats/, and imports none of them. What a value of a format is to Spark stands in expected/. Where
Spark's reader and the exporter's may rightly differ, the answer is "either" or "not compared", never a finding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from exporter.core.columns import EVENT_TIME, JSON_TEXT
from exporter.core.evolved import fields_of
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.value_format import ValueFormat
from exporter.operate.audit.codes import (
    EARLIER,
    EARLIER_UNROUTED,
    EITHER,
    FILTERED,
    LETTERS,
    NOT_HERE,
    UNROUTED,
    WHOLE,
)
from exporter.operate.audit.expected.expected import by_spark, values_of
from exporter.operate.audit.expected.values import Values
from exporter.operate.audit.rules.filters import has_filters
from exporter.operate.audit.rules.routes import has_routes
from offsets.names import table_folder

COMPARED_BYTES_MAX = 10_000_000
KEPT_BYTES = 32 << 20
"""Of a value that is longer the exporter may keep no more."""
CUTS = "cuts"
"""Metadata of a column by which the table is cut."""
CUTTING_BYTES_MAX = 66
"""Bytes of a text that a folder can be called by, however it is written there."""
NO_TEXT = "__HIVE_DEFAULT_PARTITION__"
"""What a folder calls a null, and so no text of such a column."""
IN_VALUES = ("json", "schema", "source")
"""Kinds of TypeFrom whose event type stands in the value."""


@dataclass(frozen=True)
class Judge:
    """One configuration as SQL applies it. number: its index, in what workers told. topics: all there are."""

    routing: Routing
    number: int
    topics: tuple[str, ...]

    @cached_property
    def opinions(self) -> tuple[tuple[ValueFormat, Values, tuple[str, ...]], ...]:
        """The formats of these topics, with the opinion on each and the topics that have it."""
        found: dict[ValueFormat, list[str]] = {}
        for topic in self.topics:
            found.setdefault(self.routing.format_of(topic), []).append(topic)
        found = found or {self.routing.value_format: []}
        return tuple((form, values_of(form, self.number), tuple(some)) for form, some in found.items())

    @property
    def by_spark(self) -> bool:
        """Whether Spark reads all values by itself."""
        return all(by_spark(form) for form, _, _ in self.opinions)

    @cached_property
    def is_earlier(self) -> bool:
        """Whether an earlier decoder read these values, whose verdict on some may have been another (protocol 5.3)."""
        return self.routing.is_earlier

    @cached_property
    def ruled(self) -> bool:
        """Whether rules say which tables take a record, or what they keep of it."""
        return has_routes(self.routing) or has_filters(self.routing)

    def by_format(self, kind: str, column: Callable[[Values], Column]) -> Column:
        """column(opinion) of the format of a record's topic. kind: its type."""
        if len(self.opinions) == 1:
            return column(self.opinions[0][1])
        return one_of([(sf.col("topic").isin(*some), column(values)) for _, values, some in self.opinions], kind)

    def is_filtered(self) -> Column:
        """True of a tombstone that is counted and stands in no table."""
        some = [topics for form, _, topics in self.opinions if form.tombstones == "count"]
        counted = [sf.col("topic").isin(*topics) for topics in some if topics]
        return self.is_empty() & reduce(or_, counted) if counted else sf.lit(False)

    def is_empty(self) -> Column:
        """True of a record without a value: null, or one that says so."""
        null = sf.col("value").isNull()
        if self.by_spark:
            return null
        return null | self.by_format("boolean", lambda values: values.says_null())


def event_type(judge: Judge) -> Column:
    """The event type of a record: text, null or empty where there is none."""
    source = judge.routing.type_from
    if source.kind == "topic":
        return sf.col("topic")
    if source.kind == "key":
        return sf.col("key").cast("string")
    if source.kind == "header":
        named = sf.filter("headers", lambda header: header["key"] == sf.lit(source.name))
        return sf.try_element_at(named, sf.lit(-1))["value"].cast("string")
    return judge.by_format("string", lambda values: values.event_type(source))


def table_of(judge: Judge, codes: Mapping[str, int], name: Column) -> Column:
    """Code of the table that has the name of an event type; null if there is none.

    codes: event type -> code, for every type with a table or declared somewhere. name: the record's event type.
    """
    accepted = dict(judge.routing.types)
    clashing = {table_folder(n).lower() for n in (*accepted, DEAD_LETTERS)}
    met = {n for n in codes if judge.routing.new_type == "table" and table_folder(n).lower() not in clashing}
    known = [n for n in codes if n != DEAD_LETTERS and (n in accepted or n in met)]
    return one_of([(name == sf.lit(one), sf.lit(codes[one])) for one in known], "int")


def expected(judge: Judge, name: Column, code: Column, taken: Column | None = None) -> Column:
    """Code of the table that must hold the record unless it is bad: LETTERS where it certainly is, EITHER in doubt,
    EARLIER if it is by this version, and was read by an earlier one.

    name: the record's event type. code: of the table that takes it, null or LETTERS if none does. taken: what that
    table makes of a good record, where it may be something else than to hold it.
    """
    doubtful = judge.by_format("boolean", lambda values: values.doubtful())
    refused = sf.lit(EARLIER if judge.is_earlier else LETTERS)
    if judge.routing.type_from.kind in IN_VALUES:
        unnamed = sf.when(doubtful, sf.lit(EITHER)).otherwise(refused)
        no_type = sf.when(name.isNull(), unnamed).otherwise(sf.lit(LETTERS))
    else:
        no_type = sf.lit(LETTERS)
    found = (
        sf.when(judge.is_filtered(), sf.lit(FILTERED))
        .when(is_unusable(judge), sf.lit(LETTERS))
        .when(code.isNull() | (code == LETTERS), no_type)
    )
    if taken is not None and judge.is_earlier and judge.routing.type_from.kind in IN_VALUES:
        found = found.when(code == UNROUTED, sf.lit(EARLIER_UNROUTED))
    if taken is not None:
        found = found.when(code.isin(UNROUTED, WHOLE) | (taken == NOT_HERE), taken)
    return (
        found.when(judge.by_format("boolean", lambda values: values.is_whole()), code if taken is None else taken)
        .when(doubtful, sf.lit(EITHER))
        .otherwise(refused)
    )


def is_unusable(judge: Judge) -> Column:
    """True of a record that is dead, whatever its event type."""
    long = sf.octet_length("value") > judge.routing.record_bytes_max
    return judge.is_empty() | sf.col("timestamp").isNull() | long


def one_of(cases: Sequence[tuple[Column, Column]], kind: str) -> Column:
    """One flat CASE: the value of the first condition that holds, else null. kind: its type if there are no cases."""
    chosen: Column | None = None
    for condition, value in cases:
        chosen = sf.when(condition, value) if chosen is None else chosen.when(condition, value)
    return sf.lit(None).cast(kind) if chosen is None else chosen


def event_time(judge: Judge) -> Column:
    """The event time of a record as a timestamp, null where this SQL cannot tell it for sure."""
    source = judge.routing.event_time
    if source.kind == "record":
        return sf.col("timestamp")
    return judge.by_format("timestamp", lambda values: values.event_time(source))


def event_day(judge: Judge) -> Column:
    """The day of that event time, in UTC."""
    return event_time(judge).cast("date")


def kept_time(judge: Judge, codes: Mapping[str, int], code: Column) -> Column:
    """Microseconds that `_event_time` must say of a record, if it is not null; null where they cannot be told.

    Nor are they of a type whose configuration declares a column of that name itself: there its value stands.
    """
    own = [codes[name] for name, schema in judge.routing.types if name in codes and declares_event_time(schema)]
    micros = sf.unix_micros(event_time(judge))
    return sf.when(~code.isin(own), micros) if own else micros


def declares_event_time(schema_json: str) -> bool:
    """Whether a schema of an earlier version has a column of the name that is now the exporter's."""
    return any(field["name"].lower() == EVENT_TIME for field in json.loads(schema_json)["fields"])


def compared_columns(
    opinions: Collection[Values], schemas: Sequence[str], table_json: str, cut_by: Sequence[str] = ()
) -> tuple[dict[str, Any], ...]:
    """Fields (Spark schema JSON) whose values are compared: the same in the table and all `schemas`, and read alike.

    opinions: on the formats that values may have. cut_by: the table's partition columns, which do not hold every text.
    """
    table = {field["name"]: _bare(field["type"]) for field in json.loads(table_json)["fields"]}
    declared = [{field["name"]: field for field in json.loads(schema)["fields"]} for schema in schemas]
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
    judge: Judge, fields_by_code: Mapping[int, Sequence[Mapping[str, Any]]], expected_code: Column
) -> Column:
    """The checksum that the row of a record must have in its type's table; null where it is not compared."""

    def checksum_of(values: Values) -> Column:
        cases = [(expected_code == code, _parsed_checksum(values, fields)) for code, fields in fields_by_code.items()]
        comparable = values.is_whole() & (sf.octet_length("value") <= COMPARED_BYTES_MAX)
        return sf.when(comparable, one_of(cases, "bigint"))

    return judge.by_format("bigint", checksum_of)


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
    headers = _hashable(sf.col("headers"))
    return sf.xxhash64(
        sf.unix_micros("timestamp"), sf.col("key").isNull(), sf.col("key"), value.isNull(), kept, headers
    )


def key_checksum(key: Column) -> Column:
    """64 bits of a key; null of none."""
    return sf.when(key.isNotNull(), sf.xxhash64(key))


def headers_checksum(headers: Column) -> Column:
    """64 bits of headers, in their order; null of none."""
    return sf.when(sf.size(headers) > 0, sf.xxhash64(_hashable(headers)))


def _hashable(headers: Column) -> Column:
    return sf.transform(headers, lambda one: sf.struct(one["key"], one["value"].isNull(), one["value"]))
