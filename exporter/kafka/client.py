"""What kafka-python's consumers have to be told beyond their options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka import OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import KafkaError

from offsets.ranges import TopicPartition

CLOSE_TIMEOUT_MS = 3_000
COMMIT_TIMEOUT_MS = 5_000


def never_create_topics(client: Any) -> None:
    """A topic that was deleted is not made anew by asking for it; the keyword of that name has no effect (3.0.12).

    client: a consumer or a producer.
    """
    cluster = client._cluster if hasattr(client, "_cluster") else client._metadata
    cluster.config["allow_auto_create_topics"] = False


def opened(kind: Callable[..., Any], **options: Any) -> Any:
    """A consumer or a producer that makes no topics. Raises what kafka-python's own raises."""
    client = kind(**options)
    never_create_topics(client)
    return client


def commit_offsets(consumer: Any, next_offsets: Mapping[TopicPartition, int]) -> str:
    """Write group offsets, best effort; what went wrong, or empty."""
    offsets = {
        KafkaTopicPartition(tp.topic, tp.partition): OffsetAndMetadata(offset, "", -1)
        for tp, offset in next_offsets.items()
    }
    try:
        consumer.commit(offsets, timeout_ms=COMMIT_TIMEOUT_MS)
    except (KafkaError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
