"""The golden timelines, replayed against the real decisions and tables in memory."""

from __future__ import annotations

import itertools

import pytest

from exporter.core.outcome import Landed, Refused
from exporter.core.writers import WriterKey
from offsets.names import DataFile
from offsets.positions import Position
from offsets.table_log import last_named_offsets
from tests.support.days import partition_of
from tests.support.timelines import (
    APP,
    FIRST_DAY,
    TP,
    Conflict,
    Fault,
    MemoryTables,
    Record,
    Task,
    Way,
    end_of,
    finish,
    golden,
    new_task,
    play,
    read_again,
    records_of,
    types_of,
)

STORIES = golden()
TIMELINES = {timeline["name"]: timeline for timeline in STORIES["timelines"]}
CASES = {case["name"]: case for case in STORIES["rebalance"]["cases"]}
WAYS = [Way(*flags, size) for flags in itertools.product((False, True), repeat=3) for size in (3, 1000)]

every_timeline = pytest.mark.parametrize("name", TIMELINES)
every_way = pytest.mark.parametrize("way", WAYS, ids=str)
every_case = pytest.mark.parametrize("name", CASES)


def test_every_story_is_told():
    """The file holds three timelines, five rebalances and the days; a new one must be given a test."""
    assert list(TIMELINES) == ["happy", "unhappy", "restart"]
    assert len(CASES) == 5
    assert set(STORIES) == {"about", "timelines", "rebalance", "days"}


@every_way
@every_timeline
def test_a_crash_at_any_step_resumes_at_the_record_of_the_drawing(name, way):
    """After each step, a new process would stage exactly the records from the drawing's resume record that are open."""
    timeline = TIMELINES[name]
    tables = MemoryTables()
    task = new_task(timeline, tables, way)
    for step in timeline["steps"]:
        play(task, step, way)
        again = read_again(timeline, tables, way)
        assert (again[0].offset if again else None) == step["resume_record"], step["says"]


@every_way
@every_timeline
def test_after_a_crash_at_any_step_each_record_lands_exactly_once(name, way):
    """ONCE: stop after any step, start again, finish: every record of every type is in its table once."""
    timeline = TIMELINES[name]
    for crash_after in range(len(timeline["steps"]) + 1):
        tables = MemoryTables()
        task = new_task(timeline, tables, way)
        for step in timeline["steps"][:crash_after]:
            play(task, step, way)
        finish(new_task(timeline, tables, way))
        assert {name: tables.offsets(name) for name in types_of(timeline)} == timeline["records"]


@every_way
@every_timeline
def test_a_story_without_a_crash_lands_each_record_exactly_once(name, way):
    """ONCE: the process that lived through all failures of the story finishes the work itself."""
    timeline = TIMELINES[name]
    tables = MemoryTables()
    task = new_task(timeline, tables, way)
    for step in timeline["steps"]:
        play(task, step, way)
    finish(task)
    assert {name: tables.offsets(name) for name in types_of(timeline)} == timeline["records"]


@every_way
@every_timeline
def test_a_position_never_passes_an_open_record(name, way):
    """COVER and MONOTONE: at each step all records <= a type's position are in its table; positions only rise."""
    timeline = TIMELINES[name]
    tables = MemoryTables()
    task = new_task(timeline, tables, way)
    before = dict.fromkeys(types_of(timeline), -1)
    for step in timeline["steps"]:
        play(task, step, way)
        for event_type in types_of(timeline):
            position = tables.position(event_type).offset
            covered = [offset for offset in timeline["records"][event_type] if offset <= position]
            assert tables.offsets(event_type) == covered
            assert position >= before[event_type]
            before[event_type] = position


@pytest.mark.parametrize("way", [Way(), Way(park=True)], ids=str)
def test_marks_are_the_least_position_when_every_type_has_written(way):
    """The drawing's committed offsets O1, O5 of the happy story are where all positions meet, with empty markers on."""
    timeline = TIMELINES["happy"]
    tables = MemoryTables()
    task = new_task(timeline, tables, way)
    committed = {}
    for step in timeline["steps"]:
        play(task, step, Way(way.park, heartbeats=True))
        committed[step["at"]] = min(tables.position(name).offset for name in task.active)
    assert committed["t1"] == timeline["marks"]["O1"]
    assert committed["t5"] == timeline["marks"]["O5"]


@every_way
def test_the_second_run_starts_early_enough_and_skips_what_is_there(way):
    """Restart: F's records are read again, S's are skipped although the reading starts before them."""
    timeline = TIMELINES["restart"]
    wanted = timeline["after_restart"]
    tables = MemoryTables()
    first_run = new_task(timeline, tables, way)
    for step in timeline["steps"]:
        play(first_run, step, way)
    second_run = new_task(timeline, tables, way)
    assert min(writer.frontier for writer in second_run.writers.values()) + 1 <= wanted["start_at_or_before"]
    second_run.read(end_of(second_run.log))
    seen = {(record.event_type, record.offset) for record in second_run.seen}
    assert seen >= {("F", offset) for offset in wanted["must_read_again"]["F"]}
    assert not seen & {("S", offset) for offset in wanted["must_skip"]["S"]}


