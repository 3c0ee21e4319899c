"""The job that a Spark user would write today, as a process of its own: what the exporter is compared with.

Several types: foreachBatch, the batch persisted, one filtered append per type, partitioned by day, made idempotent by
txnAppId and txnVersion. One type: Delta's own streaming sink. It has the session settings, jars, cores and Kafka fetch
sizes of the exporter, Delta's own log store, and tables that are there before its time begins, as the exporter's are.
No dead letters, no `_rescued`; a record without a day is left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import functions as sf

from exporter.core.deployment import Deployment
from exporter.spark import session as spark
from exporter.stores.file import JAVA
from tests.bench.figures import secs_left

FETCH_OPTIONS = {
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.fetch.max.bytes": str(16 << 20),
    "kafka.max.poll.records": "5000",
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.fetch.max.wait.ms": "10",
}
"""Large fetches, small polls: the best that was found for Spark's source."""
TABLES_AT_ONCE = 4
POLL_SECS = 1.0


def main() -> None:
    """Prints one line of JSON: `since` and `until` (seconds since 1970), rows in the tables, batches, whether given up.

    With --secs-max it gives up once it takes longer for --records, or would, whatever is written by then.
    """
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "lake", "types", "master", "heap"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--trigger", type=int, required=True, help="maxOffsetsPerTrigger")
    parser.add_argument("--secs-max", type=float)
    parser.add_argument("--records", type=int, default=0, help="of the topic")
    given = parser.parse_args()
    declared: dict[str, str] = json.loads(given.types)
    session = spark.start(Deployment(given.master, given.heap), "structured", kafka=True)
    _with_deltas_log_store(session)
    lake = Path(given.lake)
    with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
        list(pool.map(session.sql, [_table(lake / name, ddl) for name, ddl in declared.items()]))
    records = _records(session, given.bootstrap, given.topic, given.trigger)
    since = time.time()
    query = _query(records, declared, lake).trigger(availableNow=True)
    query = query.option("checkpointLocation", str(lake / "_checkpoint")).start()
    given_up = not _ended(query, given.secs_max, given.records)
    until, batches = time.time(), len(query.recentProgress)
    told = {"since": since, "until": until, "rows": rows_in(lake), "batches": batches, "given_up": given_up}
    print(json.dumps({"event": "done", **told}), flush=True)
    session.stop()


def _table(folder: Path, ddl: str) -> str:
    """The statement that makes it."""
    columns = f"_kafka STRUCT<topic: STRING, partition: INT, offset: BIGINT, timestamp: TIMESTAMP>, {ddl}, day DATE"
    return f"CREATE TABLE delta.`{folder}` ({columns}) USING DELTA PARTITIONED BY (day)"


def _ended(query: Any, secs_max: float | None, records: int) -> bool:
    """Wait until it has read all; False as soon as it takes longer than secs_max, or would at the last batch's pace."""
    if secs_max is None:
        query.awaitTermination()
        return True
    since = time.monotonic()
    while not query.awaitTermination(POLL_SECS):
        batches = query.recentProgress
        would_take = sum(batch["batchDuration"] for batch in batches) / 1000 + secs_left(batches, records)
        if max(time.monotonic() - since, would_take) > secs_max:
            return False
    return time.monotonic() - since <= secs_max


def _with_deltas_log_store(session: Any) -> None:
    """The exporter's is its own code, not a setting that a job could have. To be called before a table is opened."""
    of_session = session._jvm.org.apache.spark.SparkEnv.get().conf()
    for name in JAVA.settings:
        of_session.remove(name)
        session.conf.unset(name)


def _records(session: Any, bootstrap: str, topic: str, trigger: int) -> Any:
    """The stream, its event type told by one look at each value."""
    reader = session.readStream.format("kafka").options(**FETCH_OPTIONS)
    reader = reader.option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    stream = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", trigger).load()
    text = sf.col("value").cast("string")
    return stream.select(
        sf.struct("topic", "partition", "offset", "timestamp").alias("_kafka"),
        text.alias("text"),
        sf.get_json_object(text, "$.type").alias("type"),
    )


def _query(records: Any, declared: Mapping[str, str], lake: Path) -> Any:
    """A stream writer, not started."""
    if len(declared) == 1:
        ((name, ddl),) = declared.items()
        writer = _rows(records, name, ddl).writeStream.format("delta").partitionBy("day")
        return writer.option("path", str(lake / name))

    def append(batch: Any, batch_id: int) -> None:
        batch.persist()
        for name, ddl in declared.items():
            writer = _rows(batch, name, ddl).write.format("delta").mode("append").partitionBy("day")
            writer = writer.option("txnAppId", f"structured-{name}").option("txnVersion", batch_id)
            writer.save(str(lake / name))
        batch.unpersist()

    return records.writeStream.foreachBatch(append)


def _rows(records: Any, name: str, ddl: str) -> Any:
    """The rows of one type."""
    parsed = records.where(sf.col("type") == name).select("_kafka", sf.from_json("text", ddl).alias("event"))
    rows = parsed.select("_kafka", "event.*").withColumn("day", sf.to_date("ts"))
    return rows.where("day IS NOT NULL")


def rows_in(lake: Path) -> int:
    """Rows of all tables, by the statistics in their logs. For tables that were only appended to."""
    lines = (line for log in lake.glob("*/_delta_log/*.json") for line in log.read_text().splitlines())
    adds = (json.loads(line).get("add") for line in lines)
    return sum(int(json.loads(add["stats"])["numRecords"]) for add in adds if add)


if __name__ == "__main__":
    main()
