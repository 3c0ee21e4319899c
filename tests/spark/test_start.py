"""Commits of a start that cannot go through: the cause is told, and a change of settings is tried before it is made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.errors import ConfigError, ExporterError, TableUnwritable
from exporter.kafka.topics import EARLIEST
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.schema import refuses, table_schema
from exporter.lake.settling import Moved
from exporter.protocol import anchor
from exporter.protocol.anchor import Anchors, Patience
from exporter.protocol.rehearsal import rehearse
from offsets.crosscheck import Switch
from offsets.positions import Position
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import TableView

pytestmark = pytest.mark.spark

TP = TopicPartition("events", 0)
IDENTITIES = {"events": TopicIdentity("cluster", "topic-id", (0,))}


def columns(**kinds: str) -> str:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return json.dumps({"type": "struct", "fields": fields})


def routing(**types: str) -> Routing:
    return Routing(TypeFrom("json", "type"), EventTime("record"), tuple(sorted(types.items())))


def anchors(lake: Lake, configuration: Routing) -> Anchors:
    topics: Any = None  # only first positions are asked of it
    return Anchors(lake, topics, configuration, EARLIEST)


def anchored(lake: Lake, configuration: Routing, *names: str) -> dict[str, TableView]:
    """Tables at offset 9 of events-0, made as a start makes them."""
    for name in names:
        anchors(lake, configuration).anchor_type(name, None, {TP: Position(0, 9)}, IDENTITIES)
    return {name: view for name in names if (view := lake.table(name).view()) is not None}


@pytest.fixture
def lake(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(anchor, "FAILURE_SECS", 0.0)
    return Lake(spark, tmp_path / "lake", "app")


def ended(attempt: Callable[[], object]) -> ExporterError:
    """What a start ends with that makes this attempt again and again."""
    patience = Patience()
    for _ in range(anchor.ATTEMPTS_MAX):
        try:
            attempt()
        except Moved as moved:
            try:
                patience.restart(moved)
            except ExporterError as error:
                return error
    raise AssertionError("it went on for ever")


@pytest.mark.parametrize("where", ["order", "order/_delta_log"])
def test_a_file_in_the_place_of_a_table_is_told_as_that(lake: Lake, where: str) -> None:
    """Exit 2 and the path: no other task is at work, and none is waited for."""
    path = Path(lake.root) / where
    path.parent.mkdir(parents=True)
    path.write_text("no folder")
    configuration = routing(order=columns(id="long"))
    error = ended(lambda: anchors(lake, configuration).anchor_type("order", None, {TP: Position(0, -1)}, IDENTITIES))
    assert (error.exit_code, str(path) in error.message) == (2, True), error


def test_a_name_that_delta_refuses_is_told_as_that(lake: Lake) -> None:
    """Exit 2 with Delta's own words, whatever it is that our own checks know nothing of."""
    configuration = routing(order=columns(id="interval"))
    error = ended(lambda: anchors(lake, configuration).anchor_type("order", None, {TP: Position(0, -1)}, IDENTITIES))
    assert (error.exit_code, "table order: Delta refuses it: " in error.message) == (2, True), error
    assert "DELTA_UNSUPPORTED_DATA_TYPES" in error.message


