"""A new configuration on old tables (ROUTE): drained under the one in force, switched once, never gone back unseen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError, Fenced, InvariantBroken, RoundFailed
from exporter.faults import Armed
from exporter.operate.check.check import check_tables
from exporter.operate.start_plan import start_plan
from exporter.rounds.read import RoundReader
from exporter.settings.meaning import routing
from exporter.workbench import parse_schemas
from offsets import Invariant
from tests.support.lakes import DDL, Export, Exports, armed, crashed_after, deadly, event, seldom, struck
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OLD = {name: DDL[name] for name in ("click", "order")}
NEW = {**DDL, "click": DDL["click"] + ", ref BIGINT"}
"""`payment` is new, and `click` has a column more."""


@pytest.fixture
def export(exports: Exports) -> Export:
    """One partition, the old configuration."""
    return exports(types=OLD)


def trio(count: int, first: int = 0) -> list[Record]:
    """Orders, clicks with a `ref`, payments, in turn; ids are offsets."""
    kinds = ("order", "click", "payment")
    return [
        event(kinds[number % 3], number, **({"ref": number} if number % 3 == 1 else {}))
        for number in range(first, first + count)
    ]


def expect(e: Export, through: int, switched_at: int, types: Sequence[str] = tuple(NEW)) -> None:
    """ONCE and ROUTE for a trio topic: payments before `switched_at` are dead letters, from it on they have a table."""
    wanted = {}
    for offset in range(through + 1):
        kind = ("order", "click", "payment")[offset % 3]
        wanted[0, offset] = [kind if kind in (types if offset >= switched_at else OLD) else DEAD_LETTERS]
    assert e.placed() == wanted
    for row in e.rows("click"):
        offset = row["_kafka"]["offset"]
        if offset < switched_at:
            assert (row.get("ref"), row["_rescued"]) == (None, f'{{"ref":{offset}}}'), row
        else:
            assert (row["ref"], row["_rescued"]) == (offset, None), row


def test_a_type_declared_later_gets_what_comes_later(export: Export, spark: Any) -> None:
    """Old records of it stay dead letters, new ones have a table; all tables are in the next epoch, nothing twice."""
    export.send({0: trio(60)})
    export.run(spark)
    new = export.with_(NEW)
    new.run(spark)
    export.send({0: trio(30, first=60)})
    new.run(spark)
    expect(export, 89, switched_at=60)
    assert export.positions() == dict.fromkeys((DEAD_LETTERS, *NEW), (1, 89))
    assert {row["_kafka"]["epoch"] for row in export.rows("payment")} == {1}
    other = Export(export.kafka, export.topic, export.root / "other", fresh_name("app"), types=NEW)
    other.root.mkdir()
    other.run(spark)
    expect(other, 89, switched_at=0)


@pytest.mark.parametrize("landing", ["order", *(seldom(n) for n in ("click", DEAD_LETTERS))])
def test_what_a_crash_left_uncommitted_is_drained_under_the_old_configuration(
    export: Export, spark: Any, landing: str
) -> None:
    """One table is ahead of the others, files are staged: the new configuration first completes the old one's work."""
    export.send({0: trio(30)})
    export.run(spark)
    export.send({0: trio(60, first=30)})
    with crashed_after(landing):
        export.run(spark)
    assert {name: offset for name, (_, offset) in export.positions().items()} == {
        name: 89 if name == landing else 29 for name in (DEAD_LETTERS, *OLD)
    }
    export.send({0: trio(30, first=90)})
    export.with_(NEW).run(spark)
    expect(export, 119, switched_at=90)
    assert export.positions() == dict.fromkeys((DEAD_LETTERS, *NEW), (1, 119))


def test_what_an_earlier_decoder_began_is_not_finished_by_this_one(export: Export, spark: Any) -> None:
    """Its verdicts may differ: the version that began it drains it, and the switch to this one is like any (ROUTE)."""
    flagged = export.with_({"order": DDL["order"] + ", s STRUCT<on: BOOLEAN NOT NULL>"})
    earlier = pytest.MonkeyPatch()
    export.send({0: [event("order", number, s={"on": True}) for number in range(12)]})
    with earlier.context() as patch, crashed_after("order"):
        patch.setattr("exporter.core.routing.decoder_version", lambda *_: 1)
        flagged.run(spark)
    before = flagged.positions()
    assert before["order"] == (0, 11) != before[DEAD_LETTERS]
    with pytest.raises(InvariantBroken, match="decoder version 1 has to drain first; this is version 3") as refused:
        flagged.run(spark)
    assert refused.value.exit_code == 70 and flagged.positions() == before
    with earlier.context() as patch:
        patch.setattr("exporter.core.routing.decoder_version", lambda *_: 1)
        flagged.run(spark)
    export.send({0: [event("order", 12, s=None), event("order", 13, s={})]})
    flagged.run(spark)
    assert flagged.positions() == dict.fromkeys((DEAD_LETTERS, "order"), (1, 13))
    tables = {(0, offset): ["order"] for offset in range(13)}
    assert flagged.placed() == {**tables, (0, 13): [DEAD_LETTERS]}


