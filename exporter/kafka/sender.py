"""Records for a topic that are there when the call returns, or are told of. What is sent again may be there twice."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from exporter.kafka.client import CLOSE_TIMEOUT_MS, opened

DELIVERY_MS = 20_000
"""How long one record is tried; a broker that is silent for longer is told."""
BLOCK_MS = 10_000


class Sender:
    """To one topic, which is never made here. Not thread-safe. Nothing is asked before the first record."""

    def __init__(self, client_options: Mapping[str, Any], topic: str) -> None:
        """client_options: keywords of kafka-python's clients."""
        self.topic = topic
        self._options = {
            **client_options,
            "acks": "all",
            "enable_idempotence": False,
            "delivery_timeout_ms": DELIVERY_MS,
            "request_timeout_ms": BLOCK_MS,
            "max_block_ms": BLOCK_MS,
            "bootstrap_timeout_ms": BLOCK_MS,
            "reconnect_backoff_max_ms": 2_000,
            "metadata_max_age_ms": 30_000,
        }
        self._producer: Any = None

    def send(self, records: Mapping[str, bytes]) -> dict[str, str]:
        """Key -> value, each of which all replicas have then. The others: key -> why not, as far as that is known."""
        try:
            self._producer = self._producer or opened(KafkaProducer, **self._options)
        except (KafkaError, OSError) as error:
            return dict.fromkeys(records, self._told(error))
        sent: dict[str, Any] = {}
        failed: dict[str, str] = {}
        for key, value in records.items():
            try:
                sent[key] = self._producer.send(self.topic, value, key.encode("utf-8", "surrogatepass"))
            except (KafkaError, OSError) as error:  # this one alone, if it is too large
                failed[key] = self._told(error)
        with suppress(KafkaError):  # then some are not done
            self._producer.flush(timeout=(DELIVERY_MS + BLOCK_MS) / 1000)
        for key, future in sent.items():
            if not future.is_done:
                failed[key] = self._told(KafkaTimeoutError("no answer in time"))
            elif future.failed():
                failed[key] = self._told(future.exception)
        return failed

    def close(self) -> None:
        """Without waiting for what has not arrived."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer._sender.force_close()  # else it would wait for what it cannot send
            with suppress(KafkaError):
                producer.close(timeout=CLOSE_TIMEOUT_MS / 1000)

    def _told(self, error: BaseException) -> str:
        return f"topic {self.topic}: {type(error).__name__}: {error}"
