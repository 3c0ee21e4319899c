"""Records and the progress that they stand for, in one Kafka transaction; fenced, or out of reach.

    fence   init_transactions: whoever had the id before is fenced, what it had begun is ended
    send    begin ── records ── progress of consumer groups ── commit
    close   without a word: what is open then the next one to fence aborts

After an error only close() may follow: what became of a transaction the progress tells, read after the next fence().
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import (
    AuthorizationError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    KafkaError,
    MessageSizeTooLargeError,
    OffsetMetadataTooLargeError,
    ProducerFencedError,
    RecordListTooLargeError,
)
from kafka.partitioner.default import murmur2

from exporter.errors import BrokerSilent, ConfigError
from exporter.faults import Fault, point
from exporter.kafka.client import CLOSE_TIMEOUT_MS, opened

WAIT_MS = 30_000
"""How long one step of a transaction may take; a broker aborts it after TRANSACTION_MS by itself."""
TRANSACTION_MS = 60_000
BOOTSTRAP_MS = 10_000
BATCH_BYTES = 256 << 10


class Outgoing(NamedTuple):
    """One record. partition: that it goes to. value: None deletes its key."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Overtaken(Exception):
    """Another producer has opened the same transactional id since, or the brokers gave this one up."""


class RecordTooLarge(Exception):
    """Of a transaction a record is larger than may be sent, or than the topic takes."""


class GroupProgress(NamedTuple):
    """What a consumer group has of one topic, on its partition 0. offset: the one after the last record of ours."""

    offset: int
    says: str


def partition_of(key: bytes, partitions: int) -> int:
    """Where Kafka's own clients send a key."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


class TransactionalProducer:
    """The producer of one transactional id and topic. Not thread-safe."""

    def __init__(self, client: Mapping[str, Any], id: str, topic: str, record_bytes_max: int, compression: str) -> None:
        """client: keywords of kafka-python's clients. Nothing is asked yet."""
        self.id = id
        self.topic = topic
        self._options = {
            **client,
            "transactional_id": id,
            "transaction_timeout_ms": TRANSACTION_MS,
            "acks": "all",
            "linger_ms": 5,
            "batch_size": BATCH_BYTES,
            "max_request_size": max(record_bytes_max, BATCH_BYTES),
            "compression_type": None if compression == "none" else compression,
            "max_block_ms": WAIT_MS,
            "bootstrap_timeout_ms": BOOTSTRAP_MS,
            "reconnect_backoff_max_ms": 2_000,
            "metadata_max_age_ms": 30_000,
        }
        self._producer: Any = None

    def fence(self) -> None:
        """Fence whoever had the id before, once what it had begun is ended. Raises BrokerSilent, ConfigError."""
        self._producer = self._asked(lambda: opened(KafkaProducer, **self._options))
        # An epoch that is refused is another producer's doing: this client would ask for a new one, at last without
        # saying who it was (kafka-python 3.0.12, by its source), and a broker that gave it would fence the other one.
        self._producer._transaction_manager._supports_epoch_bump = lambda: False
        self._asked(self._producer.init_transactions)

    def send(
        self, records: Iterable[Outgoing], progress: Mapping[str, GroupProgress], job: str, flush_every: int
    ) -> int:
        """Commit records and progress (group -> what it is to have) as one; the offset after the last one that went to
        partition 0, or 0.

        flush_every: records that are in memory at most. Raises Overtaken, RecordTooLarge, BrokerSilent, ConfigError.
        """
        return int(self._asked(lambda: self._send(records, progress, job, flush_every)))

    def close(self) -> None:
        """End the connection; nothing is committed by it."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        producer._sender.force_close()  # else it would wait for what it cannot send
        with suppress(KafkaError):  # what it still has is sent anew, or by somebody else
            producer.close(timeout=CLOSE_TIMEOUT_MS / 1000)

    def _send(
        self, records: Iterable[Outgoing], progress: Mapping[str, GroupProgress], job: str, flush_every: int
    ) -> int:
        producer, sent, last = self._producer, [], 0
        producer.begin_transaction()
        for record in records:
            sent.append(
                producer.send(self.topic, record.value, record.key, list(record.headers), partition=record.partition)
            )
            if len(sent) >= flush_every:
                last = self._flushed(sent) or last
                sent = []
        last = self._flushed(sent) or last
        point(Fault.AFTER_DERIVE_SEND, job)
        tp = KafkaTopicPartition(self.topic, 0)
        for group, one in progress.items():
            said = OffsetAndMetadata(max(one.offset, last), one.says, -1)
            self._waited(producer._transaction_manager.send_offsets_to_transaction({tp: said}, group))
        point(Fault.BEFORE_DERIVE_COMMIT, job)
        self._waited(producer._transaction_manager.begin_commit())
        point(Fault.AFTER_DERIVE_COMMIT, job)
        return last

    def _flushed(self, sent: Sequence[Any]) -> int:
        """Once all are there: the offset after the last one that went to partition 0, or 0."""
        # Not by flush(), which gives up where a batch is split for the topic (kafka-python 3.0.12).
        there = [future.get(timeout=WAIT_MS / 1000) for future in sent]
        return next((one.offset + 1 for one in reversed(there) if one.partition == 0), 0)

    def _waited(self, result: Any) -> None:
        """As the producer's own methods do, which wait for ever."""
        self._producer._sender.wakeup()
        if not result.wait(timeout_ms=WAIT_MS):
            raise BrokerSilent(f"a Kafka transaction of {self.id} is not done after {WAIT_MS / 1000:.0f} s")

    def _asked(self, call: Any) -> Any:
        try:
            return call()
        except (KafkaError, OSError) as error:
            manager = getattr(self._producer, "_transaction_manager", None)
            raise _meant(error, self.id, self.topic, manager and manager.last_error) from error


