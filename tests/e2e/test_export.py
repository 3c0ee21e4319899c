"""A real topic to real tables, in one process on the shared session: what a user finds in them, and what not."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from string import ascii_letters
from typing import Any

import confluent_kafka as ck
import duckdb
import pytest
from structlog.testing import capture_logs

from exporter.core.backoff import Backoff
from exporter.core.bisection import SINGLE_FAILURES_MAX
from exporter.core.order import StagingOrder
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import StagedFile
from exporter.errors import Fenced, RoundFailed
from exporter.lake.change import Change, add_action
from exporter.operate.status import behind, goals, table_status
from exporter.protocol import ready
from exporter.protocol.commit import DeltaCommitter
from exporter.protocol.poison import Poison
from exporter.rounds.read import RoundReader
from offsets.names import AppId, DataFile
from offsets.ranges import OffsetRange, TopicPartition
from tests.support.days import partition_of
from tests.support.lakes import (
    EVERYWHERE,
    EVERYWHERE_SELDOM,
    NOON,
    Crash,
    Export,
    Exports,
    bad,
    days,
    deadly,
    delete_before,
    event,
    messages,
    mixed,
    seldom,
    wait_until,
    wrong_places,
)
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@EVERYWHERE
def test_every_record_is_once_in_the_table_of_its_type_for_every_reader(exports: Exports, spark: Any) -> None:
    """ONCE: mixed types, days out of order, some bad; Spark, deltalake and DuckDB agree; a second run adds nothing."""
    e = exports(2)
    sent = {0: mixed(400), 1: mixed(300, first=1000)}
    e.send(sent)
    e.run(spark)
    e.run(spark)
    assert wrong_places(e) == {}
    assert set(days(e.rows("order"))) == {(NOON - timedelta(days=late)).date() for late in range(5)}
    for name in ("order", "click", "payment"):
        assert by_spark(spark, e, name) == by_deltalake(e, name) == by_duckdb(e, name)
    assert by_deltalake(e, DEAD_LETTERS)[0] == sum(r.key == b"dead_letters" for r in [*sent[0], *sent[1]])


CHECKED = "count(*), count(distinct (_kafka.partition, _kafka.offset)), sum(id), sum(_kafka.offset)"


def by_spark(spark: Any, e: Export, name: str) -> tuple[int, ...]:
    text = CHECKED.replace("(_kafka.partition, _kafka.offset)", "struct(_kafka.partition, _kafka.offset)")
    return tuple(spark.sql(f"SELECT {text} FROM {e.sql_name(name)}").collect()[0])


def by_duckdb(e: Export, name: str) -> tuple[int, ...]:
    rows = e.table(name).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("exported", rows)
        found = connection.execute(f"SELECT {CHECKED} FROM exported").fetchone()
    assert found is not None
    return tuple(int(value) for value in found)


def by_deltalake(e: Export, name: str) -> tuple[int, ...]:
    rows = e.rows(name)
    coordinates = [(row["_kafka"]["partition"], row["_kafka"]["offset"]) for row in rows]
    total = sum(row["id"] for row in rows) if name != DEAD_LETTERS else 0
    return len(rows), len(set(coordinates)), total, sum(offset for _, offset in coordinates)


BAD: list[tuple[Record, str, str, str | None]] = [
    (bad(None), "route", "tombstone", None),
    (bad(b""), "route", "", None),
    (bad(b'{"type": "order", "at": '), "", "not_json", None),
    (bad(b'["order"]'), "route", "not_object", None),
    (bad(b"\xff\xfe{}"), "", "", None),
    (bad(b'{"at": "2026-01-31T12:00:00Z", "id": 1}'), "route", "no_type", None),
    (bad(b'{"type": "refund", "at": "2026-01-31T12:00:00Z"}'), "route", "unknown_type", "refund"),
    (bad(b'{"type": "order", "at": "2026-01-31T12:00:00Z", "id": "one"}'), "decode", "id", "order"),
    (bad(b'{"type": "order", "at": "2026-01-31T12:00:00Z", "amount": 1e99}'), "decode", "amount", "order"),
    (bad(b'{"type": "order", "id": 1}'), "", "at", "order"),
    (bad(b'{"type": "order", "at": "soon", "id": 1}'), "", "at", "order"),
    (bad(b'{"type": "order", "at": "1969-12-31T23:59:59Z", "id": 1}'), "", "", "order"),
    (bad(b'{"type": "order", "at": "2026-02-03T12:00:00Z", "id": 1}'), "", "", "order"),
    (bad(b'{"type": "order", "at": 1769860800, "id": 1}'), "", "at", "order"),
    (bad(json.dumps({"type": "order", "at": "2026-01-31T12:00:00Z", "note": "x" * 5000}).encode()), "size", "too_long",
     None),
]  # fmt: skip
"""Record, stage, a word of the reason, event type where it can be told; "" where any text will do."""


@EVERYWHERE_SELDOM
def test_every_kind_of_bad_record_is_a_dead_letter_once_with_its_coordinates_and_reason(
    exports: Exports, spark: Any
) -> None:
    """Key, value and headers are kept whole, stage and reason say why, and the neighbours are exported."""
    e = exports(record_bytes_max=4000)
    records: list[Record] = []
    for number, (record, *_) in enumerate(BAD):
        records += [event("order", number), record._replace(headers=[("trace", b"t1"), ("none", None)])]
    e.send({0: records})
    e.run(spark)
    assert wrong_places(e) == {}
    dead_letters = e.rows(DEAD_LETTERS)
    for number, (row, (record, stage, reason, event_type)) in enumerate(zip(dead_letters, BAD, strict=True)):
        assert (row["_kafka"]["topic"], row["_kafka"]["partition"]) == (e.topic, 0)
        assert row["_kafka"]["offset"] == 2 * number + 1
        assert row["_kafka"]["timestamp"] == NOON
        assert (row["key"], row["value"]) == (record.key, record.value)
        assert row["headers"] == [{"key": "trace", "value": b"t1"}, {"key": "none", "value": None}]
        assert row["stage"].startswith(stage) and row["stage"], row
        assert reason in row["reason"] and row["reason"], row
        assert row["event_type"] == event_type or stage in ("", "size"), row
        assert row["day"] == NOON.date()
    assert e.offsets("order") == list(range(0, 2 * len(BAD), 2))


def test_records_of_ten_megabytes_pass_where_little_memory_is_allowed(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """Up to record_bytes_max to their table, longer ones whole to the dead letters, whatever the tasks may hold."""
    name = topic(config={"max.message.bytes": str(20 << 20)})
    scalars = {"memory_max_bytes": 16 << 20, "staged_bytes_max": 40 << 20}
    scalars["roll_bytes_max"] = 1 << 20
    e = Export(kafka, name, tmp_path, fresh_name("app"), scalars=scalars)
    notes = ["".join(random.Random(number).choices(ascii_letters, k=9_990_000)) for number in range(6)]
    good = [event("order", number, NOON - timedelta(days=number % 3), note=note) for number, note in enumerate(notes)]
    long = bad(good[0].value + b" " * 10_001)
    produce(kafka, name, {0: [*good[:3], long, *good[3:], event("click", 6)]})
    e.run(spark)
    assert wrong_places(e) == {}
    assert [row["note"] for row in e.rows("order")] == notes
    assert [row["value"] for row in e.rows(DEAD_LETTERS)] == [long.value]
    assert len(e.files("order")) > 3  # one per day if nothing were finished early


def test_a_range_of_only_bad_records_moves_every_position(exports: Exports, spark: Any) -> None:
    """The types' positions pass it by an empty marker: no row, no file, and it is never read again."""
    e = exports()
    e.send({0: [bad(b"broken")] * 40})
    e.run(spark)
    assert e.positions() == dict.fromkeys((DEAD_LETTERS, "click", "order", "payment"), (0, 39))
    assert [e.files(name) for name in ("click", "order", "payment")] == [set()] * 3
    assert len(e.rows(DEAD_LETTERS)) == 40
    assert e.run(spark).totals.records == 0


