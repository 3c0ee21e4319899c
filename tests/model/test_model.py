"""The protocol in small worlds, searched exhaustively with the project's own decisions.

    world.py          sections 3 and 4, one partition: two processes, or one against all that others may do
    fan_world.py      3.9: the same with records of several tables, and counts of what filters leave out
    pair_world.py     4.1, 4.3, 4.4 for commits that carry two partitions
    switch_world.py   5.3: the configuration changes; met_world.py: while a type is met at run time (4.7)
    restore_world.py  4.5, 5.1, 7: RESTORE and repair, condemned records among them (3.7)
    condemn_world.py  3.7, 7: a record that ends its tasks after some tables have passed it
    reading_world.py  5.3: a reading beside the loop, while its partition comes and goes
    evolve_world.py   4.10: columns that grow, beside records that fit them or do not
    schema_world.py   3.8: values whose schemas a registry has, or has not, or has later
    sweep_world.py    6: who may delete
    derive_world.py   9: jobs over a source that is replayed, RESTOREd, re-based and made anew; mirror_world.py: the
                      newest row of each key; sent_world.py: records of a topic
    test_coordinate.py 4.11, 4.12, 4.13: coordinated commits, valid_through, announced versions
    test_wal_model.py ORDER, 5.1, 6, 8: the write-ahead log and its leases; test_random.py: long random histories

    pytest tests/model -s                      sizes, depths and the shortest history for each rule taken out
    pytest tests/model -s -m "drill and long"  the larger worlds (minutes)

The size of the default worlds is chosen for half a minute on one core. README.md says which mutant stands
for which invariant. Not searched: a repair beside a switch, a repair of two partitions, a re-base, VACUUM of
staged files (4.2), a table that is created with evolved columns (4.7), columns that grow beside a switch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offsets.positions import Position
from tests.model import proven as proven_module
from tests.model.condemn_world import START as ABOUT_TO_READ
from tests.model.condemn_world import CondemnScope, CondemnWorld
from tests.model.derive_world import START, DeriveScope, DeriveWorld
from tests.model.edits import Edit
from tests.model.evolve_world import EvolveScope, EvolveWorld
from tests.model.fan_world import FanScope, FanWorld
from tests.model.met_world import MetScope, MetWorld
from tests.model.mirror_world import MirrorScope, MirrorWorld
from tests.model.mutant_run import search
from tests.model.mutants import MUTANTS, NOTHING, Mutant, run
from tests.model.pair_world import PairScope, PairWorld
from tests.model.proven import digest, judge, proven
from tests.model.restore_world import REPAIR, STARTS, RestoreScope, RestoreWorld
from tests.model.schema_world import TASK, SchemaScope, SchemaWorld
from tests.model.search import RoleSearch, Search
from tests.model.sent_world import SentScope, SentWorld, begun
from tests.model.switch_world import NEW, READS, SwitchScope, SwitchWorld
from tests.model.test_invariants import rows
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
    {"log": "AA", "rounds_max": 2, "drops": False},
)
ONE = (
    {"log": "C"},
    {"log": "A.D", "drops": False},
    {"log": "A.", "late": True, "drops": False},
    {"log": "C", "rounds_max": 2, "drops": False},
    {"log": "AD", "rounds_max": 2, "drops": False},
    {"log": "C", "reassign": True},
    {"log": "AA", "park": True},
)
FANS = (
    ("fan", {"log": "b"}),
    ("fan", {"log": "L", "drops": False}),
    ("fan", {"log": "g", "rounds_max": 2, "drops": False}),
    ("fan", {"log": "g", "park": True, "drops": False}),
    ("fan", {"log": "u", "reassign": True, "drops": False}),
    ("fan_one", {"log": "gu", "drops": False}),
    ("fan_one", {"log": "Lf", "drops": False}),
    ("fan_one", {"log": "g", "late": True, "drops": False}),
    ("fan_one", {"log": "g", "reassign": True}),
)
LARGE = (
    ("fan", {"log": "lu", "drops": False}),
    ("fan", {"log": "gf", "rounds_max": 2, "drops": False}),
    ("fan", {"log": "g", "late": True, "drops": False}),
    ("fan_one", {"log": "gg", "rounds_max": 2, "drops": False}),
    ("fan_one", {"log": "fg", "park": True, "drops": False}),
    ("fan_one", {"log": "lgu", "drops": False}),
    ("two", {"log": "AC", "drops": False}),
    ("two", {"log": "A.D"}),
    ("two", {"log": "A.", "late": True, "drops": False}),
    ("one", {"log": "AC"}),
    ("one", {"log": "A.D"}),
    ("one", {"log": "A.C", "drops": False}),
    ("one", {"log": "AC", "late": True, "drops": False}),
    ("one", {"log": "A.AD", "drops": False}),
    ("one", {"log": "AA", "rounds_max": 2}),
    ("one", {"log": "AC", "rounds_max": 2, "drops": False}),
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
METS = (
    {},
    {"takes": True, "new": "AC"},
    {"there": True, "takes": True, "new": "CD"},
)
PAIRS = (
    {"drops": True, "revokes": True},
    {"late": True},
    {"logs": ("AA", "A"), "revokes": True},
    {"logs": ("A", "."), "late": True, "revokes": True},
)
SWEEPS = (
    {"attempts": 2},
    {"closes": True},
    {"steps": 1},
    {"writers": 1, "attempts": 2, "steps": 2, "closes": True},
)
EVOLVES = (
    {},
    {"again_max": 0},
    {"logs": ("tx", "i")},
    {"logs": ("j", "i"), "drops": True},
    {"tasks": "001"},
    {"logs": ("t", ""), "tasks": "00", "late": True},
    {"logs": ("t", ""), "tasks": "0", "drops": True, "forgets": True, "late": True},
    {"logs": ("ti", ""), "tasks": "0", "forgets": True},
    {"logs": ("i", "ij")},
)
SCHEMA_IDS = (
    {},
    {"tasks": 1, "log": "111"},
    {"tasks": 3, "log": "1"},
    {"texts": "gb", "wiped": True},
    {"rounds": 2},
    {"log": "12", "tasks": 1, "rounds": 2},
    {"log": "121", "tasks": 1, "rounds": 2},
)
LONGEST = pytest.param(SCHEMA_IDS[6], marks=pytest.mark.long)
READINGS = ({}, {"condemns": False})
CONDEMNS = (
    {"heals": True},
    {"kind": "D", "heals": True},
    {"back": "D", "heals": True},
    {"met": True, "heals": True},
    {"tasks": 2, "repairs": 0, "heals": True},
    {"kind": "D", "tasks": 2, "repairs": 0},
    {"tasks": 2, "repairs": 0, "met": True},
)
CONDEMNS_MORE = (
    {"tasks": 2, "repairs": 2, "heals": True},
    {"tasks": 2, "back": "D", "heals": True, "met": True},
    {"kind": "D", "tasks": 2, "back": "D", "heals": True},
)
RESTORES = (
    {},
    {"log": "A", "tasks": 2},
    {"log": "A", "repairs": 2, "restores": 2},
    {"log": "AD", "restorable": "AD"},
    {"log": "AA", "tasks": 2},
    {"log": "AA", "restores": 2, "still": "D"},
    {"log": "A", "restores": 3, "still": "D"},
    {"log": "XD", "restorable": "D"},
)
ACCIDENTS_LARGE = (
    ("schema", {"log": "12"}),
    ("schema", {"log": "12", "texts": "gb", "wiped": True}),
    ("schema", {"log": "111"}),
    ("schema", {"log": "121", "tasks": 1, "rounds": 2, "texts": "gb", "wiped": True}),
    ("schema", {"log": "11", "tasks": 3}),
    ("schema", {"log": "12", "rounds": 2}),
    ("evolve", {"logs": ("ti", "j")}),
    ("evolve", {"logs": ("tx", "i"), "tasks": "001"}),
    ("evolve", {"logs": ("t", "ia"), "again_max": 0, "tasks": "001"}),
    ("evolve", {"late": True}),
    ("evolve", {"forgets": True}),
    ("evolve", {"logs": ("b", "j"), "promotes": True}),
    ("met", {"olds": 2}),
    ("met", {"olds": 2, "news": 2, "takes": True, "new": "AC"}),
    ("met", {"old": "ACA", "new": "DAD", "olds": 2, "there": True}),
    ("pair", {"logs": ("AA", "AA"), "revokes": True, "drops": True}),
    ("pair", {"logs": ("AA", "A"), "late": True}),
    ("sweep", {"attempts": 2, "closes": True, "steps": 1}),
    ("restore", {"log": "AA", "restores": 2, "repairs": 2, "tasks": 2, "still": "D"}),
    ("restore", {"log": "AA", "restores": 2}),
    ("restore", {"log": "AA", "restores": 2, "repairs": 2}),
    ("restore", {"log": "AD", "restorable": "AD", "restores": 2}),
    ("restore", {"log": "ABD", "types": "ABD", "restorable": "ABD"}),
    ("derive", {"log": "a", "restores": 1, "rebases": 1, "drops": 1}),
    ("derive", {"restores": 1, "rebases": 1, "drops": 1, "jobs": 1}),
    ("derive", {"log": "aXa", "restores": 2, "most": 1, "jobs": 1}),
    ("derive", {"log": "aXa", "rebases": 2, "most": 1}),
    ("derive", {"jobs": 3, "restores": 1}),
    ("mirror", {"log": ("a1", "b1", "b2"), "restores": 1}),
    ("mirror", {"log": ("a1", "b1", "a0", "b2-"), "restores": 1, "purges": 1}),
    ("sent", {"rows": 3, "senders": 3}),
)
DERIVES = (
    {},
    {"log": "aaa", "most": 1},
    {"log": "aX"},
    {"restores": 1},
    {"log": "aX", "restores": 1, "jobs": 1},
    {"restores": 2, "jobs": 1},
    {"rebases": 1},
    {"rebases": 1, "most": 1, "jobs": 1},
    {"drops": 1},
)
MIRRORS = (
    {"log": ("a2-", "a1", "a3")},
    {"log": ("a2-", "A1", "a3"), "jobs": 1},
    {"log": ("a2?", "a1+"), "jobs": 2},
    {"log": ("a1+", "a2-", "a3?"), "jobs": 1, "restores": 1},
    {"log": ("a1", "b1", "a0"), "jobs": 1, "restores": 1},
    {"log": ("a1", "a2-", "b1"), "jobs": 1, "restores": 1, "purges": 1},
    {"log": ("a1+", "a3?", "*2", "b1", "b4"), "jobs": 2},
    {"log": ("a1", "*2", "a3", "b1"), "jobs": 1, "restores": 1},
    {"restores": 1},
)
SENTS = ({}, {"rows": 3, "senders": 1, "most": 1})
STEPS_MAX = 200
INVARIANTS = {row[2] for row in rows()}


def name_of(scope: Any) -> str:
    return "-".join(f"{key}={value}" for key, value in scope.items()) if isinstance(scope, dict) else str(scope)


def hold_in_every_state(kind: str, scope: Any, states_max: int = 1_000_000, whole: bool = True) -> None:
    """Search a world; AssertionError with the shortest history that breaks an invariant, or if it is not `whole`."""
    found = search(kind, scope, states_max)
    print(f"\n{kind}, {name_of(scope)}: {found}")
    assert (found.complete or not whole) and not found.violation, str(found)


@pytest.mark.parametrize("scope", TWO, ids=name_of)
def test_two_processes_without_coordination_keep_every_invariant(scope: dict[str, Any]) -> None:
    """Two processes that both believe they own the partition lose nothing and double nothing, and no guard fires."""
    hold_in_every_state("two", scope)


@pytest.mark.parametrize("scope", ONE, ids=name_of)
def test_one_process_keeps_every_invariant_whatever_others_do(scope: dict[str, Any]) -> None:
    """Against any legal step of any number of others, each step of a process is legal itself."""
    hold_in_every_state("one", scope)


@pytest.mark.parametrize(("kind", "scope"), FANS, ids=name_of)
def test_a_record_of_several_tables_is_in_each_of_them_and_what_is_left_out_is_counted(
    kind: str, scope: dict[str, Any]
) -> None:
    """ONCE per table; the counts of the commits are exact in every state, whoever crashed, dropped or was parked."""
    hold_in_every_state(kind, scope)


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
    hold_in_every_state("switch", scope)


@pytest.mark.parametrize("scope", METS, ids=name_of)
def test_a_type_met_during_a_switch_is_sealed_or_left_unused(scope: dict[str, Any]) -> None:
    """An undeclared type's table, made while the configuration changes, takes each record under one configuration."""
    hold_in_every_state("met", scope)


