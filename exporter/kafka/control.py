"""The control topic as bytes: what tasks say to each other over one partition. Lossy on purpose; raises nothing.

    send()  ── outbox ── a thread ── producer ── partition 0 ── consumer, no group ── receive()

Nothing is said late: what cannot be sent is forgotten. Nothing is heard late either: reading begins at the topic's end,
and there again after a silence that others do not wait out. The topic may be deleted and made anew at any time: what
the new one has is heard from its beginning.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from exporter.kafka.client import opened

OUTBOX_MAX = 10_000
"""Messages that wait to be sent; further ones are lost."""
BLOCK_MS = 2_000
"""How long one call may wait for the brokers."""
DELIVERY_MS = 5_000
"""After which a message that the broker has not taken is lost."""
LOOK_SECS = 5.0
"""Without a message the broker is asked for the topic's end so often: clients say nothing of brokers that are gone."""
RETRY_SECS = 1.0
DEAF_SECS = 30.0
"""What was said while nothing was heard for longer is passed over: rounds have gone by."""
CLOSE_SECS = 3.0


class ControlTopic:
    """One task's end of the topic. send() is for every thread, receive() for one."""

    def __init__(
        self, client_options: Mapping[str, Any], topic: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """client_options: keywords of kafka-python's clients. clock: monotonic seconds. Nothing is asked yet."""
        self._tp = KafkaTopicPartition(topic, 0)
        self._sender = _Sender(client_options, topic)
        self._options = {
            **client_options,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "request_timeout_ms": DELIVERY_MS,
            "reconnect_backoff_max_ms": 1_000,
            "metadata_max_age_ms": 30_000,
        }
        self._clock = clock
        self._consumer: Any = None
        self._next: int | None = None
        self._is_behind = False
        self._retry_at = float("-inf")
        self._looked_at = self._heard_at = clock()
        self._trouble = ""

    def send(self, values: Sequence[bytes]) -> None:
        """Send, in order, if that is possible now; returns at once."""
        self._sender.put(values)

    def receive(self, timeout_secs: float) -> list[bytes]:
        """What has come since the last call; waits as long for the first of it at most, but for a broker's silence."""
        began = self._clock()
        if began - self._heard_at > DEAF_SECS:
            self._let_go()
            self._next, self._heard_at = None, began
        if began < self._retry_at:
            time.sleep(min(timeout_secs, self._retry_at - began))
            return []
        try:
            consumer = self._consumer = self._consumer or self._open()
            polled = consumer.poll(timeout_ms=int(timeout_secs * 1000))
            records = [record for some in polled.values() for record in some]
            if records:
                self._next = records[-1].offset + 1
                self._heard()
            elif self._clock() - self._looked_at > LOOK_SECS:
                self._look(consumer)
        except Exception as error:  # noqa: BLE001 - whatever the client raises, the task commits by itself meanwhile
            self._trouble = _told(error)
            self._let_go()
            self._retry_at = self._clock() + RETRY_SECS
            return []
        return [record.value for record in records if record.value is not None]

    @property
    def trouble(self) -> str:
        """Why nothing can be said or heard right now, or empty."""
        return self._trouble or self._sender.trouble

    def close(self) -> None:
        """Send what is left, for a moment, and let go; after the last receive()."""
        self._sender.close()
        self._let_go()

    def _open(self) -> Any:
        """A consumer that reads on where the last one was, or from the end. Raises what the client raises."""
        consumer = self._consumer = opened(KafkaConsumer, **self._options)
        consumer.assign([self._tp])
        end = consumer.end_offsets([self._tp], timeout_ms=BLOCK_MS)[self._tp]
        self._next = end if self._next is None else self._next
        consumer.seek(self._tp, self._next)
        self._heard()
        return consumer

    def _look(self, consumer: Any) -> None:
        """Whether the broker still answers, and this client hears what the topic has. Raises what the client raises."""
        end = consumer.end_offsets([self._tp], timeout_ms=BLOCK_MS)[self._tp]
        at = self._next or 0
        if end < at:
            self._next = 0
            consumer.seek(self._tp, 0)
        elif end > at and self._is_behind:
            raise KafkaTimeoutError(f"no message came although the topic has some from {at} on")
        behind = end > at
        self._heard()
        self._is_behind = behind

    def _heard(self) -> None:
        self._looked_at = self._heard_at = self._clock()
        self._is_behind = False
        self._trouble = ""

    def _let_go(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            _quietly(lambda: consumer.close(timeout_ms=1_000))


class _Sender:
    """The outbox and the thread that empties it."""

    def __init__(self, client_options: Mapping[str, Any], topic: str) -> None:
        self._topic = topic
        self._options = {
            **client_options,
            "acks": 1,  # fewer replicas than the topic asks for are no reason to fall silent
            "enable_idempotence": False,
            "linger_ms": 5,
            "max_block_ms": BLOCK_MS,
            "request_timeout_ms": DELIVERY_MS - 1_000,
            "delivery_timeout_ms": DELIVERY_MS,
            "reconnect_backoff_max_ms": 1_000,
            "metadata_max_age_ms": 30_000,
        }
        self._outbox: queue.Queue[bytes | None] = queue.Queue(OUTBOX_MAX)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_stale = False
        self.trouble = ""

    def put(self, values: Sequence[bytes]) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="control", daemon=True)
                self._thread.start()
        for value in values:
            try:
                self._outbox.put_nowait(value)
            except queue.Full:
                return

    def close(self) -> None:
        if self._thread is not None:
            _quietly(lambda: self._outbox.put(None, timeout=CLOSE_SECS))
            self._thread.join(CLOSE_SECS)

    def _run(self) -> None:
        producer: Any = None
        while (value := self._outbox.get()) is not None:
            try:
                if self._is_stale:  # a client may not find a topic again that was made anew
                    producer = self._closed(producer)
                    self._is_stale = False
                producer = producer or opened(KafkaProducer, **self._options)
                sent = producer.send(self._topic, value, partition=0)
                sent.add_callback(self._taken).add_errback(self._lost)
            except Exception as error:  # noqa: BLE001 - whatever the client raises, the task commits by itself meanwhile
                self._lost(error)
                if self._forget():
                    break
        self._closed(producer)

    def _taken(self, _: object) -> None:
        self.trouble = ""

    def _lost(self, error: BaseException) -> None:
        self.trouble = _told(error)
        self._is_stale = True

    def _forget(self) -> bool:
        """Drop what waits; whether the end was among it."""
        while True:
            try:
                if self._outbox.get_nowait() is None:
                    return True
            except queue.Empty:
                return False

    @staticmethod
    def _closed(producer: Any) -> None:
        if producer is not None:
            _quietly(lambda: producer.close(timeout=CLOSE_SECS - 1))


def _told(error: BaseException) -> str:
    text, kind = str(error), type(error).__name__
    return text if text.startswith(kind) else f"{kind}: {text}"


def _quietly(call: Callable[[], object]) -> None:
    """Ends what may be broken already."""
    try:
        call()
    except (KafkaError, OSError, RuntimeError, queue.Full):
        return
