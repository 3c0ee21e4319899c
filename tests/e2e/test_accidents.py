"""Accidents to tables and topics: the task stops with one message, the command in it helps, nothing is lost or twice."""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from exporter import faults
from exporter.audit import AuditReport, audit
from exporter.broker import create_topic
from exporter.errors import ExporterError, Fenced, InvariantBroken
from exporter.faults import InjectedFault
from exporter.repair import Refused, RepairRow, repair
from exporter.routing import DEAD_LETTERS
from exporter.settings import kafka_python_options, routing, spark_kafka_options
from exporter.tables import DeltaTable, Lake
from exporter.task import Workbench, parse_schemas
from exporter.topic import TopicReader
from offsets import Invariant
from tests.lakes import Export, event, mixed, wait_until, wrong_places
from tests.services import fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ALL = (DEAD_LETTERS, "click", "order", "payment")


@pytest.fixture
def export(kafka: str, topic: Callable[..., str], tmp_path: Path) -> Callable[..., Export]:
    """Makes exports of fresh topics: export(partitions=2)."""

    def make(partitions: int = 1, **scalars: Any) -> Export:
        return Export(kafka, topic(partitions), tmp_path, fresh_name("app"), scalars=scalars)

    return make


@contextmanager
def bench(e: Export, spark: Any) -> Iterator[Workbench]:
    """What the verbs work on, on the shared session."""
    settings = e.settings()
    reader = TopicReader(kafka_python_options(settings), settings.topic, settings.isolation)
    try:
        schemas = parse_schemas(spark, settings.declared)
        yield Workbench(spark, Lake(spark, settings.root, settings.app), reader, routing(settings, schemas))
    finally:
        reader.close()


def repaired(e: Export, spark: Any, action: str = "rewind", former: str = "", apply: bool = True) -> list[RepairRow]:
    """exporter repair --<action> [--apply]"""
    with bench(e, spark) as made:
        return repair(made, action, former, "earliest", apply)


def audited(e: Export, spark: Any) -> AuditReport:
    with bench(e, spark) as made:
        options = spark_kafka_options(e.settings())
        return audit(spark, made.lake, made.topic, made.routing, options)


def sql(e: Export, spark: Any, statement: str) -> None:
    """SQL with {order} and the like replaced by tables."""
    names = {name: f"delta.`{e.root / 'lake' / name}`" for name in ALL}
    spark.sql(statement.format(**names))


def versions(e: Export) -> dict[str, int]:
    return {name: e.table(name).version() for name in e.tables()}


