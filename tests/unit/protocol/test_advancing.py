"""What stops a start before anything is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.specs import Specs
from exporter.errors import ConfigError
from exporter.protocol.advancing import Advance
from exporter.protocol.reading import Reading
from offsets.partitions import Spec
from offsets.table_log import TableView

ROUTING = Routing(TypeFrom("json", "type"), EventTime("record"), (("click", "{}"), ("order", "{}")))


def advance(specs: Specs) -> Advance:
    anchors: Any = SimpleNamespace(lake=SimpleNamespace(specs=specs, app="app"), routing=ROUTING)
    nothing: Any = None
    return Advance(anchors=anchors, topics=nothing, switcher=nothing, on_gap="stop")


def reading(**columns: tuple[str, ...]) -> Reading:
    views = {name: TableView(1, "id", "f", {}, partition_columns=cut_by) for name, cut_by in columns.items()}
    return Reading(views, {}, None, {})


def test_tables_that_the_settings_would_cut_otherwise_stop_a_start() -> None:
    """Exit 2, all of them at once; the dead letters are by day, and what is not filled is nobody's concern."""
    found = reading(**{DEAD_LETTERS: ("day",), "order": ("day",), "click": ("day", "hour"), "gone": ("month",)})
    with pytest.raises(ConfigError) as refused:
        advance(Specs(others=Spec("none"))).check_lake(found, {})
    assert refused.value.exit_code == 2
    assert "table order is cut by day" in str(refused.value) and "table click is cut by hour" in str(refused.value)
    assert "gone" not in str(refused.value) and DEAD_LETTERS not in str(refused.value)
    advance(Specs({"click": Spec("hour")})).check_lake(found, {})
