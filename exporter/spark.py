"""The Spark session: started without Ivy, quiet, in UTC, and deaf to the signals that stop the driver."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter.jars import find_java, jar_paths

ARROW_BATCH_RECORDS = 20_000
ARROW_BATCH_BYTES = 32 << 20
LOG4J_FILE = Path(__file__).with_name("log4j2.properties")


def start(master: str, driver_memory: str, app_name: str, short_lived: bool = False) -> Any:
    """A SparkSession with Delta and the Kafka source. The JVM ends with this process, however that ends.

    short_lived: for verbs that end within a minute or two; the JVM's second compiler would not pay off.
    A signal to the whole process group reaches the JVM too: it inherits SIGTERM as ignored, and
    pyspark itself shields it from SIGINT. Callers install their own handlers afterwards.
    """
    java = find_java()
    os.environ.setdefault("JAVA_HOME", str(java.parent.parent.resolve()))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with _term_ignored():
        session = _builder(master, driver_memory, app_name, short_lived).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def alive(session: Any) -> bool:
    """Whether the session's JVM, a child of this process, is there."""
    return session.sparkContext._gateway.proc.poll() is None  # pyspark has no public way to ask


@contextmanager
def _term_ignored() -> Iterator[None]:
    before_term, before_int = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before_term)
        signal.signal(signal.SIGINT, before_int)


def _builder(master: str, driver_memory: str, app_name: str, short_lived: bool) -> Any:
    from pyspark.sql import SparkSession

    jars = [str(path) for path in jar_paths("spark")]
    scratch = tempfile.gettempdir()
    java_options = f"-Dlog4j.configurationFile={LOG4J_FILE.as_uri()} -XX:+UseSerialGC -Duser.timezone=UTC"
    java_options += " -XX:+ExitOnOutOfMemoryError"
    if short_lived:
        java_options += " -XX:TieredStopAtLevel=1"
    options = {
        "spark.driver.memory": driver_memory,
        "spark.driver.extraClassPath": os.pathsep.join(jars),
        "spark.driver.extraJavaOptions": java_options,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": os.path.join(scratch, "spark-warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.setTransactionsInCrc.maxAllowed": "100000",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_RECORDS),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BATCH_BYTES),
        "spark.kafka.consumer.cache.timeout": "30s",
        "spark.kafka.consumer.cache.evictorThreadRunInterval": "10s",
        "spark.kafka.consumer.fetchedData.cache.timeout": "30s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "10s",
        "spark.python.worker.reuse": "true",
        "spark.task.maxFailures": "1",
    }
    if master.startswith("local"):
        options |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    else:
        options |= {"spark.jars": ",".join(jars)}
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder
