"""Tables cut by hours, weeks, months, values or not at all: exported, read, proved, tended and mended like any."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import duckdb
import pyarrow as pa
import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError, InvariantBroken
from exporter.kafka.topics import FirstPosition
from exporter.local.broker import create_topic
from exporter.operate.check.check import check_tables
from exporter.operate.dead_letters.replay import Replay
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from exporter.operate.repair.repair import repair
from exporter.operate.report.facts import facts
from exporter.operate.report.page import report_page
from offsets.names import DataFile
from tests.support import naive
from tests.support.lakes import NOON, Export, bad, event, wrong_places
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.xdist_group("specs")]

TYPES = {
    "hourly": "id BIGINT, month STRING",
    "monthly": "id BIGINT, day DATE, hour INT",
    "weekly": "id BIGINT, day DATE, country STRING",
    "elder": "id BIGINT, week DATE",
    "uncut": "id BIGINT, day STRING",
    "land": "id BIGINT, country STRING, note STRING",
    "odd": "n INT, id BIGINT, text STRING, ok BOOLEAN, born DATE",
}
CUTS = {
    "hourly": 'partition_by = "hour"',
    "monthly": 'partition_by = "month"',
    "weekly": 'partition_by = "week"\npartition_columns = ["country"]',
    "elder": 'partition_by = "none"\npartition_columns = ["week"]',
    "uncut": 'partition_by = "none"',
    "land": 'partition_columns = ["country"]',
    "odd": 'partition_by = "none"\npartition_columns = ["text", "n", "ok", "born"]',
}
COLUMNS = {
    "hourly": ["day", "hour"], "monthly": ["month"], "uncut": [], "land": ["day", "country"],
    "weekly": ["week", "country"], "elder": ["week"],
    "odd": ["text", "n", "ok", "born"], DEAD_LETTERS: ["day"],
}  # fmt: skip
ODD = ("a/b", "100%", "%2F", " New York", "Île 日😀", "x=y{}", "it's \"q\"", "back\\slash", "\x01\n\t", "..", "null")
EMPTY = ("", "__HIVE_DEFAULT_PARTITION__", "x" * 201, "\0a", None)
"""What is null in a column that cuts."""
LIMITS = MaintenanceLimits(late_secs=3600, file_bytes_max=1 << 29, stage_age_max_secs=21_600)


def sent(first: int) -> list[Record]:
    """Ids from `first` on: hours around midnight, months around new year, countries, odd values, and a bad record."""
    records = []
    for at in range(16):
        number = first + at
        records += [
            event("hourly", number, NOON.replace(hour=23) + timedelta(minutes=20 * at), month="of the user"),
            event("monthly", number, datetime(2025, 12, 31, 12 + at % 8, tzinfo=timezone.utc) + timedelta(hours=at),
                  day="1999-01-01", hour=99),
            event("weekly", number, datetime(2026, 1, 4, 16 + at % 8, tzinfo=timezone.utc) + timedelta(hours=at),
                  day="1999-01-01", country="DE"),
            event("elder", number, NOON, week=("2026-01-26", "2026-01-27", None)[at % 3]),
            event("uncut", number, NOON, day="of the user"),
            event("land", number, NOON - timedelta(days=at % 2), country=("DE", "FR", None, "New York")[at % 4]),
            event("odd", number, NOON, text=(*ODD, *EMPTY)[at], n=at % 2 - 1, ok=(True, False, None)[at % 3],
                  born=None if at % 2 else "0001-01-01"),
        ]  # fmt: skip
    return [*records, bad(b'{"type": "land", "at": "2026-01-31T12:00:00Z", "id": "many"}')]


@pytest.fixture(scope="module")
def exported(kafka: str, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Two runs of the same shape: each partition has two files."""
    topic = fresh_name()
    create_topic(kafka, topic, 1)
    root = tmp_path_factory.mktemp("specs")
    e = Export(kafka, topic, root, fresh_name("app"), types=TYPES, cuts=CUTS, scalars={"carried_bytes_max": 0})
    for first in (0, 100):
        e.send({0: sent(first)})
        e.run(spark)
    return e


