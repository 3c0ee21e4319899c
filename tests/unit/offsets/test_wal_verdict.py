"""The log against the tables: every combination by itself, and the README's table of them is this list."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from offsets import Invariant
from offsets.intents import Intent, IntentKey, IntentState
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.wal_verdict import Ruling, TableSays, judge, to_count, to_find

PAGE = Path(__file__).parents[3] / "deploy" / "handbook" / "write-ahead-log.md"
TP = TopicPartition("events", 3)
STARTED = Intent(
    IntentKey("order", TP, 1), "abc", "other", expected=99, new=149, first=101, last=140, rows=30, checked_through=7,
    table_id="T", routing="R", started_ms=0,
)  # fmt: skip
COMPLETED = replace(STARTED, state=IntentState.COMPLETED, version=8)
REPAIR = replace(STARTED, key=IntentKey("order", TP, 2), rows=0)
OLD = replace(COMPLETED, key=IntentKey("order", TP, 0), new=900, last=900)
TABLE = TableSays("T", Position(1, 99), 1, anchor=50, version=9)


def at(offset: int, **changes: Any) -> TableSays:
    return replace(TABLE, position=Position(1, offset), **changes)


@dataclass(frozen=True)
class Case:
    """table, log: as the handbook says it."""

    table: str
    log: str
    says: TableSays
    intents: tuple[Intent, ...]
    verdict: Ruling
    told: dict[str, Any] = field(default_factory=dict)


GONE = replace(TABLE, table_id=None, position=None)
CASES = [
    Case("at the log's newest position", "completed", at(149), (COMPLETED,), Ruling.AGREE),
    Case("ahead of it (empty markers are not logged)", "completed", at(170), (COMPLETED,), Ruling.AGREE),
    Case("at its first position", "nothing", at(50), (), Ruling.AGREE),
    Case("not there yet", "nothing", GONE, (), Ruling.AGREE),
    Case("in a later epoch", "of older epochs only", at(99), (OLD,), Ruling.IGNORED),
    Case("beyond its first position", "nothing: lost, new, or all markers", at(99), (), Ruling.REPAIR),
    Case("has the commit", "started", at(149, landed={"abc": 8}), (STARTED,), Ruling.FINISH),
    Case("may have had the commit, its own log was cleaned up; the rows are there", "started",
         at(149, cleaned_through=8, live_rows={"abc": 30}), (STARTED,), Ruling.FINISH),
    Case("has not the commit, and is before its last offset", "started", at(99), (STARTED,), Ruling.PENDING),
    Case("may have had the commit, its own log was cleaned up; the rows were not counted", "started",
         at(149, cleaned_through=8), (STARTED,), Ruling.PENDING),
    Case("in an epoch before it", "a repair that was started", at(99), (REPAIR,), Ruling.PENDING),
    Case("has not the commit, and is at its last offset or beyond", "started", at(140), (STARTED,), Ruling.DEAD),
    Case("has not the commit, and is before its last offset", "started by a task with another configuration that has "
         "been seen at work", at(99), (STARTED,), Ruling.REFUSED, {"routing": "mine", "live": {"other"}}),
    Case("has not all rows of the newest commit, and its own log was cleaned up", "completed",
         at(170, live_rows={"abc": 29}), (COMPLETED,), Ruling.ROWS_GONE),
    Case("has not all rows of the commit, and its own log was cleaned up", "started",
         at(149, cleaned_through=8, live_rows={"abc": 0}), (STARTED,), Ruling.ROWS_GONE),
    Case("holds files named beyond its position", "anything", at(149, named_offset=150), (COMPLETED,),
         Ruling.NAMES_AHEAD),
    Case("behind the log", "completed", at(148), (COMPLETED,), Ruling.ROLLED_BACK),
    Case("behind the position that the commit began at", "started", at(98), (STARTED,), Ruling.ROLLED_BACK),
    Case("in an epoch before it", "started or completed", replace(at(170), position=Position(0, 170), epoch=0),
         (COMPLETED,), Ruling.ROLLED_BACK),
    Case("another table id", "started or completed", at(149, table_id="U"), (COMPLETED,), Ruling.REPLACED),
    Case("gone, or without a position", "started or completed", GONE, (COMPLETED,), Ruling.GONE),
]  # fmt: skip


def named(case: Case) -> str:
    return f"{case.table} - {case.log}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_each_combination_has_its_verdict(case: Case) -> None:
    """One verdict, with a text; a stop has an invariant."""
    found = judge(case.says, case.intents, **case.told)
    assert found.verdict is case.verdict
    assert found.says
    if found.verdict.stops:
        names = case.verdict is Ruling.NAMES_AHEAD
        assert found.invariant is (Invariant.NAMES if names else Invariant.MONOTONE)


def test_every_verdict_has_a_case_and_the_gravest_wins() -> None:
    """Whatever else is fine: what stops comes first, and nothing is lost of the rest."""
    assert {case.verdict for case in CASES} == set(Ruling)
    later = replace(STARTED, commit_id="later", expected=149, new=199, first=150, last=199)
    found = judge(at(148), [OLD, later, COMPLETED, STARTED])
    assert found.verdict is Ruling.ROLLED_BACK
    assert [one.verdict for one in found.judged] == [
        Ruling.ROLLED_BACK, Ruling.ROLLED_BACK, Ruling.DEAD, Ruling.IGNORED,
    ]  # fmt: skip
    assert "149..149 are missing" in found.says or "149" in found.says


def test_the_handbook_lists_the_same_combinations() -> None:
    """One row per combination, in this order, with the same words and verdict."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `([a-z: ]+)` \| [^|]+ \|$", PAGE.read_text(), re.M)
    assert rows == [(case.log, case.table, case.verdict.value) for case in CASES]


