"""The protocol in a small world, searched exhaustively with the project's own decisions.

    pytest tests/model -s            sizes, depths and the shortest history for each rule taken out
    pytest tests/model -s -m drill   the larger worlds (minutes)

The size of the default worlds is chosen for about half a minute on one core.
"""

from __future__ import annotations

from typing import Any

import pytest

from offsets.positions import Position
from tests.model.mutant_run import search
from tests.model.mutants import MUTANTS, Mutant, run
from tests.model.search import RoleSearch, Search
from tests.model.switch_world import NEW, READS, SwitchScope, SwitchWorld
from tests.model.world import ALL, Scope, SharedMove, State, World

TWO = (
    {"log": "A"},
    {"log": "AD"},
    {"log": "C"},
    {"log": "C", "anchored": False, "drops": False},
    {"log": "A.D", "drops": False},
    {"log": "AA", "park": True, "drops": False},
    {"log": "AD", "reassign": True, "drops": False},
    {"log": "A", "rounds_max": 2},
)
ONE = (
    {"log": "C"},
    {"log": "A.D", "drops": False},
    {"log": "A.", "late": True, "drops": False},
    {"log": "C", "rounds_max": 2, "drops": False},
    {"log": "C", "reassign": True},
    {"log": "AA", "park": True},
)
LARGE = (
    ("two", {"log": "AC", "drops": False}),
    ("two", {"log": "A.D"}),
    ("two", {"log": "A.", "late": True, "drops": False}),
    ("one", {"log": "AC"}),
    ("one", {"log": "A.D"}),
    ("one", {"log": "A.C", "drops": False}),
    ("one", {"log": "AC", "late": True, "drops": False}),
    ("one", {"log": "A.AD", "drops": False}),
)
SWITCHES = (
    {},
    {"old": "AD.", "new": "DA."},
    {"old": "ADA", "new": "DAD"},
    {"olds": 2},
    {"news": 2},
    {"olds": 2, "news": 2},
    {"old": "ABD", "new": "BDA", "types": "ABD", "in_old": "ABD"},
    {"old": "AD", "new": "BA", "types": "ABD", "in_old": "AD"},
    {"old": "AD", "new": "BA", "types": "ABD", "in_old": "AD", "news": 2},
)
STEPS_MAX = 200


def name_of(scope: Any) -> str:
    return "-".join(f"{key}={value}" for key, value in scope.items()) if isinstance(scope, dict) else str(scope)


@pytest.mark.parametrize("scope", TWO, ids=name_of)
def test_two_processes_without_coordination_keep_every_invariant(scope: dict[str, Any]) -> None:
    """Two processes that both believe they own the partition lose nothing and double nothing, and no guard fires."""
    found = search("two", scope, 1_000_000)
    print(f"\ntwo processes, {name_of(scope)}: {found}")
    assert found.complete and not found.violation, str(found)


@pytest.mark.parametrize("scope", ONE, ids=name_of)
def test_one_process_keeps_every_invariant_whatever_others_do(scope: dict[str, Any]) -> None:
    """Against any legal step of any number of others, each step of a process is legal itself."""
    found = search("one", scope, 1_000_000)
    print(f"\none against all others, {name_of(scope)}: {found}")
    assert found.complete and not found.violation, str(found)


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kind", "scope"), LARGE, ids=name_of)
def test_larger_worlds_keep_every_invariant(kind: str, scope: dict[str, Any]) -> None:
    """The same facts in worlds of minutes; at least two million states or all of them."""
    found = search(kind, scope, 2_000_000)
    print(f"\n{kind}, {name_of(scope)}: {found}")
    assert not found.violation, str(found)


@pytest.mark.parametrize("scope", SWITCHES, ids=name_of)
def test_a_switch_of_configuration_keeps_every_record(scope: dict[str, Any]) -> None:
    """Old and new tasks, crashing and pausing at will, write each record under exactly one configuration."""
    found = search("switch", scope, 1_000_000)
    print(f"\nswitch, {name_of(scope)}: {found}")
    assert found.complete and not found.violation, str(found)


@pytest.mark.parametrize(
    "scope", ({"log": "C"}, {"log": "AD"}, {"log": "AA", "park": True, "drops": False}), ids=name_of
)
def test_a_process_left_alone_finishes_from_every_state(scope: dict[str, Any]) -> None:
    """No deadlock and no endless discarding: without faults, each process of each state covers the whole log."""
    world = World(Scope(**scope))
    tables, process = world.first_state()
    searched = Search(world)
    assert searched.run(tables, (process, process)).complete
    starts = {(searched.processes.values[pid], searched.tables.values[n[0]]) for n in searched.parents for pid in n[1:]}
    done: set[tuple[State, State]] = set()
    for start in starts:
        _finish(world, start, done)
    print(f"\n{name_of(scope)}: {len(starts)} pairs of a process and tables, all finish")