def test_what_nobody_can_explain_is_a_dependency_and_no_other_task(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 69 with the words of the system underneath."""

    def fail(self: Any, change: Change, check: Any) -> int:
        check(self.view())
        raise RuntimeError("the disk mumbles")

    monkeypatch.setattr("exporter.lake.table.DeltaTable.commit", fail)
    configuration = routing(order=columns(id="long"))
    error = ended(lambda: anchors(lake, configuration).anchor_type("order", None, {TP: Position(0, -1)}, IDENTITIES))
    assert isinstance(error, TableUnwritable) and error.exit_code == 69
    assert "the disk mumbles" in error.message


def switch(dead_letters: int, through: int = 9, **positions: Position | None) -> dict[TopicPartition, Switch]:
    known = {DEAD_LETTERS: Position(0, dead_letters), **positions}
    return {TP: Switch(0, "old", through, known, tuple(name for name, at in known.items() if at is not None))}


def test_all_that_is_in_the_way_of_new_settings_is_told_before_anything_is_changed(lake: Lake) -> None:
    """A file where a table has to be, a name that differs by case, a name for Delta to refuse, a table that is behind
    and takes nothing: one error of exit code 2, and no table has another version."""
    old = routing(click=columns(id="long"), order=columns(id="long"), view=columns(id="long"))
    views = anchored(lake, old, DEAD_LETTERS, "click", "order", "view")
    lake.session.sql(f"ALTER TABLE delta.`{lake.root}/order` ADD CONSTRAINT small CHECK (id < 5)")
    views = {name: view for name in views if (view := lake.table(name).view()) is not None}
    (Path(lake.root) / "payment").write_text("no folder")
    new = routing(
        click=columns(ID="long"), odd=columns(id="interval"), order=columns(id="long"), payment=columns(id="long"),
        view=columns(id="long", more="string"),
    )  # fmt: skip
    at = Position(0, 9)
    switches = switch(9, click=at, order=Position(0, 3), view=at, payment=None, odd=None)
    with pytest.raises(ConfigError) as caught:
        rehearse(anchors(lake, new), views, switches, {"old": old})
    told = str(caught.value)
    assert "4 things are in the way of the new settings" in told
    assert "table click: the table has a column id, which readers cannot tell from ID" in told
    assert "table odd: Delta refuses it: " in told
    assert "table order has to take what came under the old settings first, and cannot be filled" in told
    assert f"table payment: {lake.root}/payment is a file" in told
    assert {name: lake.table(name).view() for name in views} == views
    assert sorted(lake.event_types()) == sorted(views)
    assert not list(Path(lake.root).rglob("*.tmp"))


def test_nothing_is_in_the_way_of_ordinary_new_settings(lake: Lake) -> None:
    """A new type, a new column, a type that is removed, one that is behind; nothing is left of the trial."""
    old = routing(click=columns(id="long"), order=columns(id="long"))
    views = anchored(lake, old, DEAD_LETTERS, "click", "order")
    before = sorted(Path(lake.root).rglob("*"))
    new = routing(click=columns(id="long", more="string"), payment=columns(id="long"))
    switches = switch(9, click=Position(0, 3), order=Position(0, 9), payment=None)
    rehearse(anchors(lake, new), views, switches, {"old": old})
    assert sorted(Path(lake.root).rglob("*")) == before


def test_harmless_alterations_leave_a_table_fillable(lake: Lake) -> None:
    """Type widening that is enabled and not used, a VARIANT column, what DROP FEATURE leaves (set at once here: a drop
    takes ten seconds); a column that is widened fits once it is declared as it is."""
    configuration = routing(order=columns(id="long", amount="decimal(12,2)"))
    anchored(lake, configuration, "order")
    for alteration in (
        "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ADD COLUMNS (extra VARIANT)",
        "SET TBLPROPERTIES ('delta.feature.checkpointProtection' = 'supported')",
    ):
        lake.session.sql(f"ALTER TABLE delta.`{lake.root}/order` {alteration}").collect()
    view = lake.table("order").view()
    assert view is not None
    assert {"typeWidening", "variantType", "checkpointProtection"} <= set(view.writer_features)
    declared = configuration.schemas["order"]
    assert refuses(view, table_schema(declared)) == ""
    lake.session.sql(f"ALTER TABLE delta.`{lake.root}/order` ALTER COLUMN amount TYPE DECIMAL(18,2)").collect()
    widened = lake.table("order").view()
    assert widened is not None
    assert "column amount is decimal(18,2) in the table" in refuses(widened, table_schema(declared))
    assert refuses(widened, table_schema(columns(id="long", amount="decimal(18,2)"))) == ""
