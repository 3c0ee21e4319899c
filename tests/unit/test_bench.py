"""The benchmark's arithmetic, its loads and its page; nothing here measures anything."""

from __future__ import annotations

import io
import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.arrow.own_columns import KAFKA_COLUMN, KAFKA_TYPE
from exporter.demo import shop as events
from exporter.demo.shop_types import BASE_DAY
from offsets.names import DataFile
from offsets.ranges import TopicPartition
from offsets.table_log import parse_commit, replay
from tests.bench import pairs, rules, sparse
from tests.bench.__main__ import PARTS
from tests.bench.derive import Accounts, lags, live_bytes, written_bytes
from tests.bench.desk import Desk, Filled, settings_toml
from tests.bench.figures import (
    Outcome,
    Sample,
    Target,
    cpu_between,
    group_of,
    percentile,
    ratios,
    rounded,
    secs_left,
)
from tests.bench.freshness import waits
from tests.bench.history import Place, extend
from tests.bench.load import Load, Tally
from tests.bench.page import as_html
from tests.support.days import partition_of


def test_a_percentile_is_a_value_that_was_measured() -> None:
    """Nearest rank: of a hundred values the 99th is the second greatest; the order they came in does not matter."""
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50.0, 99.0, 100.0)
    assert percentile([7.0], 0.01) == 7.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_ratio_is_taken_within_each_pair_and_then_the_median() -> None:
    """A slow minute of the machine slows both of a pair; the medians of each side would compare different minutes."""
    assert ratios([100, 50, 90], [10, 10, 30]) == ([10.0, 5.0, 3.0], 5.0)
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0, 2.0], [1.0])


def test_the_rest_of_a_trial_is_expected_at_the_pace_of_its_last_batch() -> None:
    """The first batch warms the job up and is no measure, an empty one neither; what is read already takes no time."""
    first, second = {"numInputRows": 250, "batchDuration": 40_000}, {"numInputRows": 250, "batchDuration": 25_000}
    assert secs_left([], 1_000) == secs_left([first], 1_000) == 0.0
    assert secs_left([first, second], 1_000) == 50.0
    assert secs_left([first, second], 500) == 0.0
    assert secs_left([first, {"numInputRows": 0, "batchDuration": 10}], 1_000) == 0.0