@EVERYWHERE_SELDOM
def test_an_idle_type_follows_by_markers_that_add_no_row_and_no_file(exports: Exports, spark: Any) -> None:
    """While the task runs: one type gets records, the others' positions follow within the heartbeat."""
    e = exports(heartbeat_secs=0.2, roll_age_max_secs=0.2)
    e.send({0: [event("click", 0)]})
    e.run(spark)
    with e.service(spark, until_caught_up=False) as service:
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            e.send({0: [event("order", number) for number in range(1, 30)]})
            everywhere = dict.fromkeys((DEAD_LETTERS, "click", "order", "payment"), (0, 29))
            wait_until(lambda: e.positions() == everywhere, 60, "all positions at 29")
        finally:
            service.stop()
            thread.join(60)
        assert not thread.is_alive()
    assert (len(e.rows("click")), len(e.rows("order"))) == (1, 29)
    assert e.files(DEAD_LETTERS) == e.files("payment") == set()


def test_an_empty_topic_is_caught_up_at_once(exports: Exports, spark: Any) -> None:
    """The tables exist and are anchored before offset 0; records that come later are exported from the first on."""
    e = exports(2)
    e.run(spark)
    assert set(e.positions(0).values()) == set(e.positions(1).values()) == {(0, -1)}
    e.send({1: mixed(20)})
    e.run(spark)
    assert wrong_places(e) == {}


