"""What a status says to a person: what needs a hand, which command helps, and what the export is at."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from exporter.core.coordination import CoordinationState
from exporter.core.job_state import JobState
from exporter.core.sink_state import SinkState
from exporter.core.writers import Parked
from exporter.display.concerns import Concern, headline, verdict_lines
from exporter.display.status import (
    LATE_SECS,
    OPEN_SECS,
    TableFigures,
    concerns,
    first_line,
    protocol_lines,
    since_start,
    tables_of,
    under_way,
)
from exporter.monitor.marks import Marks
from exporter.monitor.snapshot import Outage, Snapshot
from tests.support.snapshots import NOW_MS, P0, busy_snapshot, snapshot, writer

WELL = {"ends": {P0: 11}, "marks": {P0: Marks((9,), (NOW_MS - 5_000,))}}


def told(moment: Snapshot) -> dict[str, Any]:
    """As /status serves it."""
    found = json.loads(json.dumps({**moment.as_dict(), "hangs": ""}))
    assert isinstance(found, dict)
    return found


def at_work(**changes: Any) -> Snapshot:
    """A task with one partition, five records behind."""
    return snapshot(writer("order", P0, 5), **{**WELL, **changes})


def dead_letters(count: int, records: int) -> Snapshot:
    found = at_work()
    found.totals.counts["dead_letters"] = count
    found.totals.records = records
    return found


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (at_work(), []),
        (at_work(troubles={"storage": Outage(880.0, "full")}),
         [Concern("storage has not answered for 2.0 min: full", "exporter check")]),
        (at_work(stuck={P0: "torn"}), [Concern("events-0 cannot be read on: torn")]),
        (snapshot(replace(writer("order", P0, 5), parked=Parked("no room", 0.0)), **WELL),
         [Concern("table order cannot be written: no room", "exporter check")]),
        (at_work(readable={P0: 6}, open_secs={P0: OPEN_SECS}), []),
        (at_work(readable={P0: 6}, open_secs={P0: OPEN_SECS + 60}),
         [Concern("a transaction in events-0 has been open for 16.0 min: what is behind it cannot be read",
                  "kafka-transactions.sh find-hanging")]),
        (dead_letters(9, 1_000),
         [Concern("9 dead letters, 0.90% of the records", "exporter dead-letters list", bad=False)]),
        (dead_letters(1, 100), [Concern("1 dead letter, 1.00% of the records", "exporter dead-letters list")]),
        (at_work(outgrown={"order": ["id from integer to long"]}),
         [Concern("table order: id from integer to long: what does not fit is in _rescued", "exporter schema",
                  bad=False)]),
        (at_work(log_verdicts={("order", P0): "stop: rolled back"}),
         [Concern("table order, events-0: stop: rolled back", "exporter plan")]),
        (at_work(jobs={"m": JobState("m", "mirror").failed("no room", 1.0)}),
         [Concern("derive m fails: no room", "exporter derive status")]),
        (at_work(jobs={"m": JobState("m", "mirror").ends("fenced")}),
         [Concern("derive m has ended: fenced", "exporter derive status")]),
        (at_work(jobs={"m": JobState("m", "mirror").waiting("no table")}),
         [Concern("derive m waits: no table", "exporter derive status", bad=False)]),
        (at_work(sinks={"webhook": SinkState(error="HTTP 500")}),
         [Concern("events to webhook are held up: HTTP 500")]),
        (at_work(coordination=CoordinationState(trouble="gone")),
         [Concern("the control topic is silent, this task commits by itself: gone", bad=False)]),
    ],
    ids=["well", "outage", "stuck", "parked", "open", "hanging", "few dead", "many dead", "outgrown", "stopped",
         "job fails", "job ended", "job waits", "sink", "control topic"],
)  # fmt: skip
def test_what_needs_a_hand_is_told_with_what_helps(moment: Snapshot, expected: list[Concern]) -> None:
    """A task that is well has no concern; what is worth a note does not spoil the verdict."""
    found = told(moment)
    assert concerns(found) == expected
    assert headline(expected) == ("look at:" if any(one.bad for one in expected) else "all well")


def test_a_task_that_hangs_is_told() -> None:
    """By its own server, which goes on."""
    found = {**told(at_work()), "hangs": "it has taken 200 s"}
    assert concerns(found) == [Concern("the task hangs: it has taken 200 s")]


@pytest.mark.parametrize(
    ("moment", "says"),
    [
        (at_work(), ""),
        (at_work(stopping=True), "it is stopping"),
        (at_work(waiting=frozenset({P0})), "1 of 1 partitions are not recovered yet"),
        (at_work(stuck={P0: "torn"}), ""),
        (at_work(troubles={"kafka": Outage(0.0, "silent")}), ""),
        (at_work(ends={}), "not known yet: 1 of 1 partitions without a known end"),
        (at_work(marks={P0: Marks((5,), (NOW_MS - int(LATE_SECS + 1) * 1000,))}), "catching up"),
        (snapshot(owned=frozenset()), ""),
    ],
    ids=["at work", "stopping", "recovering", "stuck", "outage", "no ends", "late", "spare"],
)
def test_what_an_export_is_at_is_told_where_it_is_neither_well_nor_in_need(moment: Snapshot, says: str) -> None:
    """It starts, ends, or catches up; a concern comes before it."""
    assert under_way(told(moment)) == says


def test_a_concern_comes_before_what_is_under_way() -> None:
    """The first line is the verdict; each of the others has its command."""
    found = [Concern("note", bad=False), Concern("trouble", "exporter check")]
    assert [*verdict_lines(found, "catching up")] == ["look at:", "  trouble: exporter check", "  note"]
    assert [*verdict_lines(found[:1], "catching up")] == ["catching up", "  note"]


def test_the_first_line_tells_what_is_exported_and_how_far() -> None:
    """In partitions, tables and records."""
    assert first_line(told(at_work())) == "app: 1 partition into 1 table, a consumer lag of 5 records"
    late = told(at_work(marks={P0: Marks((5,), (NOW_MS - 30_000,))}))
    assert first_line(late) == "app: 1 partition into 1 table, a consumer lag of 5 records, 30 s at most"
    assert first_line({"app": "app", "ready": False, "not_ready": "x"}) == "app: the consumer lag is not known yet"


def test_nothing_is_said_of_filters_where_there_are_none() -> None:
    """Nor of dead letters."""
    assert since_start(told(at_work())) == ["since the task began: 0 records read, 0 rows committed"]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (CoordinationState(), "coordinated, follows"),
        (CoordinationState(ended={"answered": 5, "silent": 1}), "coordinated, follows, 1 of 6 offers unanswered"),
        (CoordinationState(leads=True, rounds={"ready": 4, "late": 1}, commits=9, merged=1_800),
         "coordinated, leads: 5 rounds, 9 commits of 1,800 offers"),
    ],
    ids=["follows", "unanswered", "leads"],
)  # fmt: skip
def test_what_a_coordinated_task_does_is_a_line(state: CoordinationState, says: str) -> None:
    """Whether it leads, and how many of its offers nobody answered; of one that is not coordinated there is none."""
    assert [*protocol_lines(told(at_work(coordination=state)))] == [says]
    assert [*protocol_lines(told(at_work()))] == []


def test_a_table_is_told_over_all_its_partitions() -> None:
    """Unknown as long as it is of one of them."""
    status = told(busy_snapshot())
    assert tables_of(status) == [
        TableFigures("click", 1, 15, 0, 0, NOW_MS - 60_000), TableFigures("order", 1, 20, 1, 100, NOW_MS - 60_000),
    ]  # fmt: skip
    for one in status["positions"]:
        one["lag"] = None
    assert [one.behind for one in tables_of(status)] == [None, None]


def test_a_status_of_another_version_or_of_the_tables_alone_is_told_as_far_as_it_goes() -> None:
    """What it lacks is passed over, and nobody says that a task is well that was not asked."""
    position = {
        "event_type": "order", "topic": "t", "partition": 0, "committed": 4, "end": 9, "lag": 4, "read": None,
        "staged_rows": None, "staged_bytes": None, "verdict": "accident", "says": "RESTORE at version 7",
    }  # fmt: skip
    tables = {"from": "tables", "app": "app", "positions": [position]}
    assert concerns(tables) == [Concern("table order, t-0: accident RESTORE at version 7", "exporter plan")]
    assert under_way(tables) == "lagging; no task was asked whether it is at work"
    assert since_start(tables) == []
    former = told(busy_snapshot())
    for name in ("dead_letters", "stuck", "hangs", "at_ms", "up_secs"):
        del former[name]
    assert [one.what.split()[0] for one in concerns(former)] == ["kafka", "25%"]
