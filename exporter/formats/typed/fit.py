"""Rows of their writer's types -> the columns of an event type, or reasons why not. Runs on Spark executors.

    Typed ── each column by its node ── event type, event time ── unknown fields by their policy ── Read

Compiled once for each pair of a writer's type and what is asked for. A declared column whose type the writer's never
fits refuses all of this writer's records by the same reason; what nobody declared refuses nothing, and what does not
fit it is unknown. Of several things that are wrong with a record the first declared column is told, then the event
time, the event type, and unknown fields. Must never let a value become null in silence, or drop a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from exporter.formats.dead_letter import DeadLetter
from exporter.formats.format import Read
from exporter.formats.marks import unmarked, widened
from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.compiled import UnfitType, struct_of
from exporter.formats.typed.events import EventTimeOf, EventTypeReader, check_types
from exporter.formats.typed.nodes import FittedColumn
from exporter.formats.typed.texts import json_text
from exporter.formats.typed.typed import Typed
from exporter.formats.typed.unknown import POLICIES, IgnoreUnknown, RefuseUnknown, RescueUnknown
from exporter.text import shorten


class Fit:
    """One writer's records as one event type.

    refusal: why no record of this writer is any; empty if they may be.
    """

    def __init__(self, record: pa.StructType, asked: TypedAsked, schema_name: str = "") -> None:
        """schema_name: of the writer's schema, for reasons: `id 7`."""
        self._asked = asked
        self._unknown = POLICIES[asked.policy]
        self.refusal = ""
        try:
            self._kind = record = asked.spelled(record)
            self._root = struct_of(record, asked.read, asked.known, self._unknown)
            self._type = EventTypeReader(record, asked.route) if asked.route else None
            self._time = EventTimeOf(record, asked.time, asked.unit) if asked.time else None
        except UnfitType as unfit:
            self.refusal = f"unresolvable_schema: {schema_name + ': ' if schema_name else ''}{unfit}"
        except DeadLetter as unclear:
            self.refusal = str(unclear.within(schema_name))

    def read(self, typed: Typed) -> Read:
        """typed: of the writer's type."""
        if self.refusal:
            refused = {**typed.refused, **dict.fromkeys(typed.rows.tolist(), self.refusal)}
            return nothing_read(self._asked, refused)
        if self._asked.spelling is not None:
            typed = replace(typed, record=typed.record.view(self._kind))
        whole = self._asked.keeps_all
        fitted, columns = (FittedColumn(typed.record), []) if whole else self._root.fields(typed.record)
        bad = {row: one.reason for row, one in fitted.bad.items()}
        time, cut = EventTimeOf.told(self._time, typed.record, bad)
        if self._type is not None:
            check_types(self._type.of(typed.record), self._asked.said, bad)
        rescued, ignored = self._sides(typed.record, fitted, bad)
        rows = pa.array(typed.rows, pa.int32())
        if self._asked.read is not self._asked.schema:
            columns = list(widened(columns, unmarked(self._asked.read), self._asked.schema, len(rows)))
        read = Read(rows, columns, time, rescued, ignored, typed.refused, typed.truncated + cut)
        return read if not bad else _without(read, bad)

    def _sides(self, record: pa.StructArray, fitted: FittedColumn, bad: dict[int, str]) -> tuple[pa.Array, pa.Array]:
        """What is kept of unknown fields, and how many are not."""
        texts, counts = pa.nulls(len(record), pa.string()), pa.nulls(len(record), pa.int32())
        if self._asked.keeps_all:
            return json_text(record), counts
        part = fitted.unknown
        if part is None:
            return texts, counts
        if isinstance(self._unknown, RescueUnknown):
            return part, counts
        if isinstance(self._unknown, IgnoreUnknown):
            return texts, pa.array(part, pa.int32(), mask=part == 0)
        if isinstance(self._unknown, RefuseUnknown):
            for row, path in part.items():
                bad.setdefault(row, f"unknown_field: {shorten('$' + path)}")
        return texts, counts


def nothing_read(asked: TypedAsked, refused: Mapping[int, str]) -> Read:
    """Of records of which none is good."""
    columns = [pa.nulls(0, field.type) for field in unmarked(asked.schema)]
    time = None if asked.time is None else pa.nulls(0, asked.time_type)
    return Read(pa.nulls(0, pa.int32()), columns, time, pa.nulls(0, pa.string()), pa.nulls(0, pa.int32()), refused)


def _without(read: Read, bad: Mapping[int, str]) -> Read:
    """The reading without some rows. bad: position in it -> reason."""
    keep = np.ones(len(read.rows), bool)
    at = np.fromiter(bad, np.int64, len(bad))
    keep[at] = False
    numbers = dict(zip(at.tolist(), read.rows.take(pa.array(at)).to_pylist(), strict=True))
    refused = {**read.refused, **{numbers[row]: reason for row, reason in bad.items()}}
    mask = pa.array(keep)
    return Read(
        read.rows.filter(mask),
        [column.filter(mask) for column in read.columns],
        None if read.time is None else read.time.filter(mask),
        read.rescued.filter(mask),
        read.ignored.filter(mask),
        refused,
        read.truncated,
    )
