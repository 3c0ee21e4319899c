"""What no column can hold, as the JSON that `_rescued` has of it: read as anything else, and made text at the end.

Runs on Spark executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from exporter.formats.binary.columns import Out
from exporter.formats.binary.cursor import Ints, ValueBytes
from exporter.formats.typed.texts import json_text
from exporter.formats.typed.typed import KEPT


@dataclass(frozen=True)
class Texts:
    """See Column. columns: of any kinds. which: of each entry its place in all of them one behind the other, ascending
    within each; -1 is null."""

    columns: tuple[Any, ...]
    which: Ints
    kind: pa.DataType = KEPT

    @classmethod
    def of(cls, column: Any) -> Texts:
        """Of each value of a column."""
        return cls((column,), np.arange(len(column)))

    @classmethod
    def nothing(cls, count: int) -> Texts:
        """A column of nulls alone, of this length."""
        return cls((), np.full(count, -1, np.int64))

    def __len__(self) -> int:
        return len(self.which)

    def take(self, at: np.ndarray) -> Texts:
        """Implements `BinaryColumn.take`: the entries at these places."""
        there = at >= 0
        which = self.which[np.where(there, at, 0)] if len(self.which) else np.full(len(at), -1, np.int64)
        return Texts(self.columns, np.where(there, which, -1))

    def concat(self, others: Sequence[Texts]) -> Texts:
        """Implements `BinaryColumn.concat`: this column, then the others."""
        columns: list[Any] = []
        parts: list[np.ndarray] = []
        before = 0
        for one in (self, *others):
            columns += one.columns
            parts.append(np.where(one.which >= 0, one.which + before, -1))
            before += sum(map(len, one.columns))
        return Texts(tuple(columns), np.concatenate(parts))

    def arrow(self, out: Out, rows: np.ndarray) -> pa.Array:
        """Implements `BinaryColumn.arrow`: the column as an Arrow array."""
        found, where, begin, made = [pa.nulls(0, KEPT)], np.full(len(self), -1, np.int64), 0, 0
        for column in self.columns:
            end = begin + len(column)
            entries = np.flatnonzero((self.which >= begin) & (self.which < end))
            if len(entries):
                some = column.take(self.which[entries] - begin)
                found.append(json_text(some.arrow(out, rows[entries])).cast(KEPT))
                where[entries] = made + np.arange(len(entries))
                made += len(entries)
            begin = end
        return pa.concat_arrays(found).take(pa.array(where, mask=where < 0))


@dataclass(frozen=True)
class ReadyTexts:
    """Texts that were made already, as Texts takes them. cut: how many values of each lost digits."""

    texts: pa.Array
    cut: np.ndarray

    @classmethod
    def of(cls, column: Any, batch: ValueBytes, bad: np.ndarray) -> ReadyTexts:
        """Of a column of as many values as `bad` has numbers; those of values that only now turn out bad are put there.
        """
        good, out = np.flatnonzero(bad == 0), Out(batch)
        texts = json_text(column.take(good).arrow(out, good)).cast(KEPT)
        bad[list(out.odd)] = list(out.odd.values())
        cut = np.zeros(len(bad), np.int64)
        cut[list(out.truncated)] = list(out.truncated.values())
        where = np.full(len(bad), -1, np.int64)
        where[good] = np.arange(len(good))
        return cls(texts.take(pa.array(where, mask=where < 0)), cut)

    def __len__(self) -> int:
        return len(self.cut)

    def take(self, at: np.ndarray) -> ReadyTexts:
        """See Column; of entries that there are."""
        return ReadyTexts(self.texts.take(pa.array(at)), self.cut[at])

    def arrow(self, out: Out, rows: np.ndarray) -> pa.Array:
        """Implements `BinaryColumn.arrow`: the column as an Arrow array."""
        out.cut(np.repeat(rows, self.cut))
        return self.texts