@pytest.fixture
def lake(exported: Export, tmp_path: Path) -> Iterator[Export]:
    """A copy of it, to be changed."""
    shutil.copytree(exported.root / "lake", tmp_path / "lake")
    yield replace(exported, root=tmp_path)


def is_clean(e: Export, spark: Any) -> None:
    """The audit, the plain check of tests, and the plainest one agree."""
    assert wrong_places(e) == {}
    e.proven(spark)
    naive.assert_each_once(e)


def live(e: Export, name: str) -> list[dict[str, Any]]:
    """Path, as it is on disk, and values of each live file."""
    rows: list[dict[str, Any]] = pa.table(e.table(name).get_add_actions()).to_pylist()
    return rows


def test_every_table_is_cut_as_its_type_says_and_each_record_is_there_once(exported: Export, spark: Any) -> None:
    """ONCE and NAMES: the audit is clean, and a column of a time's name is a user's where the table has no such one."""
    e = exported
    is_clean(e, spark)
    for name, columns in COLUMNS.items():
        assert e.table(name).metadata().partition_columns == columns
    hours = Counter((row["day"].day, row["hour"]) for row in e.rows("hourly"))
    assert hours == {(31, 23): 6, (1, 0): 6, (1, 1): 6, (1, 2): 6, (1, 3): 6, (1, 4): 2}
    assert Counter(row["month"] for row in e.rows("monthly")) == {"2025-12": 16, "2026-01": 16}
    assert {(str(row["day"]), row["hour"]) for row in e.rows("monthly")} == {("1999-01-01", 99)}
    assert Counter(str(row["week"]) for row in e.rows("weekly")) == {"2025-12-29": 8, "2026-01-05": 24}
    assert Counter(str(row["week"]) for row in e.rows("elder")) == {"2026-01-26": 12, "2026-01-27": 10, "None": 10}
    named = {name: e.table(name).metadata().configuration.get("exporter.partition_by") for name in COLUMNS}
    assert {name: unit for name, unit in named.items() if unit} == {"weekly": "week"}
    assert {row["day"] for row in e.rows("uncut")} == {row["month"] for row in e.rows("hourly")} == {"of the user"}
    assert {path.name for path in e.folder("uncut").iterdir() if path.is_dir()} == {"_delta_log"}
    for name in COLUMNS:
        paths = [path for path in e.folder(name).rglob("*.parquet") if "_delta_log" not in path.parts]
        for path in paths:
            relative = str(path.relative_to(e.folder(name)))
            assert str(DataFile.parse(relative)) == relative
        assert len(paths) == 2 * len({path.parent for path in paths}), name


def test_a_value_that_readers_would_take_for_null_is_kept_in_rescued(exported: Export) -> None:
    """Nothing is misread: all other texts come back as they were sent."""
    rows = exported.rows("odd")[:16]
    assert [row["text"] for row in rows] == [*ODD, *[None] * 5]
    rescued = [json.loads(row["_rescued"] or "{}").get("text") for row in rows]
    assert rescued == [*[None] * 11, *EMPTY]
    assert [(row["n"], row["ok"], str(row["born"])) for row in rows[:3]] == [
        (-1, True, "0001-01-01"), (0, False, "None"), (-1, None, "0001-01-01")
    ]  # fmt: skip


