"""What is read of a table's files without a JVM is what Spark and Delta read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from exporter.arrow.own_columns import KAFKA_TYPE
from exporter.lake import log_files
from exporter.lake import rows as reading
from exporter.lake.lake import Lake
from exporter.lake.rows import arrow_rows
from exporter.stores.checkpoints import newest
from tests.support.lakes import seldom

pytestmark = pytest.mark.spark

CHECKPOINTS = {
    "one file": ({}, ""),
    "parts": ({"spark.databricks.delta.checkpoint.partSize": "2"}, ""),
    "v2, parquet": ({"spark.databricks.delta.checkpointV2.topLevelFileFormat": "parquet"}, "v2"),
    "v2, json": ({"spark.databricks.delta.checkpointV2.topLevelFileFormat": "json"}, "v2"),
    "statistics as columns": ({}, "struct"),
}
"""Settings of the session, and what the table asks for."""
OFTEN = ("v2, parquet", "statistics as columns")
"""That are tried in each run; what the files of the others hold is tests/unit/stores/test_checkpoints.py's too."""
ASKS = {
    "v2": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
    "struct": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpoint.writeStatsAsJson' = 'false', "
    "'delta.checkpoint.writeStatsAsStruct' = 'true')",
}
STATEMENTS = (
    "DELETE FROM {t} WHERE id < 10",
    "UPDATE {t} SET id = -id WHERE id = 20",
    "INSERT INTO {t} SELECT id + 1000, 'a b' FROM range(3)",
    "OPTIMIZE {t}",
    "RESTORE {t} TO VERSION AS OF 1",
    "DELETE FROM {t} WHERE id = 70",
)


@pytest.mark.parametrize("kind", [one if one in OFTEN else seldom(one) for one in CHECKPOINTS])
def test_the_log_s_files_tell_which_files_are_live(spark: Any, tmp_path: Path, kind: str) -> None:
    """Through rewritten files, deletion vectors, a restore and files that come back; behind each kind of checkpoint."""
    confs, asks = CHECKPOINTS[kind]
    session = spark.newSession()
    lake, table = Lake(session, tmp_path, "app"), f"delta.`{tmp_path / 't'}`"
    rows = session.range(0, 100, 1, 2).selectExpr("id", "'c=d' AS of").write.format("delta").partitionBy("of")
    rows.option("delta.enableDeletionVectors", "true").save(str(tmp_path / "t"))
    for name, text in confs.items():
        session.conf.set(name, text)
    log = lake.gateway.log(str(tmp_path / "t"))
    for number, statement in enumerate([*([ASKS[asks]] if asks else []), *STATEMENTS]):
        session.sql(statement.format(t=table))
        if number == 3:
            assert lake.table("t").checkpoint(0, apply=True)
    store, last = lake.store.below("t"), log.update(False, lake.gateway.none, lake.gateway.none).version()
    names = store.names("_delta_log")
    assert newest(names, last)[0] >= 3
    for version in range(last + 1):
        files = log.getSnapshotAt(version, lake.gateway.none, lake.gateway.none, False).allFiles().collectAsList()
        listed = json.loads(lake.gateway.to_json(lake.gateway.to_seq(files)))
        found = log_files.adds_at(store, version)
        assert (found is None) == (asks == "struct" and newest(names, version)[0] > 0)
        assert found is None or sorted(map(_told, found)) == sorted(map(_told, listed))


def _told(add: dict[str, Any]) -> tuple[Any, ...]:
    vector, stats = add.get("deletionVector") or {}, json.loads(add.get("stats") or "{}")
    told = add["path"], add["size"], str(add["partitionValues"]), stats.get("numRecords"), str(stats.get("maxValues"))
    return *told, f"{vector.get('pathOrInlineDv')}/{vector.get('cardinality')}"


def test_the_files_rows_are_those_that_spark_reads(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns and fields that came later, widened ones, files of Spark's own, those of partitions without a value; and
    where rows are marked as deleted or columns are mapped it is Spark that is asked."""
    lake, table = Lake(spark, tmp_path, "app"), f"delta.`{tmp_path / 't'}`"
    asked: list[str] = []
    of_spark = reading._by_spark
    monkeypatch.setattr(reading, "_by_spark", lambda *given: asked.append("spark") or of_spark(*given))
    spark.sql(f"CREATE TABLE {table} (_kafka STRUCT<topic: STRING, `partition`: INT, offset: BIGINT>, n INT, "
              "at TIMESTAMP, day DATE, word STRING) USING delta PARTITIONED BY (day, word) "
              "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")  # fmt: skip
    rng = random.Random(7)
    for number, word in enumerate(("'a/b %'", "NULL", "'ä'")):
        spark.sql(f"INSERT INTO {table} SELECT named_struct('topic', 't', 'partition', 1, 'offset', id), "
                  f"IF(id % 3 = 0, NULL, CAST(id AS INT)), timestamp_micros({rng.randrange(-10**15, 10**15)}), "
                  f"IF({number} = 1, NULL, DATE'2026-11-0{number + 1}'), {word} FROM range(5)")  # fmt: skip
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (_kafka.epoch INT AFTER `partition`, "
              "_kafka.timestamp TIMESTAMP, more STRING)")  # fmt: skip
    spark.sql(f"ALTER TABLE {table} CHANGE COLUMN n TYPE BIGINT")
    spark.sql(f"INSERT INTO {table} SELECT named_struct('topic', 'u', 'partition', 2, 'epoch', 3, 'offset', 4L, "
              "'timestamp', TIMESTAMP'1500-01-02 03:04:05.678901'), 9, NULL, DATE'2026-11-09', '', 'm'")  # fmt: skip
    wanted = pa.schema([
        ("_kafka", KAFKA_TYPE), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()),
        ("word", pa.string()), ("more", pa.string()), ("absent", pa.binary()),
    ])  # fmt: skip
    assert _read(lake, wanted) == _by_spark(spark, tmp_path) and not asked
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {table} WHERE n = 4")
    assert _read(lake, wanted) == _by_spark(spark, tmp_path) and len(asked) == 1
    spark.sql(f"REORG TABLE {table} APPLY (PURGE)")
    assert _read(lake, wanted) == _by_spark(spark, tmp_path) and len(asked) == 1
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN more TO most")
    assert len(_read(lake, wanted)) == len(_by_spark(spark, tmp_path)) and len(asked) == 2


def _read(lake: Lake, wanted: pa.Schema) -> list[str]:
    view = lake.table("t").view()
    assert view is not None
    found = pa.concat_tables(arrow_rows(lake, "t", view, wanted))
    assert pc.all(pc.is_null(found.column("absent"))).as_py()
    return sorted(str(row) for row in found.drop_columns(["absent"]).to_pylist())


def _by_spark(spark: Any, folder: Path) -> list[str]:
    frame = spark.read.format("delta").load(str(folder / "t"))
    names = [name for name in frame.columns if name != "_kafka"]
    kafka = f"named_struct({', '.join(f'{one!r}, _kafka.`{one}`' for one in KAFKA_TYPE.names)})"
    rows = frame.selectExpr(f"IF(_kafka IS NULL, NULL, {kafka}) AS _kafka", *names).toArrow()
    return sorted(str(row) for row in rows.to_pylist())
