"""The protocol in small worlds, searched exhaustively with the project's own decisions: those of facts.py.

    pytest tests/model -s                      sizes, depths and the shortest history for each rule taken out
    pytest tests/model -s -m "drill and long"  the larger worlds (minutes)

test_random.py walks long random histories of the same worlds. README.md says which mutant stands
for which invariant. Not searched: a repair beside a switch, a repair of two partitions, a re-base, VACUUM of
staged files (4.2), a table that is created with evolved columns (4.7), columns that grow beside a switch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from offsets.positions import Position
from tests.model import announce_world, derive_world, poison_world, schema_world, sent_world, switch_world, wal_world
from tests.model import proven as proven_module
from tests.model.edits import Edit
from tests.model.evolve_world import EvolveScope, EvolveWorld
from tests.model.facts import WORLDS, WorldScope
from tests.model.mutant_run import begun, search, stubbed, world_of
from tests.model.mutants import MUTANTS, NOTHING, Mutant, run
from tests.model.proven import PROOFS, judge
from tests.model.restore_world import REPAIR, STARTS
from tests.model.search import Search
from tests.model.test_invariants import rows
from tests.model.world import ALL, Scope, SharedMove, State, World

STEPS_MAX = 200
STATES_MAX = 1_000_000
INVARIANTS = {row[2] for row in rows()}


def case(kind: str, scope: WorldScope, *more: Any, marks: Any = ()) -> Any:
    """One search of a world."""
    return pytest.param(kind, scope, *more, marks=marks, id="-".join([kind, *(f"{key}={scope[key]}" for key in scope)]))


WHOLE = [
    *(case(kind, scope) for kind, of in WORLDS.items() for scope in of.small),
    *(case(kind, scope, marks=pytest.mark.long) for kind, of in WORLDS.items() for scope in of.more),
]
LARGE = [case(kind, scope) for kind, of in WORLDS.items() for scope in of.large]


def searched(kind: str, scope: WorldScope, states_max: int) -> bool:
    """Whether all of a world was searched. AssertionError with the shortest history that breaks an invariant."""
    found = search(kind, scope, states_max)
    print(f"\n{WORLDS[kind].fact}\n{kind}, {scope}: {found}")
    assert not found.violation, str(found)
    return found.complete


@pytest.mark.parametrize(("kind", "scope"), WHOLE)
def test_every_invariant_holds_in_every_state(kind: str, scope: WorldScope) -> None:
    """Whatever is lost, late or killed between any two steps: the fact of facts.py, in all of the world."""
    assert searched(kind, scope, STATES_MAX)


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kind", "scope"), LARGE)
def test_every_invariant_holds_in_larger_worlds(kind: str, scope: WorldScope) -> None:
    """The same in worlds of minutes; half a million states or more, or all of them."""
    searched(kind, scope, WORLDS[kind].states_max)


Starts = Callable[[Any, State, Iterable[State]], Iterable[State]]
"""Which processes are to finish alone: of a world, its tables, and the processes beside which these were found."""


def each(world: Any, tables: State, processes: Iterable[State]) -> Iterable[State]:
    """Each of them, as it is."""
    return processes


def fresh(process: State) -> Starts:
    """One that has just begun."""
    return lambda world, tables, processes: (process,)


def tasks(world: Any, tables: State, processes: Iterable[State]) -> Iterable[State]:
    """Those that look schemas up."""
    return (process for process in processes if process[0] == schema_world.TASK)


def all_but_users(world: Any, tables: State, processes: Iterable[State]) -> Iterable[State]:
    """Each that does the work."""
    return (process for process in processes if process[0] != wal_world.USER)


def new_tasks(world: Any, tables: State, processes: Iterable[State]) -> Iterator[State]:
    """Those of the new configuration, and one that begins."""
    new = switch_world.NEW
    yield from (process for process in processes if process[0] == new)
    yield new, switch_world.READS, (), ()


def where_the_repair_is_done(world: Any, tables: State, processes: Iterable[State]) -> Iterator[State]:
    """A task that is about to read; else the repair comes first."""
    if world.live(tables[1]).epoch == world.live(tables[2]).epoch:
        yield poison_world.START


FINISHING: tuple[tuple[str, tuple[WorldScope, ...], Starts], ...] = (
    ("two", ({"log": "C"}, {"log": "AD"}, {"log": "AA", "park": True, "drops": False}), each),
    ("fan", ({"log": "g", "park": True, "drops": False},), each),
    ("pair", ({"drops": True, "revokes": True}, {"logs": ("AA", "A")}), each),
    ("switch", ({}, {"news": 2}, {"lates": 1}, {"old": "AD", "new": "BA", "types": "ABD", "in_old": "AD"}), new_tasks),
    ("met", WORLDS["met"].small, new_tasks),
    ("restore", tuple(WORLDS["restore"].small[at] for at in (0, 2, 3)), fresh(STARTS[REPAIR])),
    ("poison", ({}, {"back": "D", "heals": True}, {"tasks": 2, "repairs": 0}), where_the_repair_is_done),
    ("evolve", tuple(WORLDS["evolve"].small[at] for at in (0, 1, 3, 7)), each),
    ("schema", ({}, {"log": "12", "tasks": 1, "rounds": 2}), tasks),
    ("derive", tuple(WORLDS["derive"].small[at] for at in (1, 2, 3, 4, 5, 7, 8)), fresh(derive_world.START)),
    ("mirror", WORLDS["mirror"].small, fresh(derive_world.START)),
    ("sent", WORLDS["sent"].small, fresh(sent_world.begun("S1"))),
    ("announce", ({"log": "r.r"},), fresh(announce_world.FRESH)),
    (
        "wal",
        (
            {"processes": 1, "offers": 2, "faults": 2}, {"lives": 1}, {"lives": 1, "required": False},
            {"processes": 1, "offers": 2, "drops": True},
        ),
        all_but_users,
    ),
    ("coordinate", ({"ids": 1, "logs": ("A", ""), "owns": ((0,), (0,))},), each),
)  # fmt: skip
LONE = {"coordinate": {"ids": 1 << 10, "leads": 0}}
"""What a world is beside its scope for who is left alone in it: nothing is heard there."""


@pytest.mark.parametrize(
    ("kind", "scope", "starts"),
    [
        *(case(kind, scope, starts) for kind, scopes, starts in FINISHING for scope in scopes),
        *(case("schema", scope, tasks, marks=pytest.mark.long) for scope in WORLDS["schema"].more),
    ],
)
def test_who_is_left_alone_finishes_from_every_state(kind: str, scope: WorldScope, starts: Starts) -> None:
    """No deadlock, and nothing is discarded or waited for without end: who is left alone covers all that there is."""
    with stubbed(kind):
        world = world_of(kind, scope)
        of, first_tables, first = begun(world, kind)
        found = of.run(first_tables, first)
        assert found.complete and not found.violation
        alone = world_of(kind, {**scope, **LONE[kind]}) if kind in LONE else world
        pairs = set()
        for tables_id, *pids in of.parents:
            tables = of.tables.values[tables_id]
            pairs |= {(one, tables) for one in starts(world, tables, (of.processes.values[pid] for pid in pids))}
        done: set[tuple[State, State]] = set()
        for pair in pairs:
            finish(alone, pair, done)
    print(f"\n{kind}, {scope}: {len(pairs)} pairs of a process and tables, all finish")


def finish(world: Any, start: tuple[State, State], done: set[tuple[State, State]]) -> None:
    """Follow the clean steps to the end; fail if there is none within STEPS_MAX."""
    path, texts, (process, tables) = [], [], start
    while not world.finished(tables) and (process, tables) not in done:
        path.append((process, tables))
        step = world.clean_step(process, tables)
        assert step is not None and len(path) < STEPS_MAX, f"stuck at {process} {world.show(tables)} after {texts}"
        texts.append(step[0])
        _, process, tables = step
    done.update(path)


@pytest.mark.parametrize(
    ("again_max", "rescued"), ((0, ("f@0/0", "f@0/1", "g@0/2", "f@1/1")), (1, ("f@1/1",))), ids=("never", "again")
)
def test_the_first_record_of_a_new_field_has_it_in_its_column(again_max: int, rescued: tuple[str, ...]) -> None:
    """Where it is read again with the column; what does not fit stays in `_rescued`, and so do firsts otherwise."""
    world = EvolveWorld(EvolveScope(("ttj", "ai"), "0", again_max))
    tables, (process,) = world.first_state()
    for _ in range(STEPS_MAX):
        if world.finished(tables):
            break
        _, process, tables = world.clean_step(process, tables) or ("", process, tables)
    assert world.finished(tables) and world.rescued(tables) == rescued


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_taken_out_is_missed_or_held_twice(mutant: Mutant) -> None:
    """Without the rule the search finds a loss or a duplicate; where it finds none, the rule that holds is named.

    Searched are those of README.md's table, and all that are not proven as they are now.
    """
    if mutant.name not in INVARIANTS and PROOFS.digest(mutant) in PROOFS.proven:
        pytest.skip("searched before, and nothing that it reads has changed")
    print(f"\n{mutant.rule}\n{judge(mutant)}")


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_taken_out_is_missed_or_held_twice_whatever_is_proven(mutant: Mutant) -> None:
    """The same of all of them, so that what was proven is true."""
    print(f"\n{mutant.rule}\n{judge(mutant)}")


def test_a_mutant_is_proven_no_more_once_anything_that_its_search_reads_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own text, what is expected of it, the module that it edits, a module far below, the world, the search."""
    edit = Edit("exporter.core.writers.drop", "drop", "filtered=0")
    mutant = Mutant("one", "a rule", (edit,), frozenset({"ONCE"}), {}, "pair")
    before = PROOFS.digest(mutant)
    real = proven_module.text_of
    for file in ("exporter/core/writers.py", "offsets/ranges.py", "tests/model/pair_world.py", "tests/model/search.py"):
        with monkeypatch.context() as patch:
            patch.setattr(proven_module, "text_of", lambda one, of=file: real(one) + b"\n" * (one == of))
            assert PROOFS.digest(mutant) != before, file
    for other in (replace(mutant, edits=()), replace(mutant, expected=NOTHING), replace(mutant, scope={"late": True})):
        assert PROOFS.digest(other) != before
    assert PROOFS.digest(mutant) == before


def test_a_mutant_whose_rule_is_gone_fails_loudly() -> None:
    """A rule that was rewritten is not silently left untested."""
    gone = Mutant("gone", "a rule that is nowhere", (Edit("exporter.core.writers.drop", "drop", "no_rule"),), NOTHING)
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
    assert world.commit(tables, 1, ("c1", 0, 1, (), 0)) is None
    assert world.commit(tables, 2, ("c1", -1, 1, (), 0)) is None
    assert world.commit(tables, 1, ("c1", -1, 1, ((0,),), 0)) == ((-1, (), 0), (1, (0,), 0), (None, (), 0))