def test_a_trial_is_measured_by_the_whole_ones_before_it_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was given up early has a short time, by which the best trigger would be given up as well."""
    whole, best, stopped = (pairs.Timed(rows, secs, 0.0) for rows, secs in ((8_000, 157.0), (8_000, 112.0), (0, 98.0)))
    found = {4_000: whole, 2_000: stopped, 8_000: best}
    asked: list[tuple[int, float | None]] = []

    def structured(_desk: Desk, _topic: Filled, trigger: int, secs_max: float | None = None) -> pairs.Timed:
        asked.append((trigger, secs_max))
        return found[trigger]

    monkeypatch.setattr(pairs, "_structured", structured)
    topic = Filled("", "", Load(), Tally(Counter({"click": 8_000})))
    assert pairs.tried_at(Desk(tmp_path), topic) == found
    assert asked == [(4_000, None), (2_000, 157.0), (8_000, 157.0)]


def test_a_target_holds_on_its_bound_and_never_without_a_figure() -> None:
    """Both directions; what was not measured does not hold."""
    assert Target("a", 5.0, 5.0, "x", at_least=True).holds and not Target("a", 4.9, 5.0, "x", at_least=True).holds
    assert Target("a", 9.0, 9.0, "s").holds and not Target("a", 9.1, 9.0, "s").holds
    assert not Target("a", None, 9.0, "s").holds and not Target("a", math.nan, 9.0, "s").holds
    said = Target("a", 4.567, 5.0, "x", at_least=True).as_json()
    assert said == {"name": "a", "target": "at least 5 x", "value": 4.57, "holds": False}


def test_cpu_between_two_times_lies_on_the_lines_between_the_samples() -> None:
    """A group that appears later starts at zero; before the first and after the last sample nothing is used."""
    samples = [Sample(10, {}), Sample(12, {"jvm": 4.0}), Sample(14, {"jvm": 6.0, "workers": 2.0})]
    assert cpu_between(samples, 11, 13) == {"jvm": 3.0, "workers": 1.0}
    assert cpu_between(samples, 0, 99) == {"jvm": 6.0, "workers": 2.0}
    assert cpu_between(samples, 12, 12) == {"jvm": 0.0}
    assert cpu_between([], 1, 2) == {}


@pytest.mark.parametrize(
    ("thread", "group"),
    [
        ("C2 CompilerThre", "jvm compilers"),
        ("Executor task l", "jvm tasks"),
        ("Thread-12", "jvm py4j"),
        ("VM Thread", "jvm gc"),
        ("dispatcher-even", "jvm other"),
    ],
)
def test_threads_are_told_apart_by_their_names(thread: str, group: str) -> None:
    """As Linux shows them, cut to 15 characters."""
    assert group_of(thread) == group


def test_figures_are_shown_with_three_digits_that_say_something() -> None:
    """Large ones whole, small ones not as zero."""
    assert [rounded(number) for number in (123_456.7, 12.345, 0.012345, 0.0)] == [123_457, 12.3, 0.0123, 0.0]


@pytest.mark.parametrize("load", [Load(types=1), Load(types=50), Load(size="small"), Load(size="large")])
def test_every_record_of_a_load_belongs_to_a_declared_type_or_to_the_dead_letters(load: Load) -> None:
    """Each type occurs, each value names its type, and as many are bad as was asked for."""
    load = Load(load.types, load.size, 2, 0, bad_every=100)
    made = [record for partition in (0, 1) for record in load.records(4_000, partition)]
    rows = Counter(record.table for record in made)
    assert len(made) == 4_000 and 30 <= rows.pop("") <= 40
    assert set(rows) <= set(load.declared()) and len(load.declared()) == load.types
    assert len(rows) >= 0.8 * load.types
    assert all(json.loads(record.value or b"")["type"] == record.table for record in made if record.table)


@pytest.mark.parametrize(("load", "size"), [(Load(), 350), (Load(size="small"), 100), (Load(size="large"), 4_000)])
def test_values_are_as_long_as_the_benchmark_says(load: Load, size: int) -> None:
    """On average, within a tenth."""
    sizes = [len(record.value or b"") for record in load.records(2_000, 0)]
    assert sum(sizes) / len(sizes) == pytest.approx(size, rel=0.1)


def test_a_load_of_sixty_days_has_sixty_event_days_and_no_worse_records() -> None:
    """Good events are spread evenly; bad ones stay as bad as they were."""
    load = Load(types=50, days=60, bad_every=100)
    made = list(load.records(20_000, 0))
    days = Counter(json.loads(record.value or b"")["ts"][:10] for record in made if record.table)
    assert len(days) >= 60 and min(days[day] for day in sorted(days)[:60]) > 50
    assert sum(not record.table for record in made) == sum(
        not one.table for one in Load(bad_every=100).records(20_000, 0)
    )


def test_the_settings_are_the_defaults_but_for_what_is_said(tmp_path: Path) -> None:
    """The file is read by the exporter's own loader."""
    from exporter.settings import load as settings_load

    topic = Filled("127.0.0.1:1", "bench-1", Load(), Tally(Counter()))
    path = tmp_path / "exporter.toml"
    path.write_text(settings_toml(topic, tmp_path / "lake", {"roll_age_max_secs": 5}))
    found = settings_load.load(path, {}, {})
    assert found.roll_age_max_secs == 5 and found.heartbeat_secs == 60 and set(found.types) == set(events.schemas())


def test_each_type_of_the_part_rules_has_a_filter_and_two_computed_columns(tmp_path: Path) -> None:
    """Nothing else of the settings changes."""
    from exporter.settings import load as settings_load

    topic = Filled("127.0.0.1:1", "bench-1", Load(), Tally(Counter()))
    path = tmp_path / "exporter.toml"
    path.write_text(settings_toml(topic, tmp_path / "lake", {}))
    plain = settings_load.load(path, {}, {})
    rules.with_rules(path, topic)
    found = settings_load.load(path, {}, {})
    assert found.declared == plain.declared and len(found.types) == 10
    assert all(one.where and len(one.set) == 2 for one in found.types.values())


def committed(lake: Path, version: int, files: int, produced: list[float], written: float) -> None:
    """One commit of table `a` with so many files of the same records; times in seconds since 1970."""
    adds = []
    for number in range(files):
        name = f"day=2025-03-10/{version}-{number}.parquet"
        path = lake / "a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"offset": at, "timestamp": int(secs * 1e6)} for at, secs in enumerate(produced)]
        pq.write_table(pa.table({KAFKA_COLUMN: pa.array(rows, KAFKA_TYPE)}), path)
        adds.append({"add": {"path": name, "partitionValues": {"day": "2025-03-10"}}})
    log = lake / "a" / "_delta_log" / f"{version:020d}.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("\n".join(json.dumps(action) for action in [{"commitInfo": {}}, *adds]))
    os.utime(log, (written, written))


