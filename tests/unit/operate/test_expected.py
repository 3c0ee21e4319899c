"""The audit's own opinion on values, by format, without Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.errors import ConfigError
from exporter.formats.formats import FORMATS
from exporter.operate.audit.expected.expected import EXPECTED, values_of
from exporter.operate.audit.sql import compared_columns


def test_what_can_be_exported_can_be_audited() -> None:
    """Each format stands in both tables; the audit's shares no code with the other."""
    assert EXPECTED.keys() == FORMATS.keys()


def test_a_format_without_an_opinion_is_refused() -> None:
    """Before anything is read: an audit that compares nothing would find nothing."""
    with pytest.raises(ConfigError, match="'avro' cannot be audited"):
        values_of("avro")
    with pytest.raises(ConfigError, match="'avro' cannot be audited"):
        compared_columns({"json", "avro"}, [], '{"type":"struct","fields":[]}')


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
    assert values_of("json").compares(name, kind) is compared


@pytest.mark.parametrize("kind", ["string", {"type": "struct", "fields": [{"name": "b", "type": "string"}]}], ids=str)
def test_the_text_of_a_json_value_is_not_what_spark_would_write(kind: Any) -> None:
    """As sent, it has its own blanks and digits; the contents of the row are compared by value."""
    plain = {"name": "a", "type": kind, "nullable": True, "metadata": {}}
    inner = {"type": "struct", "fields": [{"name": "b", "type": "string", "metadata": {"exporter.json": "."}}]}
    marked = {**plain, "type": inner} if isinstance(kind, dict) else {**plain, "metadata": {"exporter.json": "."}}

    def compared(field: Any) -> list[str]:
        schema = json.dumps({"type": "struct", "fields": [field]})
        return [one["name"] for one in compared_columns({"json"}, [schema], schema)]

    assert (compared(plain), compared(marked)) == (["a"], [])
