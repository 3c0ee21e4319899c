"""One task of a round, without Spark: what is skipped, where rows go, what the manifest says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.arrow.own_columns import HEADERS_TYPE
from exporter.core.manifest import MICROS, REASON, STEPS, TYPES_OVER_MAX
from exporter.core.order import StagingBudget, TableTarget
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.writers import Parked, PartitionPlan
from exporter.executor import stage as stage_module
from exporter.executor.stage import stage
from exporter.rounds.told import round_result
from exporter.stores.memory import DISKS, Disk, MemoryStore
from exporter.stores.stores import STORES
from offsets.names import DataFile, table_folder
from offsets.ranges import TopicPartition
from tests.support.days import partition_of
from tests.support.orders import order_of

TP = TopicPartition("topic.with.dots", 3)
KAFKA_TIME_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
)
ROUTING = Routing(
    TypeFrom("json", "type"), EventTime("json", "ts"), (("a", SCHEMA), ("b", SCHEMA)), event_time_ahead_max_secs=86_400
)


def record(name: str, n: object, ts: str = "2025-12-31T12:00:00Z") -> bytes:
    return json.dumps({"type": name, "n": n, "ts": ts}).encode()


RAW = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
    ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("timestampType", pa.int32()),
    ("headers", HEADERS_TYPE),
])  # fmt: skip
"""Records as Spark's Kafka source gives them."""


def batch(
    values: Iterable[bytes | None], first: int = 0, step: int = 1, topic: str = TP.topic, **other: Sequence[Any]
) -> pa.RecordBatch:
    """RAW, at offsets first, first + step, ... other: what columns hold instead."""
    values = list(values)
    count = len(values)
    told: dict[str, Sequence[Any]] = {
        "key": [b"k"] * count, "value": values, "topic": [topic] * count, "partition": [TP.partition] * count,
        "offset": range(first, first + step * count, step), "timestamp": [KAFKA_TIME_US] * count,
        "timestampType": [0] * count, "headers": [None] * count,
    }  # fmt: skip
    return pa.RecordBatch.from_pydict({**told, **other}, schema=RAW)


def run(
    root: Path,
    batches: Iterable[pa.RecordBatch],
    bounds: dict[str, int],
    poison: frozenset[int] = frozenset(),
    routing: Routing = ROUTING,
    **given: Any,
):
    """Stage the batches; event type -> offsets per file, and the counts. given: more of the plan or the order."""
    unlisted = tuple(name for name in ALL if name not in bounds)
    of_plan = {field.name for field in fields(PartitionPlan)}
    ours = {name: given.pop(name) for name in [*given] if name not in of_plan}
    plan = PartitionPlan(TP, 1, 2, **{"start": 0, "end": 10_000, "bounds": bounds, "unlisted": unlisted, **given})
    order = order_of(root, routing, {TP: plan}, **{
        "footers": {TP: {"routing": "r"}}, "poison_offsets": {TP: poison}, **ours})  # fmt: skip
    (manifest,) = stage(order, iter(batches))
    files: dict[str, list[list[int]]] = {}
    counts: dict[str, int] = {}
    for row in manifest.to_pylist():
        if row["counts"] is not None:
            counts |= json.loads(row["counts"])
            continue
        path = root / table_folder(row["event_type"]) / row["path"]
        assert path.exists() == (row["body"] is None)
        table = pa.ipc.open_stream(row["body"]).read_all() if row["body"] else pq.read_table(path, partitioning=None)
        offsets = [kafka["offset"] for kafka in table.column("_kafka").to_pylist()]
        assert (row["first_offset"], row["last_offset"], row["rows"]) == (offsets[0], offsets[-1], len(offsets))
        files.setdefault(row["event_type"], []).append(offsets)
    return files, counts


ALL = {DEAD_LETTERS: -1, "a": -1, "b": -1}
OPEN = replace(ROUTING, new_type="table")
"""Undeclared types have tables."""


def test_each_record_goes_to_exactly_one_file(tmp_path):
    """Good rows to their type's table, bad and unknown ones to the dead letters, nothing twice."""
    values = [record("a", 1), record("b", 2), record("c", 3), record("a", "no number"), None, record("b", 4)]
    files, counts = run(tmp_path, [batch(values)], ALL)
    assert files == {"a": [[0]], "b": [[1, 5]], DEAD_LETTERS: [[2, 3, 4]]}
    assert counts["records"] == 6


