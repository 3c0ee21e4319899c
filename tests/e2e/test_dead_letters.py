"""Dead letters: counted, shown, and exported again after a fix, once each, whatever happens on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError
from exporter.faults import Fault
from exporter.lake.lake import Lake
from exporter.operate.chosen import parse_ranges
from exporter.operate.dead_letters.listing import Chosen, counts, shown_rows
from exporter.operate.dead_letters.replay import Replay
from exporter.operate.maintain.sweep import sweep
from exporter.operate.report import facts as report
from exporter.operate.report.page import report_page
from offsets.names import DataFile
from tests.support.lakes import (
    DDL,
    EVERYWHERE,
    EVERYWHERE_SELDOM,
    NOON,
    Crash,
    Export,
    Exports,
    event,
    millis,
    struck,
)
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OLD = {"order": DDL["order"]}
NEW = {"order": DDL["order"], "click": DDL["click"]}


def hopeless(number: int) -> Record:
    """Bad under any settings: not JSON, with bytes that no terminal should see."""
    return Record(DEAD_LETTERS.encode(), b"\x1b[2J\xff{" + str(number).encode(), timestamp_ms=millis(NOON))


def records(count: int, first: int = 0) -> list[Record]:
    """In turn: an order, a click, an order that nothing can decode."""
    made = (lambda n: event("order", n), lambda n: event("click", n), hopeless)
    return [made[number % 3](number) for number in range(first, first + count)]


@pytest.fixture
def fixed(exports: Exports, spark: Any) -> Export:
    """60 records in two partitions, exported without the type `click`; then it is declared, and 30 more come."""
    e = exports(2, types=OLD)
    e.send({0: records(30), 1: records(30)})
    e.run(spark)
    e.send({0: records(30, first=30)})
    new = e.with_(NEW)
    new.run(spark)
    return new


def replay_of(e: Export, spark: Any, chosen: Chosen | None = None) -> Replay:
    with e.bench(spark) as bench:
        return Replay(bench.lake, bench.routing, chosen or Chosen())


def told(replay: Replay, apply: bool) -> dict[tuple[str, str], int]:
    return {(row.outcome, row.name): row.rows for row in replay.run(apply)}


def places(hopeful: str) -> Mapping[tuple[int, int], list[str]]:
    """Where each of the fixture's records is; hopeful: the table of the clicks that came before the fix."""
    wanted = {}
    for partition, last in ((0, 60), (1, 30)):
        for offset in range(last):
            kinds = ("order", hopeful if offset < 30 else "click", DEAD_LETTERS)
            wanted[partition, offset] = [kinds[offset % 3]]
    return wanted


ENDS_AT = (Fault.AFTER_REPLAY_STAGE, Fault.AFTER_REPLAY_COMMIT, Fault.AFTER_REPLAY_DELETE)


@EVERYWHERE_SELDOM
def test_a_replay_that_is_killed_ends_with_each_row_once(fixed: Export, spark: Any) -> None:
    """It ends after staging, after the commit, after the DELETE; each time the next one goes on; the audit is clean.

    In this process; `exporter drill --scenario replayed` kills a real one at each.
    """
    assert fixed.placed() == places(DEAD_LETTERS)
    check_what_is_shown(fixed, spark)
    before = fixed.positions()
    both: dict[tuple[int, int], list[str]] = {at: [DEAD_LETTERS, "click"] for at in places("click") if at[1] % 3 == 1}
    for fault in ENDS_AT:
        with struck(f"{fault.value}:raise", by=Crash):
            told(replay_of(fixed, spark), apply=True)
        if fault is Fault.AFTER_REPLAY_STAGE:
            assert fixed.placed() == places(DEAD_LETTERS)
        if fault is Fault.AFTER_REPLAY_COMMIT:
            found = {at: sorted(names, reverse=True) for at, names in fixed.placed().items()}
            assert found == {**places(DEAD_LETTERS), **{at: names for at, names in both.items() if at[1] < 30}}
            audited = fixed.audit(spark)
            assert (audited.clean, audited.replaying) == (True, 20), audited.as_text()
    assert fixed.placed() == places("click")
    assert told(replay_of(fixed, spark), apply=True) == {("still bad", "not_utf8"): 30}
    audited = fixed.audit(spark)
    assert (audited.clean, audited.replaying, audited.once) == (True, 0, 90), audited.as_text()
    assert fixed.positions() == before, "a replay moves no position"
    assert fixed.placed() == places("click")
    assert all(row["_event_time"].date() == row["day"] for row in fixed.rows("click"))


def check_what_is_shown(e: Export, spark: Any) -> None:
    """Counts by type, reason and day; rows whose bytes no terminal acts upon; old settings may not replay."""
    lake = e.lake(spark)
    found = [(one.event_type, one.code, one.day, one.rows, one.first, one.last) for one in counts(lake, Chosen())]
    t, day = e.topic, str(NOON.date())
    assert found == [
        (None, "not_utf8", day, 30, f"{t}-0:2", f"{t}-1:29"),
        ("click", "unknown_type", day, 20, f"{t}-0:1", f"{t}-1:28"),
    ]
    some = Chosen(reasons=("not_utf8",), day=date.fromisoformat(day), offsets=parse_ranges("0:2-8", (t,)))
    rows = list(shown_rows(lake, some, most=2, bytes_max=6))
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 2), (0, 5)]
    assert rows[0]["value"] == "\\x1b[2J\\xff{... (7 bytes)"
    with pytest.raises(ConfigError, match="not in force"):
        replay_of(e.with_(OLD), spark).run(apply=True)


