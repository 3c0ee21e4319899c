"""A job of kind sql on real Delta tables: its commits, two of it at once, its columns, its failures, its audit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest

from exporter import faults
from exporter.core.table_options import TableOptions
from exporter.derive.job import Ran
from exporter.derive.jobs import own_session
from exporter.derive.sql import SqlJob
from exporter.derive.target import new_owner
from exporter.errors import ConfigError, ExporterError, Fenced, InvariantBroken
from exporter.faults import VARIABLE, Fault, InjectedFault
from exporter.lake.change import Change, add_action
from exporter.lake.lake import Lake
from exporter.settings.derive_sql import SqlTable
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from offsets.names import AppId
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.derived import no_session
from tests.support.lakes import EVERYWHERE_SELDOM, create_anchored, seldom, stage_offsets
from tests.support.places import Place
from tests.support.services import fresh_name

pytestmark = pytest.mark.spark

P0, DAY = TopicPartition("events", 0), date(2026, 1, 31)
WIDE = ", ".join(f"id + {number} AS c{number}" for number in range(50))


class World:
    """A source of the rows id = offset in one partition, and jobs over it."""

    def __init__(self, session: Any, root: Any, options: TableOptions | None = None) -> None:
        self.lake = Lake(session, root, fresh_name("app"), **({"options": options} if options else {}))
        self.table = self.lake.table("order")
        create_anchored(self.lake, "order", {P0: Position(0, -1)})
        self.end = 0

    def add(self, count: int) -> None:
        """So many rows more, in one commit."""
        offsets = list(range(self.end, self.end + count))
        self.end += count
        file = stage_offsets(self.lake, "order", P0, offsets, DAY)
        position = str(AppId(self.lake.app, P0, 0))
        said = {"commit_id": fresh_name(), "app": self.lake.app, "checked_through": 0}
        adds = (add_action(file, {}),)
        self.table.commit(Change((position,), {position: offsets[-1]}, said, adds), lambda view: None)

    def job(self, query: str = "SELECT id FROM source", name: str = "copy", **more: Any) -> SqlJob:
        table = SqlTable(kind="sql", source="order", query=query, **more)
        return SqlJob(name, table, self.lake, own_session(self.lake), new_owner())

    def rows(self, name: str = "copy", version: int | None = None) -> list[dict[str, Any]]:
        """Through Spark, in their order in the source."""
        reader = self.lake.session.read.format("delta")
        reader = reader if version is None else reader.option("versionAsOf", version)
        found = reader.load(self.lake.derived(name).uri).orderBy("_kafka.offset").collect()
        return [row.asDict() for row in found]

    def ids(self, name: str = "copy") -> list[int]:
        return [row["id"] for row in self.rows(name)]


def store_of(place: Place) -> Store:
    told = {name.removeprefix("s3_"): value for name, value in place.settings.items()}
    return open_store(place.table_root, {name: "true" if value is True else value for name, value in told.items()})


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> World:
    return World(spark, tmp_path)


@pytest.fixture
def struck(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Arms fault points for the rest of the test."""

    def arm(text: str) -> None:
        monkeypatch.setattr(faults, "_passed", Counter())
        monkeypatch.setenv(VARIABLE, text)

    return arm


@EVERYWHERE_SELDOM
def test_windows_take_all_rows_once_and_each_commit_says_how_many(spark: Any, place: Place) -> None:
    """A first run over much is several commits; without anything new there is none, whatever the place."""
    world = World(spark, store_of(place))
    world.add(70)
    job = world.job(offsets_max=30)
    planned = job.plan()
    assert (dict(planned.ranges), planned.says) == (
        {"events-0": "events-0 offsets 0..29"},
        "columns: _kafka struct<topic:string,partition:int,epoch:int,offset:bigint,timestamp:timestamp>, id bigint",
    )
    assert job.status().behind == {"order": 70}
    assert [job.run() for _ in range(4)] == [
        Ran("copy", 30, 0, True), Ran("copy", 30, 1, True), Ran("copy", 10, 2, False), Ran("copy")
    ]  # fmt: skip
    assert world.ids() == list(range(70))
    assert (job.status().behind, job.status().version) == ({"order": 0}, 2)
    assert [(line.clean, line.rows) for line in job.audit()] == [(True, 70)]
    world.add(5)
    later = SqlJob("copy", job._table, world.lake, no_session(), new_owner()).plan()
    assert (dict(later.ranges), later.says) == ({"events-0": "events-0 offsets 70..74"}, planned.says)


def test_a_commit_whose_answer_is_lost_is_found_by_looking(world: World, struck: Callable[[str], None]) -> None:
    """Protocol 9.4: the version comes back, and nothing is offered twice; a run that failed before leaves nothing."""
    world.add(10)
    job = world.job()
    struck(f"{Fault.BEFORE_DERIVE_COMMIT.value}:raise")
    with pytest.raises(InjectedFault):
        job.run()
    assert world.lake.derived("copy").view() is None
    struck(f"{Fault.AFTER_DERIVE_COMMIT.value}:raise:1+")
    assert job.run() == Ran("copy", 10, 0)
    world.add(5)
    assert job.run() == Ran("copy", 5, 1)
    assert job.run().idle
    assert world.ids() == list(range(15))