def _meant(error: BaseException, id: str, topic: str, first: BaseException | None = None) -> Exception:
    """What an error of the client is to whoever sends. first: what has put the client into a state of error."""
    for one in filter(None, (first, error)):
        if isinstance(one, (ProducerFencedError, InvalidProducerEpochError, InvalidProducerIdMappingError)):
            return Overtaken(str(one))
        if isinstance(one, (MessageSizeTooLargeError, RecordListTooLargeError)):
            return RecordTooLarge(str(one))
        if isinstance(one, AuthorizationError):
            hint = f"it needs Write on topic {topic}, Write on transactional id {id}, and Read on groups {id}*"
            return ConfigError(f"this user may not send to topic {topic}: {type(one).__name__} {one}".strip(), hint)
        if isinstance(one, OffsetMetadataTooLargeError):
            hint = "raise offset.metadata.max.bytes of the brokers to its default, 4096"
            return ConfigError("the brokers take less metadata of an offset than is usual", hint)
    return BrokerSilent(f"the broker did not take a transaction of {id}: {type(error).__name__}: {error}")


def progress_of(client: Mapping[str, Any], group: str, topic: str, settled: bool) -> GroupProgress | None:
    """What a group has of a topic; None if it has nothing.

    settled: wait until no transaction is open that might change it; else it is what was committed last. Raises
    BrokerSilent, ConfigError.
    """
    try:
        isolation = "read_committed" if settled else "read_uncommitted"
        with _consumer(client, group_id=group, isolation_level=isolation) as consumer:
            found = consumer.committed(KafkaTopicPartition(topic, 0), metadata=True, timeout_ms=WAIT_MS)
    except (KafkaError, OSError) as error:
        raise _meant(error, group, topic) from error
    return None if found is None else GroupProgress(found.offset, found.metadata or "")


class Committed(NamedTuple):
    """One record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def committed_records(client: Mapping[str, Any], topic: str) -> Iterator[Committed]:
    """All that a reader of committed transactions sees now, each partition in order.

    Raises BrokerSilent, ConfigError.
    """
    try:
        with _consumer(client, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
            tps = [KafkaTopicPartition(topic, one) for one in sorted(consumer.partitions_for_topic(topic) or ())]
            consumer.assign(tps)
            ends = consumer.end_offsets(tps, timeout_ms=WAIT_MS) if tps else {}
            deadline = time.monotonic() + WAIT_MS / 1000
            while any(consumer.position(tp, timeout_ms=WAIT_MS) < end for tp, end in ends.items()):
                for tp, records in consumer.poll(timeout_ms=500).items():
                    for one in records:
                        yield Committed(tp.partition, one.offset, one.key, one.value, tuple(one.headers or ()))
                    deadline = time.monotonic() + WAIT_MS / 1000
                if time.monotonic() > deadline:
                    raise BrokerSilent(f"topic {topic} gives no records before its end")
    except (KafkaError, OSError) as error:
        raise _meant(error, "", topic) from error


@contextmanager
def _consumer(client: Mapping[str, Any], **options: Any) -> Iterator[Any]:
    made = opened(KafkaConsumer, **client, **options, enable_auto_commit=False, bootstrap_timeout_ms=BOOTSTRAP_MS)
    try:
        yield made
    finally:
        made.close(timeout_ms=CLOSE_TIMEOUT_MS)
