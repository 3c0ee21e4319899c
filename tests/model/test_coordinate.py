"""Coordinated commits searched exhaustively: two tasks, a leader each, and a lossy channel (protocol 4.11).

See coordinate_world.py; through_world.py is of valid_through (4.12),
announce_world.py of announced versions (4.13). The histories of what is taken out are in mutants.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.announce_world import FRESH, AnnounceScope, AnnounceWorld
from tests.model.coordinate_world import STUBS, CoordinateScope, CoordinateWorld
from tests.model.search import RoleSearch
from tests.model.test_model import finish, hold_in_every_state, name_of

COORDINATES = (
    {"ids": 1},
    {"ids": 1, "lies": True, "owns": ((0,), (0,))},
    {"ids": 1, "alters": 2, "owns": ((0, 1), ())},
)
COORDINATES_LARGE = ({}, {"lies": True}, {"ids": 1, "owns": ((0, 1), (0, 1))}, {"ids": 1, "revokes": True})
THROUGHS = ({}, {"mode": "strict"}, {"partitions": 1, "added": 1, "records": 2}, {"leaders": 1, "records": 4})
THROUGHS_LARGE = ({"records": 4}, {"added": 1}, {"leaders": 3}, {"leaders": 1, "partitions": 3, "records": 4})
ANNOUNCES = ({}, {"log": "r.r", "there": 0}, {"log": "rrr", "cleans": True})
ANNOUNCES_LARGE = ({"faults": 2, "cleans": True}, {"tasks": 3, "log": "rr"}, {"there": 0, "log": "rr.rr"})


@pytest.fixture(autouse=True)
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world's silence."""
    for stub in STUBS:
        monkeypatch.setattr(*stub)


@pytest.mark.parametrize("scope", COORDINATES, ids=name_of)
def test_whatever_is_said_offers_land_once_and_whole(scope: dict[str, Any]) -> None:
    """ONCE, COVER and ORDER, whatever messages are lost, doubled or late, whoever leads, and whoever dies."""
    hold_in_every_state("coordinate", scope)


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scope", COORDINATES_LARGE, ids=name_of)
def test_larger_worlds_of_offers_keep_every_record(scope: dict[str, Any]) -> None:
    """The same in worlds of minutes, with outcomes that nobody found; half a million states or all of them."""
    hold_in_every_state("coordinate", scope, 500_000, whole=False)


@pytest.mark.parametrize("scope", ({"logs": ("A", ""), "owns": ((0,), (0,))},), ids=name_of)
def test_a_task_without_a_leader_finishes_from_every_state(scope: dict[str, Any]) -> None:
    """Whatever was said to it and of it, a task that hears nothing any more commits all that there is by itself."""
    world = CoordinateWorld(CoordinateScope(**scope, ids=1))
    roles, names = world.roles()
    searched = RoleSearch(world, roles, names)
    assert searched.run(*world.first_state()).complete
    starts = {
        (searched.processes.values[pid], searched.tables.values[tables])
        for tables, *pids in searched.parents
        for pid in pids
    }
    alone, done = CoordinateWorld(CoordinateScope(**scope, ids=1 << 10, leads=0)), set[Any]()
    for start in starts:
        finish(alone, start, done)
    print(f"\ncoordinated, {name_of(scope)}: {len(starts)} pairs of a task and a world, all finish")


@pytest.mark.parametrize("scope", THROUGHS, ids=name_of)
def test_no_record_comes_after_what_was_said_to_be_there(scope: dict[str, Any]) -> None:
    """valid_through in ordered input: whoever commits what, and whatever comes between a look and its commit."""
    hold_in_every_state("through", scope)


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scope", THROUGHS_LARGE, ids=name_of)
def test_no_record_comes_after_what_was_said_in_larger_worlds(scope: dict[str, Any]) -> None:
    """The same with more records, partitions and leaders; half a million states or all of them."""
    hold_in_every_state("through", scope, 500_000, whole=False)


@pytest.mark.parametrize("scope", ANNOUNCES, ids=name_of)
def test_a_consumer_hears_of_every_version(scope: dict[str, Any]) -> None:
    """In order, whoever announces and dies, and whatever is not acknowledged, kept or in the log any more."""
    hold_in_every_state("announce", scope)


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scope", ANNOUNCES_LARGE, ids=name_of)
def test_a_consumer_hears_of_every_version_in_larger_worlds(scope: dict[str, Any]) -> None:
    """The same with more tasks, versions and faults; half a million states or all of them."""
    hold_in_every_state("announce", scope, 500_000, whole=False)


def test_a_task_that_leads_alone_has_told_of_all() -> None:
    """Nothing is held up for ever: from whatever is kept and was told, who begins comes to the end of the log."""
    world = AnnounceWorld(AnnounceScope("r.r"))
    roles, names = world.roles()
    searched = RoleSearch(world, roles, names)
    assert searched.run(*world.first_state()).complete
    starts = {(FRESH, searched.tables.values[tables]) for tables, *_ in searched.parents}
    done: set[Any] = set()
    for start in starts:
        finish(world, start, done)
    print(f"\nannounced: {len(starts)} states of the log, all finish")
