"""What a topic has, as a reader of committed transactions sees it, by confluent-kafka."""

from __future__ import annotations

import uuid
from typing import NamedTuple

import confluent_kafka as ck


class Got(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def got(kafka: str, topic: str, isolation: str = "read_committed") -> list[Got]:
    """All records, each partition in order, partition by partition; RuntimeError if their end does not come."""
    consumer = ck.Consumer({
        "bootstrap.servers": kafka, "group.id": uuid.uuid4().hex, "isolation.level": isolation,
        "enable.partition.eof": True, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 3,
    })  # fmt: skip
    try:
        left = set(consumer.list_topics(topic, 10).topics[topic].partitions)
        consumer.assign([ck.TopicPartition(topic, one, 0) for one in left])
        found: list[Got] = []
        while left:
            message = consumer.poll(15)
            if message is None:
                raise RuntimeError(f"{topic}: no end of partitions {left}")
            if message.error():
                left.discard(message.partition())
            else:
                headers = tuple((name, bytes(value)) for name, value in message.headers() or ())
                found.append(Got(message.partition(), message.key(), message.value(), headers))
        return sorted(found, key=lambda one: one.partition)
    finally:
        consumer.close()
