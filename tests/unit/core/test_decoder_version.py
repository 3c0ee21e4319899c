"""The decoder version (protocol 5.3): raised for the configurations alone in which a verdict may change."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from exporter.core.decoder_version import Decoded, decoder_version, versions_read
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.shapes import Shape
from exporter.core.value_format import JSON, ValueFormat


def struct(**columns: Any) -> dict[str, Any]:
    """A Spark type. A column is (type, nullable)."""
    made = [{"name": name, "type": kind, "nullable": null, "metadata": {}} for name, (kind, null) in columns.items()]
    return {"type": "struct", "fields": made}


def array(element: Any, null: bool) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": null}


def by_key(value: Any, null: bool) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": null}


FLAG = struct(on=("boolean", False), note=("string", True))
AS_BEFORE = {
    "none": struct(),
    "a flag of the record": FLAG,
    "a struct that is always there": struct(s=(FLAG, False)),
    "two of them": struct(s=(struct(s=(FLAG, False)), False)),
    "elements that are always there": struct(xs=(array(FLAG, False), True)),
    "values that are always there": struct(m=(by_key(FLAG, False), True)),
    "another type": struct(s=(struct(on=("long", False)), True)),
    "a flag that may be null": struct(s=(struct(on=("boolean", True)), True)),
    "flags in an array": struct(s=(struct(on=(array("boolean", False), False)), True)),
}
ANOTHER = {
    "a struct": struct(s=(FLAG, True)),
    "a struct in one": struct(s=(struct(s=(FLAG, False)), True)),
    "within one that is always there": struct(s=(struct(s=(FLAG, True)), False)),
    "elements": struct(xs=(array(FLAG, True), False)),
    "below elements": struct(xs=(array(struct(s=(FLAG, True)), False), False)),
    "values": struct(m=(by_key(FLAG, True), False)),
    "below values": struct(m=(by_key(struct(s=(FLAG, False)), True), False)),
}


def version(
    *schemas: dict[str, Any],
    forms: tuple[ValueFormat, ...] = (JSON,),
    time_is_text: bool = False,
    ignores_case: bool = False,
) -> int:
    """Of a configuration with these columns, one schema a type."""
    return decoder_version(Decoded([json.dumps(one) for one in schemas], forms, time_is_text, ignores_case))


@pytest.mark.parametrize("name", AS_BEFORE)
def test_configurations_that_get_no_other_verdict_keep_their_version(name: str) -> None:
    """And so their fingerprint: nothing of theirs is drained or sealed by an upgrade."""
    assert version(AS_BEFORE[name]) == 1


@pytest.mark.parametrize("name", ANOTHER)
def test_a_required_flag_in_a_struct_that_may_be_null_has_another_verdict(name: str) -> None:
    """Wherever the struct is, and whichever type has it."""
    assert version(ANOTHER[name]) == version(AS_BEFORE["none"], ANOTHER[name]) == 2


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        (JSON, 2),
        (ValueFormat("string"), 1),
        (ValueFormat("bytes"), 1),
    ],
)
def test_only_rows_of_json_have_it(form: ValueFormat, wanted: int) -> None:
    """One topic of such is enough."""
    assert version(ANOTHER["a struct"], forms=(form,)) == wanted
    assert version(ANOTHER["a struct"], forms=(form, JSON)) == 2


PLAIN = struct(id=("long", True), s=("string", False), f=("double", True), d=("decimal(9,2)", True))
SCHEMA_BASED = ("avro", "protobuf", "json_schema")


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        *((ValueFormat(kind, frame), 3) for kind in SCHEMA_BASED for frame in ("confluent", "none")),
        (ValueFormat("connect_json"), 3),
        (ValueFormat(envelope="debezium_mongo"), 3),
        (ValueFormat(envelope="debezium"), 3),
        (ValueFormat(envelope="dms"), 3),
        *((ValueFormat(kind, "confluent"), 3) for kind in ("json", "string", "bytes")),
        (JSON, 1),
        (ValueFormat("string"), 1),
        (ValueFormat("bytes"), 1),
    ],
)
def test_the_third_version_counts_where_schemas_and_envelopes_are_read_otherwise(
    form: ValueFormat, wanted: int
) -> None:
    """One topic of such is enough; plain JSON and raw values keep their version."""
    assert version(PLAIN, forms=(form,)) == version(PLAIN, forms=(JSON, form)) == wanted


def test_columns_that_no_configuration_declares_refuse_nothing_for_a_placeholder() -> None:
    """Debezium's placeholder in a column that was met is null: a type without declared columns keeps its version."""
    assert version(struct(), forms=(ValueFormat(envelope="debezium"),)) == 1