def test_freshness_is_the_time_from_a_record_to_the_file_of_its_commit(tmp_path: Path) -> None:
    """Records of the counted time only, the end excluded; commits without files say nothing."""
    committed(tmp_path, 0, 0, [], 50.0)
    committed(tmp_path, 1, 1, [99.0, 100.0, 103.5], 105.0)
    committed(tmp_path, 2, 1, [109.0, 110.0], 112.0)
    assert sorted(waits(tmp_path, 100.0, 110.0)) == pytest.approx([1.5, 3.0, 5.0])


def test_small_files_are_counted_by_commit_and_day(tmp_path: Path) -> None:
    """A roll is what one commit adds to one day."""
    committed(tmp_path, 0, 0, [], 1.0)
    committed(tmp_path, 1, 3, [1.0], 2.0)
    committed(tmp_path, 2, 1, [2.0], 3.0)
    assert [(roll.table, roll.version, roll.files) for roll in sparse.rolls(tmp_path)] == [("a", 1, 3), ("a", 2, 1)]


def test_a_history_that_was_written_tells_what_an_exporter_would_have_told(tmp_path: Path) -> None:
    """Each file's offset lies between the positions around it, and the checksum says what the commits add up to."""
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    said = json.dumps({"commit_id": "0", "routing": "r"})
    start = [{"appId": "app/topic/0/0", "version": -1}, {"appId": "app/anchor/topic/0/0", "version": -1}]
    empty = {
        "numFiles": 0,
        "tableSizeBytes": 0,
        "setTransactions": start,
        "metadata": {"id": "m"},
        "protocol": {"p": 1},
    }
    (log / f"{0:020d}.json").write_text(json.dumps({"commitInfo": {"userMetadata": said}}))
    (log / f"{0:020d}.crc").write_text(json.dumps({**empty, "allFiles": []}))
    assert extend(Place(tmp_path / "t", "app", TopicPartition("topic", 0), 3, 1), 4) == 4
    texts = [(log / f"{version:020d}.json").read_text().splitlines() for version in range(1, 5)]
    replayed = replay(empty, texts)
    checksum = json.loads((log / f"{4:020d}.crc").read_text())
    assert {txn["appId"]: txn["version"] for txn in checksum["setTransactions"]} == replayed.transactions
    (last,) = (json.loads(line)["txn"] for line in texts[-1] if '"txn"' in line)
    assert last in checksum["setTransactions"]  # to the millisecond: Delta compares them
    assert replayed.transactions["app/topic/0/0"] == 11 and "allFiles" not in checksum
    names = [json.loads(line)["add"]["path"] for text in texts for line in text if '"add"' in line]
    files = [DataFile.parse(name) for name in names]
    assert [file.last_offset for file in files] == [1, 4, 7, 10]
    assert {file.partition for file in files} == {partition_of(BASE_DAY)}
    assert checksum["numFiles"] == 4 and all(parse_commit(9, text).user_metadata for text in texts)


def test_the_whole_benchmark_fits_into_an_hour() -> None:
    """By the budgets of its parts."""
    assert sum(part.budget_secs for part in PARTS.values() if part.usual) <= 3_600


def told(**part: Any) -> dict[str, Any]:
    """A benchmark of one part, as JSON gives it back."""
    whole = {"title": "Part", "secs": 30.0, "budget_secs": 60, "loop_secs": [0.4, 0.8], **part}
    made = {"began": "now", "scale": 1.0, "secs": 60.0, "environment": {"cores": 2}, "parts": {"one": whole}}
    found: dict[str, Any] = json.loads(json.dumps(made))
    return found


def test_the_page_shows_each_target_and_whether_it_holds() -> None:
    """All targets in one table at the top, misses in the colour of trouble; a table has the columns of all rows."""
    outcome = Outcome([Target("speed", 6, 5, "x", at_least=True), Target("memory", 4, 3, "GiB")], notes=["how <it>"])
    outcome.tables["numbers"] = [{"case": "a", "n": 1}, {"case": "b", "m": 2.5}]
    outcome.bars["bars"] = {"a": 1.0}
    outcome.stacks["stacks"] = {"a": {"jvm": 1.0, "driver": 2.0}}
    page = as_html(told(**outcome.as_json()))
    assert "0.4 s before and 0.8 s after" in page
    assert "1 of 2 targets hold" in page and "at least 5 x" in page and "at most 3 GiB" in page
    assert page.index("at least 5 x") < page.index("<h2>Part</h2>")
    assert "how &lt;it&gt;" in page and "<th>case</th>" in page and ">n<" in page and ">m<" in page and "<svg" in page