@pytest.mark.parametrize("rolls_at", [(120, 160, 210), (95, 131, 205), (230,)])
def test_the_second_run_may_roll_elsewhere_than_the_first(rolls_at):
    """Restart: other roll offsets in the second run put no record twice into the table."""
    timeline = TIMELINES["restart"]
    tables = MemoryTables()
    first_run = new_task(timeline, tables, Way())
    play(first_run, timeline["steps"][0], Way())
    second_run = new_task(timeline, tables, Way(round_records_max=13))
    for through in rolls_at:
        second_run.read(through)
        second_run.write("S")
    finish(second_run)
    assert {name: tables.offsets(name) for name in types_of(timeline)} == timeline["records"]


def rebalance(case: dict, fault: Fault) -> tuple[MemoryTables, dict[str, Task]]:
    """Both members read from O0 and offer in the case's order; every offset of the partition is a record."""
    log = [Record(offset, "A") for offset in range(100)]
    tables = MemoryTables()
    setup = Task(tables, log, ("A",)).start().read(case["O0"])
    setup.write("A")
    tasks = {name: Task(tables, log, ("A",)).start() for name in ("C1", "C2")}
    tasks["C1"].read(case["O1"])
    tasks["C2"].read(case["O2"])
    for name in case["commits"]:
        tasks[name].write("A", fault)
    return tables, tasks


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.LOST_REPLY])
@every_case
def test_the_second_of_two_owners_is_refused_and_forgets(name, fault):
    """FENCE: only the first commit lands, also when its answer is lost; the other drops its staged files."""
    case = CASES[name]
    tables, tasks = rebalance(case, fault)
    assert [name for name in case["commits"] if isinstance(tasks[name].outcomes[-1], Landed)] == case["landed"]
    loser = tasks[case["commits"][1]]
    writer = loser.writers[WriterKey("A", TP)]
    assert isinstance(loser.outcomes[-1], Refused)
    assert (writer.staged, writer.claim, writer.frontier) == ((), None, case["table_through"])
    assert tables.position("A") == Position(0, case["table_through"])


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.LOST_REPLY])
@every_case
def test_a_rebalance_leaves_each_record_once_and_the_rest_is_read_again(name, fault):
    """ONCE: (O0, max(committed)] is in the table once; whoever goes on, loser included, completes the rest."""
    case = CASES[name]
    for survivor in ("C1", "C2"):
        tables, tasks = rebalance(case, fault)
        assert tables.offsets("A") == list(range(case["table_through"] + 1))
        finish(tasks[survivor])
        assert tables.offsets("A") == list(range(100))


@every_case
def test_no_outcome_of_a_commit_deletes_a_file(name):
    """TEMP: after a refusal all staged files are still there; only the sweep may take them."""
    tables, tasks = rebalance(CASES[name], Fault.NONE)
    committed = {("A", path) for path in tables.paths("A")}
    assert committed < set(tables.files)
    assert len(tables.files) == 3, "the file before O0 and one of each member"
    assert [type(error) for task in tasks.values() for error in task.errors] == [Conflict]


def test_the_latest_offset_is_the_largest_over_all_days():
    """Days: one commit carries all days, and its position is the largest last offset, whatever day that is of."""
    story = STORIES["days"]
    days = {name: FIRST_DAY.replace(day=10 + at) for at, name in enumerate(("D0", "D1", "D2"))}
    marks = story["marks"]
    log = [Record(marks[mark], "A", days[day]) for moment in story["moments"] for day, mark in moment["write"]]
    tables = MemoryTables()
    task = Task(tables, log, ("A",)).start()
    for moment in story["moments"]:
        for _, mark in moment["write"]:
            task.read(marks[mark])
        before = tables.version("A")
        task.write("A")
        assert tables.version("A") - before == bool(moment["write"])
        latest = marks[moment["latest"]]
        assert tables.position("A") == Position(0, latest)
        assert last_named_offsets(tables.paths("A"), APP) == {TP: {0: latest}}
        names = [DataFile.parse(path) for path in tables.paths("A")]
        assert max(names, key=lambda name: name.last_offset).partition == partition_of(days[moment["taken_from"]])


def test_records_of_a_story_keep_their_offsets():
    """The loader hands out every record of the drawing once, in order of offset, on more than one day."""
    for timeline in TIMELINES.values():
        records = records_of(timeline)
        assert [record.offset for record in records] == sorted(itertools.chain(*timeline["records"].values()))
        assert len({record.day for record in records}) == 2
