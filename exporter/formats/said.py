"""Whether what a value says of its event type leads to the table that it is read for. Runs on Spark executors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.routing import Routing

TEXTS_KEPT = 10_000
"""Event types of which it is remembered whether they fit."""


class SaidType:
    """Of one table: its own event type, or whatever the rules of the configuration lead to it (ROUTE).

    A router may have seen less of a value than who reads it: only the whole value tells that a key is there twice.
    """

    def __init__(self, event_type: str, routing: Routing) -> None:
        self.event_type = event_type
        self.mismatch = f"type_mismatch: the event type was read as {event_type!r} and is another"
        self._rules = routing.has_rules
        self._leads = lru_cache(TEXTS_KEPT)(lambda text: event_type in routing.destinations_of(text))

    def fits(self, text: Any) -> bool:
        """One event type as it is sent; anything but a text does not fit."""
        if not self._rules or not isinstance(text, str):
            return bool(text == self.event_type)
        return self._leads(text)

    def fitting(self, texts: pa.Array) -> pa.BooleanArray:
        """Of each event type; null does not fit."""
        if not self._rules:
            return pc.fill_null(pc.equal(texts, self.event_type), False)
        sent = texts.dictionary_encode()
        sent = sent.combine_chunks() if isinstance(sent, pa.ChunkedArray) else sent
        found = pa.array([self.fits(text) for text in sent.dictionary.to_pylist()], pa.bool_())
        return pc.fill_null(found.take(sent.indices), False)
