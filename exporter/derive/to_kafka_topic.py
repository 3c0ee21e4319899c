"""The topic of a job: made if it is missing, sent to in transactions, and what its group has of it (protocol 9.7)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from exporter.derive.to_kafka_progress import SendProgress, Torn, as_texts, groups_of, progress_from, texts_of
from exporter.errors import BrokerSilent, ConfigError
from exporter.kafka import transactions
from exporter.kafka.topics import TopicReader
from exporter.kafka.transactions import Outgoing, TransactionalProducer
from exporter.settings.derive_to_kafka import ToKafkaTable
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.selection import Topics

MADE_SECS_MAX = 30.0
"""How long a topic may take to be there once it was made."""
TORN_MAX = 5
"""How often a progress of several texts is read again that somebody is writing meanwhile."""


class TargetTopic:
    """name: of the topic. group: of the consumer group, and the transactional id. Not thread-safe."""

    def __init__(self, client: Mapping[str, Any], app: str, job: str, table: ToKafkaTable) -> None:
        """client: keywords of kafka-python's clients. Nothing is asked yet."""
        self.name = table.topic
        self.group = f"{app}.derive.{job}"
        self.client = client
        self._transactions = TransactionalProducer(
            client, self.group, table.topic, table.request_bytes_max, table.compression
        )
        self._identity: TopicIdentity | None = None
        self._next = 0

    @property
    def id(self) -> str:
        """Of the topic as it was last looked at; empty if it is not there."""
        return self._identity.topic_id if self._identity else ""

    @property
    def partitions(self) -> int:
        return len(self._identity.partitions) if self._identity else 0

    def fence(self, partitions: int, replication: int) -> None:
        """Make the topic if it is missing, and fence whoever sends to it for the job.

        Raises BrokerSilent, ConfigError.
        """
        with self._reader() as reader:
            if self._look(reader) is None:
                reader.make(self.name, partitions, replication)
                deadline = time.monotonic() + MADE_SECS_MAX
                while self._look(reader) is None:
                    if time.monotonic() > deadline:
                        raise BrokerSilent(f"topic {self.name} was made, and is not there yet")
                    time.sleep(0.1)  # pace of the polling, bounded by the deadline
        self._transactions.fence()

    def close(self) -> None:
        self._transactions.close()

    def send(self, records: Iterable[Outgoing], progress: SendProgress, job: str, flush_every: int) -> None:
        """As one transaction. Raises what TransactionalProducer.send() raises."""
        texts = as_texts(progress)
        said = {
            group: transactions.GroupProgress(self._next, text)
            for group, text in zip(groups_of(self.group, len(texts)), texts, strict=True)
        }
        self._next = max(self._next, self._transactions.send(records, said, job, flush_every))

    def progress(self, settled: bool = False) -> SendProgress | None:
        """What the group has of this very topic; None if it has nothing. settled: see progress_of().

        Raises BrokerSilent, ConfigError.
        """
        with self._reader() as reader:
            if self._look(reader) is None:
                return None
        for _ in range(TORN_MAX):
            try:
                found = self._read(settled)
            except Torn:
                continue
            return found if found is not None and found.topic_id == self.id else None
        raise BrokerSilent(f"the texts of group {self.group} are never of one transaction")

    def _read(self, settled: bool) -> SendProgress | None:
        first = transactions.progress_of(self.client, self.group, self.name, settled)
        if first is None:
            return None
        self._next = max(self._next, first.offset)
        try:
            texts = [first.says]
            for group in groups_of(self.group, texts_of(first.says))[1:]:
                more = transactions.progress_of(self.client, group, self.name, settled)
                texts += [more.says] if more else []
            return progress_from(texts)
        except (ValueError, KeyError, TypeError) as error:
            what = f"group {self.group} has an offset of topic {self.name} that is not this job's"
            raise ConfigError(what, "nobody else may use a group of that name") from error

    def written(self) -> int:
        """How many offsets of the topic were ever given."""
        with self._reader() as reader:
            identity = self._look(reader)
            tps = [TopicPartition(self.name, one) for one in identity.partitions] if identity else []
            return sum(reader.high_watermarks(tps).values())

    def _look(self, reader: TopicReader) -> TopicIdentity | None:
        self._identity = reader.identities().get(self.name)
        return self._identity

    @contextmanager
    def _reader(self) -> Iterator[TopicReader]:
        with closing(TopicReader(self.client, Topics((self.name,)), "read_committed")) as reader:
            yield reader
