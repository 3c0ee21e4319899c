"""What follows from a round with new fields: columns are planned, and its rows are read again, a few times at most."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.core.columns import NO_COLUMNS, RECORD
from exporter.core.evolve import Evolution, Evolutions, known_beforehand
from exporter.core.manifest import RoundResult
from exporter.core.memory_committer import MemoryCommitter
from exporter.core.order import TableTarget
from exporter.core.read_again import TIMES_MAX
from exporter.core.record_columns import CDC
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import Schemas
from exporter.core.seen import At, Seen
from exporter.core.value_format import JSON
from exporter.core.writers import Fragment, PartitionPlan, StagedFile, Writer, WriterKey, integrate
from exporter.errors import TableUnreadable
from exporter.lake.schema import table_schema
from exporter.lake.settling import Moved
from exporter.lake.widening import CHANGES
from exporter.protocol.known import KnownTables
from exporter.protocol.planned import PlannedColumns
from exporter.task.growing import WIDENING_TRIES_MAX, Growing, fitted
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import TableView, fingerprint_of
from tests.support.schemas import fields, whole

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
SCHEMA = table_schema(NO_COLUMNS)
VIEW = TableView(4, "id", fingerprint_of("f", SCHEMA), {}, schema_json=SCHEMA, partition_columns=("day",), frame="f")
ROUTING = Routing(TypeFrom("header", "type"), EventTime("record"), (), new_type="table")


class OneTable:
    """A lake, and its only table."""

    event_type = "order"
    error: Exception | None = None

    def table(self, name: str) -> OneTable:
        assert name == "order"
        return self

    def view(self) -> TableView:
        if self.error is not None:
            raise self.error
        return VIEW


@pytest.fixture
def known() -> KnownTables:
    topics: Any = None
    known = KnownTables(
        app="app", routing=ROUTING, topics=topics, committer=MemoryCommitter(),
        planned=PlannedColumns(ROUTING, Evolutions(Evolution())),
    )
    assert known.accept("order", VIEW) == ""
    return known


def round_of(known: KnownTables, *seen: tuple[TopicPartition, object], name: str = "order") -> RoundResult:
    """One fragment each, staged for what is planned now."""
    fragments = []
    for tp, value in seen:
        one = Seen()
        one.add(value, At(tp.topic, tp.partition, 5))
        fingerprint = known.tables.get(name, TableTarget()).fingerprint
        staged = (StagedFile("day=2026-01-01/x", OffsetRange(5, 9), 5, 9, fingerprint=fingerprint),)
        plan = PartitionPlan(tp, 1, 0, 5, 10, {name: 4})
        fragments.append(Fragment(plan, {name: staged}, seen={name: one} if one else {}))
    return RoundResult(tuple(fragments), {})


def test_only_what_lacks_a_column_is_read_again(known):
    """A fragment without the new field is integrated; the other one's frontier stays where it is."""
    growing = Growing(lake=OneTable(), known=known)
    before = known.tables["order"].fingerprint
    first, second = growing.plan(round_of(known, (P0, {"a": 1}), (P1, None))).fragments
    assert (list(first.again), list(second.again)) == (["order"], [])
    assert known.tables["order"].fingerprint != before
    writers = {WriterKey("order", tp): Writer(WriterKey("order", tp), 0, 1, 4, 4) for tp in (P0, P1)}
    for fragment in (first, second):
        writers = integrate(writers, fragment, 0.0).writers
    assert [writers[WriterKey("order", tp)].frontier for tp in (P0, P1)] == [4, 9]
    (again,) = growing.plan(round_of(known, (P0, {"a": "does not fit"}))).fragments
    assert not again.again


def test_rows_are_not_read_again_for_ever(known):
    """Each reading may bring a field more: after TIMES_MAX times the rows are taken as they are (protocol 4.10)."""
    growing = Growing(lake=OneTable(), known=known)
    told = [bool(growing.plan(round_of(known, (P0, {f"f{n}": 1}))).fragments[0].again) for n in range(TIMES_MAX + 2)]
    assert told == [*[True] * TIMES_MAX, False, True]


