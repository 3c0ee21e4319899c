"""Where Spark runs, and every option that a session is started with. Pure.

    local      tasks are threads of the driver's JVM, with Python workers beside it
    a cluster  executors fetch the jars from the driver and need a way back to it, and a Python with this package

What the export rests on cannot be had otherwise: such an option of a user's is refused (refusal). All others are passed
on, and win over what is here for the sake of speed only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

PAGES = {
    "MIMALLOC_PURGE_DELAY": "-1",
    "MIMALLOC_ALLOW_THP": "0",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""For the workers: the allocators of Arrow and of the C library keep the pages that one batch needed for the next, else
the system clears them anew for each. Nor do they take 2 MiB at a time, of which much is cleared and never used. 32 MiB
is the most that every C library takes."""
NO_KAFKA = "avro,csv,json,orc,parquet,text"
"""The sources that Spark reads by its first interface. By default Kafka is one of them for batches, not for streams:
then each record becomes an object of Spark's users and from that a row again."""
TASK_FAILURES = 4
"""Tries of a task on a cluster, on other executors if there are any: what one machine does to it fails no round."""
LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|\[::1\]")

FIXED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.sources.useV1SourceList": NO_KAFKA,
    "spark.python.daemon.module": "exporter.executor.daemon",
    "spark.submit.deployMode": "client",
}
"""What the export rests on, wherever it runs."""
TUNED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.setTransactionsInCrc.maxAllowed": "100000",
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    "spark.kafka.consumer.cache.timeout": "30s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "10s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "30s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "10s",
    "spark.python.worker.reuse": "true",
    **{f"spark.executorEnv.{name}": value for name, value in PAGES.items()},
}
"""What is quicker so, or smaller: of the last queries Spark keeps the plans, as text, for pages that nobody sees."""
SETTINGS = {
    "spark.master": "spark_master",
    "spark.app.name": "app",
    "spark.driver.memory": "driver_memory",
    "spark.driver.host": "driver_host",
    "spark.driver.port": "driver_port",
    "spark.driver.blockManager.port": "driver_port",
    "spark.pyspark.python": "worker_python",
    "spark.pyspark.driver.python": "worker_python",
    "spark.archives": "worker_archive",
}
"""Spark's name for what is a setting of its own."""
OWN = frozenset(
    {"spark.driver.extraClassPath", "spark.driver.extraJavaOptions", "spark.sql.execution.arrow.maxRecordsPerBatch",
     "spark.sql.execution.arrow.maxBytesPerBatch"}
)  # fmt: skip
"""What a session's start has to say by itself, and the size of batches (spark/batches.py)."""
_LOG_STORE = re.compile(r"spark\.delta\.logStore\..+|spark\.sql\.streaming\.checkpointFileManagerClass")
_CREDENTIALS = re.compile(r"spark\.hadoop\.fs\..+(credential|access\.?key|secret|session\.token|account\.key).*", re.I)
_HADOOP = re.compile(r"(fs|dfs|hive|hadoop)\..+")
SECRET = re.compile("password|secret|token|key(?!tab)", re.IGNORECASE)
"""In the name of an option whose value is shown nowhere."""


def refusal(name: str, of_store: Collection[str]) -> str:
    """Why an option of a user's is not passed on; empty if it is. of_store: the options that the store sets."""
    if name in SETTINGS:
        return f"use the setting {SETTINGS[name]}"
    if name in FIXED or name in OWN or name in of_store or _LOG_STORE.fullmatch(name):
        return "the export rests on its own value of it"
    if _CREDENTIALS.fullmatch(name):
        return "credentials are those of the standard chain, for Spark as for everything else"
    if name.startswith("spark."):
        return ""
    return "should begin with spark." + ("hadoop." if _HADOOP.fullmatch(name) else "")


@dataclass(frozen=True)
class Deployment:
    """master, driver_memory: as Spark takes them. options: Spark's, none of them refused.

    Of a cluster: driver_host, driver_port and the next one: where executors reach the driver, as Spark finds it by
    itself if empty or 0. worker_python: as the workers find it; empty: as this process does. worker_archive: a Python
    environment that they unpack, path#folder. Without a cluster none of these counts.
    """

    master: str
    driver_memory: str = "1g"
    driver_host: str = ""
    driver_port: int = 0
    worker_python: str = ""
    worker_archive: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether tasks run in the driver's JVM."""
        return self.master.startswith("local")

    def spark_options(self, jars: Sequence[str], needed: Mapping[str, str]) -> dict[str, str]:
        """All options but those of Java itself. jars: paths of what Spark lacks here. needed: what is as it is, too."""
        on_cluster = {"spark.jars": ",".join(jars), "spark.task.maxFailures": str(TASK_FAILURES)}
        fixed = {**FIXED, "spark.driver.memory": self.driver_memory, **needed, **self._reached()}
        fixed |= {"spark.driver.extraClassPath": ":".join(jars)} if jars else {}
        return {**TUNED, **({} if self.is_local else on_cluster), **self.options, **fixed}

    def _reached(self) -> dict[str, str]:
        """How executors come to the driver and to their Python. The driver's address need not be one of its own."""
        if self.is_local:
            return {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        told = {
            "spark.driver.host": self.driver_host,
            "spark.driver.port": str(self.driver_port or ""),
            "spark.driver.blockManager.port": str(self.driver_port + 1 if self.driver_port else ""),
            "spark.archives": self.worker_archive,
        }
        if self.driver_host and "spark.driver.bindAddress" not in self.options:
            told["spark.driver.bindAddress"] = self.driver_host if LOOPBACK.fullmatch(self.driver_host) else "0.0.0.0"
        return {name: value for name, value in told.items() if value}
