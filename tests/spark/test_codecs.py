"""The codecs that data files may have: what readers of others make of them, and what OPTIMIZE writes."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, get_args

import deltalake
import duckdb
import pyarrow as pa
import pytest

from exporter.arrow.own_columns import KAFKA_COLUMN, KAFKA_TYPE
from exporter.core.order import StagingBudget
from exporter.core.table_options import TableOptions
from exporter.lake.change import Change, add_action
from exporter.lake.lake import Lake
from exporter.lake.schema import table_schema
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from exporter.settings.model import Settings
from exporter.stores.parquet import FileOrigin, GrowingFile, merge
from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY
from tests.support.days import partition_of
from tests.support.lakes import seldom

pytestmark = pytest.mark.spark

CODECS = [codec for codec in get_args(Settings.model_fields["parquet_compression"].annotation) if codec]
SHOWN = {"lz4": "LZ4_RAW", "none": "UNCOMPRESSED"}
ROWS, FILES, WHOLE_FILE = 5_000, 4, 1 << 20
DAY = partition_of(date(2026, 1, 31))
LIMITS = MaintenanceLimits(late_secs=3600, file_bytes_max=WHOLE_FILE, stage_age_max_secs=21_600)


def filled(lake: Lake, declared: str, codec: str) -> None:
    """A table with one merged file and some that were written at once, each of ROWS rows."""
    table = lake.table("order")
    table.commit(Change((), {}, {}, create=table_schema(declared)), lambda view: None)
    origin = FileOrigin(table.store, "app", TopicPartition("events", 0), 0, "order", "", {}, compression=codec)
    files = []
    for first in range(0, ROWS * FILES, ROWS):
        growing = GrowingFile(origin, DAY)
        offsets = range(first, first + ROWS)
        kafka = [{"topic": "events", "partition": 0, "epoch": 0, "offset": one, "timestamp": None} for one in offsets]
        rows = pa.table({KAFKA_COLUMN: pa.array(kafka, KAFKA_TYPE), "id": pa.array(offsets, pa.int64())})
        growing.add(rows, first, first + ROWS - 1)
        files.append(growing.finish())
    files[:2] = [merge(origin, files[:2], StagingBudget())]
    table.commit(Change((), {}, {}, tuple(add_action(file, {}) for file in files)), lambda view: None)


def live_files(folder: Path) -> list[str]:
    """Their paths."""
    return [uri.removeprefix("file://") for uri in deltalake.DeltaTable(str(folder)).file_uris()]


def codecs(folder: Path) -> set[str]:
    """Of all columns of the live files."""
    found = duckdb.execute("SELECT DISTINCT compression FROM parquet_metadata($1)", [live_files(folder)]).fetchall()
    return {str(codec) for (codec,) in found}


def sums(spark: Any, folder: Path) -> list[int]:
    """Of the ids, as Spark, delta-rs and DuckDB read them."""
    opened = deltalake.DeltaTable(str(folder))
    by_rust = deltalake.QueryBuilder().register("t", opened).execute("SELECT sum(id) AS s FROM t").read_all()
    by_duck = duckdb.execute("SELECT sum(id) FROM read_parquet($1)", [live_files(folder)]).fetchall()
    by_spark = spark.read.format("delta").load(str(folder)).selectExpr("sum(id) AS s").collect()
    return [by_spark[0].s, pa.table(by_rust)["s"].to_pylist()[0], int(by_duck[0][0])]


@pytest.mark.parametrize("codec", [CODECS[0], *map(seldom, CODECS[1:])])
def test_all_readers_read_each_codec_and_optimize_keeps_it(codec: str, spark: Any, tmp_path: Path) -> None:
    """Footers of files, of merged ones and of what maintenance makes of them: one, of no more than its target size."""
    lake = Lake(spark.newSession(), tmp_path, "app", options=TableOptions(compression=codec))
    declared = spark.createDataFrame([], "id BIGINT").schema.json()
    folder, wanted = tmp_path / "order", [sum(range(ROWS * FILES))] * 3
    filled(lake, declared, codec)
    assert lake.table("order").view().properties[APP_PROPERTY] == "app"
    assert (codecs(folder), sums(spark, folder)) == ({SHOWN.get(codec, codec.upper())}, wanted)
    steps = [step for step in Maintenance(lake, LIMITS).steps(["order"], True) if step.what == "optimize"]
    assert [(step.outcome, step.files) for step in steps] == [("done", FILES - 1)]
    (optimized,) = live_files(folder)
    assert Path(optimized).stat().st_size <= WHOLE_FILE
    assert (codecs(folder), sums(spark, folder)) == ({SHOWN.get(codec, codec.upper())}, wanted)