def transactional(kafka: str, topic: str, batches: list[tuple[list[Record], bool]]) -> None:
    """Write batches to partition 0, each in a transaction that is committed (True) or aborted."""
    producer = ck.Producer({"bootstrap.servers": kafka, "transactional.id": fresh_name("tx"), "log_level": 3})
    producer.init_transactions(30)
    for records, commits in batches:
        producer.begin_transaction()
        for record in records:
            producer.produce(topic, record.value, record.key, 0, timestamp=record.timestamp_ms)
        producer.flush(30)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


@EVERYWHERE_SELDOM
def test_aborted_transactions_leave_no_row_and_positions_pass_their_markers(exports: Exports, spark: Any) -> None:
    """read_committed: holes, control records and an aborted end of the log are passed; every reader agrees."""
    e = exports()
    batches = [(mixed(30, first=at * 100), at % 2 == 0) for at in range(5)] + [(mixed(10, first=900), False)]
    transactional(e.kafka, e.topic, batches)
    e.run(spark)
    assert wrong_places(e) == {}
    end = 5 * 31 + 11
    assert e.positions() == dict.fromkeys((DEAD_LETTERS, "click", "order", "payment"), (0, end - 1))
    assert e.run(spark).totals.records == 0


def test_records_of_an_open_transaction_are_waited_for(exports: Exports, spark: Any) -> None:
    """The end is the last stable offset: nothing passes an open transaction, and its records are there afterwards.

    A run with an end says that it leaves them; they count as lag, so whoever waits until all is committed waits.
    """
    e = exports()
    e.send({0: mixed(10)})
    producer = ck.Producer({"bootstrap.servers": e.kafka, "transactional.id": fresh_name("tx"), "log_level": 3})
    producer.init_transactions(30)
    producer.begin_transaction()
    waiting = event("order", 10)
    producer.produce(e.topic, waiting.value, waiting.key, 0, timestamp=waiting.timestamp_ms)
    producer.flush(30)
    e.send({0: mixed(10, first=11)})
    with capture_logs() as logs:
        watch = e.run(spark)._watch
    assert set(e.positions().values()) == {(0, 9)}
    (said,) = [line for line in logs if line["event"] == "transaction_open"]
    assert (said["reads_to"], said["last_offset"]) == (9, 20)
    (seen,) = watch.snapshot.partitions
    assert (seen.end, seen.lag) == (21, 11)
    with e.bench(spark) as bench:
        told = table_status(bench, e.settings())
    assert behind(told, goals(told)) == 11
    producer.commit_transaction(30)
    e.run(spark)
    assert wrong_places(e) == {}
    assert len(e.placed()) == 21


def test_with_read_uncommitted_aborted_records_are_exported_too(exports: Exports, spark: Any) -> None:
    """The isolation setting decides, for planning and reading alike."""
    e = exports(isolation="read_uncommitted")
    transactional(e.kafka, e.topic, [(mixed(10), True), (mixed(10, first=10), False)])
    e.run(spark)
    assert wrong_places(e, "read_uncommitted") == {}
    assert len(e.placed()) == 20