ASKED = [
    ("hourly", "day = DATE '2026-02-01' AND hour = 3", 2),
    ("hourly", "day > DATE '2026-01-31' AND hour < 2", 4),
    ("monthly", "month = '2025-12'", 2),
    ("monthly", "month >= '2026-01'", 2),
    ("uncut", "id >= 100", 1),
    ("land", "country = 'DE'", 2),
    ("land", "day = DATE '2026-01-30' AND country = 'New York'", 2),
    ("land", "country IS NULL", 2),
    ("odd", "text = 'a/b'", 2),
    ("odd", "text = 'Île 日😀' AND n = -1", 2),
    ("odd", "text IS NULL AND n = 0", 6),
    ("odd", "ok", 12),
    ("odd", "born = DATE '0001-01-01'", 16),
]
"""Table, what is asked, and how many files have rows that it is true of."""


@pytest.mark.parametrize(("name", "asked", "files"), ASKED)
def test_all_readers_find_the_same_rows_in_the_same_files(
    exported: Export, spark: Any, name: str, asked: str, files: int
) -> None:
    """Spark, delta-rs and DuckDB over it; files of other partitions are not opened."""
    e, table = exported, exported.table(name)
    frame = spark.read.format("delta").load(str(e.folder(name))).where(asked)
    by_spark = sorted(row["id"] for row in frame.select("id").collect())
    assert by_spark and len(frame.inputFiles()) == files
    ask = deltalake.QueryBuilder().register("asked", table).execute
    assert sorted(pa.table(ask(f"SELECT id FROM asked WHERE {asked}"))["id"].to_pylist()) == by_spark
    rows = table.to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("asked", rows)
        found = connection.execute(f"SELECT id FROM asked WHERE {asked}").fetchall()
    assert sorted(row[0] for row in found) == by_spark


@pytest.mark.long
@pytest.mark.timeout(900)
def test_closed_partitions_are_packed_and_what_is_dead_is_swept(lake: Export, spark: Any) -> None:
    """OPTIMIZE by the table's spec, once; the rest of a table is not touched, and the export goes on."""
    e = lake
    for name in COLUMNS:
        one = live(e, name)[0]["path"]
        path = e.folder(name) / unquote(one)
        dead = DataFile.parse(str(path.relative_to(e.folder(name))))
        shutil.copy(path, e.folder(name) / str(replace(dead, attempt="dead")))
        stray = Path(shutil.copy(path, path.with_name("part-0.parquet")))
        os.utime(stray, (time.time() - 8 * 86_400,) * 2)
    with e.bench(spark) as bench:
        work = Maintenance(bench.lake, LIMITS)
        due = [*work.steps(work.tables(()), False)]
        done = [*work.steps(work.tables(()), True)]
        assert [replace(step, outcome="done") for step in due] == done
        assert {step.what for step in work.steps(work.tables(()), True)} <= {"checkpoint"}
    packed = Counter(step.table for step in done if step.what == "optimize")
    assert packed == {"hourly": 6, "monthly": 2, "uncut": 1, "land": 4, "odd": 16, DEAD_LETTERS: 1}
    assert {step.day for step in done if (step.table, step.what) == ("land", "optimize")} == {
        "2026-01-31 DE", "2026-01-31 null", "2026-01-30 FR", "2026-01-30 New York"
    }  # fmt: skip
    for what in ("sweep", "vacuum"):
        assert {step.table: step.files for step in done if step.what == what} == dict.fromkeys(COLUMNS, 1), what
    assert not [*(e.root / "lake").rglob("part-0.parquet"), *(e.root / "lake").rglob("*.dead.parquet")]
    for name in COLUMNS:
        assert len(live(e, name)) == packed[name], name
    e.send({0: sent(200)})
    e.run(spark)
    is_clean(e, spark)


def test_the_report_has_the_files_of_each_day_week_or_month(exported: Export, spark: Any) -> None:
    """Those of a week or a month stand at its first day, and those without a time are told apart."""
    with exported.bench(spark) as bench:
        told = facts(bench.lake, exported.settings())
    assert {(one.event_type, one.day, one.files) for one in told.days} == {
        ("hourly", "2026-01-31", 2), ("hourly", "2026-02-01", 10), ("monthly", "2025-12-01", 2),
        ("monthly", "2026-01-01", 2), ("uncut", "-", 2), ("land", "2026-01-31", 4), ("land", "2026-01-30", 4),
        ("odd", "-", 32), ("weekly", "2025-12-29", 2), ("weekly", "2026-01-05", 2), ("elder", "-", 6),
        (DEAD_LETTERS, "2026-01-31", 2),
    }  # fmt: skip
    assert "Files without an event day: 40." in report_page(told)