@pytest.mark.parametrize(
    "kind",
    [
        "timestamp",
        "timestamp_ntz",
        "date",
        array("timestamp", True),
        by_key("timestamp", True),
        struct(at=("timestamp", True)),
        array(struct(at=(array("timestamp_ntz", False), True)), True),
    ],
)
def test_the_third_version_counts_where_a_time_is_read_from_a_text_of_json(kind: Any) -> None:
    """Wherever the column is; not for raw values, which have none."""
    assert version(PLAIN, struct(xs=(kind, True))) == 3
    assert version(struct(xs=(kind, True)), forms=(ValueFormat("bytes"),)) == 1


def test_the_third_version_counts_for_an_event_time_that_is_a_text() -> None:
    """A number of units, or the record's own time, is read as before."""
    assert version(PLAIN, time_is_text=True) == 3
    assert version(PLAIN, time_is_text=True, forms=(ValueFormat("bytes"),)) == 1


def test_times_of_json_are_read_as_before_too_and_nothing_else_is() -> None:
    """So an upgrade alone is no switch of an export of plain JSON, and what it left is drained by its own rules."""
    times, flags = struct(at=("timestamp", True)), ANOTHER["a struct"]

    def read(form: ValueFormat, *schemas: Any) -> set[int]:
        return {*versions_read(Decoded([json.dumps(one) for one in schemas], (form,)))}

    assert (read(JSON, times), read(JSON, times, flags), read(JSON, PLAIN)) == ({1, 3}, {2, 3}, {1})
    assert read(ValueFormat("connect_json"), times) == read(ValueFormat(envelope="debezium"), times) == {3}
    config = Routing(TypeFrom("topic"), EventTime("record"), (("a", json.dumps(times)),), decoder_version=3)
    (earlier,) = config.earlier
    assert (earlier.decoder_version, earlier.strict_times, earlier.is_earlier) == (1, True, False)
    assert (earlier.earlier, config.strict_times) == ((), False)
    registered = replace(config, value_format=ValueFormat("avro", "confluent"), decoder_version=1)
    assert (registered.earlier, registered.strict_times, registered.is_earlier) == ((), False, True)


def test_the_third_version_counts_where_names_are_folded() -> None:
    """Two names are one letter by letter."""
    assert version(PLAIN, ignores_case=True) == 3


@pytest.mark.parametrize(
    ("time", "shape", "wanted"),
    [
        (EventTime("json", "at", "ms"), Shape(json.dumps(PLAIN)), 1),
        (EventTime("record"), Shape(json.dumps(PLAIN)), 1),
        (EventTime("json", "at"), Shape(json.dumps(PLAIN)), 3),
        (EventTime("record"), Shape(json.dumps(PLAIN), case="insensitive"), 3),
        (EventTime("record"), Shape(json.dumps(struct(at=("timestamp", True)))), 3),
    ],
)
def test_a_configuration_says_itself_what_its_values_are_read_by(time: EventTime, shape: Shape, wanted: int) -> None:
    """Its event time, what its types decode, and whether they fold names."""
    config = Routing(TypeFrom("topic"), time, (("order", json.dumps(PLAIN)),), shapes=(("order", shape),))
    assert config.decoder_here == wanted
