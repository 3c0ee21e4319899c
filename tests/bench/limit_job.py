"""The limit as a process of its own: Spark's Kafka read, or librdkafka's in this one process, into sink.py.

Reads the exporter's settings file, so that broker, topic, types and session are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from exporter.core.order import Destination, StagingOrder
from exporter.core.routing import Routing
from exporter.core.writers import PartitionPlan
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader, partitions_of
from exporter.rounds.read import RoundReader, warm
from exporter.settings import load as settings_load
from exporter.settings.model import Settings
from exporter.spark import session as spark
from exporter.workbench import checked_routing, open_workbench
from offsets.ranges import TopicPartition
from tests.bench.sink import PlainSink, spark_task

BATCH_RECORDS = 50_000
FETCH = {"fetch.message.max.bytes": 4 << 20, "queued.max.messages.kbytes": 64 << 10, "log_level": 3}


def main() -> None:
    """Prints one line of JSON: `since` and `until` (seconds since 1970), rows written."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args()
    os.makedirs(given.folder)
    settings = settings_load.load(given.config, {}, os.environ)
    job = _without_spark if given.without_spark else _with_spark
    print(json.dumps({"event": "done", **job(settings, given.config, given.folder)}), flush=True)


def _with_spark(settings: Settings, config: Path, folder: str) -> dict[str, float]:
    """The exporter's own read of the whole topic as one job. Leaves the parsed schemas for the other one."""
    session = spark.start(settings.deployment, "limit", java=settings.store.java)
    bench = open_workbench(settings, session)
    config.with_suffix(".schemas").write_text(json.dumps(bench.routing.schemas))
    reader = RoundReader(bench.session, kafka_python_options(settings))
    ends = _ends(bench.topics)
    plans = {tp: PartitionPlan(tp, 0, 0, 0, end, {}) for tp, end in ends.items()}
    order = StagingOrder(Destination(folder, settings.app), bench.routing, plans, {}, {})
    warm(session)
    since = time.time()
    task = spark_task(folder, bench.routing, settings.topics[0])
    counted = reader.collect(order, task, "rows bigint")
    until = time.time()
    bench.close()
    return {"since": since, "until": until, "rows": sum(row["rows"] for row in counted)}


def _without_spark(settings: Settings, config: Path, folder: str) -> dict[str, float]:
    """One process: consume, make Arrow batches, decode, write."""
    topics = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
    ends = _ends(topics)
    topics.close()
    routing = checked_routing(settings, json.loads(config.with_suffix(".schemas").read_text()))
    since = time.time()
    rows = _consume(settings.brokers[0], ends, folder, routing)
    return {"since": since, "until": time.time(), "rows": rows}


def _consume(bootstrap: str, ends: dict[TopicPartition, int], folder: str, routing: Routing) -> int:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Assigned

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "limit", "enable.auto.commit": False, **FETCH})
    consumer.assign([Assigned(tp.topic, tp.partition, 0) for tp in ends])
    sink, left = PlainSink(folder, "one", routing, next(iter(ends)).topic), sum(ends.values())
    while left > 0:
        by_partition: dict[int, list[Any]] = defaultdict(list)
        for message in consumer.consume(BATCH_RECORDS, 1.0):
            if message.error():
                raise RuntimeError(str(message.error()))
            by_partition[message.partition() or 0].append(message)
        for messages in by_partition.values():
            sink.add(_batch(messages))
            left -= len(messages)
    consumer.close()
    return sink.close()


def _batch(messages: list[Any]) -> pa.RecordBatch:
    """Messages of one partition as Spark's Kafka source would give them."""
    columns = {
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
        "partition": pa.repeat(pa.scalar(messages[0].partition(), pa.int32()), len(messages)),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": pa.array([message.timestamp()[1] * 1000 for message in messages], pa.timestamp("us", tz="UTC")),
    }
    return pa.RecordBatch.from_pydict(columns)


def _ends(topics: TopicReader) -> dict[TopicPartition, int]:
    return topics.end_offsets(partitions_of(topics.identities()))


if __name__ == "__main__":
    main()