@pytest.mark.long
def test_a_table_that_was_taken_back_or_removed_is_exported_again_by_its_own_spec(lake: Export, spark: Any) -> None:
    """`repair --rewind`: files of both kinds are told apart, and a table that is made anew is cut as before."""
    e = lake
    for name in ("odd", "uncut", "hourly"):
        spark.sql(f"OPTIMIZE delta.`{e.folder(name)}`")
        spark.sql(f"RESTORE TABLE delta.`{e.folder(name)}` TO VERSION AS OF {e.table(name).version() - 2}")
    shutil.rmtree(e.folder("land"))
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with pytest.raises(InvariantBroken):
        e.run(spark)
    with e.bench(spark) as bench:
        rows = repair(bench, "rewind", "", FirstPosition(), True)
    assert {row.table for row in rows} >= {"odd", "uncut", "hourly", "land"}
    e.run(spark)
    assert {name: e.table(name).metadata().partition_columns for name in COLUMNS} == COLUMNS
    is_clean(e, spark)


def test_a_table_stays_as_it_was_made(lake: Export, spark: Any) -> None:
    """Another spec in the settings is refused with what to write (2), of all tables at once, and nothing is written."""
    e = replace(lake, cuts={**CUTS, "monthly": 'partition_by = "day"', "land": "", "uncut": 'partition_by = "month"'},
                types={**TYPES, "monthly": "id BIGINT, hour INT"})  # fmt: skip
    before = {name: e.table(name).version() for name in e.tables()}
    with pytest.raises(ConfigError) as refused:
        e.run(spark)
    said = str(refused.value)
    assert refused.value.exit_code == 2
    assert "table land is cut by day and country, and the settings cut it by day" in said
    assert 'set `partition_by = "day"`, `partition_columns = ["country"]` in [types.land]' in said
    assert "table uncut is cut by none" in said and "table monthly is cut by month" in said
    assert {name: e.table(name).version() for name in e.tables()} == before
    found = {one.what: one for one in check_tables(e.settings(), spark)}
    assert (found["table land"].level, found["table odd"].level) == ("error", "ok")
    assert found["table land"].in_settings
    new = replace(lake, types={**TYPES, "more": "c STRING"}, cuts={**CUTS, "more": 'partition_columns = ["c"]'})
    warned = {one.what: one for one in check_tables(new.settings(), spark)}
    assert warned["table more"].level == "warn" and "cut by c" in warned["table more"].says


def test_a_replayed_dead_letter_goes_where_its_table_has_it(lake: Export, spark: Any) -> None:
    """By the spec of the table, in files of the replay's own."""
    at = {"type": "late", "at": "2026-01-31T23:30:00Z", "id": 7, "country": "a%b"}
    dead_letters = [
        Record(DEAD_LETTERS.encode(), json.dumps({**at, "id": number}).encode(), timestamp_ms=1_769_860_800_000)
        for number in range(3)
    ]
    lake.send({0: dead_letters})
    lake.run(spark)
    e = replace(
        lake, types={**TYPES, "late": "id BIGINT, country STRING"},
        cuts={**CUTS, "late": 'partition_by = "hour"\npartition_columns = ["country"]'},
    )  # fmt: skip
    e.run(spark)
    with e.bench(spark) as bench:
        Replay(bench.lake, bench.routing).run(True)
    assert [(str(row["day"]), row["hour"], row["country"], row["id"]) for row in e.rows("late")] == [
        ("2026-01-31", 23, "a%b", number) for number in range(3)
    ]
