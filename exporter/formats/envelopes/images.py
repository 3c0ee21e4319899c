"""Rows that are texts in envelopes whose values say their types: documents of MongoDB. Runs on Spark executors."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.mongo import plain_document
from exporter.formats.format import Read
from exporter.formats.json.format import Json
from exporter.formats.typed.typed import Typed


class Mongo:
    """Reads documents as the format of JSON does."""

    def __init__(self, event_type: str, schema: pa.Schema, routing: Routing) -> None:
        """schema: of the type's columns. Raises ConfigError."""
        self._reader = Json().reader(event_type, schema, routing)

    def read(self, rows: Typed, deleted: pa.BooleanArray) -> Read:
        """rows: their record is the texts. deleted: which of them may be null: such a document has no fields."""
        texts: list[bytes] = []
        kept: list[int] = []
        refused: dict[int, str] = {}
        sides = zip(rows.rows.tolist(), rows.record.to_pylist(), deleted.to_pylist(), strict=True)
        for row, text, is_deleted in sides:
            try:
                texts.append(b"{}" if text is None else plain_document(text)[1])
                kept.append(row)
            except DeadLetter as bad:
                refused[row] = str(bad.within(f"$.{'before' if is_deleted else 'after'}"))
        read = self._reader.read(pa.array(texts, pa.binary()))
        refused.update({kept[at]: reason for at, reason in read.refused.items()})
        taken = pa.array([kept[at] for at in read.rows.to_pylist()], pa.int32())
        return replace(read, rows=taken, refused=refused, truncated=read.truncated + rows.truncated)
