"""The columns that tables are to have: planned, remembered as long as files may need them, never a verdict's matter."""

from __future__ import annotations

import json

from exporter.core.columns import EVOLVED, NO_COLUMNS
from exporter.core.evolve import Evolution, Evolutions
from exporter.core.evolved import fitting
from exporter.core.order import TableTarget
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.seen import At, Seen
from exporter.core.writers import StagedFile
from exporter.lake.schema import table_schema
from exporter.protocol.planned import PLANS_KEPT, PlannedColumns, target_of
from offsets.ranges import OffsetRange
from offsets.table_log import TableView, fingerprint_of
from tests.support.schemas import fields

ROUTING = Routing(TypeFrom("json", "meta.type"), EventTime("json", "at", "ms"), (), new_type="table")
ALL = Evolutions(Evolution())


def view(schema: str, version: int = 0, frame: str = "frame") -> TableView:
    return TableView(version, "id", fingerprint_of(frame, schema), {}, {}, ("day",), schema, frame=frame)


EMPTY = view(table_schema(NO_COLUMNS))


def seen_of(**value: object) -> Seen:
    seen = Seen()
    seen.add(value, At("t", 0, 7))
    return seen


def names(schema: str) -> list[str]:
    return [one["name"] for one in json.loads(schema)["fields"]]


def file(fingerprint: str, columns: str) -> StagedFile:
    return StagedFile("day=2026-01-01/x", OffsetRange(0, 1), 1, 1, fingerprint=fingerprint, columns=columns)


def test_where_the_type_and_the_time_stand_is_known_before_any_record():
    """These fields are in no `_rescued`: the table gets them as columns with its first files."""
    planned = PlannedColumns(ROUTING, ALL)
    target = planned.accept("order", EMPTY)
    fingerprint = target.fingerprint
    assert fingerprint != EMPTY.fingerprint
    schema = planned.schema_of("order", fingerprint)
    assert names(schema) == ["_kafka", "_event_time", "meta", "at", "_rescued", "day"]
    assert json.loads(target.decoded or "")["fields"][1]["type"] == "long"
    made = planned.to_make("new", seen_of(a=1))
    assert names(made) == ["_kafka", "_event_time", "meta", "at", "a", "_rescued", "day"]


def test_a_table_that_does_not_grow_is_staged_as_it_is():
    """Neither are the dead letters, whatever the settings."""
    excepted = Evolutions(Evolution(), {"order": None})
    for evolutions, name in ((Evolutions(), "order"), (excepted, "order"), (ALL, DEAD_LETTERS)):
        planned = PlannedColumns(ROUTING, evolutions)
        assert planned.accept(name, EMPTY) == TableTarget(EMPTY.fingerprint)
        assert not planned.is_news(name, EMPTY.fingerprint, seen_of(a=1))


def test_columns_that_a_table_has_are_filled_also_where_it_grows_no_more():
    """A column of which nobody knows why it stays empty helps nobody."""
    grown = PlannedColumns(ROUTING, ALL)
    wide = grown.schema_of("order", grown.grow("order", EMPTY, seen_of(a=1)).fingerprint)
    off = PlannedColumns(ROUTING, Evolutions())
    target = off.accept("order", view(wide))
    assert "a" in names(target.decoded or "")
    assert target_of(ROUTING, "order", view(wide)) == target
    assert target_of(ROUTING, DEAD_LETTERS, EMPTY) == TableTarget(EMPTY.fingerprint)


def test_what_was_planned_is_news_no_more():
    """What was staged before it is; the plan stands beside what others have added to the table meanwhile."""
    planned = PlannedColumns(ROUTING, ALL)
    before = planned.accept("order", EMPTY).fingerprint
    assert planned.is_news("order", before, seen_of(a=1))
    after = planned.grow("order", EMPTY, seen_of(a=1)).fingerprint
    assert not planned.is_news("order", after, seen_of(a=1))
    assert not planned.is_news("order", after, seen_of(a="no number"))
    assert planned.is_news("order", after, seen_of(b=1))
    other = PlannedColumns(ROUTING, ALL)
    theirs = view(other.schema_of("order", other.grow("order", EMPTY, seen_of(c=1)).fingerprint), 1)
    both = planned.grow("order", theirs, seen_of(b=1)).fingerprint
    assert {"a", "b", "c"} <= set(names(planned.schema_of("order", both)))
    assert json.loads(planned.schema_of("order", both))["fields"][-3]["metadata"] == {EVOLVED: "t/0/7"}


def test_files_of_any_remembered_plan_fit_the_table():
    """And make it as wide as they are; one whose plan nobody remembers fits the very table only."""
    planned = PlannedColumns(ROUTING, ALL)
    fingerprints = [planned.accept("order", EMPTY).fingerprint]
    grown = [planned.grow("order", EMPTY, seen_of(**{f"c{number}": 1})) for number in range(PLANS_KEPT)]
    fingerprints += [one.fingerprint for one in grown]
    assert planned.schema_of("order", fingerprints[0]) == ""
    files = [file(one, planned.schema_of("order", one)) for one in fingerprints[1:]]
    assert fitting(EMPTY, files) == planned.schema_of("order", fingerprints[-1])
    assert fitting(EMPTY, [file(fingerprints[0], "")]) is None
    assert fitting(EMPTY, [file(EMPTY.fingerprint, "")]) == EMPTY.schema_json
    assert fitting(view(EMPTY.schema_json, frame="other constraints"), files) is None


def test_a_plan_that_another_task_has_made_impossible_is_given_up():
    """The first type of a column wins; what did not fit it stays where it is."""
    planned = PlannedColumns(ROUTING, ALL)
    planned.grow("order", EMPTY, seen_of(a=1))
    other = PlannedColumns(ROUTING, ALL)
    theirs = view(other.schema_of("order", other.grow("order", EMPTY, seen_of(a="text")).fingerprint), 1)
    fingerprint = planned.grow("order", theirs, seen_of(b=1)).fingerprint
    kinds = {one["name"]: one["type"] for one in json.loads(planned.schema_of("order", fingerprint))["fields"]}
    assert (kinds["a"], kinds["b"]) == ("string", "long")


def test_a_schema_that_is_known_before_any_record_gives_its_columns():
    """The first file has them already; one that the table has with another type stays as it is there."""
    planned = PlannedColumns(ROUTING, ALL)
    planned.foresee("order", fields("a BIGINT NOT NULL, b DATE NOT NULL"), "registry:42")
    before = planned.accept("order", EMPTY).fingerprint
    schema = json.loads(planned.schema_of("order", before))
    mine = {one["name"]: one for one in schema["fields"]}
    assert (mine["a"]["type"], mine["a"]["nullable"], mine["a"]["metadata"]) == ("long", True, {EVOLVED: "registry:42"})
    assert not planned.is_news("order", before, seen_of(a=1))
    assert "b" in names(planned.schema_of("order", planned.grow("order", EMPTY, seen_of(c=1)).fingerprint))
    assert "b" in names(planned.to_make("order", seen_of()))
    assert "b" not in names(planned.to_make("click", seen_of()))
    other = PlannedColumns(ROUTING, ALL)
    other.foresee("order", fields("a STRING NOT NULL"), "registry:43")
    kept = json.loads(other.schema_of("order", other.accept("order", view(json.dumps(schema))).fingerprint))
    assert {one["name"]: one["type"] for one in kept["fields"]}["a"] == "long"
