"""Hints of the types of evolved columns, as they are read."""

from __future__ import annotations

import pytest

from exporter.column.types import JSON, DecimalType, ListType, ScalarType
from exporter.errors import ConfigError
from exporter.settings.model import Settings
from exporter.workbench import parse_hints
from tests.support.settings import PLAIN, loaded


def settings(hints: str) -> Settings:
    return loaded('evolve = "add"\n', f"[types.order]\nhints = {{ {hints} }}\n", plain=PLAIN)


def test_a_hint_is_any_type_that_a_column_can_have() -> None:
    """Nested ones and JSON too; of a path, also below arrays."""
    text = '"a.b" = "DECIMAL(12,2)", "items[].at" = "timestamp", raw = "ARRAY<JSON>", j = "JSON"'
    assert parse_hints(settings(text)) == {
        "order": {
            "a.b": DecimalType(12, 2),
            "items[].at": ScalarType("timestamp"),
            "raw": ListType(JSON),
            "j": JSON,
        }
    }


WRONG = ["NUMBER", "BIGINT, b STRING", "TIMESTAMP_NTZ", "STRUCT<a: TIMESTAMP_NTZ>", "STRUCT<>"]


@pytest.mark.parametrize("hint", WRONG)
def test_what_is_no_type_of_an_evolved_column_is_refused(hint: str) -> None:
    """At the start, with the type that it is of: a commit that Delta refuses would park the table for ever."""
    with pytest.raises(ConfigError, match=r"types\.order"):
        parse_hints(settings(f'a = "{hint}"'))