@pytest.mark.parametrize(("json_text", "held"), [("as_sent", '{"x": [1.0]}'), ("canonical", '{"x":[1.0]}')])
def test_a_file_holds_texts_of_json_as_ordered_and_no_marks(tmp_path, json_text, held):
    """The metadata that readers of values go by are the table's; a file has none of them."""
    marks = {"exporter.json": ".", "exporter.evolved": "t/0/1"}
    fields = [{"name": "n", "type": "string", "nullable": True, "metadata": marks}]
    columns = json.dumps({"type": "struct", "fields": fields})
    tables = {"a": TableTarget(decoded=columns)}
    run(tmp_path, [batch([record("a", {"x": [1.0]})])], ALL, tables=tables, json_text=json_text)
    (path,) = tmp_path.rglob("*.parquet")
    table = pq.read_table(path, partitioning=None)
    assert table["n"].to_pylist() == [held] and table["_rescued"].to_pylist() == [None]
    assert b"exporter.json" not in path.read_bytes() and b"exporter.evolved" not in path.read_bytes()


def test_records_at_or_below_their_bound_are_skipped(tmp_path):
    """A type that is ahead gets nothing twice; one that is behind gets all it lacks (FLOOR)."""
    values = [record("a", i) if i % 2 else record("b", i) for i in range(8)]
    files, _ = run(tmp_path, [batch(values)], {DEAD_LETTERS: 3, "a": 4, "b": -1})
    assert files == {"a": [[5, 7]], "b": [[0, 2, 4, 6]]}


def test_a_type_that_the_plan_does_not_list_gets_nothing_but_its_bad_records_are_kept(tmp_path):
    """A parked type's good rows wait; a bad record of it still belongs to the dead letters' range."""
    values = [record("a", 1), record("a", "bad"), record("b", 2)]
    files, _ = run(tmp_path, [batch(values)], {DEAD_LETTERS: -1, "b": -1})
    assert files == {"b": [[2]], DEAD_LETTERS: [[1]]}


def test_a_catch_up_of_one_type_leaves_the_dead_letters_alone(tmp_path):
    """Bad records of a range that the dead letters have covered are not written again (ONCE)."""
    files, _ = run(tmp_path, [batch([record("a", 1), record("a", "bad"), record("b", 2)])], {"a": -1})
    assert files == {"a": [[0]]}


def test_a_bad_record_below_its_types_bound_but_above_the_dead_letters_is_not_lost(tmp_path):
    """Where a record goes is decided before it is skipped: the bound is that of its destination."""
    values = [record("a", 1), record("a", "bad"), record("a", 3)]
    files, _ = run(tmp_path, [batch(values)], {DEAD_LETTERS: -1, "a": 9, "b": 9})
    assert files == {DEAD_LETTERS: [[1]]}


