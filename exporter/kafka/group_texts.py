"""Texts that a consumer group keeps beside its offsets, of a group that nobody is a member of.

Brokers forget them `offsets.retention.minutes` (a week by default) after they were last written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import KafkaError, NoError

from exporter.errors import BrokerSilent
from exporter.kafka.topics import ANSWER_TIMEOUT_MS
from offsets.ranges import TopicPartition


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
        try:
            found = self._admin.list_group_offsets([self.group]).get(self.group, {})
        except (KafkaError, OSError) as error:
            raise self._silent(error) from error
        return {TopicPartition(tp.topic, tp.partition): one.metadata or "" for tp, one in found.items()}

    def write(self, texts: Mapping[TopicPartition, str]) -> None:
        """Replace these, all by one request. Raises BrokerSilent."""
        said = {KafkaTopicPartition(*tp): OffsetAndMetadata(0, text, -1) for tp, text in texts.items()}
        try:
            answers = self._admin.alter_group_offsets(self.group, said)
        except (KafkaError, OSError) as error:
            raise self._silent(error) from error
        refused = {f"{tp.topic}-{tp.partition}": kind.__name__ for tp, kind in answers.items() if kind is not NoError}
        if refused:
            raise BrokerSilent(f"group {self.group} does not keep what it is told: {refused}")

    def close(self) -> None:
        self._admin.close()

    def _silent(self, error: Exception) -> BrokerSilent:
        return BrokerSilent(f"group {self.group}: {type(error).__name__}: {error}")
