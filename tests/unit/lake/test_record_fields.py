"""Columns of the record in tables: planned, marked as no value's, told where they cannot be."""

from __future__ import annotations

from dataclasses import replace

from exporter.core.columns import EVOLVED, NO_COLUMNS, RECORD
from exporter.core.evolve import Evolution, Evolutions, grown, known_beforehand
from exporter.core.evolved import fitting
from exporter.core.record_columns import RecordColumns
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.seen import At, Seen
from exporter.core.value_format import ValueFormat
from exporter.core.writers import StagedFile
from exporter.lake.record_fields import kept, other_column, record_fields, with_record_fields
from exporter.lake.schema import table_schema
from exporter.protocol.planned import PlannedColumns
from offsets.ranges import OffsetRange
from offsets.table_log import TableView, fingerprint_of
from tests.support.schemas import fields, names, schema

ROUTING = Routing(TypeFrom("topic"), EventTime("record"), (), new_type="table")
CDC = replace(ROUTING, value_format=ValueFormat(envelope="dms"))
COLUMNS = RecordColumns("_key", "_headers", "_kind")
FIELDS = record_fields(COLUMNS, CDC)


def view(text: str) -> TableView:
    return TableView(0, "id", fingerprint_of("f", text), {}, schema_json=text, frame="f")


EMPTY = view(table_schema(NO_COLUMNS))


def test_a_table_gets_them_with_the_first_files_that_have_them() -> None:
    """Whether it grows otherwise or not; the dead letters have their own."""
    for evolutions in (Evolutions(), Evolutions(Evolution())):
        planned = PlannedColumns(CDC, evolutions, None, COLUMNS)
        target = planned.accept("order", EMPTY)
        fingerprint = target.fingerprint
        wider = planned.schema_of("order", fingerprint)
        assert names(wider) == ["_kafka", "_event_time", "_key", "_headers", "_kind", "_cdc", "_rescued", "day"]
        file = StagedFile("day=2026-01-01/x", OffsetRange(0, 1), 1, 1, fingerprint=fingerprint, columns=wider)
        assert fitting(EMPTY, [file]) == wider
        assert target.decoded is None
        assert names(planned.to_make("new", Seen())) == names(wider)
        assert planned.accept("order", view(wider)).fingerprint == view(wider).fingerprint
        dead_letters = view(table_schema(None))
        assert planned.accept(DEAD_LETTERS, dead_letters).fingerprint == dead_letters.fingerprint
    assert PlannedColumns(ROUTING, Evolutions()).accept("order", EMPTY).fingerprint == EMPTY.fingerprint


def test_a_field_of_a_value_never_gets_into_one() -> None:
    """Also not below it: what a value has by that name stays in `_rescued`."""
    table = with_record_fields(EMPTY.schema_json, FIELDS)
    seen = Seen()
    seen.add({"_headers": [{"x": 1}], "_cdc": {"y": 1}, "_key": 5}, At("t", 0, 1))
    assert grown(table, seen, Evolution()) == table
    assert known_beforehand(table, fields("_cdc STRUCT<y: BIGINT>"), "id 7") == table


def test_another_column_of_that_name_is_in_the_way() -> None:
    """Of another type or spelling, or one that is a value's."""
    assert other_column(EMPTY, FIELDS) == ""
    assert other_column(view(with_record_fields(EMPTY.schema_json, FIELDS)), FIELDS) == ""
    for ddl, metadata in (
        ("_key STRING", {}),
        ("_key BINARY", {}),
        ("_KEY BINARY", {RECORD: "key"}),
        ("_key BINARY", {EVOLVED: "t/0/1"}),
        ("_kind STRING", {RECORD: "key"}),
    ):
        name = ddl.split()[0]
        other = view(schema(ddl, **{name: metadata}))
        assert other_column(other, FIELDS).startswith(f"it has a column {name} that is another")
        assert kept(other, FIELDS) == frozenset()
        assert name in names(with_record_fields(other.schema_json, FIELDS))
        assert len(names(with_record_fields(other.schema_json, FIELDS))) == 4


def test_a_drain_fills_those_that_are_there() -> None:
    """A table without any gets none."""
    some = with_record_fields(EMPTY.schema_json, FIELDS[:2])
    assert kept(view(some), FIELDS) == {"_key", "_headers"} and kept(EMPTY, FIELDS) == frozenset()