@pytest.mark.parametrize("first", [True, False], ids=["that makes the table", "that finds one"])
def test_of_two_runs_at_once_one_is_refused_and_told_by_whom(
    world: World, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """Exit 75, whether the table was there or both made it; the rows are there once."""
    world.add(10)
    job, other = world.job(), world.job()
    if not first:
        job.run()
        world.add(10)
    real, meanwhile = job._target.table.commit, []

    def late(*given: Any) -> int:
        meanwhile.append(other.run())
        return real(*given)

    monkeypatch.setattr(job._target.table, "commit", late)
    with pytest.raises(Fenced, match="is run by") as refused:
        job.run()
    assert other._target.owner in refused.value.message and refused.value.exit_code == 75
    assert [ran.rows for ran in meanwhile] == [10]
    assert world.ids() == list(range(world.end))


def test_a_rebuild_is_one_commit_and_goes_on_counting_runs(world: World) -> None:
    """Another query needs one; the former rows stay readable by version; a process of before it is refused."""
    world.add(10)
    world.job().run()
    query = "SELECT id * 2 AS twice FROM source WHERE id > 4"
    job = world.job(query)
    for act in (job.run, job.plan):
        with pytest.raises(ConfigError, match="another query") as refused:
            act()
        assert "derive run copy --rebuild" in refused.value.hint
    assert job.rebuild() == Ran("copy", 5, 1)
    assert [row["twice"] for row in world.rows()] == [10, 12, 14, 16, 18]
    assert [row["id"] for row in world.rows(version=0)] == list(range(10))
    view = world.lake.derived("copy").view()
    assert view is not None and view.transactions[f"{world.lake.app}/derive/copy/run"] == 2
    world.add(2)
    assert job.run() == Ran("copy", 2, 2)
    assert [line.clean for line in job.audit()] == [True]
    with pytest.raises(ConfigError, match="another query"):
        world.job().run()


def test_a_table_of_another_kind_or_app_is_refused(world: World) -> None:
    """Exit 70: nothing is written to it."""
    world.add(10)
    world.job().run()
    stranger = world.job()
    stranger._target.kind = "mirror"
    with pytest.raises(InvariantBroken, match="kind 'sql'"):
        stranger.run()
    spark, name = world.lake.session, world.lake.derived("copy").sql_name
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('exporter.app' = 'other')")
    with pytest.raises(InvariantBroken, match="app 'other'"):
        world.job().run()


def test_columns_that_the_source_gains_come_by_select_star_and_another_type_stops(world: World) -> None:
    """In the commit of the first rows that have them; what the table has beside them stays."""
    world.add(3)
    job = world.job("SELECT * FROM source")
    job.run()
    spark, source, table = world.lake.session, world.table.sql_name, world.lake.derived("copy").sql_name
    spark.sql(f"ALTER TABLE {source} ADD COLUMNS (more STRUCT<a: STRING>)")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (mine STRING)")
    world.add(3)
    assert job.run().rows == 3
    spark.sql(f"ALTER TABLE {source} ADD COLUMNS (more.b INT)")
    world.add(3)
    assert job.run().rows == 3
    found = spark.read.format("delta").load(world.lake.derived("copy").uri)
    assert found.schema["more"].dataType.simpleString() == "struct<a:string,b:int>" and "mine" in found.columns
    assert [line.clean for line in job.audit()] == [True]
    world.add(3)
    job._query = world.job("SELECT CAST(id AS STRING) AS id FROM source")._query
    with pytest.raises(ConfigError, match="column id is bigint, and the rows have string") as refused:
        job.run()
    assert "--rebuild" in refused.value.hint


def test_a_row_that_the_query_fails_on_ends_the_job_with_the_reason(world: World) -> None:
    """In Spark's words, with the record's place; the table stays as it was."""
    world.add(5)
    job = world.job("SELECT id, 10 / (id - 7) AS share FROM source")
    job.run()
    world.add(5)
    with pytest.raises(ExporterError, match=r"DIVIDE_BY_ZERO.*\(at events-0 offset 7\)") as failed:
        job.run()
    assert "nothing of it is in the table" in failed.value.message and failed.value.exit_code == 1
    assert len(world.rows()) == 5


def test_options_of_tables_hold_and_offsets_have_statistics_in_wide_tables_too(spark: Any, tmp_path: Path) -> None:
    """Properties and compression as of exported tables; a reader skips files by `_kafka.offset`."""
    options = TableOptions(properties={"delta.logRetentionDuration": "interval 60 days"}, compression="zstd")
    world = World(spark, tmp_path, options)
    world.add(10)
    world.job(f"SELECT {WIDE} FROM source").run()
    table = deltalake.DeltaTable(world.lake.derived("copy").uri)
    assert table.metadata().configuration["delta.logRetentionDuration"] == "interval 60 days"
    (path,) = table.file_uris()
    assert pq.read_metadata(path.removeprefix("file://")).row_group(0).column(0).compression == "ZSTD"
    (log,) = Path(world.lake.derived("copy").uri.removeprefix("file://")).glob("_delta_log/*0.json")
    stats = [json.loads(json.loads(line)["add"]["stats"]) for line in log.read_text().splitlines() if '"add"' in line]
    assert [(one["minValues"]["_kafka"]["offset"], one["maxValues"]["_kafka"]["offset"]) for one in stats] == [(0, 9)]


@pytest.mark.parametrize(
    "statement, says",
    [
        seldom("DELETE FROM {table} WHERE id = 3", "1 rows are missing"),
        ("UPDATE {table} SET id = -1 WHERE id = 3", "1 rows are missing; 1 rows are there too often"),
        seldom("INSERT INTO {table} SELECT * FROM {table} WHERE id < 2", "2 rows are there too often"),
    ],
)
def test_the_audit_finds_what_is_missing_changed_or_doubled(world: World, statement: str, says: str) -> None:
    """By the whole source at once, row by row as often as it is there."""
    world.add(10)
    job = world.job()
    job.run()
    (line,) = job.audit()
    assert (line.clean, line.rows, line.says) == (True, 10, "")
    world.lake.session.sql(statement.format(table=world.lake.derived("copy").sql_name))
    (line,) = job.audit()
    assert not line.clean and line.says.startswith(says), line
