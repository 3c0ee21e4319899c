"""The audit's own opinion on values, by format, without Spark."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from exporter.core.value_format import Kind, ValueFormat
from exporter.errors import ConfigError
from exporter.formats.formats import FORMATS
from exporter.operate.audit.expected.expected import EXPECTED, by_spark, values_of
from exporter.operate.audit.expected.json_values import JsonValues
from exporter.operate.audit.sql import compared_columns


def test_what_can_be_exported_can_be_audited() -> None:
    """Each format stands in both tables; the audit's shares no code with the other."""
    assert EXPECTED.keys() >= FORMATS.keys()
    assert EXPECTED.keys() == set(get_args(Kind))


def test_a_format_without_an_opinion_is_refused() -> None:
    """Before anything is read: an audit that compares nothing would find nothing."""
    unknown: Any = ValueFormat("xml")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'xml' cannot be audited"):
        values_of(unknown, 0)


def test_spark_reads_json_that_stands_alone() -> None:
    """What has a frame or an envelope, or another format, is read in workers."""
    assert by_spark(ValueFormat())
    assert not any(map(by_spark, [ValueFormat(frame="confluent"), ValueFormat(envelope="dms"), ValueFormat("string")]))
    assert not values_of(ValueFormat("avro"), 0).compares("a", "string")


_STRUCT = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}


@pytest.mark.parametrize(
    ("name", "kind", "compared"),
    [
        ("a", "string", True),
        ("a", "double", True),
        ("a", "float", False),
        ("a", "timestamp", False),
        ("a", "decimal(10,2)", False),
        ("a", _STRUCT, True),
        ("a", {"type": "array", "elementType": _STRUCT, "containsNull": True}, True),
        ("a", {"type": "array", "elementType": "double", "containsNull": True}, False),
        ("a", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}, False),
        ("_corrupt_record", "string", False),
    ],
)
def test_only_what_is_read_alike_in_every_value_is_compared(name: str, kind: Any, compared: bool) -> None:
    """JSON: Spark and the exporter differ in what they take for a time, a decimal, or a number in an array."""
    assert JsonValues().compares(name, kind) is compared


def test_columns_for_any_json_are_left_to_the_comparison_of_whole_contents() -> None:
    """Spark reads a text there without its quotes, and anything else with other blanks."""

    def field(name: str, kind: Any, **marks: str) -> dict[str, Any]:
        return {"name": name, "type": kind, "nullable": True, "metadata": marks}

    inner = {"type": "struct", "fields": [field("q", "string", **{"exporter.json": "."})]}
    fields = [field("id", "long", comment="c"), field("p", "string", **{"exporter.json": "."}), field("s", inner)]
    schema = json.dumps({"type": "struct", "fields": fields})
    assert [one["name"] for one in compared_columns([JsonValues()], [schema], schema)] == ["id"]
