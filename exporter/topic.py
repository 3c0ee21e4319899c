"""What the broker says of a topic: identity, partitions, first and end offsets.

Asks through the admin client, which never creates a topic by asking. Answers are either
complete or an error; an offset that cannot be read is never taken for one that is not there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from exporter.errors import ConfigError, DependencyUnreachable
from offsets.ranges import TopicPartition

ANSWER_TIMEOUT_MS = 10_000


class BrokerSilent(DependencyUnreachable):
    """No answer in time; a running exporter tries again."""


@dataclass(frozen=True)
class TopicIdentity:
    """Names alone do not identify a topic: it may be deleted and created again (traps 8)."""

    cluster_id: str
    topic_id: str
    partitions: tuple[int, ...]


class TopicReader:
    """Metadata of one topic. Not thread-safe: used by the loop only."""

    def __init__(self, client_options: Mapping[str, Any], topic: str, isolation: str) -> None:
        """client_options: keywords of kafka-python's clients (bootstrap_servers and security)."""
        self.topic = topic
        self._isolation = isolation
        try:
            self._admin = KafkaAdminClient(**client_options, request_timeout_ms=ANSWER_TIMEOUT_MS)
        except KafkaError as error:
            raise BrokerSilent(
                f"no broker answers at {client_options['bootstrap_servers']}: {error}",
                "check `brokers` and [kafka_client]; the log lines above tell why each connection failed",
            ) from error

    def identity(self) -> TopicIdentity:
        """Raises ConfigError if there is no such topic, BrokerSilent if nobody answers."""
        described = self._ask(self._admin.describe_topics, [self.topic])
        entry = next((item for item in described if item.get("name") == self.topic), None)
        if entry is None or entry.get("error_code"):
            raise ConfigError(f"topic {self.topic} does not exist", "create it first, or correct `topics`")
        cluster_id = self._ask(self._admin.describe_cluster).get("cluster_id", "")
        partitions = tuple(sorted(item["partition_index"] for item in entry["partitions"]))
        return TopicIdentity(str(cluster_id), str(entry.get("topic_id", "")), partitions)

    def first_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first record still in the log, per partition."""
        return self._offsets(dict.fromkeys(tps, OffsetSpec.EARLIEST), "read_uncommitted")

    def end_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last readable record: last stable offset or high watermark, by isolation."""
        return self._offsets(dict.fromkeys(tps, OffsetSpec.LATEST), self._isolation)

    def high_watermarks(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last replicated record, whatever the isolation."""
        return self._offsets(dict.fromkeys(tps, OffsetSpec.LATEST), "read_uncommitted")

    def offsets_at(self, tps: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The offset of the first record at or after `timestamp_ms`; the end where there is none."""
        found = self._offsets(dict.fromkeys(tps, timestamp_ms), "read_uncommitted")
        missing = [tp for tp in tps if found.get(tp, -1) < 0]
        return {**found, **(self.end_offsets(missing) if missing else {})}

    def close(self) -> None:
        self._admin.close()

    def _offsets(self, specs: Mapping[TopicPartition, Any], isolation: str) -> dict[TopicPartition, int]:
        asked = {KafkaTopicPartition(tp.topic, tp.partition): spec for tp, spec in specs.items()}
        if not asked:
            return {}
        answer = self._ask(self._admin.list_partition_offsets, asked, isolation_level=isolation)
        return {TopicPartition(tp.topic, tp.partition): int(info.offset) for tp, info in answer.items()}

    def _ask(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except UnknownTopicOrPartitionError as error:
            raise BrokerSilent(f"topic {self.topic} or one of its partitions is unknown now: {error}") from error
        except (KafkaError, OSError) as error:
            raise BrokerSilent(f"the broker did not answer: {type(error).__name__}: {error}") from error
