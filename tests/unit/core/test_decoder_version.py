"""The decoder version (protocol 5.3): raised for the configurations alone in which a verdict may change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.core.decoder_version import decoder_version
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


def version(*schemas: dict[str, Any], forms: tuple[ValueFormat, ...] = (JSON,)) -> int:
    return decoder_version([(str(number), json.dumps(schema)) for number, schema in enumerate(schemas)], forms)


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
        (ValueFormat("connect_json", envelope="debezium"), 2),
        (ValueFormat("json_schema", "confluent"), 2),
        (ValueFormat("avro", "confluent", "debezium_mongo"), 2),
        (ValueFormat("avro", "confluent"), 1),
        (ValueFormat("protobuf", "confluent"), 1),
        (ValueFormat("bytes"), 1),
    ],
)  # fmt: skip
def test_only_rows_of_json_have_it(form: ValueFormat, wanted: int) -> None:
    """One topic of such is enough."""
    assert version(ANOTHER["a struct"], forms=(form,)) == wanted
    assert version(ANOTHER["a struct"], forms=(form, JSON)) == 2