def test_a_table_that_cannot_be_read_now_grows_later(known):
    """Its type is parked, as often as it takes: what was read does not go without its columns meanwhile."""
    lake = OneTable()
    lake.error = TableUnreadable("not now")
    growing = Growing(lake=lake, known=known)
    before = known.tables["order"].fingerprint
    for _ in range(TIMES_MAX + 1):
        (fragment,) = growing.plan(round_of(known, (P0, {"a": 1}))).fragments
        assert (fragment.files, fragment.again, fragment.unwritten) == ({}, {}, {"order": "TableUnreadable: not now"})
        assert known.tables["order"].fingerprint == before
    lake.error = None
    (fragment,) = growing.plan(round_of(known, (P0, {"a": 1}))).fragments
    assert fragment.again and not fragment.unwritten


def test_a_table_that_is_to_be_made_is_made_with_its_columns(known):
    """The manifest waits for its anchor anyway, and is read again with them."""
    growing = Growing(lake=OneTable(), known=known)
    (fragment,) = growing.plan(round_of(known, (P0, {"a": 1}), name="met")).fragments
    assert not fragment.again
    assert '"name":"a","type":"long"' in growing.to_make["met"]


def test_files_know_the_columns_that_they_were_staged_for(known):
    """So that they fit a table that is wider by then."""
    (fragment,) = round_of(known, (P0, None)).fragments
    (file,) = fitted(fragment, known).files["order"]
    assert file.columns == SCHEMA


# --- columns of schemas