@pytest.mark.parametrize("careful", [False, True], ids=["as Spark gives it", "as Kafka has it"])
def test_a_kafka_timestamp_that_no_table_holds_makes_a_dead_letter_with_its_value(tmp_path, careful):
    """Beyond year 9999 or before year 1: null in `_kafka`, the day fixed, the neighbours staged; -1 is a time."""
    least, most = -62_135_596_800_000, 253_402_300_799_999
    millis = [KAFKA_TIME_US // 1000, 1_700_000_000_000_000, most + 1, most, -1, least - 1, least, 2**62]
    sent = batch([record("a", i) for i in range(7)] + [b"no json"])
    if careful:
        times = [ms * 1000 if least <= ms <= most else None for ms in millis]
        sent = sent.append_column("kafka_ms", pa.array(millis, pa.int64()))
    else:
        times = [ms * 1000 for ms in millis[:-1]] + [None]
        sent, times = sent.slice(0, 7), times[:-1]
    at = sent.schema.names.index("timestamp")
    sent = sent.set_column(at, "timestamp", pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")))
    ahead = replace(ROUTING, event_time_ahead_max_secs=10**12, event_time_min_us=-(2**60))
    files, counts = run(tmp_path, [sent], ALL, routing=ahead)
    assert files[DEAD_LETTERS] == [[1, 2, 5, 7][: 4 if careful else 3]]
    assert sorted(offset for file in files["a"] for offset in file) == [0, 3, 4, 6]
    (path,) = tmp_path.glob(f"{DEAD_LETTERS}/*/*.parquet")
    assert path.parent.name == "day=1970-01-01"
    rows = pq.read_table(path, partitioning=None).to_pylist()
    assert all(row["_kafka"]["timestamp"] is None and row["value"] and row["stage"] == "route" for row in rows)
    assert [row["reason"] for row in rows] == [
        f"kafka_timestamp_out_of_range: {millis[row['_kafka']['offset']]} ms since 1970" for row in rows
    ]
    assert [row["event_type"] for row in rows] == ["a", "a", "a", None][: len(rows)]
    assert counts["dead_letters"] == len(rows)


def test_keys_and_headers_count_among_the_bytes_of_a_round(tmp_path):
    """The size of the next round follows from them (round_bytes_max), be the values large or not."""
    kind = HEADERS_TYPE
    heads = [None, [], [("n" * 20, b"v" * 30)], [("n" * 3, None), ("m" * 7, b"v" * 100)]]
    pairs = [None if one is None else [{"key": k, "value": v} for k, v in one] for one in heads]
    sent = batch([None, b"x" * 1_000, b"", None])
    names = sent.schema.names
    sent = sent.set_column(names.index("key"), "key", pa.array([b"k" * 500, None, b"", b"k"], pa.binary()))
    sent = sent.set_column(names.index("headers"), "headers", pa.array(pairs, kind))
    _, counts = run(tmp_path, [sent], ALL)
    assert counts["bytes"] == 500 + 1_000 + (20 + 30) + (1 + 3 + 7 + 100)


def test_poison_records_are_skipped_for_all_types(tmp_path):
    """A record that killed a task before is never decoded again (protocol 3.7)."""
    files, _ = run(tmp_path, [batch([record("a", i) for i in range(4)])], ALL, frozenset({1, 2}))
    assert files == {"a": [[0, 3]]}


def test_erased_records_are_left_out_for_all_types(tmp_path):
    """Good ones and bad ones; neither is counted as read (ERASED, protocol 4.16)."""
    values = [record("a", 0), record("b", 1), record("a", "bad"), record("a", 3), b"no json"]
    files, counts = run(tmp_path, [batch(values)], ALL, frozenset({3}), erased={TP: frozenset({1, 2, 4})})
    assert files == {"a": [[0]]} and counts["records"] == 1


def test_a_batch_of_nothing_but_poison_records_passes(tmp_path):
    """The range is covered although nothing of it is staged."""
    files, counts = run(tmp_path, [batch([record("a", 0)])], ALL, frozenset({0}))
    assert files == {} and all(name.startswith(MICROS) for name in counts)


def test_a_type_that_was_unknown_to_the_plan_is_staged_whole_from_the_plans_start(tmp_path):
    """Protocol 3.1: its rows hold everything as sent; the bounds of the others are not its own."""
    values = [record("new", {"x": [1.50, None]}), record("a", 1), record("new", 2, ts="never")]
    files, _ = run(tmp_path, [batch(values, first=7)], {**ALL, "a": 99}, routing=OPEN, start=7, new_types_max=1)
    assert files == {"new": [[7]], DEAD_LETTERS: [[9]]}
    (path,) = tmp_path.glob("new/day=*/*.parquet")
    (row,) = pq.read_table(path, partitioning=None).to_pylist()
    assert set(row) == {"_kafka", "_event_time", "_rescued"}
    assert json.loads(row["_rescued"]) == json.loads(values[0])


@pytest.mark.parametrize("plan", [{"unlisted": ("new",)}, {"parked": Parked("x", 0.0)}], ids=["parked", "catch-up"])
def test_a_new_type_that_is_known_but_not_listed_gets_nothing(tmp_path, plan):
    """A parked type waits for its own catch-up, and the catch-up of one type is for that type alone."""
    values = [record("new", 1), record("a", 1)]
    files, _ = run(tmp_path, [batch(values)], {"a": -1}, routing=OPEN, new_types_max=9, **plan)
    assert files == {"a": [[1]]}


def test_a_task_stages_no_more_new_types_than_there_may_be(tmp_path):
    """What is over is counted for the driver, which stops; types with a table are not counted."""
    values = [record(name, 1) for name in ("n1", "n2", "known", "n1", "n3", "n2")]
    files, counts = run(
        tmp_path, [batch(values)], ALL, routing=OPEN, new_types_max=2, tables={"known": TableTarget("f")}
    )
    assert files == {"n1": [[0, 3]], "n2": [[1, 5]], "known": [[2]]}
    assert counts[TYPES_OVER_MAX] == 1


def test_rows_of_one_type_are_split_by_utc_day(tmp_path):
    """Interleaved days give one file a day, never one a change of day (traps 28)."""
    days = ["2025-12-30T23:59:59.999999Z", "2025-12-31T00:00:00Z"]
    values = [record("a", i, days[i % 2]) for i in range(6)]
    plan = PartitionPlan(TP, 1, 0, 0, 6, ALL)
    order = order_of(tmp_path, ROUTING, {TP: plan})
    (manifest,) = stage(order, iter([batch(values)]))
    names = [DataFile.parse(row["path"]) for row in manifest.to_pylist() if row["path"]]
    assert sorted((name.partition, name.last_offset) for name in names) == [
        (partition_of(date(2025, 12, 30)), 4),
        (partition_of(date(2025, 12, 31)), 5),
    ]


def test_one_partition_number_of_two_topics_in_one_batch_is_two_partitions(tmp_path):
    """Each record keeps its own coordinates; files, names and footers are per topic."""
    other = TopicPartition("other", TP.partition)
    plans = {tp: PartitionPlan(tp, 1, 0, 0, 9, ALL) for tp in (TP, other)}
    footers = {TP: {"topic_id": "t"}, other: {"topic_id": "o"}}
    order = order_of(tmp_path, ROUTING, plans, {}, footers)
    ours, theirs = batch([record("a", 1), record("a", 2)]), batch([record("a", 3)], topic="other")
    (both,) = pa.Table.from_batches([ours, theirs]).combine_chunks().to_batches()
    (manifest,) = stage(order, iter([both]))
    found = {}
    for row in manifest.to_pylist():
        if row["path"]:
            path = tmp_path / "a" / row["path"]
            kafka = pq.read_table(path, partitioning=None).column("_kafka").to_pylist()
            topics = {DataFile.parse(row["path"]).tp.topic, *(place["topic"] for place in kafka)}
            found[row["topic"]] = (topics, row["rows"], pq.read_metadata(path).metadata[b"topic_id"])
    assert found == {TP.topic: ({TP.topic}, 2, b"t"), "other": ({"other"}, 1, b"o")}


def test_partitions_that_share_a_task_have_a_file_each(tmp_path):
    """They come one after the other, also within a batch; offsets of two partitions never share a file (NAMES)."""
    other = TP._replace(partition=TP.partition + 1)
    plans = {tp: PartitionPlan(tp, 1, 2, 0, 10, ALL) for tp in (TP, other)}
    order = order_of(tmp_path, ROUTING, plans)

    def of(tp: TopicPartition, first: int, count: int) -> pa.RecordBatch:
        made = batch([record("a", at) for at in range(count)], first=first)
        at = made.schema.get_field_index("partition")
        return made.set_column(at, "partition", pa.repeat(pa.scalar(tp.partition, pa.int32()), count))

    mixed = pa.concat_batches([of(TP, 3, 1), of(other, 0, 2)])
    (manifest,) = stage(order, iter([of(TP, 0, 3), mixed, of(other, 2, 1)]))
    files = [row for row in manifest.to_pylist() if row["path"]]
    assert [(row["partition"], row["first_offset"], row["last_offset"], row["rows"]) for row in files] == [
        (TP.partition, 0, 3, 4), (other.partition, 0, 2, 3),
    ]  # fmt: skip


def test_offsets_with_holes_are_compared_not_counted(tmp_path):
    """Compacted and transactional topics have holes (traps 6)."""
    files, _ = run(tmp_path, [batch([record("a", i) for i in range(4)], first=5, step=10)], {**ALL, "a": 15})
    assert files == {"a": [[25, 35]]}


@pytest.mark.parametrize("room", [StagingBudget(0, 100), StagingBudget(1 << 30, 0)], ids=["bytes", "files"])
def test_limits_split_files_but_lose_nothing(tmp_path, monkeypatch, room):
    """With too many bytes or files open the largest file is finished early; its ranges stay disjoint (NAMES)."""
    monkeypatch.setattr(stage_module, "SPLIT_BYTES", 1)
    batches = [batch([record("a", i) for i in range(10)], first=10 * part) for part in range(3)]
    files, _ = run(tmp_path, batches, ALL, room=room)
    assert files == {"a": [list(range(0, 10)), list(range(10, 20)), list(range(20, 30))]}


def test_of_too_many_open_files_the_largest_is_finished(tmp_path, monkeypatch):
    """The one that had the most rows begins anew; the small ones go on growing."""
    monkeypatch.setattr(stage_module, "SPLIT_BYTES", 1)
    batches = [
        batch([record("a", i) for i in range(9)]),
        batch([record("b", 9)], first=9),
        batch([record("a", 10), record("b", 11)], first=10),
    ]
    files, _ = run(tmp_path, batches, ALL, room=StagingBudget(files=1))
    assert files == {"a": [list(range(9)), [10]], "b": [[9, 11]]}


@pytest.mark.parametrize("bytes_max", [1, 1_500, 1 << 20])
def test_small_files_are_carried_as_long_as_there_is_room(tmp_path, bytes_max):
    """Each record is in exactly one file or in rows that the manifest brings, never in both."""
    values = [record("ab"[i % 2], i) for i in range(40)] + [None]
    files, _ = run(tmp_path, [batch(values)], ALL, carried_bytes=bytes_max)
    assert files == {"a": [list(range(0, 40, 2))], "b": [list(range(1, 40, 2))], DEAD_LETTERS: [[40]]}
    written = len(list(tmp_path.rglob("*.parquet")))
    assert written == {1: 3, 1 << 20: 0}.get(bytes_max, written) and (bytes_max != 1_500 or 0 < written < 3)


def test_a_task_tells_how_long_it_was_at_each_step(tmp_path):
    """Once per step, whatever the number of partitions and types; together no longer than it ran."""
    started = perf_counter()
    _, counts = run(tmp_path, [batch([record("a", 1), record("b", 2)])], ALL)
    micros = {name: number for name, number in counts.items() if name.startswith(MICROS)}
    assert micros.keys() == {MICROS + step for step in STEPS}
    assert micros[MICROS + "decode"] > 0 and sum(micros.values()) <= (perf_counter() - started) * 1e6


def test_every_row_carries_its_coordinates(tmp_path):
    """`_kafka` holds topic, partition, epoch, offset and the Kafka timestamp; the footer repeats the range."""
    run(tmp_path, [batch([record("a", 7)], first=42)], ALL)
    (path,) = (tmp_path / "a").rglob("*.parquet")
    table = pq.read_table(path, partitioning=None)
    (kafka,) = table.column("_kafka").to_pylist()
    assert (kafka["topic"], kafka["partition"], kafka["epoch"], kafka["offset"]) == (TP.topic, 3, 2, 42)
    assert kafka["timestamp"].isoformat() == "2026-01-01T00:00:00+00:00"
    footer = pq.read_metadata(path).metadata
    assert (footer[b"first_offset"], footer[b"last_offset"], footer[b"event_type"]) == (b"42", b"42", b"a")
    assert table.column_names == ["_kafka", "_event_time", "n", "_rescued"]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (EventTime("json", "ts"), "2025-12-31T12:00:00.123456+00:00"),
        (EventTime("json", "ms", "ms"), "2025-12-31T12:00:00.250000+00:00"),
        (EventTime("record"), "2026-01-01T00:00:00+00:00"),
    ],
)
def test_every_row_keeps_its_event_time(tmp_path, source, wanted):
    """Whatever it comes from, in a column of its own behind the coordinates; also where some rows are skipped."""
    values = [record("a", n, "2025-12-31T13:00:00.1234567+01:00") for n in range(3)]
    values = [value.replace(b"{", b'{"ms": 1767182400250, ', 1) for value in values]
    run(tmp_path, [batch(values)], {**ALL, "a": 0}, routing=replace(ROUTING, event_time=source))
    (path,) = (tmp_path / "a").rglob("*.parquet")
    times = pq.read_table(path, partitioning=None).column("_event_time")
    assert [time.isoformat() for time in times.to_pylist()] == [wanted] * 2
    assert path.parent.name == f"day={wanted[:10]}"