def test_the_page_tells_what_failed_and_that_a_small_run_says_nothing() -> None:
    """A part that failed has its error instead of figures."""
    failed = {**told(error="RuntimeError: the broker <ended>"), "scale": 0.02}
    page = as_html(failed)
    assert "1 parts failed" in page and "the broker &lt;ended&gt;" in page and "say nothing" in page


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_the_rows_of_all_formats_are_the_same(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the libraries read of a value has the fields of the JSON."""
    import fastavro

    from exporter.demo.shop_avro import schemas
    from tests.bench import shop_values

    monkeypatch.setattr(shop_values, "register", lambda url, topic: dict.fromkeys(schemas(), (7, 8)))
    monkeypatch.setattr(shop_values, "_registered", lambda url, name: 7)
    made = {one: [*Load(bad_every=0, form=one).records(500, 0)] for one in ("json", form)}
    for sent, record in zip(made["json"], made[form], strict=True):
        value, wanted = record.value or b"", json.loads(sent.value or b"")
        assert value[:5] == b"\0\0\0\0\7"
        if form == "avro":
            parsed = fastavro.parse_schema(json.loads(json.dumps(schemas()[record.table])))
            found: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None)
            assert (found["seq"], found["user_id"], found["session"]) == tuple(
                wanted[name] for name in ("seq", "user_id", "session")
            )
        else:
            found = shop_values.classes()[record.table].FromString(value[6:])
            assert (found.seq, found.user_id, found.session) == tuple(
                wanted[name] for name in ("seq", "user_id", "session")
            )
            there = {field.name for field, _ in found.ListFields()} | {"seq", "user_id"}
            told = {name for name, one in wanted.items() if one not in (None, [], {}) and name != "type"}
            assert told <= there | {field.name for field in found.DESCRIPTOR.fields if not field.has_presence}


def test_an_account_is_written_once_and_then_only_the_newest_change() -> None:
    """Each key in order, then in each round other changes of the last three in a hundred; columns as declared."""
    load = Accounts(keys=200)
    first = [json.loads(record.value or b"") for at in range(2) for record in load.records(200, at)]
    assert sorted(one["id"] for one in first) == list(range(200))
    again = [json.loads(r.value or b"") for n in (1, 2) for r in Accounts(keys=200, round=n).records(20, 0)]
    assert {one["id"] for one in again} <= set(range(194, 200)) and len({one["seq"] for one in again}) == 20
    assert first[0].keys() - {"type"} == {one.split()[0] for one in load.declared()["account"].split(", ")}


def version(log: Path, number: int, at: float, *actions: dict[str, Any]) -> None:
    """One version of a table's log, written at a time."""
    log.mkdir(parents=True, exist_ok=True)
    path = log / f"{number:020d}.json"
    path.write_text("".join(json.dumps(one) + "\n" for one in actions))
    os.utime(path, (at, at))


def test_what_a_job_writes_and_how_far_it_is_behind_is_read_from_the_logs(tmp_path: Path) -> None:
    """New files and vectors count, files that only got a vector do not; a lag ends with the commit that has looked."""

    def add(path: str, size: int, vector: int = 0) -> dict[str, Any]:
        more = {"deletionVector": {"sizeInBytes": vector}} if vector else {}
        return {"add": {"path": path, "size": size, **more}}

    def looked(number: int) -> dict[str, Any]:
        return {"txn": {"appId": "app/derive/m/order/version/id", "version": number}}

    job = tmp_path / "_derived.tables" / "m" / "_delta_log"
    version(job, 0, 100.0, add("a", 1_000), looked(1))
    version(job, 1, 107.0, {"remove": {"path": "a"}}, add("a", 1_000, 7), add("b", 50), looked(3))
    for number, at in enumerate((10.0, 90.0, 101.0, 104.0, 200.0)):
        version(tmp_path / "order" / "_delta_log", number, at, *([] if number == 2 else [add(f"{number}", 9)]))
    assert (live_bytes(tmp_path, "m"), written_bytes(tmp_path, "m", 1)) == (1_050, 57)
    assert lags(tmp_path, "order", "m") == [90.0, 10.0, 3.0]