@pytest.mark.parametrize("scope", PAIRS, ids=name_of)
def test_two_partitions_in_one_commit_keep_every_record(scope: dict[str, Any]) -> None:
    """Refused for one partition, offered again for the other, landed for both, whatever the other process owns."""
    hold_in_every_state("pair", scope)


@pytest.mark.parametrize("scope", SWEEPS, ids=name_of)
def test_a_sweep_never_deletes_a_committed_file(scope: dict[str, Any]) -> None:
    """Nor one that a commit may still name, whoever commits, restores or closes the epoch meanwhile."""
    hold_in_every_state("sweep", scope)


@pytest.mark.parametrize("scope", RESTORES, ids=name_of)
def test_a_restored_table_stops_its_exporters_until_it_is_repaired(scope: dict[str, Any]) -> None:
    """No record is lost or doubled in silence, however repairs, tasks and further RESTOREs interleave."""
    hold_in_every_state("restore", scope)


@pytest.mark.parametrize(
    "scope", (*CONDEMNS, *(pytest.param(one, marks=pytest.mark.long) for one in CONDEMNS_MORE)), ids=name_of
)
def test_a_record_that_comes_to_end_its_tasks_is_in_one_table(scope: dict[str, Any]) -> None:
    """Whichever tables have passed it by then, whoever has it staged, and whatever is taken back and repaired."""
    hold_in_every_state("condemn", scope)


