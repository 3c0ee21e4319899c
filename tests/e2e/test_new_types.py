"""Event types that nobody declared (`new_type = "table"`): a table each, every record once, whatever their name."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import duckdb
import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import WriterKey
from exporter.errors import InvariantBroken
from exporter.lake.change import Change
from exporter.lake.settling import Moved
from exporter.lake.table import DeltaTable
from exporter.protocol.anchor import Anchors, Switched
from exporter.protocol.meeting import MetTypes
from exporter.protocol.switch import Switcher
from exporter.task.service import Service
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support import naive
from tests.support.lakes import DDL, NOON, Export, Exports, bad, event, millis, seldom, wait_until, wrong_places
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

DECLARED = {"order": DDL["order"]}


@pytest.fixture
def export(exports: Exports) -> Exports:
    """Makes exports of fresh topics that declare just `order`."""
    return partial(exports, types=DECLARED, new_type="table")


def is_exact(e: Export) -> None:
    """ONCE: by the records' keys, and by the naive audit."""
    assert wrong_places(e) == {}
    naive.assert_each_once(e)


def rescued(e: Export, name: str) -> list[dict[str, Any]]:
    """What the rows of an undeclared type hold besides coordinates, event time and day."""
    rows = e.rows(name)
    assert all(set(row) == {"_kafka", "_event_time", "_rescued", "day"} for row in rows)
    assert all(row["_event_time"].date() == row["day"] for row in rows)
    return [json.loads(row["_rescued"]) for row in rows]


