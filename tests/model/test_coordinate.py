"""Coordinated commits searched exhaustively (protocol 4.11): two tasks, a leader each, and a lossy channel.

See coordinate_world.py. The histories of what is taken out are in mutants.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.coordinate_world import STUBS
from tests.model.test_model import hold_in_every_state, name_of

COORDINATES = ({"ids": 1}, {"ids": 1, "alters": 2, "owns": ((0, 1), ())})
COORDINATES_LARGE = ({}, {"lies": True}, {"ids": 1, "owns": ((0, 1), (0, 1))}, {"ids": 1, "revokes": True})


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