@pytest.mark.parametrize("scope", ({}, {"back": "D", "heals": True}, {"tasks": 2, "repairs": 0}), ids=name_of)
def test_a_record_that_is_spared_gets_its_row_from_every_state(scope: dict[str, Any]) -> None:
    """Whoever dies before it is known where the record is: a task left alone finds out, and passes it."""
    world = CondemnWorld(CondemnScope(**scope))
    searched = RoleSearch(world, *world.roles())
    assert searched.run(*world.first_state()).complete
    done: set[tuple[State, State]] = set()
    for tables, *_ in searched.parents:
        tables = searched.tables.values[tables]
        if world.live(tables[1]).epoch == world.live(tables[2]).epoch:  # else the repair comes first
            finish(world, (ABOUT_TO_READ, tables), done)


@pytest.mark.parametrize("scope", (*SCHEMA_IDS[:6], LONGEST), ids=name_of)
def test_a_record_is_where_the_first_decision_on_its_schema_puts_it(scope: dict[str, Any]) -> None:
    """Whatever the registry says by then, and to whom: tasks that know less of it wait, and put it nowhere else."""
    hold_in_every_state("schema", scope)


@pytest.mark.parametrize("scope", (SCHEMA_IDS[0], SCHEMA_IDS[5], LONGEST), ids=name_of)
def test_a_task_that_looks_schemas_up_finishes_from_every_state(scope: dict[str, Any]) -> None:
    """No partition waits for ever: whatever others have decided, a task left alone covers what there is."""
    world = SchemaWorld(SchemaScope(**scope))
    roles, names = world.roles()
    searched = RoleSearch(world, roles, names)
    assert searched.run(*world.first_state()).complete
    starts = {
        (task, searched.tables.values[tables])
        for tables, *pids in searched.parents
        for pid in pids
        if (task := searched.processes.values[pid])[0] == TASK
    }
    done: set[tuple[State, State]] = set()
    for start in starts:
        finish(world, start, done)
    print(f"\nschemas, {name_of(scope)}: {len(starts)} pairs of a task and tables, all finish")


