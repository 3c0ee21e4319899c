"""The golden timelines once more, now against real Delta tables: the commits are the exporter's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pytest

from exporter.arrow.own_columns import KAFKA_COLUMN
from exporter.core.outcome import Landed, Refused
from exporter.core.writers import Claim, StagedFile, WriterKey
from exporter.lake.lake import Lake
from exporter.protocol.commit import DeltaCommitter
from offsets.positions import Position
from offsets.table_log import last_named_offsets
from tests.support.lakes import create_anchored, stage_offsets
from tests.support.timelines import (
    APP,
    FIRST_DAY,
    TP,
    Fault,
    Record,
    Task,
    Way,
    end_of,
    finish,
    golden,
    new_task,
    play,
    read_again,
    types_of,
)

pytestmark = pytest.mark.spark

STORIES = golden()
TIMELINES = {timeline["name"]: timeline for timeline in STORIES["timelines"]}
CASES = {case["name"]: case for case in STORIES["rebalance"]["cases"]}

each_timeline = pytest.mark.parametrize("name", TIMELINES)
each_case = pytest.mark.parametrize("name", CASES)


@dataclass(frozen=True)
class DeltaTables:
    """tests.support.timelines.Tables over a lake; read back with deltalake."""

    lake: Lake

    def position(self, event_type: str) -> Position | None:
        view = self.lake.table(event_type).view()
        return view.position(APP, TP) if view is not None else None

    def version(self, event_type: str) -> int:
        view = self.lake.table(event_type).view()
        return view.version if view is not None else -1

    def commit_ids(self, event_type: str, after: int) -> frozenset[str]:
        commits = self.lake.table(event_type).commits(after, self.version(event_type))
        return frozenset(commit.commit_id for commit in commits if commit.commit_id)

    def anchor(self, event_type: str, position: Position) -> None:
        create_anchored(self.lake, event_type, {TP: position})

    def stage(self, event_type: str, epoch: int, records: Sequence[Record]) -> StagedFile:
        return stage_offsets(self.lake, event_type, TP, [record.offset for record in records], records[0].day, epoch)

    def commit(self, claim: Claim, commit_id: str) -> None:
        committer = DeltaCommitter(self.lake, "story", {})
        committer._offer(self.lake.table(claim.key.event_type), [claim], commit_id, {})

    def offsets(self, event_type: str) -> list[int]:
        found = self._read(event_type).to_pyarrow_table(columns=[KAFKA_COLUMN]).column(KAFKA_COLUMN).to_pylist()
        return sorted(row["offset"] for row in found)

    def paths(self, event_type: str) -> list[str]:
        if self.lake.table(event_type).view() is None:
            return []
        folder = self.lake.table(event_type).uri
        uris = self._read(event_type).file_uris()
        return [uri.removeprefix("file://").removeprefix(folder).lstrip("/") for uri in uris]

    def _read(self, event_type: str) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self.lake.table(event_type).uri)


@pytest.fixture
def tables(spark: Any, tmp_path: Path) -> DeltaTables:
    return DeltaTables(Lake(spark, tmp_path, APP))


@pytest.mark.parametrize("way", [Way(heartbeats=True), Way(park=True, reply_lost=True, round_records_max=3)], ids=str)
@each_timeline
def test_a_crash_at_any_step_resumes_at_the_record_of_the_drawing(tables: DeltaTables, name: str, way: Way) -> None:
    """After each step a new process would stage exactly the open records, and the finished story has each once."""
    timeline = TIMELINES[name]
    task = new_task(timeline, tables, way)
    for step in timeline["steps"]:
        play(task, step, way)
        again = read_again(timeline, tables, way)
        assert (again[0].offset if again else None) == step["resume_record"], step["says"]
    finish(new_task(timeline, tables, way))
    assert {event_type: tables.offsets(event_type) for event_type in types_of(timeline)} == timeline["records"]


def test_the_second_run_starts_early_enough_and_skips_what_is_there(tables: DeltaTables) -> None:
    """Restart: F's records are read again, S's are skipped although the reading starts before them."""
    timeline, way = TIMELINES["restart"], Way()
    wanted = timeline["after_restart"]
    first_run = new_task(timeline, tables, way)
    for step in timeline["steps"]:
        play(first_run, step, way)
    second_run = new_task(timeline, tables, way)
    assert min(writer.frontier for writer in second_run.writers.values()) + 1 <= wanted["start_at_or_before"]
    second_run.read(end_of(second_run.log))
    seen = {(record.event_type, record.offset) for record in second_run.seen}
    assert seen >= {("F", offset) for offset in wanted["must_read_again"]["F"]}
    assert not seen & {("S", offset) for offset in wanted["must_skip"]["S"]}


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.LOST_REPLY])
@each_case
def test_the_second_of_two_owners_is_refused_and_whoever_goes_on_completes_the_rest(
    tables: DeltaTables, name: str, fault: Fault
) -> None:
    """FENCE in each rebalance: only the first lands, lost reply or not; the loser goes on; each record is once."""
    case = CASES[name]
    log = [Record(offset, "A") for offset in range(100)]
    Task(tables, log, ("A",)).start().read(case["O0"]).write("A")
    tasks = {member: Task(tables, log, ("A",)).start() for member in ("C1", "C2")}
    tasks["C1"].read(case["O1"])
    tasks["C2"].read(case["O2"])
    for member in case["commits"]:
        tasks[member].write("A", fault)
    assert [member for member in case["commits"] if isinstance(tasks[member].outcomes[-1], Landed)] == case["landed"]
    loser = tasks[case["commits"][1]]
    writer = loser.writers[WriterKey("A", TP)]
    assert isinstance(loser.outcomes[-1], Refused)
    assert (writer.staged, writer.claim, writer.frontier) == ((), None, case["table_through"])
    assert tables.offsets("A") == list(range(case["table_through"] + 1))
    finish(loser)
    assert tables.offsets("A") == list(range(100))


def test_the_latest_offset_is_the_largest_over_all_days(tables: DeltaTables) -> None:
    """Days: one commit carries all days, and its position is the largest last offset, whatever day that is of."""
    story = STORIES["days"]
    days = {name: FIRST_DAY.replace(day=10 + at) for at, name in enumerate(("D0", "D1", "D2"))}
    marks = story["marks"]
    log = [Record(marks[mark], "A", days[day]) for moment in story["moments"] for day, mark in moment["write"]]
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
