"""Long random histories of the same worlds, larger than a search could exhaust, by hypothesis's stateful testing.

Each run prints its seed; MODEL_SEED=<seed> walks the same histories again. A history that breaks an invariant is
shortened by hypothesis and printed as a timeline.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.model.mutant_run import begun, stubbed, world_of
from tests.model.test_model import Unfenced
from tests.model.world import Scope, Stopped

STEPS = 80
HISTORIES = 12
HISTORIES_LONG = 1_500

BIG: dict[str, tuple[str, dict[str, Any]]] = {
    "two": ("two", {"log": "ACD.AC", "rounds_max": 2, "orphans_max": 2, "late": True, "park": True, "reassign": True}),
    "new": ("two", {"log": "CA.DC", "rounds_max": 2, "late": True, "park": True, "reassign": True, "anchored": False}),
    "fan": ("fan", {"log": "gb.Lful", "rounds_max": 2, "orphans_max": 2, "late": True, "park": True, "reassign": True}),
    "pair": ("pair", {"logs": ("AA.A", "A.AA"), "drops": True, "revokes": True, "late": True}),
    "switch": ("switch", {"old": "ADBA", "new": "DABD", "olds": 2, "news": 2, "types": "ABD", "in_old": "ABD"}),
    "met": ("met", {"old": "CADC", "new": "ACCD", "olds": 2, "news": 2, "takes": True}),
    "evolve": (
        "evolve",
        {"logs": ("tixj", "jati"), "tasks": "001", "again_max": 2, "drops": True, "forgets": True, "late": True},
    ),
    "restore": ("restore", {"log": "ADXA", "tasks": 2, "repairs": 2, "restores": 3, "restorable": "AD"}),
    "sweep": ("sweep", {"records": 4, "attempts": 6, "steps": 4, "closes": True}),
    "wal": ("wal", {"records": 4, "lives": 6, "offers": 8, "faults": 4, "wipes": True}),
    "best effort": ("wal", {"records": 4, "lives": 6, "offers": 8, "faults": 6, "wipes": True, "required": False}),
    "lease": ("lease", {"lease_ticks": 3, "ticks": 30, "lives": 4, "faults": 4}),
    "coordinate": (
        "coordinate",
        {
            "logs": ("AA.A", "A.A"), "messages": 4, "ids": 4, "owns": ((0, 1), (0, 1)), "lies": True, "drops": True,
            "revokes": True, "alters": 6,
        },
    ),
    "through": ("through", {"partitions": 3, "added": 1, "records": 12, "leaders": 3}),
    "announce": ("announce", {"log": "rr.r.rrr", "tasks": 3, "faults": 6, "cleans": True}),
}  # fmt: skip
"""Name of the histories -> kind and scope of their world."""


class History(RuleBasedStateMachine):
    """One history: any step of any process, and after each the invariants."""

    world_of: Callable[[], Any]

    def __init__(self) -> None:
        super().__init__()
        self.world = type(self).world_of()
        searched, self.tables, processes = begun(self.world)
        self.names, self.processes = searched.names, list(processes)
        self.lines: list[str] = []

    @rule(data=st.data())
    def step(self, data: Any) -> None:
        """One move of one process; a process with nothing to do lets the next one."""
        first = data.draw(st.integers(0, len(self.processes) - 1))
        for slot in [*range(first, len(self.processes)), *range(first)]:
            moves = self.moves(self.processes[slot])
            if moves:
                text, after, tables = moves[data.draw(st.integers(0, len(moves) - 1))]
                self.take(slot, text, after, tables)
                return

    def moves(self, process: Any) -> list[tuple[str, Any, Any]]:
        alone = [(text, after, self.tables) for text, after, *_ in self.world.local_moves(process)]
        return [*alone, *(move[:3] for move in self.world.shared_moves(process, self.tables))]

    def take(self, slot: int, text: str, after: Any, tables: Any) -> None:
        before, self.tables, self.processes[slot] = self.tables, tables, after
        self.lines.append(f"  t{len(self.lines) + 1:<4} {self.names[slot]:<8} {text:<58} {self.world.show(tables)}")
        problem = self.world.broken(tables) or self.world.went_back(before, tables)
        if isinstance(after, Stopped):
            problem = f"GUARD: stops, {after.reason}"
        assert not problem, "\n".join([problem, *self.lines, f"       => {problem}"])


def walk(name: str, world_of: Callable[[], Any], histories: int, shortened: bool = True) -> None:
    """So many histories of STEPS steps."""
    number = int(os.environ.get("MODEL_SEED") or random.SystemRandom().getrandbits(32))
    print(f"\n{name}: {histories} histories of {STEPS} steps, MODEL_SEED={number}")
    machine = type("History", (History,), {"world_of": staticmethod(world_of)})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        seed(number)(machine),
        settings=settings(
            max_examples=histories, stateful_step_count=STEPS, deadline=None, database=None,
            phases=[Phase.generate, *([Phase.shrink] if shortened else [])], suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


def walk_big(name: str, histories: int) -> None:
    """The same of a world of BIG."""
    kind, scope = BIG[name]
    with stubbed(kind):
        walk(name, lambda: world_of(kind, scope), histories)


@pytest.mark.parametrize("name", BIG)
def test_random_histories_keep_every_invariant(name: str) -> None:
    """A few each time the tests run, others each time."""
    walk_big(name, HISTORIES)


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", BIG)
def test_many_random_histories_keep_every_invariant(name: str) -> None:
    """Thousands of steps of each world."""
    walk_big(name, HISTORIES_LONG)


def test_a_random_history_finds_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the compare-and-set it comes to a violation, and tells it as a timeline."""
    monkeypatch.setenv("MODEL_SEED", "1")
    with pytest.raises(AssertionError, match=r"(?s)MONOTONE|ONCE|COVER.*t1 .*=>"):
        walk("unfenced", lambda: Unfenced(Scope("A")), 200, shortened=False)
