"""Tables that are registered beside the export: what a catalog does, and does not, never changes the tables."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from exporter.catalog.hive import HiveCatalog
from exporter.core.routing import DEAD_LETTERS
from exporter.operate.catalog import check_catalog, register_all
from exporter.spark.jars import jar_paths
from exporter.stores.store import Store
from tests.support import naive
from tests.support.lakes import DDL, Export, event, wait_until
from tests.support.metastore import LocalMetastore
from tests.support.places import Place
from tests.support.processes import running
from tests.support.services import fresh_name, produce
from tests.support.unity import unity

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TYPES = {"order": DDL["order"], "Click.Made": DDL["click"]}
NAMES = {DEAD_LETTERS: DEAD_LETTERS, "order": "order", "Click.Made": "click_made"}
WAIT_SECS = 120


@contextmanager
def deaf() -> Iterator[tuple[str, list[socket.socket]]]:
    """An address at which whoever connects is never answered, and who has connected."""
    met: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    met.append(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", met
        listener.shutdown(socket.SHUT_RDWR)
    for one in met:
        one.close()


def exported_to(kafka: str, topic: str, root: Path, **scalars: Any) -> Export:
    """Two types, one whose name no catalog takes as it is; 40 records."""
    e = Export(kafka, topic, root, fresh_name("app"), types=TYPES, scalars={"catalog_database": "lake", **scalars})
    kinds = [*TYPES]
    produce(kafka, topic, {0: [event(kinds[number % 2], number) for number in range(40)]})
    return e


def test_a_catalog_that_never_answers_changes_nothing(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """A task exports, catches up and ends, while its call hangs in the JVM; `check` finds that nobody answers."""
    with deaf() as (address, met):
        e = exported_to(kafka, topic(), tmp_path, catalog="hive", catalog_uri=f"thrift://{address}")
        with running(e, "--until-caught-up") as process:
            assert process.wait(WAIT_SECS) == 0, process.text
            assert met, "nobody was asked"
            assert {"table_registered", "catalog_reached"}.isdisjoint(one["event"] for one in process.quiet_events())
        naive.assert_each_once(e)
        (found,) = check_catalog(e.settings(), e.lake(spark), wait_secs=0.5)
        assert (found.level, found.says) == ("warn", "no answer within 0.5 s")


def test_tables_stand_in_a_metastore_and_nobody_listens_is_told(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """Each under its name, while a task runs; no version of a table is written for it.

    Before the metastore is there, the export goes on and `check` says that nobody listens.
    """
    server = LocalMetastore()
    e = exported_to(kafka, topic(), tmp_path, catalog="hive", catalog_uri=server.uri)
    e.run(spark)
    naive.assert_each_once(e)
    settings, lake = e.settings(), e.lake(spark)
    (found,) = check_catalog(settings, lake)
    assert found.level == "warn" and "MetaException" in found.says and "Connection refused" in found.says
    with server:
        with e.going(spark):
            hive = HiveCatalog("lake", server.uri, spark)
            wait_until(lambda: hive.find("order"), WAIT_SECS, "the last table by its name is registered")
        assert {event_type: hive.find(name).location for event_type, name in NAMES.items()} == {  # type: ignore[union-attr]
            event_type: f"file://{e.folder(event_type)}" for event_type in NAMES
        }
        versions = {name: e.table(name).version() for name in NAMES}
        became = {name: one.outcome for name, one in register_all(settings, lake)}  # type: ignore[union-attr]
        assert became == dict.fromkeys(NAMES, "there")
        assert {name: e.table(name).version() for name in NAMES} == versions
        (found,) = check_catalog(settings, lake)
        assert (found.level, found.says) == ("ok", "hive, database lake: 3 of 3 tables are registered")


def test_tables_stand_in_a_unity_catalog(kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any) -> None:
    """Each under its name in the schema, with its columns; no version of a table is written for it."""
    root = tmp_path / "lake"
    root.mkdir()
    with unity(tmp_path) as server:
        server.catalogs["main"] = set()
        told = {"catalog_uri": server.url, "catalog_token_file": str(server.token_file)}
        e = exported_to(kafka, topic(), root, catalog="unity", catalog_database="main.lake", **told)
        e.run(spark)
        versions = {name: e.table(name).version() for name in NAMES}
        settings, lake = e.settings(), e.lake(spark)
        assert {one.outcome for _, one in register_all(settings, lake)} <= {"made", "there"}  # type: ignore[union-attr]
        (found,) = check_catalog(settings, lake)
        assert (found.level, found.says) == ("ok", "unity, database main.lake: 3 of 3 tables are registered")
        assert {name: table["storage_location"] for name, table in server.tables.items()} == {
            f"main.lake.{name}": f"file://{e.folder(event_type)}" for event_type, name in NAMES.items()
        }
        columns = server.tables["main.lake.order"]["columns"]
        assert [one["name"] for one in columns] == ["_kafka", "_event_time", "id", "amount", "note", "_rescued", "day"]
        server.token = "another"
        (found,) = check_catalog(settings, lake)
        assert found.level == "warn" and "HTTP 401 UNAUTHENTICATED" in found.says
    assert {name: e.table(name).version() for name in NAMES} == versions
    naive.assert_each_once(e)


READ = """
import sys
from pyspark.sql import SparkSession
uri, jars = sys.argv[1:]
told = {
    "spark.jars": jars, "spark.ui.enabled": "false", "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.hive.metastore.uris": uri, "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
session = SparkSession.builder.master("local[1]").config(map=told).getOrCreate()
print("rows", session.sql("SELECT count(*) FROM lake.click_made").collect()[0][0])
session.sql("DROP TABLE lake.click_made")
print("left", [row.tableName for row in session.sql("SHOW TABLES IN lake").collect()])
"""


@pytest.mark.long
def test_a_spark_of_others_reads_a_registered_table_and_drops_only_the_name(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """By the metastore alone; after its DROP TABLE all files are there."""
    with LocalMetastore() as server:
        e = exported_to(kafka, topic(), tmp_path, catalog="hive", catalog_uri=server.uri)
        e.run(spark)
        assert {one.outcome for _, one in register_all(e.settings(), e.lake(spark))} <= {"made", "there"}  # type: ignore[union-attr]
        files = e.files("Click.Made")
        command = [sys.executable, "-c", READ, server.uri, ",".join(map(str, jar_paths("spark")))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        said = [line for line in done.stdout.splitlines() if line.startswith(("rows", "left"))]
        assert said == ["rows 20", "left ['dead_letters', 'order']"]
    assert e.files("Click.Made") == files
    naive.assert_each_once(e)


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_tables_in_a_bucket_stand_in_glue_with_their_columns(
    place: Place,
    s3: Store,
    kafka: str,
    topic: Callable[..., str],
    tmp_path: Path,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also those that came later; as Athena calls the bucket. Then the task asks no more, and misses none."""
    monkeypatch.setattr("exporter.task.registering.PAUSE_SECS", 0.5)
    database = fresh_name("lake").replace("-", "_")
    e = exported_to(
        kafka, topic(), tmp_path, catalog="glue", catalog_uri=s3.options["endpoint"], catalog_database=database
    )
    e = Export(e.kafka, e.topic, e.root, e.app, types=TYPES, scalars=e.scalars, at=place)
    e.run(spark)
    settings, lake = e.settings(), e.lake(spark)
    assert {one.outcome for _, one in register_all(settings, lake)} <= {"made", "there"}  # type: ignore[union-attr]
    glue = boto3.client("glue", endpoint_url=s3.options["endpoint"])

    def columns(name: str) -> list[str]:
        found = glue.get_table(DatabaseName=database, Name=name)["Table"]["StorageDescriptor"]
        assert found["Location"].startswith("s3://")
        return [column["Name"] for column in found["Columns"]]

    assert columns("order") == ["_kafka", "_event_time", "id", "amount", "note", "_rescued", "day"]
    wider = e.with_({**TYPES, "order": f"{DDL['order']}, more INT"})
    with wider.going(spark) as task:
        produce(kafka, e.topic, {0: [event("order", number, more=number) for number in range(40, 50)]})
        wait_until(lambda: "more" in columns("order"), WAIT_SECS, "the new column is registered")
        machine = task.service._registering
        wait_until(lambda: machine._watch.unregistered == 0, WAIT_SECS, "all tables are registered")
        wait_until(lambda: wider.offsets("order")[-1:] == [49], WAIT_SECS, "the new records are there")
        wait_until(lambda: machine._running is None, WAIT_SECS, "the end of a turn")
        asked = machine._next
        produce(kafka, e.topic, {0: [event("order", number, more=number) for number in range(50, 60)]})
        wait_until(lambda: wider.offsets("order")[-1:] == [59], WAIT_SECS, "the last records are there")
        assert machine._next == asked, "nothing has changed, and it was asked again"
    naive.assert_each_once(wider)