@pytest.mark.parametrize("scope", READINGS, ids=name_of)
def test_a_reading_counts_for_what_is_still_as_it_was(scope: dict[str, Any]) -> None:
    """A partition comes and goes while its tables are read: an old reading puts no record into a second place."""
    hold_in_every_state("reading", scope)


@pytest.mark.parametrize("scope", DERIVES, ids=name_of)
def test_a_job_takes_each_row_of_its_source_once(scope: dict[str, Any]) -> None:
    """Whatever is replayed, restored, repaired, re-based or dropped there, and however many processes run the job."""
    hold_in_every_state("derive", scope)


@pytest.mark.parametrize("scope", MIRRORS, ids=name_of)
def test_a_mirror_shows_the_newest_row_of_each_key(scope: dict[str, Any]) -> None:
    """Late rows, deletes, purges and a source that took rows back among it."""
    hold_in_every_state("mirror", scope)


@pytest.mark.parametrize("scope", SENTS, ids=name_of)
def test_a_topic_has_each_row_of_its_table_once_and_in_order(scope: dict[str, Any]) -> None:
    """However senders crash, sleep and wake up, and whatever the broker ends."""
    hold_in_every_state("sent", scope)


@pytest.mark.parametrize(
    ("world", "process"),
    [(DeriveWorld(DeriveScope(**scope)), START) for scope in (*DERIVES[1:6], DERIVES[7], DERIVES[8])]
    + [(MirrorWorld(MirrorScope(**scope)), START) for scope in MIRRORS]
    + [(SentWorld(SentScope(**scope)), begun("S1")) for scope in SENTS],
    ids=lambda one: str(getattr(one, "scope", "")),
)
def test_a_job_finishes_from_every_state(world: Any, process: State) -> None:
    """None stops for ever: a process that begins, alone, over a source that is repaired, comes to all of its rows."""
    roles, names = world.roles()
    searched = RoleSearch(world, roles, names)
    assert searched.run(*world.first_state()).complete
    starts = {(process, searched.tables.values[tables]) for tables, *_ in searched.parents if tables >= 0}
    done: set[tuple[State, State]] = set()
    for one in starts:
        finish(world, one, done)
    print(f"\n{world.scope}: {len(starts)} states of the tables, all finish")