class Columns:
    """Each key asks for one column of its name, or for a time without a zone. asked: each key, as often as it was."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def of_key(self, key: str, schemas: Any, topic: str) -> Any:
        self.asked.append(key)
        return fields(f"c{key} {'TIMESTAMP_NTZ' if key == '99' else 'DECIMAL(9,2)'}") if key != "0" else ()

    def of_type(self, event_type: str, topic: str = "") -> Any:
        return ()


def knowing(schemas: Columns, evolution: Evolution | None = Evolution(infers=False)) -> KnownTables:  # noqa: B008
    topics: Any = None
    known = KnownTables(
        app="app", routing=ROUTING, topics=topics, committer=MemoryCommitter(), schemas=Schemas(columns=schemas),
        planned=PlannedColumns(ROUTING, Evolutions(evolution), columns=schemas),
    )  # fmt: skip
    assert known.accept("order", VIEW) == ""
    return known


def met(result: RoundResult, *keys: str) -> RoundResult:
    """The round, of which each fragment met these schemas."""
    told = {name: frozenset(keys) for name in result.fragments[0].files}
    return RoundResult(tuple(replace(one, met=told) for one in result.fragments), {})


def columns_of(known: KnownTables, name: str = "order") -> dict[str, str]:
    schema = known.planned.schema_of(name, known.tables[name].fingerprint)
    return {one["name"]: one["type"] for one in json.loads(schema)["fields"] if one["name"].startswith("c")}


def test_the_columns_of_a_schema_come_before_the_rows_of_its_first_records() -> None:
    """With their exact types; what was staged without them is read again, and the schema is looked at once."""
    schemas = Columns()
    known = knowing(schemas)
    growing = Growing(lake=OneTable(), known=known)
    first = met(round_of(known, (P0, None), (P1, {"a": 1})), "7")
    assert [list(one.again) for one in growing.plan(first).fragments] == [["order"], ["order"]]
    assert columns_of(known) == {"c7": "decimal(9,2)"}
    again = met(round_of(known, (P0, {"a": 1})), "7")
    assert growing.plan(again) == again
    second = met(round_of(known, (P0, None)), "7", "8")
    assert growing.plan(second).fragments[0].again and columns_of(known).keys() == {"c7", "c8"}
    assert schemas.asked == ["7", "8"]


def test_a_round_that_was_begun_before_its_columns_were_planned_is_read_again() -> None:
    """The one that waited behind another: its files are of the table as it was."""
    known = knowing(Columns())
    growing = Growing(lake=OneTable(), known=known)
    behind = met(round_of(known, (P1, None)), "7")
    growing.plan(met(round_of(known, (P0, None)), "7"))
    assert growing.plan(behind).fragments[0].again


def test_a_schema_without_columns_of_its_own_changes_nothing() -> None:
    """Nor does one of a type whose table does not grow."""
    for schemas, known in ((one := Columns(), knowing(one)), (two := Columns(), knowing(two, None))):
        growing = Growing(lake=OneTable(), known=known)
        result = met(round_of(known, (P0, None)), "0" if known.planned.evolutions.default else "7")
        assert growing.plan(result) == result
        assert known.tables["order"].fingerprint == VIEW.fingerprint, schemas


def test_a_table_that_is_to_be_made_is_made_with_the_columns_of_its_schemas() -> None:
    """Whatever its records were rescued of."""
    known = knowing(Columns())
    growing = Growing(lake=OneTable(), known=known)
    growing.plan(met(round_of(known, (P0, {"x": 1}), name="new"), "7", "99"))
    made = [one["name"] for one in json.loads(growing.to_make["new"])["fields"]]
    assert "c7" in made and "c99" in made and "x" not in made


def test_a_time_without_a_zone_is_no_column_of_a_table_that_has_no_feature_for_it() -> None:
    """Its values stay in `_rescued`; nothing is read again for it for ever."""
    known = knowing(Columns())
    growing = Growing(lake=OneTable(), known=known)
    result = met(round_of(known, (P0, None)), "99")
    assert not growing.plan(result).fragments[0].again and columns_of(known) == {}
    assert known.accept("order", replace(VIEW, writer_features=("timestampNtz",))) == ""
    assert columns_of(known) == {"c99": "timestamp_ntz"}


# --- wider types of schemas


class Promoting:
    """A table whose evolved column `a` is an INT, and a schema that says BIGINT; its commit of wider types."""

    event_type = "order"

    def __init__(self) -> None:
        a, b = self.of_key("1", None, "t")
        schema = known_beforehand(table_schema(whole([b])), [a], "schema 1")
        self.now = replace(VIEW, schema_json=schema, fingerprint=fingerprint_of("f", schema))
        self.known = knowing(self)
        assert self.known.accept("order", self.now) == ""
        self.asked: list[tuple[str, int]] = []
        self.fails: Exception | None = None

    def of_key(self, key: str, schemas: Any, topic: str) -> Any:
        kind = {"1": "INT", "2": "BIGINT", "3": "DOUBLE"}[key]
        return fields(f"a {kind}, b {kind}")

    def of_type(self, event_type: str, topic: str = "") -> Any:
        return ()

    def table(self, name: str) -> Promoting:
        return self

    def view(self) -> TableView:
        return self.now

    def widen(self, name: str, view: TableView, schema: str, looked_through: int) -> None:
        self.asked.append((name, view.version))
        if self.fails is not None:
            raise self.fails
        self.now = replace(view, version=view.version + 1, schema_json=schema, fingerprint=fingerprint_of("f", schema))

    def type_of(self, name: str) -> Any:
        schema = self.known.planned.schema_of("order", self.known.tables["order"].fingerprint)
        return next(one["type"] for one in json.loads(schema)["fields"] if one["name"] == name)


def test_a_wider_type_of_a_schema_is_given_to_the_table_before_its_records_are() -> None:
    """By a commit of its own; what was staged for the narrower one is read again, once. A declared column stays."""
    place = Promoting()
    growing = Growing(lake=place, known=place.known, widen=place.widen)
    behind = round_of(place.known, (P1, None))
    assert not growing.plan(met(round_of(place.known, (P0, None)), "1")).fragments[0].again
    assert growing.plan(met(round_of(place.known, (P0, None)), "2")).fragments[0].again
    assert (place.asked, place.type_of("a"), place.type_of("b")) == ([("order", 4)], "long", "integer")
    column = next(one for one in json.loads(place.now.schema_json)["fields"] if one["name"] == "a")
    assert column["metadata"][CHANGES] == [{"toType": "long", "fromType": "integer"}]
    assert growing.plan(behind).fragments[0].again, "staged for the table as it was"
    assert not growing.plan(met(round_of(place.known, (P0, None)), "2")).fragments[0].again
    assert len(place.asked) == 1


def test_a_table_that_cannot_be_widened_now_keeps_its_type_and_holds_up_nothing() -> None:
    """Another task changed it, or it cannot be read: tried a few times, and files go on fitting the table as it is."""
    place = Promoting()
    place.fails = Moved("changed meanwhile")
    growing = Growing(lake=place, known=place.known, widen=place.widen)
    for _ in range(5):
        assert not growing.plan(met(round_of(place.known, (P0, None)), "2")).fragments[0].again
        assert place.type_of("a") == "integer"
    assert len(place.asked) == WIDENING_TRIES_MAX


def test_without_the_setting_an_outgrown_column_is_told_once() -> None:
    """Its table, the column and both types; the column keeps its own."""
    place = Promoting()
    growing = Growing(lake=place, known=place.known)
    with capture_logs() as said:
        for _ in range(3):
            assert not growing.plan(met(round_of(place.known, (P0, None)), "2")).fragments[0].again
    told = [{name: one[name] for name in ("table", "path", "have", "want")} for one in said if "path" in one]
    assert told == [{"table": "order", "path": "a", "have": "integer", "want": "long"}]
    assert [*map(str, place.known.planned.outgrown["order"])] == ["a from integer to long"]
    assert place.type_of("a") == "integer"


def test_of_two_schemas_that_come_before_the_table_the_wider_type_counts() -> None:
    """Whichever was met first: no file has either yet."""
    for keys in (("1", "2"), ("2", "1")):
        place = Promoting()
        growing = Growing(lake=place, known=place.known)
        growing.plan(met(round_of(place.known, (P0, {"x": 1}), name="new"), *keys))
        made = {one["name"]: one["type"] for one in json.loads(growing.to_make["new"])["fields"]}
        assert (made["a"], made["b"]) == ("long", "long")


# --- topics of several formats


def test_a_table_gets_what_the_formats_of_its_topics_ask_for() -> None:
    """Of a plain topic no column of what was done to a row; of one with an envelope it comes with the first record."""
    changes = replace(JSON, envelope="debezium")
    routing = replace(ROUTING, topic_formats=(("db", changes),))
    nothing: Any = None
    known = KnownTables(app="app", routing=routing, topics=nothing, committer=MemoryCommitter())
    assert known.accept("order", VIEW) == ""
    growing = Growing(lake=OneTable(), known=known)
    assert not growing.plan(round_of(known, (P0, None))).fragments[0].again
    assert names_of(known) == []
    db = TopicPartition("db", 0)
    assert [list(one.again) for one in growing.plan(round_of(known, (db, None), (P0, None))).fragments] == [
        ["order"], ["order"]
    ]  # fmt: skip
    assert names_of(known) == [CDC]
    assert not growing.plan(round_of(known, (db, None))).fragments[0].again
    growing.plan(round_of(known, (db, None), name="made"))
    assert '"_cdc"' in growing.to_make["made"]


def test_of_types_that_are_topics_each_has_what_its_own_format_asks_for() -> None:
    """Before any record."""
    changes = replace(JSON, envelope="debezium")
    routing = replace(ROUTING, type_from=TypeFrom("topic"), topic_formats=(("db", changes),))
    planned = PlannedColumns(routing, Evolutions())
    assert [[one.name for one in planned.of_record(name)] for name in ("db", "plain")] == [[CDC], []]


def names_of(known: KnownTables) -> list[str]:
    """The columns of the record in the planned table."""
    schema = known.planned.schema_of("order", known.tables["order"].fingerprint)
    return [one["name"] for one in json.loads(schema)["fields"] if RECORD in one["metadata"]]
