"""Where the next audit goes on: behind what this one could say everything of."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.operate.audit.pin import FOREVER, PinnedTables, Region
from offsets.ranges import TopicPartition

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def pinned(**changed: Any) -> PinnedTables:
    """Dead letters at 90, `a` at 70, `old`, which the configuration does not have any more, at 10."""
    routing = Routing(TypeFrom("header", "t"), EventTime("record"), (("a", "{}"),), **changed)
    made = PinnedTables({DEAD_LETTERS: None, "a": None, "old": None}, [routing])  # type: ignore[dict-item]  # nobody looks
    made.regions[TP] = [Region(-1, FOREVER, 0)]
    made.positions |= {(DEAD_LETTERS, TP): 90, ("a", TP): 70, ("old", TP): 10, ("a", OTHER): 3}
    return made


def test_it_goes_on_behind_the_table_that_is_least_far() -> None:
    """Of those that are filled: one that nothing is written to any more stays where it is for ever."""
    assert pinned().complete_through(TP) == 70
    assert pinned(new_type="table").complete_through(TP) == 10, "any name may be one of an event type"


@pytest.mark.parametrize("regions", [[], [Region(-1, 40, 0)]], ids=["of none", "of the newest"])
def test_what_has_no_configuration_that_can_be_read_is_asked_for_again(regions: list[Region]) -> None:
    """Nothing was said of it."""
    made = pinned()
    made.regions[TP] = regions
    assert made.complete_through(TP) == (40 if regions else -1)


def test_a_record_of_which_nobody_knows_yet_where_it_is_is_asked_for_again() -> None:
    """It is in a table, or becomes a dead letter."""
    made = pinned()
    made.spared[TP] = frozenset({65, 50})
    assert made.complete_through(TP) == 49