@pytest.mark.parametrize("offset", [99, 100, 139, 140, 148, 149, 150])
def test_a_started_commit_is_looked_for_only_where_it_can_have_landed(offset: int) -> None:
    """Below its new position it has not landed, for landing sets the position (MONOTONE): no version is read."""
    assert to_find(at(offset), [STARTED, COMPLETED, OLD]) == ((STARTED,) if offset >= 149 else ())
    found = judge(at(offset), [STARTED]).verdict
    assert found is (Ruling.PENDING if offset < 140 else Ruling.DEAD)


def test_rows_are_counted_only_where_the_tables_log_no_longer_tells() -> None:
    """The newest completed intent if operations went unseen, and started ones that cannot be looked for any more."""
    both = [COMPLETED, replace(STARTED, commit_id="open"), OLD]
    assert to_count(at(149), both, unproven=False) == ()
    assert to_count(at(149), both, unproven=True) == (COMPLETED,)
    assert to_count(at(149, cleaned_through=8), both, unproven=False) == (both[1],)
    assert to_count(at(149, cleaned_through=7), both, unproven=False) == ()
    assert to_count(at(149, cleaned_through=8, landed={"open": 9}), both, unproven=False) == ()
    assert to_count(at(148, cleaned_through=8), both, unproven=True) == ()


def test_more_rows_than_logged_are_no_alarm() -> None:
    """A poison record's row is committed by itself; the audit finds what is twice."""
    assert judge(at(149, live_rows={"abc": 31}), [COMPLETED]).verdict is Ruling.AGREE


def test_what_a_task_has_under_way_is_its_own_business() -> None:
    """The commit path settles it; what a task has begun and forgotten is judged as any other."""
    landed = at(149, landed={"abc": 8})
    assert judge(landed, [STARTED], under_way={"abc"}).verdict is Ruling.PENDING
    assert judge(landed, [STARTED], under_way={"another"}).verdict is Ruling.FINISH


def test_another_configuration_alone_refuses_nothing() -> None:
    """Its owner may be long dead: only one that has been seen at work since is waited for."""
    assert judge(at(99), [STARTED], routing="mine").verdict is Ruling.PENDING
    assert judge(at(99), [STARTED], routing="mine", live={"third"}).verdict is Ruling.PENDING
    assert judge(at(99), [STARTED], routing="R", live={"other"}).verdict is Ruling.PENDING