def test_a_drain_outlives_rounds_that_fail_and_a_record_that_kills_its_task(
    export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any round: tried again, then by halves; the one record becomes a dead letter, the others land once."""
    export.send({0: trio(30)})
    export.run(spark)
    export.send({0: [*trio(15, first=30), event("order", 45, boom=1), *trio(14, first=46)]})
    with crashed_after("click"):
        export.run(spark)
    deadly(monkeypatch)
    failing, real = [RoundFailed("as ordered")] * 2, RoundReader.read

    def read(self: RoundReader, order: Any) -> Any:
        if failing:
            raise failing.pop()
        return real(self, order)

    monkeypatch.setattr(RoundReader, "read", read)
    export.with_(NEW).run(spark)
    assert not failing
    placed = export.placed()
    assert placed.pop((0, 45)) == [DEAD_LETTERS]
    assert len(placed) == 59 and all(len(tables) == 1 for tables in placed.values())
    assert export.positions() == dict.fromkeys((DEAD_LETTERS, *NEW), (1, 59))


def test_what_another_isolation_left_uncommitted_is_drained_under_it(export: Export, spark: Any) -> None:
    """One process reads the same partition under both: Spark must not take the consumer of one for the other's."""
    export.send({0: trio(60)})
    old = export.with_(NEW, isolation="read_uncommitted")
    with crashed_after("click"):
        old.run(spark)
    export.send({0: trio(30, first=60)})
    export.with_(NEW).run(spark)
    expect(export, 89, switched_at=0)
    assert export.positions() == dict.fromkeys((DEAD_LETTERS, *NEW), (1, 89))


def test_a_column_that_changes_its_type_is_refused_before_anything_is_written(export: Export, spark: Any) -> None:
    """Exit 2 names column and types; the configuration in force still runs, as if nothing had been tried.

    So do a column that was renamed by case only and a file where a new table has to be, all in one message: found at
    their own seal they would leave tables in two epochs, in which neither the old nor the new settings run.
    """
    export.send({0: trio(30)})
    export.run(spark)
    before = {name: export.table(name).version() for name in export.tables()}
    columns = {"click": "id BIGINT, Page STRING", "order": "id BIGINT, amount STRING, note STRING"}
    changed = export.with_({**columns, "payment": DDL["payment"]})
    changed.folder("payment").write_text("no folder")
    with pytest.raises(ConfigError, match=r"amount.*decimal\(12,2\).*string") as refused:
        changed.run(spark)
    for told in ("table click: the table has a column page, which readers cannot tell from Page", "payment is a file"):
        assert told in refused.value.message
    with changed.bench(spark) as bench, pytest.raises(ConfigError, match="table order: column amount"):
        start_plan(bench, changed.settings())
    changed.folder("payment").unlink()
    assert {name: export.table(name).version() for name in export.tables()} == before
    export.send({0: trio(30, first=30)})
    export.run(spark)
    assert export.positions() == dict.fromkeys((DEAD_LETTERS, *OLD), (0, 59))


@pytest.mark.long
def test_a_corrected_column_under_a_new_name_takes_what_comes_later(export: Export, spark: Any) -> None:
    """The bad field's records stay dead letters; after the fix the same records go to the table."""
    unruly = [event("click", number, page=number) for number in range(10)]
    export.send({0: unruly})
    export.run(spark)
    fixed = export.with_({**OLD, "click": "id BIGINT, page STRING, other STRING"}, unknown_fields="ignore")
    export.send({0: [event("click", number, other="x", page="p") for number in range(10, 20)]})
    fixed.run(spark)
    assert Counter(name for names in export.placed().values() for name in names) == {DEAD_LETTERS: 10, "click": 10}
    assert {row["other"] for row in export.rows("click")} == {"x"}


def test_a_configuration_that_was_replaced_refuses_to_run_until_its_generation_rises(
    export: Export, spark: Any
) -> None:
    """Exit 70 with a hint that names `generation`; raised, the old types are in force again, each record once."""
    export.send({0: trio(30)})
    export.run(spark)
    export.with_(NEW).run(spark)
    export.send({0: trio(30, first=30)})
    before = export.positions()
    with pytest.raises(InvariantBroken, match=r"ROUTE.*has been replaced by") as stopped:
        export.run(spark)
    assert (stopped.value.invariant, stopped.value.exit_code) == (Invariant.ROUTE, 70)
    assert "generation" in stopped.value.hint
    assert export.positions() == before
    export.with_(OLD, generation=1).run(spark)
    expect(export, 59, switched_at=60)
    assert export.positions()[DEAD_LETTERS] == (2, 59)
    with pytest.raises(InvariantBroken, match=r"ROUTE.*has been replaced by"):  # a third one, of before it was raised
        export.with_(DDL).run(spark)
    assert export.positions()[DEAD_LETTERS] == (2, 59)


def test_a_removed_type_returns_where_the_dead_letters_are(export: Export, spark: Any) -> None:
    """While it is not declared its records are dead letters; when it is again, only what comes later is its own."""
    e = export.with_(DDL)
    e.send({0: trio(30)})
    e.run(spark)
    e.send({0: trio(30, first=30)})
    e.with_(OLD).run(spark)
    e.send({0: trio(30, first=60)})
    e.with_(DDL, generation=1).run(spark)
    # The switch back happens where the task without payments stopped: at 60.
    assert e.offsets("payment") == [*range(2, 30, 3), *range(62, 90, 3)]
    assert e.offsets(DEAD_LETTERS) == [*range(32, 60, 3)]
    assert sorted(e.placed()) == [(0, offset) for offset in range(90)]


@pytest.mark.parametrize("seals", [2, *(seldom(n) for n in (1, 3))])
def test_a_switch_that_ends_between_two_seals_is_completed_by_its_own_configuration_or_a_third(
    export: Export, spark: Any, seals: int
) -> None:
    """Until then the old configuration exits 75 and writes nothing; afterwards each record is once.

    The third one declares a column more of a table that is sealed already.
    """
    export.send({0: trio(30)})
    export.run(spark)
    export.send({0: trio(30, first=30)})
    with struck(f"after_seal:raise:{seals}"):
        export.with_(NEW).run(spark)
    before = {name: export.table(name).version() for name in export.tables()}
    with pytest.raises(Fenced, match="another task is switching") as stopped:
        export.run(spark)
    assert stopped.value.exit_code == 75
    assert {name: export.table(name).version() for name in export.tables()} == before
    third = {**NEW, "click": NEW["click"] + ", more STRING"}
    export.with_(third if seals == 2 else NEW).run(spark)
    expect(export, 59, switched_at=30)
    assert ("more" in export.rows("click")[0]) == (seals == 2)


@pytest.mark.parametrize("sleeps_at", ["before_delta_commit", seldom("after_integrate")])
def test_a_task_that_slept_through_a_switch_wakes_and_writes_nothing(
    export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch, sleeps_at: str
) -> None:
    """Its commit is refused, and it exits 70 with a hint that names the newer configuration."""
    export.send({0: trio(30)})
    export.run(spark)
    export.send({0: trio(60, first=30)})
    asleep, wakes = threading.Event(), threading.Event()
    monkeypatch.setattr("exporter.task.service.COMMIT_THREADS", 1)  # with the one that sleeps all of them do

    def sleep(_: Armed) -> None:
        asleep.set()
        assert wakes.wait(200)

    with armed(f"{sleeps_at}:stop", sleep), export.going(spark) as sleeper:
        assert asleep.wait(60), f"the task sleeps at {sleeps_at}"
        new = export.with_(NEW, group=fresh_name("group"))
        new.run(spark)
        export.send({0: trio(30, first=90)})
        new.run(spark)
        at_ease = export.positions()
        wakes.set()
        error = sleeper.ended()
    settings = new.settings()
    fingerprint = routing(settings, parse_schemas(settings.declared)).fingerprint()
    assert isinstance(error, InvariantBroken) and error.exit_code == 70, error
    assert f"has been replaced by {fingerprint}" in error.message
    assert "start with the newer configuration" in error.hint
    assert export.positions() == at_ease
    expect(export, 119, switched_at=30)


def test_check_tells_what_a_start_would_do_to_each_table(export: Export, spark: Any) -> None:
    """Columns of all kinds are as declared, wider ones are named, another type is an error with its hint."""
    columns = DDL["click"] + ", tags ARRAY<STRING>, extra MAP<STRING, STRUCT<x: INT>>"
    e = export.with_({"click": columns, "order": DDL["order"]})
    e.send({0: trio(6)})
    e.run(spark)

    def told(types: dict[str, str]) -> dict[str, tuple[str, str]]:
        return {one.what: (one.level, one.says) for one in check_tables(e.with_(types).settings(), spark)}

    same = told(dict(e.types))
    assert set(same) == {"table click", "table order", f"table {DEAD_LETTERS}"}
    assert {level for level, _ in same.values()} == {"ok"}
    assert not [says for _, says in same.values() if "adds" in says]
    wider = told({"click": columns.replace("x: INT", "x: INT, y: INT") + ", ref BIGINT", "order": DDL["order"]})
    assert wider["table click"][0] == "ok" and wider["table click"][1].endswith("adds to it: extra.value.y, ref")
    other = told({"click": columns, "order": "id STRING"})
    assert other["table order"] == ("error", "column id is long in the table and string in the settings")