@EVERYWHERE
@pytest.mark.long
def test_two_replays_at_once_and_an_exporter_beside_them_leave_each_row_once(
    fixed: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is swept from under a replay, commits beside it do not stop it, and of two the second one notices."""
    meanwhile: list[Callable[[], Any]] = []
    feeding = "exporter.operate.dead_letters.feed.point"
    monkeypatch.setattr(feeding, lambda fault: meanwhile.pop()() if meanwhile else None)
    lake = fixed.lake(spark)
    assert told(replay_of(fixed, spark), apply=False) == {("would be fed", "click"): 20, ("still bad", "not_utf8"): 30}
    assert fixed.placed() == places(DEAD_LETTERS)

    def exports_and_sweeps() -> None:
        fixed.send({1: records(3, first=30)})
        fixed.run(spark)
        assert all(not swept.paths for swept in sweep(lake, apply=True))

    meanwhile.append(exports_and_sweeps)
    some = Chosen(types=("click",), offsets=parse_ranges("1:0-10", (fixed.topic,)))
    assert told(replay_of(fixed, spark, some), apply=True) == {("fed", "click"): 4}
    faster: dict[tuple[str, str], int] = {}
    meanwhile.append(lambda: faster.update(told(replay_of(fixed, spark), apply=True)))
    assert told(replay_of(fixed, spark), apply=True) == {("still bad", "not_utf8"): 31}
    assert faster == {("fed", "click"): 16, ("still bad", "not_utf8"): 31}
    wanted = {**places("click"), (1, 30): ["order"], (1, 31): ["click"], (1, 32): [DEAD_LETTERS]}
    assert fixed.placed() == wanted
    (orphans,) = [swept.paths for swept in sweep(lake, apply=True) if swept.paths]
    assert orphans and {DataFile.parse(path).replay for path in orphans} == {1, 2}
    spark.sql(f"OPTIMIZE {fixed.sql_name('click')}")
    assert fixed.placed() == wanted
    audited = fixed.audit(spark)
    assert (audited.clean, audited.once) == (True, 93), audited.as_text()
    check_that_the_report_tells_of_it(fixed, lake)
    check_that_the_audit_still_sees_doubles(fixed, spark)


def check_that_the_report_tells_of_it(e: Export, lake: Lake) -> None:
    """The page's facts are those of the tables and the broker; without a broker they lack the lag and say why."""
    found = report.facts(lake, e.settings())
    assert {(one.event_type, one.tp.partition): one.position for one in found.places} == {
        (name, partition): e.position(name, partition)[1] for name in e.tables() for partition in (0, 1)
    }
    assert {one.lag for one in found.places} == {0} and not found.notes
    outcomes = Counter((one.event_type, one.outcome) for one in found.happened)
    assert (outcomes["click", "replay"], outcomes["click", "optimize"], outcomes[DEAD_LETTERS, "merge"]) == (2, 1, 2)
    assert sum(one.rows for one in found.happened if one.event_type == "click") == len(e.rows("click"))
    exported = [one for one in found.happened if one.outcome == "with rows"]
    assert exported and all(one.oldest_ms is not None and 0 < one.oldest_ms <= one.at_ms for one in exported)
    live = {name: len(e.table(name).file_uris()) for name in e.tables()}
    assert {name: sum(one.files for one in found.days if one.event_type == name) for name in live} == live
    assert [(one.code, one.rows) for one in found.dead_letters] == [("not_utf8", 31)]
    nowhere = report.facts(lake, e.with_(brokers=["127.0.0.1:1"]).settings())
    assert {one.lag for one in nowhere.places} == {None} and "no lag is shown" in nowhere.notes[0].what
    assert "not_utf8" in report_page(nowhere)


def check_that_the_audit_still_sees_doubles(e: Export, spark: Any) -> None:
    """A row twice in its table, and one in the dead letters and in a table that no replay has touched, are findings."""
    click, order, dead_letters = (e.sql_name(name) for name in ("click", "order", DEAD_LETTERS))
    spark.sql(f"INSERT INTO {click} SELECT * FROM {click} WHERE _kafka.partition = 0 AND _kafka.offset = 1")
    spark.sql(
        f"INSERT INTO {dead_letters} SELECT o._kafka, l.key, l.value, l.headers, l.stage, l.reason, l.event_type, "
        f"l.first_offset, l.last_offset, l.day FROM {order} o JOIN {dead_letters} l ON o._kafka.partition = 0 "
        "AND o._kafka.offset = 3 AND l._kafka.partition = 0 AND l._kafka.offset = 2"
    )
    audited = e.audit(spark)
    assert (audited.twice, audited.findings) == (2, 2), audited.as_text()


@pytest.mark.long
def test_a_value_that_its_column_cannot_hold_is_kept_once_the_column_is_left_out(exports: Exports, spark: Any) -> None:
    """A wider type is refused with that way; the replayed row has the value in `_rescued`, as it was sent."""
    e = exports(types=OLD)
    e.send({0: [event("order", 0), event("order", 1, amount=12_345_678_901.25)]})
    e.run(spark)
    assert e.placed() == {(0, 0): ["order"], (0, 1): [DEAD_LETTERS]}
    with pytest.raises(ConfigError, match=r"decimal\(12,2\) in the table and decimal\(18,2\)") as refused:
        e.with_({"order": DDL["order"].replace("12,2", "18,2")}).run(spark)
    assert "leave the column out" in refused.value.hint
    without = e.with_({"order": "id BIGINT, note STRING"})
    without.run(spark)
    assert told(replay_of(without, spark), apply=True) == {("fed", "order"): 1}
    assert [(row["id"], row["_rescued"]) for row in e.rows("order")] == [(0, None), (1, '{"amount":12345678901.25}')]
