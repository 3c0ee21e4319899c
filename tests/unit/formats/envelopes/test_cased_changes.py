"""Rows in envelopes whose fields differ from their columns by case only (`case = "insensitive"`)."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from exporter.core.shapes import Shape
from exporter.core.value_format import ValueFormat
from tests.support.decoded_rows import columns, decode_all, routing_of, rows_of
from tests.support.envelope_samples import DAY, KAFKA_US, POSTGRES, ROW, UNAVAILABLE, changed, text, with_schema
from tests.unit.formats.envelopes.test_typed_changes import ROWS, array_of, avro, form_of

SENT = {"id": 7, "name": "n", "doc": UNAVAILABLE, "tags": [UNAVAILABLE], "more": "m"}
COLUMNS = columns(ID="long", Name="string", DOC="string", Tags=array_of("string"))


def rows(form: ValueFormat, values: list[bytes], declared: str = COLUMNS) -> list[Any]:
    """Of each value its row, or its reason."""
    config = routing_of(declared, form, "a", shapes=(("a", Shape(declared, case="insensitive")),))
    return rows_of(decode_all(config, values, KAFKA_US), "_event_time", "_cdc")


@pytest.mark.parametrize(
    ("form", "write"),
    [(ValueFormat(envelope="debezium"), text), (form_of(ROWS, "debezium"), lambda change: avro(change, ROWS))],
    ids=["json", "avro"],
)
def test_values_that_were_not_sent_are_found_at_their_columns(form: ValueFormat, write: Any) -> None:
    """In JSON and in Avro: null, and in `_rescued` under the column's name."""
    row = rows(form, [write(changed(POSTGRES, "u", after=SENT))])[0]
    rest = {name: one for name, one in json.loads(row.pop("_rescued")).items() if one is not None}
    assert row == {"ID": 7, "Name": "n", "DOC": None, "Tags": None}
    assert rest == {"DOC": UNAVAILABLE, "Tags": [UNAVAILABLE], "more": "m"}


def test_two_fields_of_one_column_refuse_the_change() -> None:
    """Whatever they hold, also a value that was not sent."""
    twice = [{**SENT, "ID": None}, {**SENT, "Doc": "x"}]
    found = rows(ValueFormat(envelope="debezium"), [text(changed(POSTGRES, "u", after=one)) for one in twice])
    assert found == [
        "ambiguous_field: $.ID is filled by 'id' and 'ID'", "ambiguous_field: $.DOC is filled by 'doc' and 'Doc'",
    ]  # fmt: skip


def test_what_a_schema_says_of_a_field_holds_for_its_column() -> None:
    """A number of days is the day that it means."""
    form = ValueFormat("connect_json", envelope="debezium", semantic_types="connect")
    schema = {"type": "struct", "fields": [{**ROW, "field": "after"}]}
    value = text(with_schema(changed(POSTGRES, "c", after={"id": 7, "d": DAY}), schema))
    row = rows(form, [value], columns(ID="long", D="date"))[0]
    assert (row["ID"], row["D"]) == (7, date(2026, 1, 31))
