"""Where the reading of each partition ends in one task, and which schemas its rows were written by (protocol 3.8).

    rows ── poison records are out ── frames ──> rows before the first id that is missing; nothing behind it is taken
                                             └─> all missing ids of the range: the driver looks all of them up at once

Runs on Spark executors. Of formats without ids there is nothing to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from exporter.core.schemas import CARRIED, KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.formats.envelopes.connect import schemas_in
from exporter.formats.frames import Framed, RowSchemas, framed, in_parts, read_values, row_schemas
from exporter.formats.places import places_of
from offsets.ranges import TopicPartition

CARRIED_MAX = 20
"""Schemas that a task tells of for each type and partition, where records bring their own."""
MISSING_MAX = 1_000
"""Missing ids of a partition that a task tells of: garbage may have as many as records."""


class Framing:
    """Cuts batches of one task at records whose schema is not decided."""

    def __init__(self, form: Callable[[str], ValueFormat], schemas: KnownSchemas) -> None:
        """form: how the values of a topic are written."""
        self._form = form
        self._schemas = schemas
        self._ended: dict[TopicPartition, int] = {}
        self._missing: dict[TopicPartition, set[int]] = {}
        self._met: dict[tuple[str, TopicPartition], set[str]] = {}

    def cut(self, batch: pa.RecordBatch, tp: TopicPartition) -> Iterator[tuple[pa.RecordBatch, Framed | None]]:
        """The rows of one partition that can be read, in the order of their offsets, and what their frames say.

        In parts, some of which may have no rows.
        """
        form = self._form(tp.topic)
        for part, found in in_parts(batch, lambda one: framed(one, tp, form, self._schemas)):
            yield (part, None) if found is None else self._read(part, tp, found)

    def _read(self, batch: pa.RecordBatch, tp: TopicPartition, found: Framed) -> tuple[pa.RecordBatch, Framed]:
        offsets, end = batch.column("offset"), found.end
        if found.missing:
            missing = self._missing.setdefault(tp, set())
            # Those of the first rows where there is no room for all: they hold up the partition.
            missing.update(sorted(found.missing, key=found.missing.__getitem__)[: MISSING_MAX - len(missing)])
            self._ended.setdefault(tp, offsets[end].as_py())
        # Of a later batch: its rows would share a file with those before the end (COVER, rounds/told.py).
        if tp in self._ended and offsets[0].as_py() >= self._ended[tp]:
            end = 0
        return (batch, found) if end == batch.num_rows else (batch.slice(0, end), found.before(end))

    def schemas(self, batch: pa.RecordBatch, tp: TopicPartition, found: Framed | None) -> RowSchemas | None:
        """Those of the rows that `cut` left; None if they have no ids."""
        form = self._form(tp.topic)
        if found is None or not form.has_ids:
            return None
        places = places_of(read_values(batch, found), found.ids, form, self._schemas)
        return row_schemas(found.ids, places, self._schemas)

    def met(self, name: str, tp: TopicPartition, schemas: RowSchemas, rows: pa.Array) -> None:
        """Rows of an event type are staged."""
        self._met.setdefault((name, tp), set()).update(schemas.of(rows))

    def met_carried(self, name: str, tp: TopicPartition, values: pa.BinaryArray) -> None:
        """Values of an event type are staged that bring their own schemas, and hold what no column does."""
        left = CARRIED_MAX - len(self._met.get((name, tp), ()))
        if schemas := schemas_in(values, left):
            self._met.setdefault((name, tp), set()).update(CARRIED + one for one in schemas)

    def rows(self) -> Iterator[dict[str, Any]]:
        """What the manifest says of it."""
        for tp, end in self._ended.items():
            told = json.dumps({"end": end, "missing": sorted(self._missing[tp])})
            yield {"topic": tp.topic, "partition": tp.partition, "ended": told}
        for (name, tp), keys in self._met.items():
            yield {"topic": tp.topic, "partition": tp.partition, "event_type": name, "met": json.dumps(sorted(keys))}