OWN_COLUMN = json.dumps({"type": "struct", "fields": [{"name": "_event_time", "type": "string", "nullable": True,
                                                       "metadata": {}}]})  # fmt: skip


@pytest.mark.parametrize("declared", [True, False], ids=["recorded", "in the table only"])
def test_a_column_of_the_same_name_from_before_stays_what_it_was(tmp_path, declared):
    """A configuration of an earlier version that declares it is drained as it says; a table that has it keeps it."""
    schemas = (("a", OWN_COLUMN),) if declared else ROUTING.types
    order = {} if declared else {"tables": {"a": TableTarget(has_event_time=False)}}
    value = json.dumps({"type": "a", "n": 1, "ts": "2025-12-31T12:00:00Z", "_event_time": "noon"}).encode()
    files, _ = run(tmp_path, [batch([value])], ALL, routing=replace(ROUTING, types=schemas), **order)
    assert files == {"a": [[0]]}
    (path,) = (tmp_path / "a").rglob("*.parquet")
    (row,) = pq.read_table(path, partitioning=None).to_pylist()
    assert row.get("_event_time") == ("noon" if declared else None)
    assert path.parent.name == "day=2025-12-31"


def test_a_dead_letter_keeps_the_whole_record(tmp_path):
    """Key, value, type, stage and reason, as the table's columns say."""
    run(tmp_path, [batch([record("a", "bad")])], ALL)
    (path,) = (tmp_path / DEAD_LETTERS).rglob("*.parquet")
    (row,) = pq.read_table(path, partitioning=None).to_pylist()
    assert (row["key"], row["value"], row["event_type"]) == (b"k", record("a", "bad"), "a")
    assert row["reason"].startswith("type_mismatch:") and row["stage"]


