"""Which partition each row of one type belongs to, by its table's spec. Runs on Spark executors.

    event times ── key ──┐
    columns ── texts ────┴─ distinct combinations ── a number each, for by_partition.py

A column in its own right is not in the data files: readers take its value from the table's log. A text that cannot be
a partition's value (offsets/partitions.py) is null there, and kept in `_rescued`.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.keys import partition_keys
from exporter.executor.empty import RESCUED
from offsets.partitions import Partition, Spec, fits


class Partitioning:
    """Numbers for the partitions of one table; of one without columns in their own right, the key is the number."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._met: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}

    def partition(self, number: int) -> Partition:
        """The partition of a number."""
        if not self._spec.identity:
            return self._spec.of_key(number)
        key, *texts = self._met[number]
        return self._spec.of_key(key, texts)

    def cut(self, decoded: pa.Table) -> tuple[pa.Int64Array, pa.Table]:
        """The number of each row's partition, and the rows as data files hold them.

        decoded: its last column is the event time.
        """
        keys = partition_keys(decoded.column(-1), self._spec.time).combine_chunks()
        if not self._spec.identity:
            return keys, decoded
        numbers, combined = _dense(keys)
        for name in self._spec.identity:
            at = decoded.schema.get_field_index(name)
            found = decoded.column(at).combine_chunks() if at >= 0 else pa.nulls(len(keys))
            found = found.cast(pa.string())
            texts = pc.dictionary_encode(found)
            values = [text if text is not None and fits(text) else None for text in texts.dictionary.to_pylist()]
            if None in values:
                unfit = pc.fill_null(pa.array([value is None for value in values]).take(texts.indices), False)
                decoded = _rescued(decoded, name, found, unfit)
            values.append(None)
            indices = pc.fill_null(texts.indices.cast(pa.int64()), len(values) - 1)
            numbers, pairs = _dense(pc.add(pc.multiply(numbers, len(values)), indices))
            combined = [(*combined[pair // len(values)], values[pair % len(values)]) for (pair,) in pairs]
        known = pa.array([self._number(one) for one in combined], pa.int64())
        there = [name for name in self._spec.identity if name in decoded.column_names]
        return known.take(numbers), decoded.drop_columns(there)

    def _number(self, combination: tuple[Any, ...]) -> int:
        if combination not in self._numbers:
            self._numbers[combination] = len(self._met)
            self._met.append(combination)
        return self._numbers[combination]


def _dense(values: pa.Int64Array) -> tuple[pa.Int64Array, list[tuple[Any, ...]]]:
    """The place of each value among the distinct ones, and these."""
    encoded = pc.dictionary_encode(values)
    return encoded.indices.cast(pa.int64()), [(value,) for value in encoded.dictionary.to_pylist()]


def _rescued(decoded: pa.Table, name: str, texts: pa.Array, unfit: pa.BooleanArray) -> pa.Table:
    """The same rows, with the texts that do not fit in `_rescued`."""
    at = decoded.schema.get_field_index(RESCUED)
    column = decoded.column(at).combine_chunks()
    kept = [
        _with(rest, name, text)
        for rest, text in zip(column.filter(unfit).to_pylist(), texts.filter(unfit).to_pylist(), strict=True)
    ]
    replaced = pc.replace_with_mask(column, unfit, pa.array(kept, column.type))
    return decoded.set_column(at, decoded.schema.field(at), replaced)


def _with(rescued: str | None, name: str, text: str) -> str:
    """A text of `_rescued`, or none, with one more member."""
    member = json.dumps({name: text}, separators=(",", ":"), ensure_ascii=False)
    return member if rescued is None else f"{member[:-1]},{rescued[1:]}"
