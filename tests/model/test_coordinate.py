"""Coordinated commits searched exhaustively: two tasks, a leader each, and a lossy channel (protocol 4.11).

See coordinate_world.py; through_world.py is of valid_through (4.12). The
histories of what is taken out are in mutants.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.coordinate_world import STUBS
from tests.model.test_model import hold_in_every_state, name_of

COORDINATES = ({"ids": 1}, {"ids": 1, "alters": 2, "owns": ((0, 1), ())})
COORDINATES_LARGE = ({}, {"lies": True}, {"ids": 1, "owns": ((0, 1), (0, 1))}, {"ids": 1, "revokes": True})
THROUGHS = ({}, {"mode": "strict"}, {"partitions": 1, "added": 1, "records": 2}, {"leaders": 1, "records": 4})
THROUGHS_LARGE = ({"records": 4}, {"added": 1}, {"leaders": 3}, {"leaders": 1, "partitions": 3, "records": 4})


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
