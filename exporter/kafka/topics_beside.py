"""What the brokers say of the topics, for threads beside the loop: a connection of its own, one question at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kafka.errors import UnknownTopicOrPartitionError

from exporter import threads
from exporter.errors import BrokerSilent
from exporter.kafka.topics import TopicReader, partitions_of
from offsets.ranges import TopicPartition


class TopicsBeside:
    """Opened at the first question."""

    def __init__(self, opened: Callable[[], TopicReader]) -> None:
        self._opened = opened
        self._topics: TopicReader | None = None
        self._lock = threads.lock()

    def partitions(self) -> list[TopicPartition]:
        """All that are exported and there now, whoever has them. Raises ExporterError."""
        with self._lock:
            return partitions_of(self._reader().identities())

    def high_watermarks(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last replicated record, whatever the isolation. Raises ExporterError."""
        with self._lock:
            return self._reader().high_watermarks(tps)

    def ends_there(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """As high_watermarks(), of those that are there; of the others nothing is said. Raises ExporterError."""
        with self._lock:
            reader = self._reader()
            try:
                return reader.high_watermarks(tps)
            except BrokerSilent as error:
                if not isinstance(error.__cause__, UnknownTopicOrPartitionError):
                    raise
            there = {*partitions_of(reader.identities())}
            return reader.high_watermarks([tp for tp in tps if tp in there])

    def close(self) -> None:
        with self._lock:
            if self._topics is not None:
                self._topics.close()

    def _reader(self) -> TopicReader:
        if self._topics is None:
            self._topics = self._opened()
        return self._topics
