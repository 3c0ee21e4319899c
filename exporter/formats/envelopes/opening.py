"""From the bytes of a value to its row, one value by itself: what stands around it is taken off. On Spark executors.

    {schema, payload}? ── envelope? ── the row's text, for the reader of JSON ── what was done to it

What is in the row is for that reader to judge, with all its rules; its reasons have paths in the row. Everything around
it is proven to be JSON in which no key occurs twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.core.value_format import ValueFormat
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.change import Envelope, source_in
from exporter.formats.envelopes.connect import Payload, payload_of
from exporter.formats.envelopes.debezium import Debezium, DebeziumMongo
from exporter.formats.envelopes.dms import Dms
from exporter.formats.envelopes.strict import parsed

DEBEZIUM: Mapping[str, Debezium] = {"debezium": Debezium(), "debezium_mongo": DebeziumMongo()}
ENVELOPES: Mapping[str, Envelope] = {**DEBEZIUM, "dms": Dms()}


class Opening:
    """Takes values of one format out of what they are in."""

    def __init__(self, form: ValueFormat) -> None:
        self.envelope = ENVELOPES.get(form.envelope)
        self._connect = form.kind == "connect_json"
        self._debezium_types = form.semantic_types == "connect"

    def payload(self, raw: bytes | None) -> Payload:
        """What stands beside a schema, or all of it. Raises DeadLetter."""
        if raw is None:
            raise DeadLetter("tombstone: the value is null")
        return payload_of(raw, self._debezium_types) if self._connect else Payload(raw, parsed(raw), None)

    def source(self, doc: Mapping[str, Any]) -> str | None:
        """The source that an envelope names; None if it names none."""
        if self.envelope is None or type(holder := doc.get(self.envelope.holder)) is not dict:
            return None
        try:
            return source_in(self.envelope, holder)
        except DeadLetter:
            return None


def text_on(doc: Any, path: list[str]) -> str | None:
    """The text at a path; None if there is none."""
    for name in path:
        doc = doc.get(name) if type(doc) is dict else None
    return doc if type(doc) is str else None
