"""ORDER searched exhaustively: the real commit path, journal, payment and start-up, interleaved effect by effect.

See wal_world.py. Found by it: with wal_mode = best_effort an outage of a single commit stopped the task
(tests/unit/wal/test_journal.py keeps the history).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.search import RoleSearch
from tests.model.test_model import finish, hold_in_every_state, name_of
from tests.model.wal_world import STUBS, USER, WalScope, WalWorld

WALS = (
    {"processes": 1, "offers": 2, "faults": 2},
    {"faults": 0},
    {"lives": 1, "offers": 2},
    {"lives": 1, "wipes": True},
    {"lives": 1, "required": False},
)
LEASES = ({}, {"faults": 1, "ticks": 2})
LEASES_LARGE = ({"ticks": 5}, {"ticks": 4, "faults": 1}, {"ticks": 4, "lives": 2})
WALS_LARGE = ({}, {"required": False}, {"records": 2}, {"wipes": True}, {"lives": 1, "offers": 2, "faults": 2})


@pytest.fixture(autouse=True)
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world's ids and silence."""
    for stub in STUBS:
        monkeypatch.setattr(*stub)


@pytest.mark.parametrize("scope", WALS, ids=name_of)
def test_the_log_is_told_before_and_after_each_commit_and_never_a_lie(scope: dict[str, Any]) -> None:
    """ORDER in each history: whatever fails, dies or is lost, and no process is stopped by what the log says."""
    hold_in_every_state("wal", scope)


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scope", WALS_LARGE, ids=name_of)
def test_larger_worlds_of_the_log_are_told_no_lie(scope: dict[str, Any]) -> None:
    """The same in worlds of a minute, or half a million states."""
    hold_in_every_state("wal", scope, 500_000, whole=False)


@pytest.mark.parametrize("scope", LEASES, ids=name_of)
def test_of_two_processes_never_both_believe_that_a_lease_is_theirs(scope: dict[str, Any]) -> None:
    """By everybody's own monotonic clock, however long a request or its answer is under way."""
    hold_in_every_state("lease", scope)


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scope", LEASES_LARGE, ids=name_of)
def test_larger_worlds_of_leases_keep_their_promise(scope: dict[str, Any]) -> None:
    """The same for longer, with lost answers and new lives."""
    hold_in_every_state("lease", scope, 500_000, whole=False)


@pytest.mark.parametrize("scope", (WALS[0], {"lives": 1}, WALS[4]), ids=name_of)
def test_a_task_with_a_log_finishes_from_every_state(scope: dict[str, Any]) -> None:
    """Whatever was owed or unanswered, a task that is left alone covers the topic and sends its group offset."""
    world = WalWorld(WalScope(**scope))
    roles, names = world.roles()
    searched = RoleSearch(world, roles, names)
    assert searched.run(*world.first_state()).complete
    starts = {
        (searched.processes.values[pid], searched.tables.values[tables])
        for tables, *pids in searched.parents
        for pid in pids
    }
    done: set[Any] = set()
    for start in starts:
        if start[0] != USER:
            finish(world, start, done)
    print(f"\nlog {name_of(scope)}: {len(starts)} pairs of a process and a world, all finish")