@pytest.mark.parametrize("values", [[], [record("b", 1)]])
def test_a_range_without_rows_gives_a_manifest_without_files(tmp_path, values):
    """Such a range is covered all the same; the plan tells how far."""
    files, _ = run(tmp_path, [batch(values)], {"a": -1})
    assert files == {}


def test_a_file_that_cannot_be_written_is_its_type_s_trouble_alone(tmp_path):
    """The task ends well, tells which type it was and why, and has written the others; two slices count together."""
    (tmp_path / "a").write_text("no folder")
    plan = PartitionPlan(TP, 1, 2, 0, 10_000, ALL)
    order = order_of(tmp_path, ROUTING, {TP: plan})
    (manifest,) = stage(order, iter([batch([record("a", 1), record("b", 2), None])]))
    rows = manifest.to_pylist()
    assert {row["event_type"] for row in rows if row["path"]} == {"b", DEAD_LETTERS}
    (told,) = [row for row in rows if row["unwritten"]]
    assert (told["event_type"], told["topic"], told["partition"]) == ("a", TP.topic, TP.partition)
    assert "cannot be written" in told["unwritten"]
    (tmp_path / "a").unlink()
    (other,) = stage(order, iter([batch([record("a", 3)], first=3)]))
    result = round_result(order, [*rows, *other.to_pylist()])
    assert result.fragments[0].files.keys() == {"b", DEAD_LETTERS}, "what else was written of a is not used"
    assert result.fragments[0].unwritten == result.unwritten == {"a": told["unwritten"]}


