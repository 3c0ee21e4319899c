"""`exporter prepare`: fetch the jars and make the archive of classes, so that each later start is quicker.

The archive is written by a JVM as it ends (-XX:ArchiveClassesAtExit), so a process of its own does once what every
task does: make a table, fill it, read it, run Python workers.

The jars of a store are fetched beside, and its Java classes compiled. They are not in the archive: that is of the class
path on which they come last, so one archive serves all stores, and a start gains next to nothing by more.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from exporter.arrow.own_columns import KAFKA_COLUMN, KAFKA_TYPE
from exporter.core.deployment import Deployment
from exporter.errors import ConfigError, DependencyUnreachable
from exporter.lake.change import Change, add_action
from exporter.lake.lake import Lake
from exporter.lake.schema import table_schema
from exporter.spark import class_data, jars, java_classes
from exporter.spark import session as spark
from exporter.stores import kept
from exporter.stores.parquet import FileOrigin, GrowingFile
from exporter.stores.s3 import S3Store
from exporter.stores.store import JavaSide
from offsets.names import AppId
from offsets.partitions import DAY
from offsets.ranges import TopicPartition

TRAINING_SECS_MAX = 300
ENDING_SECS_MAX = 180
_TRAIN = "import sys; from exporter.operate.prepare import train; train(sys.argv[1])"
_COMPILE = "import sys; from exporter.operate.prepare import compile_classes; compile_classes(sys.argv[1])"
_JAVA = {"s3": S3Store.at("s3a://prepare", {"region": "us-east-1"}).java}
"""By set of jars, of the stores that have Java classes too."""
_JAVA_ERROR = re.compile(r"(?:Caused by: |Exception in thread .*? )?(?:[a-z]+\.)+[A-Za-z.]*(?:Exception|Error): ")
_COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def prepare(store: str | None = None) -> bool:
    """Fetch what is missing and make the archive; False if all was there, whole. store: one of JAR_SETS, too.

    Raises ConfigError, DependencyUnreachable.
    """
    java = _JAVA.get(store, JavaSide(jar_sets=(store,))) if store else JavaSide()
    jars.fetch("spark", *java.jar_sets)
    made = _archive_made()
    if java.sources and not java_classes.cached(java):
        _child(_COMPILE, str(store))
        return True
    return made


def _archive_made() -> bool:
    home = class_data.home()
    if class_data.is_whole(home):
        return False
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        class_data.clear(home)
        class_data.link(home)
    except OSError as error:
        raise ConfigError(
            f"cannot write {home}: {error}", "set EXPORTER_CACHE_DIR to a folder that this user can write"
        ) from error
    fresh = home / f".{uuid.uuid4().hex}.jsa"
    try:
        _child(_TRAIN, str(fresh))
        kept.into_place(fresh, home / class_data.ARCHIVE)
        class_data.note(home)
    finally:
        fresh.unlink(missing_ok=True)
    return True


def _child(code: str, argument: str) -> None:
    """Run a function of this module in a process of its own. Raises DependencyUnreachable."""
    command, own = [sys.executable, "-c", code, argument], {**os.environ, spark.LAST_JARS: ""}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRAINING_SECS_MAX, env=own
        )
    except subprocess.TimeoutExpired as error:
        raise DependencyUnreachable(f"no archive of classes after {error.timeout} s", "try again") from error
    if done.returncode:
        raise DependencyUnreachable(
            f"the archive of classes could not be made: {_cause(done.stderr.decode('utf-8', 'replace'))}",
            "everything works without it, a start only takes longer",
        )


def _cause(said: str) -> str:
    """The line of a child's standard error that tells most: Java's last error, else what it says last, but no hint."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.strip().startswith("hint:")]
    of_java = [line for line in lines if _JAVA_ERROR.match(line)]
    return (of_java or lines or ["no word of why"])[-1]


def compile_classes(store: str) -> None:
    """The child: those of a store. A session does it as it starts."""
    spark.start(Deployment("local[1]"), "prepare", short_lived=True, java=_JAVA[store]).stop()


def train(archive: str) -> None:
    """The child: what a task does, in small, then end the JVM and wait until it has written the archive."""
    session = spark.start(Deployment("local[2]"), "prepare", short_lived=True, archive=Path(archive))
    with tempfile.TemporaryDirectory() as folder:
        _fill_and_read(session, Path(folder))
        jvm = session.sparkContext._gateway.proc
        session.stop()
        jvm.stdin.close()  # the JVM ends with its standard input
        jvm.wait(ENDING_SECS_MAX)


def _fill_and_read(session: Any, folder: Path) -> None:
    lake, tp = Lake(session, folder, "prepare"), TopicPartition("prepare", 0)
    table, app_id = lake.table("prepare"), str(AppId("prepare", tp, 0))
    table.commit(Change((app_id,), {app_id: -1}, {}, create=table_schema(_COLUMNS)), lambda view: None)
    view = table.view()
    if view is None:
        raise RuntimeError("the table that was just made is not there")
    origin = FileOrigin(table.store, "prepare", tp, 0, "prepare", view.fingerprint, {})
    growing = GrowingFile(origin, DAY.of_key(0))
    kafka = [{"topic": "prepare", "partition": 0, "epoch": 0, "offset": 0, "timestamp": None}]
    columns = {KAFKA_COLUMN: pa.array(kafka, KAFKA_TYPE), "id": pa.array([1]), "_rescued": pa.nulls(1, pa.string())}
    growing.add(pa.table(columns), 0, 0)
    table.commit(Change((app_id,), {app_id: 0}, {}, adds=(add_action(growing.finish(), {}),)), lambda view: None)
    rows = session.read.format("delta").load(table.uri)
    rows.groupBy("day").count().collect()
    rows.select("id").mapInArrow(lambda batches: batches, "id long").toArrow()

