"""Texts that a consumer group keeps beside its offsets, of a group that nobody is a member of.

Brokers forget them `offsets.retention.minutes` (a week by default) after they were last written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaAdminClient, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import KafkaError, NoError, RetriableError

from exporter.errors import BrokerSilent
from exporter.kafka.topics import ANSWER_TIMEOUT_MS
from offsets.ranges import TopicPartition

RETRY_SECS = 0.1


class GroupTexts:
    """Those of one group. Not thread-safe."""

    def __init__(self, client_options: Mapping[str, Any], group: str) -> None:
        """client_options: keywords of kafka-python's clients. Raises BrokerSilent."""
        self.group = group
        try:
            self._admin = KafkaAdminClient(**client_options, request_timeout_ms=ANSWER_TIMEOUT_MS)
        except (KafkaError, OSError) as error:
            raise BrokerSilent(f"no broker answers: {type(error).__name__}: {error}") from error

    def read(self) -> dict[TopicPartition, str]:
        """Every text that the group has. Raises BrokerSilent."""
        found = self._asked(lambda: self._admin.list_group_offsets([self.group]).get(self.group, {}))
        return {TopicPartition(tp.topic, tp.partition): one.metadata or "" for tp, one in found.items()}

    def write(self, texts: Mapping[TopicPartition, str]) -> None:
        """Replace these, all by one request. Raises BrokerSilent."""
        said = {KafkaTopicPartition(*tp): OffsetAndMetadata(0, text, -1) for tp, text in texts.items()}

        def told() -> None:
            for tp, kind in self._admin.alter_group_offsets(self.group, said).items():
                if kind is not NoError:
                    raise kind(f"{tp.topic}-{tp.partition}")

        self._asked(told)

    def close(self) -> None:
        self._admin.close()

    def _asked(self, call: Callable[[], Any]) -> Any:
        """Until the group's coordinator is found, which of a new cluster's is on its way. Raises BrokerSilent."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_MS / 1000
        while True:
            try:
                return call()
            except (KafkaError, OSError) as error:
                if not isinstance(error, RetriableError) or time.monotonic() > deadline:
                    raise BrokerSilent(f"group {self.group}: {type(error).__name__}: {error}") from error
            time.sleep(RETRY_SECS)  # pace of the polling, bounded by the deadline