@pytest.mark.parametrize("scope", (SWITCHES[0], SWITCHES[4], SWITCHES[7]), ids=name_of)
def test_a_switch_finishes_from_every_state(scope: dict[str, Any]) -> None:
    """A new task left alone ends the switch and covers the log, from its own state and from a new start."""
    world = SwitchWorld(SwitchScope(**scope))
    roles, names = world.roles()
    searched = RoleSearch(world, roles, names)
    assert searched.run(*world.first_state()).complete
    starts = set()
    for tables_id, *pids in searched.parents:
        tables = searched.tables.values[tables_id]
        tasks = (searched.processes.values[pid] for pid in pids)
        starts |= {(task, tables) for task in tasks if task[0] == NEW} | {((NEW, READS, (), ()), tables)}
    done: set[tuple[State, State]] = set()
    for start in starts:
        _finish(world, start, done)
    print(f"\nswitch {name_of(scope)}: {len(starts)} pairs of a task and tables, all finish")


def _finish(world: Any, start: tuple[State, State], done: set[tuple[State, State]]) -> None:
    """Follow the clean steps to the end; fail if there is none within STEPS_MAX."""
    path, texts, (process, tables) = [], [], start
    while not world.finished(tables) and (process, tables) not in done:
        path.append((process, tables))
        step = world.clean_step(process, tables)
        assert step is not None and len(path) < STEPS_MAX, f"stuck at {process} {world.show(tables)} after {texts}"
        texts.append(step[0])
        _, process, tables = step
    done.update(path)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_taken_out_is_missed_or_held_twice(mutant: Mutant) -> None:
    """Without the rule the search finds a loss or a duplicate; where it finds none, the rule that holds is named."""
    found = run(mutant)
    print(f"\n{mutant.rule}\n{found['text']}")
    if mutant.expected:
        assert found["violation"].partition(":")[0] in mutant.expected, found["text"]
    else:
        assert not found["violation"] and found["complete"], found["text"]


def test_a_mutant_whose_text_is_gone_fails_loudly() -> None:
    """A rule that was rewritten is not silently left untested."""
    gone = Mutant("gone", "a text that is nowhere", (("exporter/writers.py", "no such text", ""),), frozenset())
    with pytest.raises(ValueError, match="0 times, not once"):
        run(gone)


class Unfenced(World):
    """A world without the compare-and-set, to compare ways of searching it."""

    def commit(self, tables: State, index: int, attempt: State) -> State | None:
        at = self.position(tables, index)
        return super().commit(tables, index, (attempt[0], at.offset, *attempt[2:])) if at else None


class Unreduced(Unfenced):
    """The same world, every move depending on every other: all interleavings of a process's own moves."""

    def local_moves(self, process: State) -> list[tuple[str, Any, int, int]]:
        return [(text, after, ALL, ALL) for text, after, *_ in super().local_moves(process)]

    def shared_moves(self, process: State, tables: State) -> list[SharedMove]:
        return [(text, after, new, ALL, ALL) for text, after, new, *_ in super().shared_moves(process, tables)]


@pytest.mark.parametrize("log", ("A", "D"))
def test_leaving_out_independent_moves_hides_no_violation(log: str) -> None:
    """The reduced search and the one over all interleavings find a shortest history of the same length."""
    found = []
    for world in (Unfenced(Scope(log=log)), Unreduced(Scope(log=log))):
        tables, process = world.first_state()
        found.append(Search(world, stops_count=False).run(tables, (process, process)))
    print(f"\nreduced {found[0].states} states, all {found[1].states} states, both {found[0].steps} steps")
    assert found[0].violation and (found[0].violation, found[0].steps) == (found[1].violation, found[1].steps)


def test_the_world_commits_by_compare_and_set_only() -> None:
    """A commit whose expected position is not the table's, or whose table is absent, changes nothing."""
    world = World(Scope(log="AC"))
    tables, _ = world.first_state()
    assert world.position(tables, 1) == Position(0, -1)
    assert world.commit(tables, 1, ("c1", 0, 1, ())) is None
    assert world.commit(tables, 2, ("c1", -1, 1, ())) is None
    assert world.commit(tables, 1, ("c1", -1, 1, ((0,),))) == ((-1, ()), (1, (0,)), (None, ()))
