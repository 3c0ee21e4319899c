"""Rows in envelopes whose fields differ from their columns by case only (`case = "insensitive"`)."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from exporter.arrow.kafka_time import US
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.shapes import Shape
from exporter.core.value_format import ValueFormat
from exporter.formats.decoder import Decoder
from tests.support.envelope_samples import AT_MS, DAY, POSTGRES, ROW, UNAVAILABLE, changed, text, with_schema
from tests.unit.formats.envelopes.test_typed_changes import ROWS, array_of, avro, columns, form_of

SENT = {"id": 7, "name": "n", "doc": UNAVAILABLE, "tags": [UNAVAILABLE], "more": "m"}
COLUMNS = columns(ID="long", Name="string", DOC="string", Tags=array_of("string"))


def rows(form: ValueFormat, values: list[bytes], declared: str = COLUMNS) -> list[Any]:
    """Of each value its row, or its reason."""
    config = Routing(TypeFrom("topic"), EventTime("record"), (("a", declared),), value_format=form,
                     shapes=(("a", Shape(declared, case="insensitive")),))  # fmt: skip
    out = Decoder.of("a", config).decode(pa.array(values, pa.binary()), pa.array([AT_MS * 1000] * len(values), US))
    found: dict[int, Any] = {row: reason for row, _, reason in out.bad}
    table = out.table.drop_columns(["_event_time", "_cdc"]).to_pylist()
    found |= dict(zip(out.good.to_pylist(), table, strict=True))
    return [found[row] for row in range(len(values))]


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