def test_holes_of_a_compacted_topic_are_passed(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """What the cleaner took is not missed: offsets are compared, never counted."""
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
              "max.compaction.lag.ms": "100"}  # fmt: skip
    name = topic(config=config)
    e = Export(kafka, name, tmp_path, fresh_name("app"))
    produce(kafka, name, {0: [event("order", number) for number in range(50)] + [event("click", 50)]})
    later = NOON + timedelta(hours=1)
    produce(kafka, name, {0: [event("payment", 51, NOON, later)]})  # a new segment: the cleaner may take the old one

    def compacted() -> bool:
        return Counter(message.key() for message in messages(kafka, name))[b"order"] == 1

    wait_until(compacted, 60, "one order left by the cleaner")
    e.run(spark)
    assert wrong_places(e) == {}
    assert e.offsets("order") == [49]
    assert len(set(e.positions().values())) == 1


def test_deleted_records_that_were_exported_are_no_matter(exports: Exports, spark: Any) -> None:
    """Retention up to the position, also exactly to it, loses nothing."""
    e = exports()
    e.send({0: mixed(20)})
    e.run(spark)
    e.send({0: mixed(10, first=20)})
    delete_before(e, 20)
    e.run(spark)
    assert sorted(e.placed()) == [(0, offset) for offset in range(30)]


def test_latest_begins_at_the_end_and_misses_nothing_afterwards(exports: Exports, spark: Any) -> None:
    """Resolved once, for all partitions: what is written after the first start is exported from there on."""
    e = exports(2, first_position="latest")
    e.send({0: mixed(30)})
    e.run(spark)
    assert e.placed() == {}
    e.send({0: mixed(10, first=30), 1: mixed(10, first=50)})
    e.run(spark)
    assert sorted(e.placed()) == [(0, offset) for offset in range(30, 40)] + [(1, offset) for offset in range(10)]


def test_a_timestamp_begins_at_its_first_record(exports: Exports, spark: Any) -> None:
    """At or after the time, by Kafka's timestamps; a partition without such a record begins at its end."""
    e = exports(2, first_position=(NOON + timedelta(minutes=10)).isoformat())
    early = [event("order", number, NOON, NOON + timedelta(minutes=number)) for number in range(20)]
    e.send({0: early, 1: early[:5]})
    e.run(spark)
    e.send({1: [event("click", 99)]})
    e.run(spark)
    assert sorted(e.placed()) == [(0, offset) for offset in range(10, 20)] + [(1, 5)]


@EVERYWHERE_SELDOM
def test_unknown_fields_are_rescued_and_nothing_is_null_in_silence(exports: Exports, spark: Any) -> None:
    """A field without a column is in `_rescued` as it was sent; a column without a field is null."""
    e = exports()
    e.send({0: [event("order", 1, extra={"deep": [1, None]}), event("order", 2), bad(b"x")]})
    e.run(spark)
    first, second = e.rows("order")
    assert json.loads(first["_rescued"]) == {"extra": {"deep": [1, None]}}
    assert second["_rescued"] is None
    assert (str(first["amount"]), first["note"]) == ("1.25", "n1")


@EVERYWHERE_SELDOM
def test_the_row_of_a_poison_record_may_be_ahead_of_the_positions(exports: Exports, spark: Any) -> None:
    """It is committed before any position reaches it (protocol 3.7): the next start takes that for no accident."""
    e = exports(roll_age_max_secs=0.2, heartbeat_secs=0.2)
    e.send({0: mixed(9)})
    e.run(spark)
    with e.going(spark), e.bench(spark) as bench:
        e.send({0: mixed(1, first=9)})
        wait_until(lambda: set(e.positions().values()) == {(0, 9)}, 60, "all positions at 9")
        ahead, dead_letters = TopicPartition(e.topic, 0), bench.lake.table(DEAD_LETTERS)
        app_id = str(AppId(e.app, ahead, 0, "condemned"))
        path = str(DataFile(partition_of(NOON.date()), e.app, ahead, 0, 14, "row"))
        row = StagedFile(path, OffsetRange(14, 14), 1, 1)
        dead_letters.store.write_once(row.path, b"r")  # what a commit names is synced, so it has to be there
        said = {"commit_id": "c", "action": "condemn", "app": e.app, "checked_through": dead_letters.view().version}
        dead_letters.commit(Change((app_id,), {app_id: 14}, said, (add_action(row, {}),)), lambda view: None)
        e.send({0: mixed(3, first=10)})
        wait_until(lambda: set(e.positions().values()) == {(0, 12)}, 60, "all positions at 12")
    e.run(spark)
    assert set(e.positions().values()) == {(0, 12)}