@pytest.mark.parametrize("sync", [True, False])
def test_a_task_on_another_machine_brings_its_files_to_disk_itself(tmp_path, monkeypatch, sync):
    """The driver could not, as the pages are elsewhere; a file that fails is its type's trouble, and is not listed."""
    asked: list[str] = []

    def synced(path: Path) -> None:
        asked.append(path.relative_to(tmp_path).parts[0])
        if asked[-1] == "b":
            raise OSError("Input/output error")

    monkeypatch.setattr("exporter.stores.kept.sync", synced)
    plan = PartitionPlan(TP, 1, 2, 0, 10_000, ALL)
    order = order_of(tmp_path, ROUTING, {TP: plan}, sync=sync)
    (manifest,) = stage(order, iter([batch([record("a", 1), record("b", 2), None])]))
    rows = manifest.to_pylist()
    assert sorted(asked) == (["a", "b", DEAD_LETTERS] if sync else [])
    assert {row["event_type"] for row in rows if row["path"]} == {"a", DEAD_LETTERS} | (set() if sync else {"b"})
    assert [row["event_type"] for row in rows if row["unwritten"]] == (["b"] if sync else [])


SMALL_GROUPS = {"SPLIT_BYTES": 1, "GROUP_BYTES_MAX": 1}


@pytest.mark.parametrize(
    ("kind", "step", "sizes", "given"),
    [
        ("Unsplit", "split", {}, {}),
        ("Unsplit", "split", {"SPLIT_BYTES": 1}, {}),
        ("GrowingFile", "encode", SMALL_GROUPS, {}),
        ("GrowingFile", "encode", {"SPLIT_BYTES": 1}, {"room": StagingBudget(1)}),
        ("GrowingFile", "finish", {}, {}),
        ("GrowingFile", "finish", {"SPLIT_BYTES": 1}, {"room": StagingBudget(files=0)}),
        ("GrowingFile", "carried", {}, {"carried_bytes": 1 << 20}),
    ],
)
def test_whatever_a_type_s_files_end_in_is_its_trouble_alone(tmp_path, monkeypatch, kind, step, sizes, given):
    """What its rows hold, or a fault of ours: the task ends well, the others are staged whole, nothing of it is."""
    real = getattr(getattr(stage_module, kind), step)

    def fails(self, *args: Any) -> Any:
        rows = self._tables if kind == "Unsplit" else self._pending
        if rows and "n" in rows[0].column_names and rows[0].column("n")[0].as_py() == 1:
            raise OverflowError("date value out of range")
        return real(self, *args)

    monkeypatch.setattr(getattr(stage_module, kind), step, fails)
    for name, size in sizes.items():
        monkeypatch.setattr(stage_module, name, size)
    plan = PartitionPlan(TP, 1, 2, 0, 10_000, ALL)
    order = order_of(tmp_path, ROUTING, {TP: plan}, **given)
    batches = [batch([record("a", 1), record("b", 2), None], first=10 * at) for at in range(3)]
    (manifest,) = stage(order, iter(batches))
    result = round_result(order, manifest.to_pylist())
    assert result.unwritten == {"a": "a file cannot be written: OverflowError: date value out of range"}
    staged = {name: sum(file.rows for file in files) for name, files in result.fragments[0].files.items()}
    assert staged == {"b": 3, DEAD_LETTERS: 3}


