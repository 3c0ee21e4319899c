"""Writes the made-up events of the shop to a topic."""

from __future__ import annotations

from collections.abc import Iterator

from kafka import KafkaProducer
from kafka.errors import KafkaError

from exporter.demo.shop import BAD_EVERY, ShopEvent, ShopTally, events
from exporter.demo.shop_avro import AvroEvents, register
from exporter.errors import DependencyUnreachable

PRODUCE_SECS_MAX = 120.0
"""Deadline for what is still on its way when all records have been handed to the client."""
BLOCK_MS_MAX = 15_000
"""For which the client may look for the topic."""

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
    registry: str = "",
) -> ShopTally:
    """Write `count` events to an existing topic of `partitions` partitions, in order, and say what was written.

    registry: URL of a schema registry; the events are Avro then, and their schemas are registered first.
    Raises DependencyUnreachable if a record was not acknowledged.
    """
    avro = AvroEvents(register(registry, topic)) if registry else None
    made, failed = ShopTally(), list[object]()
    settings = {"linger_ms": 100, "batch_size": 1 << 20, "max_request_size": 8 << 20, "max_block_ms": BLOCK_MS_MAX}
    try:
        producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
        try:
            for partition, shop_event in _in_turn(seed, count, partitions, bad_every):
                event = avro.of(shop_event) if avro else shop_event
                sent = producer.send(topic, event.value, event.key, None, partition, event.timestamp_ms)
                sent.add_errback(failed.append)
                made.add(event)
                if made.records % _FLUSH_EVERY == 0:
                    producer.flush(PRODUCE_SECS_MAX)
            producer.flush(PRODUCE_SECS_MAX)
        finally:
            producer.close(timeout=5)
    except KafkaError as error:
        raise _not_written(topic, bootstrap, error) from error
    if failed:
        raise _not_written(topic, bootstrap, failed[0])
    return made


def _in_turn(seed: int, count: int, partitions: int, bad_every: int) -> Iterator[tuple[int, ShopEvent]]:
    """(partition, record), partitions in turn, so that all of them grow together."""
    streams = {partition: events(seed, count, partition, partitions, bad_every) for partition in range(partitions)}
    while streams:
        for partition, stream in list(streams.items()):
            event = next(stream, None)
            if event is None:
                del streams[partition]
            else:
                yield partition, event


def _not_written(topic: str, bootstrap: str, why: object) -> DependencyUnreachable:
    return DependencyUnreachable(
        f"not all events could be written to {topic} at {bootstrap}: {why!r}",
        "check that the broker runs and that the topic exists with that many partitions",
    )
