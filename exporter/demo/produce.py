"""Writes the made-up events of the shop to a topic.

With confluent-kafka where it is installed, which is the faster, else with kafka-python.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from exporter.demo.shop import BAD_EVERY, ShopEvent, ShopTally, events
from exporter.demo.shop_avro import AvroEvents, register
from exporter.errors import DependencyUnreachable

PRODUCE_SECS_MAX = 120.0
"""Deadline for what is still on its way when all records have been handed to the client."""

_FLUSH_EVERY = 50_000
"""Records between two waits for kafka-python, which holds any number of unsent ones."""


def produce(
    bootstrap: str,
    topic: str,
    count: int,
    seed: int = 1,
    *,
    partitions: int = 1,
    bad_every: int = BAD_EVERY,
    headers: bool = False,
    processes: int | None = None,
    librdkafka: bool | None = None,
    registry: str = "",
) -> ShopTally:
    """Write `count` events to an existing topic of `partitions` partitions and say what was written.

    registry: URL of a schema registry; the events are Avro then, and their schemas are registered first.
    librdkafka: whether to use confluent-kafka instead of kafka-python; None: where it is installed.
    processes: None is one for confluent-kafka, which is fast enough, and two for kafka-python. They are
    spawned, so a script that calls this needs the usual `if __name__ == "__main__"`.
    Each partition is written by one process, in order, idempotently.
    Raises DependencyUnreachable if a record was not acknowledged.
    """
    fast = importlib.util.find_spec("confluent_kafka") is not None if librdkafka is None else librdkafka
    workers = min(partitions, processes or (1 if fast else 2))
    shares = [tuple(range(first, partitions, workers)) for first in range(workers)]
    said = (bootstrap, topic, count, seed, partitions, bad_every, headers, fast)
    jobs = [_Job(*said, share, registry) for share in shares]
    if len(jobs) == 1:
        return _produce_some(jobs[0])
    total = ShopTally()
    with ProcessPoolExecutor(len(jobs), mp_context=multiprocessing.get_context("spawn")) as pool:
        for made in pool.map(_produce_some, jobs):
            total.merge(made)
    return total


@dataclass(frozen=True)
class _Job:
    """The part of produce() that one process does: all records of the partitions `mine`."""

    bootstrap: str
    topic: str
    count: int
    seed: int
    partitions: int
    bad_every: int
    headers: bool
    librdkafka: bool
    mine: tuple[int, ...]
    registry: str

    def records(self) -> Iterator[tuple[int, ShopEvent]]:
        """(partition, record), partitions in turn, so that all of them grow together."""
        streams = {
            partition: events(self.seed, self.count, partition, self.partitions, self.bad_every, self.headers)
            for partition in self.mine
        }
        avro = AvroEvents(register(self.registry, self.topic)) if self.registry else None
        while streams:
            for partition, stream in list(streams.items()):
                event = next(stream, None)
                if event is None:
                    del streams[partition]
                else:
                    yield partition, avro.of(event) if avro else event


def _produce_some(job: _Job) -> ShopTally:
    """Write one process's part."""
    return _produce_with_librdkafka(job) if job.librdkafka else _produce_with_kafka_python(job)


def _produce_with_kafka_python(job: _Job) -> ShopTally:
    made, failed = ShopTally(), list[object]()
    settings = {"linger_ms": 100, "batch_size": 1 << 20, "max_request_size": 8 << 20, "max_block_ms": 15_000}
    try:
        producer = KafkaProducer(bootstrap_servers=job.bootstrap, **settings)
        try:
            send, topic = producer.send, job.topic
            for partition, event in job.records():
                sent = send(topic, event.value, event.key, event.headers, partition, event.timestamp_ms)
                sent.add_errback(failed.append)
                made.add(event)
                if made.records % _FLUSH_EVERY == 0:
                    producer.flush(PRODUCE_SECS_MAX)
            producer.flush(PRODUCE_SECS_MAX)
        finally:
            producer.close(timeout=5)
    except KafkaError as error:
        raise _not_written(job, error) from error
    if failed:
        raise _not_written(job, failed[0])
    return made


def _produce_with_librdkafka(job: _Job) -> ShopTally:
    from confluent_kafka import KafkaException, Producer

    made, failed = ShopTally(), list[object]()
    settings: dict[str, Any] = {"bootstrap.servers": job.bootstrap, "enable.idempotence": True, "linger.ms": 100}
    settings |= {"batch.size": 1 << 20, "message.max.bytes": 8 << 20, "queue.buffering.max.messages": 200_000}
    settings |= {"message.timeout.ms": int(PRODUCE_SECS_MAX * 1000), "delivery.report.only.error": True, "log_level": 3}
    settings["topic.metadata.propagation.max.ms"] = 5_000
    producer = Producer(settings | {"on_delivery": lambda error, _: failed.append(error)})
    try:
        for partition, event in job.records():
            _hand_over(producer, job.topic, partition, event)
            made.add(event)
    except KafkaException as error:
        raise _not_written(job, error) from error
    if producer.flush(PRODUCE_SECS_MAX) or failed:
        raise _not_written(job, failed[0] if failed else f"no answer within {PRODUCE_SECS_MAX:.0f} s")
    return made


def _hand_over(producer: Any, topic: str, partition: int, event: ShopEvent) -> None:
    """Give one record to librdkafka, waiting while its queue is full; message.timeout.ms bounds the wait."""
    while True:
        try:
            producer.produce(
                topic, event.value, event.key, partition, timestamp=event.timestamp_ms, headers=event.headers
            )
            return
        except BufferError:
            producer.poll(0.1)


def _not_written(job: _Job, why: object) -> DependencyUnreachable:
    return DependencyUnreachable(
        f"not all events could be written to {job.topic} at {job.bootstrap}: {why!r}",
        "check that the broker runs and that the topic exists with that many partitions",
    )