@pytest.mark.parametrize("scope", EVOLVES, ids=name_of)
def test_columns_grow_and_no_record_moves(scope: dict[str, Any]) -> None:
    """Whatever another task has added meanwhile, a record that is read again is where it was, and no column changes."""
    hold_in_every_state("evolve", scope)


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


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kind", "scope"), ACCIDENTS_LARGE, ids=name_of)
def test_larger_worlds_of_accidents_keep_every_record(kind: str, scope: dict[str, Any]) -> None:
    """The same in worlds of minutes; at least half a million states or all of them."""
    found = search(kind, scope, 500_000)
    print(f"\n{kind}, {name_of(scope)}: {found}")
    assert not found.violation, str(found)


@pytest.mark.parametrize(
    "world",
    [World(Scope(log)) for log in ("C", "AD")]
    + [World(Scope("AA", park=True, drops=False)), FanWorld(FanScope("g", park=True, drops=False))],
    ids=lambda world: str(world.scope),
)
def test_a_process_left_alone_finishes_from_every_state(world: World) -> None:
    """No deadlock and no endless discarding: without faults, each process of each state covers the whole log."""
    tables, process = world.first_state()
    searched = Search(world)
    assert searched.run(tables, (process, process)).complete
    starts = {(searched.processes.values[pid], searched.tables.values[n[0]]) for n in searched.parents for pid in n[1:]}
    done: set[tuple[State, State]] = set()
    for start in starts:
        finish(world, start, done)
    print(f"\n{world.scope}: {len(starts)} pairs of a process and tables, all finish")