def forget(spark: Any) -> None:
    """Delta's cache of logs, as in a fresh process."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def twice_exported(e: Export, spark: Any) -> dict[str, int]:
    """Two runs of 100 records per partition; the versions after the first."""
    partitions = range(e.settings_partitions) if hasattr(e, "settings_partitions") else (0, 1)
    produce(e.kafka, e.topic, {p: mixed(100, first=1000 * p) for p in partitions})
    e.run(spark)
    first = versions(e)
    produce(e.kafka, e.topic, {p: mixed(100, first=100 + 1000 * p) for p in partitions})
    e.run(spark)
    return first


def stops(e: Export, spark: Any, table: str, operation: str) -> InvariantBroken:
    """The next start exits 70; its one message names the table, what happened, a partition, offsets and the command."""
    before = versions(e)
    with pytest.raises(InvariantBroken) as stopped:
        e.run(spark)
    error = stopped.value
    assert (error.invariant, error.exit_code) == (Invariant.MONOTONE, 70)
    assert f"table {table}" in error.message and operation in error.message, error.message
    assert re.search(rf"{e.topic}-\d (offsets \d+\.\.\d+|through)", error.message), error.message
    assert "exporter repair --rewind" in error.hint
    assert versions(e) == before
    return error


def is_whole(e: Export, spark: Any) -> None:
    """More records arrive, the export goes on; each record is once where it must be, and the audit says so."""
    produce(e.kafka, e.topic, {0: mixed(50, first=5000)})
    e.run(spark)
    assert wrong_places(e) == {}
    report = audited(e, spark)
    assert report.clean, report.as_text()
    assert e.run(spark).totals.records == 0


def restore(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, f"RESTORE TABLE {{order}} TO VERSION AS OF {first['order']}")


def restore_by_time(e: Export, spark: Any, first: dict[str, int]) -> None:
    log = e.root / "lake" / "order" / "_delta_log" / f"{first['order']:020d}.json"
    at = datetime.fromtimestamp(log.stat().st_mtime, timezone.utc) + timedelta(milliseconds=1)
    sql(e, spark, f"RESTORE TABLE {{order}} TO TIMESTAMP AS OF '{at:%Y-%m-%d %H:%M:%S.%f}'")


def restore_over_optimize(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, "OPTIMIZE {order}")
    sql(e, spark, f"RESTORE TABLE {{order}} TO VERSION AS OF {first['order']}")
    sql(e, spark, "OPTIMIZE {order}")


def restore_letters(e: Export, spark: Any, first: dict[str, int]) -> None:
    """To its creation: without rows, and without the list of tables that it recorded afterwards."""
    sql(e, spark, "RESTORE TABLE {dead_letters} TO VERSION AS OF 0")


def insert_overwrite(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, "INSERT OVERWRITE {order} SELECT * FROM {order} WHERE _kafka.offset < 40")


def overwrite_one_day(e: Export, spark: Any, first: dict[str, int]) -> None:
    path = str(e.root / "lake" / "order")
    frame = spark.read.format("delta").load(path).filter("day = '2026-01-30' AND _kafka.offset > 150")
    frame.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(path)


def replace_where(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, "INSERT INTO {order} REPLACE WHERE _kafka.offset > 120 SELECT * FROM {order} WHERE _kafka.offset = 130")


def truncate(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, "TRUNCATE TABLE {order}")


def replace_table(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, "CREATE OR REPLACE TABLE {order} USING delta PARTITIONED BY (day) AS "
                  "SELECT * FROM {order} WHERE _kafka.offset < 40")  # fmt: skip


ACCIDENTS: list[tuple[Callable[..., None], str, str]] = [
    (restore, "order", "RESTORE"),
    (restore_by_time, "order", "RESTORE"),
    (restore_over_optimize, "order", "RESTORE"),
    (restore_letters, DEAD_LETTERS, "RESTORE"),
    (insert_overwrite, "order", "WRITE"),
    (overwrite_one_day, "order", "WRITE"),
    (replace_where, "order", "WRITE"),
    (truncate, "order", "TRUNCATE"),
    (replace_table, "order", "CREATE OR REPLACE TABLE AS SELECT"),
]


@pytest.mark.parametrize("accident, table, operation", ACCIDENTS, ids=[a.__name__ for a, *_ in ACCIDENTS])
def test_after_an_accident_to_a_stopped_table_repair_exports_exactly_what_is_missing(
    export: Callable[..., Export], spark: Any, accident: Callable[..., None], table: str, operation: str
) -> None:
    """The start exits 70 and names what is missing; a dry run writes nothing; applied, all tables are in epoch 1."""
    e = export(2)
    first = twice_exported(e, spark)
    accident(e, spark, first)
    stops(e, spark, table, operation)
    before = versions(e)
    planned = repaired(e, spark, apply=False)
    assert versions(e) == before
    assert {(row.table, str(row.tp)) for row in planned} == {(name, f"{e.topic}-{p}") for name in ALL for p in (0, 1)}
    repaired(e, spark)
    assert {epoch for epoch, _ in e.positions().values()} == {1}
    with pytest.raises(Refused, match="nothing to rewind"):
        repaired(e, spark)
    is_whole(e, spark)


def test_a_restore_by_version_takes_the_position_back_to_that_version_and_no_further(
    export: Callable[..., Export], spark: Any
) -> None:
    """Only what the table lost is read again, the other tables keep their positions, no file of it is rewritten."""
    e = export(2)
    first = twice_exported(e, spark)
    restore(e, spark, first)
    error = stops(e, spark, "order", "RESTORE")
    assert f"{e.topic}-0 offsets 100..199, {e.topic}-1 offsets 100..199" in error.message
    rows = {(row.table, row.tp.partition): row for row in repaired(e, spark) if row.tp is not None}
    assert {(str(row.old), str(row.new)) for at, row in rows.items() if at[0] == "order"} == {("199", "99 (epoch 1)")}
    assert {(str(row.old), str(row.new)) for at, row in rows.items() if at[0] != "order"} == {("199", "199 (epoch 1)")}
    assert [row.removed for row in rows.values()] == [0] * 8
    is_whole(e, spark)


def test_a_removed_folder_begins_anew(export: Callable[..., Export], spark: Any) -> None:
    """A dropped table, and one that somebody made anew with other rows: exit 70, then all their records again."""
    e = export(2)
    twice_exported(e, spark)
    folders = {name: e.root / "lake" / name for name in ("order", "click")}
    copied = spark.read.format("delta").load(str(folders["click"])).limit(30).toPandas()
    schema = spark.read.format("delta").load(str(folders["click"])).schema
    for folder in folders.values():
        shutil.rmtree(folder)
    forget(spark)
    frame = spark.createDataFrame(copied, schema)
    frame.write.format("delta").partitionBy("day").save(str(folders["click"]))
    with pytest.raises(InvariantBroken, match=r"(table order is gone|table click was replaced).*-0 through offset 199") as stopped:
        e.run(spark)
    assert "exporter repair --rewind" in stopped.value.hint
    repaired(e, spark)
    is_whole(e, spark)


def test_a_table_with_other_columns_is_refused_until_it_is_restored(export: Callable[..., Export], spark: Any) -> None:
    """What replaced it is somebody's: the message names the RESTORE that brings the table back, and nothing is lost."""
    e = export(2)
    twice_exported(e, spark)
    before = e.table("order").version()
    path = str(e.root / "lake" / "order")
    spark.range(3).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    stops(e, spark, "order", "WRITE")
    with pytest.raises(Refused, match="other columns") as refused:
        repaired(e, spark)
    assert f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {before}" in refused.value.hint
    sql(e, spark, f"RESTORE TABLE {{order}} TO VERSION AS OF {before}")
    error = stops(e, spark, "order", "RESTORE")
    assert "nothing seems to be missing" in error.message
    assert [(row.table, row.tp) for row in repaired(e, spark)] == [("order", None)]
    assert {epoch for epoch, _ in e.positions().values()} == {0}
    is_whole(e, spark)