@pytest.mark.parametrize("ahead", [False, True], ids=["one round at a time", "one more behind it"])
def test_types_met_at_run_time_get_tables_and_every_record_is_read_once(
    ahead: bool, export: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New types come up round by round: each has its whole objects, and no round had to be read again for it.

    Of a round that waited behind the one that brought a type, the type's share may be read again.
    """
    if not ahead:
        monkeypatch.setattr("exporter.rounds.rounds.AHEAD_SHARE", 0)
    e = export(2, round_records_max=120)
    kinds = ("order", "click", "order", "payment", "refund")
    sent = {
        0: [event(kinds[number // 60], number) for number in range(300)],
        1: [event("refund", 1), *(event("order", number) for number in range(100)), bad(b"{"), event("click", 2)],
    }
    e.send(sent)
    first = e.run(spark)
    is_exact(e)
    assert first.totals.staged_rows == 403
    assert first.totals.records >= 403 if ahead else first.totals.records == 403
    for name in ("click", "payment", "refund"):
        values = [json.loads(r.value or b"") for p in (0, 1) for r in sent[p] if r.key == name.encode()]
        assert rescued(e, name) == values
        assert {row["day"] for row in e.rows(name)} == {NOON.date()}
    e.send({1: [event("late", 1), event("click", 3)]})
    assert e.run(spark).totals.records == 2
    is_exact(e)
    assert set(e.positions(1).values()) == {(0, 104)}


def test_bad_records_of_an_undeclared_type_are_dead_letters_as_those_of_any_type(export: Exports, spark: Any) -> None:
    """The event time has its bounds; a type of bad records only gets no table."""
    e = export()
    e.send({0: [bad(b'{"type": "odd", "at": "1969-01-01T00:00:00Z"}'), bad(b'{"type": "odd"}'),
                                   bad(b'{"type": "click", "at": 5}'), event("click", 1)]})  # fmt: skip
    e.run(spark)
    assert wrong_places(e) == {}
    assert e.tables() == ["click", DEAD_LETTERS, "order"]
    assert [row["reason"].split(":")[0] for row in e.rows(DEAD_LETTERS)] == [
        "event_time_out_of_bounds", "missing_event_time", "type_mismatch",
    ]  # fmt: skip


def test_a_declaration_gives_the_table_of_a_met_type_its_columns(export: Exports, spark: Any) -> None:
    """A switch: what was exported stays as it is, what comes has columns; without the declaration it is as before."""
    e = export()
    e.send({0: [event("click", number) for number in range(5)]})
    e.run(spark)
    declared = e.with_({**DECLARED, "click": DDL["click"]})
    e.send({0: [event("click", number) for number in range(5, 10)]})
    declared.run(spark)
    is_exact(declared)
    assert [row["id"] for row in e.rows("click")] == [None] * 5 + [5, 6, 7, 8, 9]
    assert [row["_rescued"] is None for row in e.rows("click")] == [False] * 5 + [True] * 5
    e.send({0: [event("click", 10), event("payment", 1)]})
    again = e.with_(DECLARED, generation=1)
    again.run(spark)
    is_exact(again)
    assert (e.rows("click")[-1]["id"], json.loads(e.rows("click")[-1]["_rescued"])["id"]) == (None, 10)
    assert {position[0] for position in e.positions().values()} == {2}


GOOD_NAMES = ["a/b", "..", ".", " ", "%2F", "~41", "日本語", "'\"`", "a\nb\t", "_spark_metadata", "day=2026-01-31",
              "*?[a]{b}", "\x00", "click", "Click", "x" * 200]  # fmt: skip
ALIKE_NAMES = ["../up", "a b", "día", "😀", "a\\b", "_x", ".hidden", "_samples", "x=y", "a:b#c&d;e", "-rf"]
"""Each like one of the others; that any name has a folder of its own is in tests/unit/offsets/test_names.py."""
BAD_NAMES = ["Order", "ORDER", DEAD_LETTERS, "Dead_Letters", "_delta_log", "_DELTA_LOG", "y" * 201, "é" * 34]


@pytest.mark.parametrize("good", [GOOD_NAMES, seldom([*GOOD_NAMES, *ALIKE_NAMES])], ids=["one of a kind", "all"])
def test_each_hostile_name_has_a_table_that_every_reader_reads_or_its_records_are_dead_letters(
    export: Exports, spark: Any, good: list[str]
) -> None:
    """Spark, deltalake and DuckDB find the record of each name; the others are whole in the dead letters."""
    e = export()
    e.send({0: [named(name, name) for name in good]
                               + [named(name, DEAD_LETTERS) for name in [*BAD_NAMES, ""]]})  # fmt: skip
    e.run(spark)
    assert wrong_places(e) == {}
    e.proven(spark)
    assert e.tables() == sorted([*good, DEAD_LETTERS, "order"])
    counts = [f"SELECT count(*) AS rows FROM {e.sql_name(name)}" for name in good]
    assert [row.rows for row in spark.sql(" UNION ALL ".join(counts)).collect()] == [1] * len(good)
    for name in good:
        (row,) = rescued(e, name)
        assert row["type"] == name
        with duckdb.connect() as connection:
            connection.register("exported", e.table(name).to_pyarrow_dataset())
            assert connection.execute("SELECT _rescued FROM exported").fetchall() == [(e.rows(name)[0]["_rescued"],)]
    dead_letters = e.rows(DEAD_LETTERS)
    assert [row["event_type"] for row in dead_letters] == [*BAD_NAMES, None]
    assert {row["reason"].split(":")[0] for row in dead_letters[:-1]} == {"bad_type_name"}
    e.send({0: [named(name, name) for name in good]})
    assert e.run(spark).totals.records == len(good)
    assert wrong_places(e) == {}


def named(name: str, table: str) -> Record:
    """A good record of an event type; its key names the table that it belongs to."""
    value = {"type": name, "at": "2026-01-31T12:00:00Z"}
    return Record(table.encode(), json.dumps(value).encode(), timestamp_ms=millis(NOON))


def test_a_file_system_that_ignores_case_is_noticed_before_two_types_share_a_table(export: Exports, spark: Any) -> None:
    """Exit 70 names both types; nothing of the second one is written into the first one's table."""
    e = export()
    e.send({0: [event("click", 1)]})
    e.run(spark)
    (e.root / "lake" / "Click").symlink_to(e.folder("click"))
    e.send({0: [event("Click", 2)]})
    with pytest.raises(InvariantBroken, match=r"NAMES.*'Click' holds the table of 'click'") as stopped:
        e.run(spark)
    assert (stopped.value.exit_code, "ignores" in stopped.value.hint or "case" in stopped.value.hint) == (70, True)
    assert e.offsets("click") == [0]


def test_one_type_too_many_stops_the_task_and_changes_no_records_way(export: Exports, spark: Any) -> None:
    """Exit 70 before a table is made for it; with a higher limit everything is where it belongs."""
    e = export(new_types_max=2)
    e.send({0: [event(name, 1) for name in ("a", "b", "order", "a")]})
    e.run(spark)
    e.send({0: [event("b", 2), event("c", 1), event("d", 1)]})
    with pytest.raises(InvariantBroken, match="more than 2 event types") as stopped:
        e.run(spark)
    assert (stopped.value.exit_code, "`new_types_max`" in stopped.value.hint) == (70, True)
    assert e.tables() == ["a", "b", DEAD_LETTERS, "order"]
    more = e.with_(new_types_max=4)
    more.run(spark)
    is_exact(more)


class Task:
    """A task that runs until it is told to stop, in a thread of its own."""

    def __init__(self, service: Service, pool: ThreadPoolExecutor) -> None:
        self.service = service
        self.done = pool.submit(service.run)

    def owned(self) -> set[int]:
        return {tp.partition for tp in self.service._ownership.owned} if self.service._writers else set()

    def failed(self) -> bool:
        return self.done.done() and self.done.exception() is not None


def test_two_tasks_that_meet_the_same_type_at_once_both_anchor_it(
    export: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.7: both find no table; one creates it, the other one's creation is refused and it adds its own anchor."""
    e = export(2, roll_age_max_secs=0.2)
    real, together, refused = DeltaTable.commit, threading.Barrier(2, timeout=60), []

    def commit(self: DeltaTable, change: Change, check: Any) -> int:
        if self.event_type != "click" or change.create is None:
            return real(self, change, check)

        def both(view: Any) -> None:
            check(view)
            together.wait()

        try:
            return real(self, change, both)
        except Exception as error:
            refused.append(error)
            raise

    e.send({0: [event("order", 1)], 1: [event("order", 2)]})
    with ThreadPoolExecutor(2) as pool, e.service(spark, False) as one, e.service(spark, False) as other:
        tasks = [Task(one, pool), Task(other, pool)]
        try:
            wait_until(lambda: sorted(map(sorted, (t.owned() for t in tasks))) == [[0], [1]], 60, "a partition each")
            monkeypatch.setattr(DeltaTable, "commit", commit)
            e.send({p: [event("click", n) for n in range(20)] for p in (0, 1)})
            wait_until(lambda: any(t.failed() for t in tasks) or everything_there(e, 42), 60, "all is exported")
        finally:
            one.stop()
            other.stop()
        assert [task.done.exception(60) for task in tasks] == [None, None]
    assert len(refused) == 1
    is_exact(e)
    said = [json.loads(entry["userMetadata"]) for entry in e.table("click").history()]
    anchored = [sorted(one["partitions"]) for one in said if one.get("action") == "anchor"]
    assert sorted(anchored) == [[f"{e.topic}-0"], [f"{e.topic}-1"]]
    assert one.totals.refused == other.totals.refused == 0


def everything_there(e: Export, records: int) -> bool:
    try:
        return len(e.placed()) == records
    except Exception:  # noqa: BLE001 - a table that is being created
        return False


@pytest.mark.long
def test_an_anchor_that_is_there_is_adopted_and_reading_goes_back_to_it(
    export: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.7: another task had anchored the type lower, with nothing of it in between; its value stays."""
    e = export(round_records_max=10)
    e.send({0: [event("order", number) for number in range(30)]})
    e.run(spark)
    e.send({0: [event("click", 1), event("order", 31)]})
    real = MetTypes.anchor

    def late(self: MetTypes, wanted: Any, to_make: Any) -> Any:
        monkeypatch.setattr(MetTypes, "anchor", real)
        real(self, {key: Position(0, 9) for key in wanted}, to_make)
        return real(self, wanted, to_make)

    monkeypatch.setattr(MetTypes, "anchor", late)
    service = e.run(spark)
    is_exact(e)
    assert service.totals.records == 2 + 22, "the round, and everything after the anchor again"


@pytest.mark.long
@pytest.mark.parametrize("registered", [False, seldom(True)], ids=["created", "registered"])
def test_a_type_that_is_met_while_another_task_switches_is_sealed_or_left_behind(
    export: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch, registered: bool
) -> None:
    """A table that the switch has not seen gets no row under the old configuration; the new one fills it once."""
    e = export()
    e.send({0: [event("order", 1)]})
    e.run(spark)
    e.send({0: [event("click", 1), event("order", 2)]})
    key = WriterKey("click", TopicPartition(e.topic, 0))
    new = e.with_({**DECLARED, "payment": DDL["payment"]})
    slow = e.with_(group=fresh_name("group"))
    seal, seals, refused = Switcher._seal_commit, [], []

    def meet() -> None:
        """What the old task does from its round on: the table, its anchor, and perhaps its registration."""
        with slow.service(spark) as old, monkeypatch.context() as patch:
            if not registered:
                patch.setattr(Anchors, "register", lambda *_: True)
            old._recovery.met.anchor({key: Position(0, 0)})
            old._membership.close()

    def late(self: Switcher, name: str, *rest: Any) -> None:
        if name == DEAD_LETTERS and not seals:
            seals.append(name)
            meet()
        try:
            seal(self, name, *rest)
        except Moved as moved:
            refused.append(str(moved))
            raise

    monkeypatch.setattr(Switcher, "_seal_commit", late)
    new.run(spark)
    assert wrong_places(e) == {}
    assert len(refused) == (1 if registered else 0), "what is registered would be filled past the seal"
    assert set(e.positions().values()) == {(1, 2)}
    with slow.service(spark) as old:
        with pytest.raises(Switched):
            old._recovery.met.anchor({key._replace(event_type="other"): Position(0, 0)})
        old._membership.close()
    e.send({0: [event("other", 1), event("click", 2)]})
    new.run(spark)
    is_exact(new)