@pytest.mark.parametrize(
    "world",
    [SwitchWorld(SwitchScope(**SWITCHES[at])) for at in (0, 4, 7)] + [MetWorld(MetScope(**scope)) for scope in METS],
    ids=lambda world: str(world.scope),
)
def test_a_switch_finishes_from_every_state(world: SwitchWorld) -> None:
    """A new task left alone ends the switch and covers the log, from its own state and from a new start."""
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
        finish(world, start, done)
    print(f"\n{world.scope}: {len(starts)} pairs of a task and tables, all finish")


@pytest.mark.parametrize("scope", (PAIRS[0], {"logs": ("AA", "A")}), ids=name_of)
def test_a_process_of_two_partitions_finishes_from_every_state(scope: dict[str, Any]) -> None:
    """Whatever was refused or lost, a process that is left alone covers both partitions."""
    world = PairWorld(PairScope(**scope))
    tables, process = world.first_state()
    searched = Search(world)
    assert searched.run(tables, (process, process)).complete
    starts = {(searched.processes.values[pid], searched.tables.values[n[0]]) for n in searched.parents for pid in n[1:]}
    done: set[tuple[State, State]] = set()
    for start in starts:
        finish(world, start, done)
    print(f"\ntwo partitions, {name_of(scope)}: {len(starts)} pairs of a process and tables, all finish")


@pytest.mark.parametrize("scope", (EVOLVES[0], EVOLVES[1], EVOLVES[3], EVOLVES[7]), ids=name_of)
def test_a_task_that_evolves_finishes_from_every_state(scope: dict[str, Any]) -> None:
    """No type is read again for ever: whatever others have added, a task left alone covers both partitions."""
    world = EvolveWorld(EvolveScope(**scope))
    roles, names = world.roles()
    searched = RoleSearch(world, roles, names)
    assert searched.run(*world.first_state()).complete
    starts = {
        (searched.processes.values[pid], searched.tables.values[tables])
        for tables, *pids in searched.parents
        for pid in pids
    }
    done: set[tuple[State, State]] = set()
    for start in starts:
        finish(world, start, done)
    print(f"\ncolumns, {name_of(scope)}: {len(starts)} pairs of a task and tables, all finish")


@pytest.mark.parametrize("scope", (RESTORES[0], RESTORES[2], RESTORES[3]), ids=name_of)
def test_a_repair_interrupted_anywhere_finishes_when_it_is_run_again(scope: dict[str, Any]) -> None:
    """From all tables that any history leaves: one repair, then one task, and every record is there once."""
    world = RestoreWorld(RestoreScope(**scope))
    roles, names = world.roles()
    searched = RoleSearch(world, roles, names)
    assert searched.run(*world.first_state()).complete
    starts = {(STARTS[REPAIR], searched.tables.values[tables]) for tables, *_ in searched.parents}
    done: set[tuple[State, State]] = set()
    for start in starts:
        finish(world, start, done)
    print(f"\nrestore {name_of(scope)}: {len(starts)} states of the tables, all finish")


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


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_taken_out_is_missed_or_held_twice(mutant: Mutant) -> None:
    """Without the rule the search finds a loss or a duplicate; where it finds none, the rule that holds is named.

    Searched are those of README.md's table, and all that are not proven as they are now.
    """
    if mutant.name not in INVARIANTS and digest(mutant) in proven():
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
    before = digest(mutant)
    real = proven_module.text_of
    for file in ("exporter/core/writers.py", "offsets/ranges.py", "tests/model/pair_world.py", "tests/model/search.py"):
        with monkeypatch.context() as patch:
            patch.setattr(proven_module, "text_of", lambda one, of=file: real(one) + b"\n" * (one == of))
            assert digest(mutant) != before, file
    for other in (replace(mutant, edits=()), replace(mutant, expected=NOTHING), replace(mutant, scope={"late": True})):
        assert digest(other) != before
    assert digest(mutant) == before


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
