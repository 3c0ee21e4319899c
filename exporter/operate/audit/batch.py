"""Some stretches of the topics and the rows that stand there, side by side as arrays: no object for each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from exporter.operate.audit.records import AuditedRecord, AuditedStretch
from exporter.operate.audit.rows import TableRows
from offsets.ranges import TopicPartition

Numbers = Any
"""A numpy array, one item for each record or row."""
At = tuple[TopicPartition, int]
"""An offset of a partition."""
Parts = Sequence[tuple[TopicPartition, int, int]]
"""Where the records, or rows, of each partition begin and end."""


@dataclass(frozen=True)
class Standing:
    """The rows of one table. numbers: of the rows, in `held`. records: for each that of its record, if it has one."""

    held: TableRows
    numbers: Numbers
    offsets: Numbers
    records: Numbers
    has_record: Numbers
    parts: Parts

    def each(self, ask: Callable[[TopicPartition, Numbers], Numbers]) -> Numbers:
        """What is asked of the offsets of each partition, for each row."""
        return _each(ask, self.parts, self.offsets)

    def of_record(self, values: Numbers, none: Any) -> Numbers:
        """For each row what is known of its record; `none` where it has none."""
        found = np.full(len(self.records), none)
        found[self.has_record] = values[self.records[self.has_record]]
        return found

    def places(self, some: Numbers) -> Iterator[At]:
        """Where some of the rows stand."""
        for tp, start, end in self.parts:
            yield from ((tp, offset) for offset in self.offsets[start:end][some[start:end]].tolist())


@dataclass(frozen=True)
class ComparedBatch:
    """All that is compared at a time."""

    records: Sequence[AuditedRecord]
    offsets: Numbers
    parts: Parts
    standing: Sequence[Standing]

    @classmethod
    def of(cls, stretches: Sequence[AuditedStretch], held: Sequence[TableRows]) -> ComparedBatch:
        """Of all offsets of the stretches. held: each table's rows, of these offsets and others."""
        records = [record for one in stretches for record in one.records]
        offsets = np.array([one.offset for one in records], np.int64)
        parts, start = [], 0
        for one in stretches:
            parts.append((one.tp, start, start + len(one.records)))
            start += len(one.records)
        return cls(records, offsets, parts, [_standing(one, stretches, offsets, parts) for one in held])

    @cached_property
    def counts(self) -> Numbers:
        """How many rows each record has, in all tables."""
        found = np.zeros(len(self.records), np.int64)
        for one in self.standing:
            np.add.at(found, one.records[one.has_record], 1)
        return found

    def each(self, ask: Callable[[TopicPartition, Numbers], Numbers]) -> Numbers:
        """What is asked of the offsets of each partition, for each record."""
        return _each(ask, self.parts, self.offsets)

    def at(self, number: int) -> At:
        """The partition and offset of a record."""
        return self.records[number].tp, self.records[number].offset


def _each(ask: Callable[[TopicPartition, Numbers], Numbers], parts: Parts, offsets: Numbers) -> Numbers:
    asked = [ask(tp, offsets[start:end]) for tp, start, end in parts]
    return np.concatenate(asked) if asked else np.zeros(0, np.int64)


def _standing(held: TableRows, stretches: Sequence[AuditedStretch], offsets: Numbers, parts: Parts) -> Standing:
    numbers, places, records, found, bounds = [], [], [], [], []
    rows = 0
    for one, (tp, start, end) in zip(stretches, parts, strict=True):
        here, some = held.between(tp, one.start, one.end)
        place: Numbers = np.searchsorted(offsets[start:end], here)
        there: Numbers = place < end - start
        there[there] = offsets[start:end][place[there]] == here[there]
        numbers.append(some)
        places.append(here)
        records.append(np.where(there, start + place, 0))
        found.append(there)
        bounds.append((tp, rows, rows + len(some)))
        rows += len(some)
    return Standing(held, _joined(numbers), _joined(places), _joined(records), _joined(found, bool), bounds)


def _joined(some: Sequence[Numbers], kind: Any = np.int64) -> Numbers:
    return np.concatenate(some).astype(kind, copy=False) if some else np.zeros(0, kind)