def test_a_task_that_has_no_memory_left_does_not_blame_a_type(tmp_path, monkeypatch):
    """The round fails and is tried in smaller pieces."""
    monkeypatch.setattr(stage_module.GrowingFile, "encode", lambda self: bytearray(1 << 62))
    with pytest.raises(MemoryError):
        run(tmp_path, [batch([record("a", 1)])], ALL)


def test_a_time_that_no_calendar_of_python_has_is_a_dead_letter_and_the_others_land(tmp_path):
    """It once ended every task that read it, by the statistics of its file; its neighbours are staged."""
    kinds = {"n": "timestamp", "d": "date"}
    columns = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    routing = replace(ROUTING, types=(("a", json.dumps({"type": "struct", "fields": columns})),))
    values = [record("a", text) for text in ("9999-12-31T23:59:59-05:00", "2026-01-01T00:00:00Z", None)]
    values += [record("a", text) for text in ("0001-01-01T00:00:00+01:00", "0000-01-01", "9999-12-31T23:59:59.999999Z")]
    values += [json.dumps({"type": "a", "d": "0000-12-31", "ts": "2025-12-31T12:00:00Z"}).encode()]
    files, counts = run(tmp_path, [batch(values)], {"a": -1, DEAD_LETTERS: -1}, routing=routing)
    assert files == {"a": [[1, 2, 5]], DEAD_LETTERS: [[0, 3, 4, 6]]}
    assert counts[REASON + "out_of_range"] == 4


def test_a_task_works_in_the_store_that_its_root_is_of(monkeypatch):
    """It is told a text; there it writes once, and brings to disk what it wrote if nobody else can."""
    monkeypatch.setitem(STORES, "memory", MemoryStore.at)
    monkeypatch.setitem(DISKS, "staged", Disk())
    plan = PartitionPlan(TP, 1, 2, 0, 10_000, ALL)
    order = order_of("memory://staged/lake", ROUTING, {TP: plan}, sync=True)
    (manifest,) = stage(order, iter([batch([record("a", 1), record("b", 2), None])]))
    paths = {f"{row['event_type']}/{row['path']}": row["size_bytes"] for row in manifest.to_pylist() if row["path"]}
    store = MemoryStore.at(order.to.root)
    assert {path: store.size(path) for path in paths} == paths and len(paths) == 3
    assert sorted(store.disk.synced) == sorted(map(store.uri, paths))
    (path,) = (path for path in paths if path.startswith("a/"))
    assert pq.read_table(store.reader(path)).column("n").to_pylist() == [1]