def test_an_outage_makes_no_good_record_poison(exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that fail while not even a raw read works say nothing about the record: afterwards it is exported."""
    e = exports()
    e.send({0: [event("order", 0)]})
    silent = [RoundFailed("the broker is silent")] * (SINGLE_FAILURES_MAX + 1)
    real = RoundReader.read
    monkeypatch.setattr("exporter.rounds.rounds.PAUSE", Backoff(0.1, 0.1))

    def read(self: RoundReader, order: Any) -> Any:
        if silent:
            raise silent.pop()
        return real(self, order)

    monkeypatch.setattr(RoundReader, "read", read)
    e.run(spark)
    assert not silent
    assert e.placed() == {(0, 0): ["order"]}


@EVERYWHERE_SELDOM
@pytest.mark.parametrize(
    ("partitions", "round_records_max", "carried"),
    [(2, 1_000, False), (2, 40, True), (1, 1_000, True)],
    ids=["all at once", "in several rounds", "in slices"],
)
def test_only_what_may_be_joined_before_its_commit_is_carried(
    partitions: int,
    round_records_max: int,
    carried: bool,
    exports: Exports,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The small files of a run's only round are written by its tasks; no other small file is, to be read again."""
    e = exports(partitions, round_records_max=round_records_max)
    e.send({at: mixed(80, first=1_000 * at) for at in range(partitions)})
    monkeypatch.setattr("exporter.core.slices.SLICE_RECORDS_MIN", 10)
    joined: list[bool] = []

    def merge(origin: Any, files: Iterable[StagedFile], room: Any) -> StagedFile:
        files = list(files)
        joined.append(all(file.body for file in files))
        return real(origin, files, room)

    real = ready.merge
    monkeypatch.setattr(ready, "merge", merge)
    e.run(spark)
    assert bool(joined) == carried and all(joined)
    assert wrong_places(e) == {}


def test_a_run_without_an_end_carries(exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what comes before the next commit."""
    e = exports(2)
    e.send({at: mixed(80, first=1_000 * at) for at in range(2)})
    orders: list[StagingOrder] = []
    real = RoundReader.read

    def read(self: RoundReader, order: StagingOrder) -> Any:
        orders.append(order)
        return real(self, order)

    monkeypatch.setattr(RoundReader, "read", read)
    with e.going(spark) as task:
        wait_until(lambda: task.service.totals.records == 160, 60, "all records")
    assert orders and not any(order.committed_next for order in orders)
    assert wrong_places(e) == {}


@EVERYWHERE_SELDOM
@pytest.mark.parametrize("fails", [False, True], ids=["all end well", "one fails while another waits behind it"])
def test_two_rounds_at_once_keep_every_record(
    fails: bool, exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While much is left a round waits behind another; what was planned behind one that failed is read again."""
    e = exports(2, round_records_max=200)
    e.send({0: mixed(900), 1: mixed(900, first=1000)})
    real, lock, two = RoundReader.read, threading.Lock(), threading.Event()
    starts: list[tuple[TopicPartition, int]] = []
    rounds = at_once = 0

    def read(self: RoundReader, order: Any) -> Any:
        nonlocal rounds, at_once
        with lock:
            starts.extend((tp, plan.start) for tp, plan in order.plans.items())
            rounds, at_once = rounds + 1, at_once + 1
            number = rounds
            if at_once == 2:
                two.set()
        try:
            if number == 2:  # the size of records is known by then
                assert two.wait(30)
                if fails:
                    raise RoundFailed("as ordered")
            return real(self, order)
        finally:
            with lock:
                at_once -= 1

    monkeypatch.setattr(RoundReader, "read", read)
    monkeypatch.setattr(RoundReader, "begun", lambda self: True)
    monkeypatch.setattr("exporter.rounds.rounds.PAUSE", Backoff(0.1, 0.1))
    service = e.run(spark)
    assert two.is_set()
    assert service.totals.rounds_failed == fails
    assert (len(set(starts)) < len(starts)) == fails, starts
    assert wrong_places(e) == {}


@EVERYWHERE_SELDOM
def test_a_record_that_kills_its_task_becomes_one_dead_letter_and_stops_nobody(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protocol 3.7: found by bisection, committed before any position passes it, skipped by every later task."""
    e = exports(2)
    e.send({0: [*mixed(5), event("order", 5, boom=1), *mixed(5, first=6)], 1: mixed(8, first=20)})

    deadly(monkeypatch)
    e.run(spark)
    placed = e.placed()
    assert placed[(0, 5)] == ["dead_letters"]
    assert len(placed) == 19 and all(len(tables) == 1 for tables in placed.values())
    (row,) = e.rows("dead_letters")
    assert (row["stage"], row["_kafka"]["offset"]) == ("condemned", 5)
    monkeypatch.undo()
    e.send({0: mixed(5, first=40)})
    e.run(spark)
    assert len(e.placed()) == 24 and e.placed()[(0, 5)] == ["dead_letters"]


@EVERYWHERE_SELDOM
@pytest.mark.parametrize(("kind", "left"), [
    pytest.param("order", [DEAD_LETTERS], id="of the table behind"),
    seldom("click", ["click"], id="of a table that has it"),
    seldom("both", ["click", DEAD_LETTERS], id="of both"),
])  # fmt: skip
def test_a_record_that_kills_its_task_after_the_dead_letters_have_passed_it_is_once_in_the_lake(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch, kind: str, left: list[str]
) -> None:
    """One table is behind all others: its record becomes a dead letter, that of another table stays there alone.

    Of a record of both the dead letter stands for the one that lacks it.
    """
    e = exports()
    if kind == "both":
        e = replace(e, cuts={name: f'match = "{name}|both"' for name in ("click", "order")})
    e.send({0: mixed(10)})
    e.run(spark)
    boom = event(kind, 99, boom=1)
    e.send({0: [*mixed(5, first=10), boom, *mixed(5, first=16)]})
    real = DeltaCommitter.commit

    def commit(self: DeltaCommitter, event_type: str, claims: Any) -> Any:
        if event_type == "order":
            raise Crash(event_type)
        return real(self, event_type, claims)

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(DeltaCommitter, "commit", commit)
        with e.going(spark) as task:
            behind = {**dict.fromkeys(("click", "payment", DEAD_LETTERS), (0, 20)), "order": (0, 9)}
            wait_until(lambda: task.error or e.positions() == behind, 60, "all but one table committed")
            wait_until(lambda: task.error, 60, "the end")
    deadly(monkeypatch)
    e.run(spark)
    placed = e.placed()
    assert sorted(placed.pop((0, 15))) == left
    assert len(placed) == 20 and all(len(tables) == 1 for tables in placed.values())
    assert set(e.positions().values()) == {(0, 20)}


@pytest.mark.parametrize(("wakes", "left"), [
    pytest.param(True, ["order"], id="and commits"), seldom(False, [DEAD_LETTERS], id="and commits too late"),
])  # fmt: skip
def test_a_record_that_another_task_has_staged_when_it_ends_its_task_is_once_in_the_lake(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch, wakes: bool, left: list[str]
) -> None:
    """Protocol 3.7: one sleeps with the record staged, the next one gives it up. Its table tells which came first."""
    e = exports()
    e.send({0: mixed(10)})
    e.run(spark)
    asleep, wake, awake = threading.Event(), threading.Event(), threading.Event()
    real_commit, real_spare = DeltaCommitter.commit, Poison.spare

    def commit(self: DeltaCommitter, event_type: str, claims: Any) -> Any:
        if event_type != "order" or asleep.is_set():
            return real_commit(self, event_type, claims)
        asleep.set()
        assert wake.wait(400)
        try:
            return real_commit(self, event_type, claims)
        finally:
            awake.set()

    def spare(self: Poison, rounds: Any, poisoned: Any) -> bool:
        done = real_spare(self, rounds, poisoned)
        if done and wakes:
            wake.set()
            assert awake.wait(200)
        return done

    monkeypatch.setattr(DeltaCommitter, "commit", commit)
    monkeypatch.setattr(Poison, "spare", spare)
    e.send({0: [event("order", 10, boom=1), *mixed(9, first=11)]})
    with suppress(Fenced), e.going(spark):
        assert asleep.wait(200)
        deadly(monkeypatch)
        replace(e, scalars={**e.scalars, "group": "another"}).run(spark)
        wake.set()
        assert awake.wait(200)
    placed = e.placed()
    assert placed.pop((0, 10)) == left
    assert len(placed) == 19 and all(len(tables) == 1 for tables in placed.values())
    e.proven(spark)
