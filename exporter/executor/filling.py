"""What stands in `_rescued` for a column that is there by now goes into it (FILLED, protocol 4.15). On Spark executors.

    `_rescued` ── the reader of JSON, all columns as if nobody had declared them ── values, and what is left
    row ── each value where the row has nothing; one clash, and the whole row stays as it is

The document of a row stays what it was (1.6). Of values that were JSON the reader's casts are those of an export. Those
of other formats stand in `_rescued` as texts of their types; a value is taken if its text, written again, is the same,
and no other type could have been meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.errors import ConfigError
from exporter.executor.empty import RESCUED, without_empty
from exporter.formats.envelopes.unavailable import unavailable
from exporter.formats.evolving import never_refusing
from exporter.formats.filled import filled
from exporter.formats.json.format import Json
from exporter.formats.json.parts import members_of
from exporter.formats.json.text import rescued_value
from exporter.formats.typed.texts import json_text
from exporter.stores.file_rows import fitted

COUNTS = pa.schema([("file", pa.string()), ("column", pa.string()), ("rows", pa.int64())])
"""How many rows of a file could be filled, by column; an empty column: rows with at least one."""
LEFT = -1
"""In place of a number: of a file that only Spark can read."""


@dataclass(frozen=True)
class FillOrder:
    """columns: fillable_columns(). keeps_empty: whether `_rescued` keeps what is empty."""

    event_type: str
    columns: Mapping[str, str]
    routing: Routing
    keeps_empty: bool = False


@dataclass(frozen=True)
class FilledRows:
    """rows: in the columns that they came in. filled: which have more. by_column: how many of these, by name."""

    rows: pa.Table
    filled: Any
    by_column: Mapping[str, int]


class Filler:
    """Fills the rows of one table."""

    def __init__(self, order: FillOrder) -> None:
        self._order = order
        self._form = Json()
        self._schema = pa.schema([field for text in order.columns.values() for field in self._read_as(text)])
        # What says the type and the time of a record is in no `_rescued`: it need not be there.
        here = replace(
            order.routing, type_from=TypeFrom("topic"), event_time=EventTime("record"), unknown_fields="rescue"
        )
        self._reader = never_refusing(
            lambda one: self._form.reader(order.event_type, one, here, "canonical"), self._schema
        )

    def _read_as(self, column: str) -> pa.Schema | Sequence[pa.Field]:
        """A column as JSON has it; none if it has no form there."""
        try:
            return self._form.schema(column, self._order.event_type)
        except ConfigError:
            return ()

    def fill(self, rows: pa.Table, topics: pa.Array) -> FilledRows:
        """Rows with `_rescued` and the columns, and the topic of each."""
        nothing = FilledRows(rows, np.zeros(rows.num_rows, bool), {})
        kept = pc.indices_nonzero(rows.column(RESCUED).is_valid())
        if not len(kept) or not self._schema.names:
            return nothing
        texts = rows.column(RESCUED).take(kept).combine_chunks()
        read = self._reader.read(texts.cast(pa.binary()))
        at = kept.take(read.rows)
        texts = texts.take(read.rows)
        changed: dict[str, Any] = {}
        clashes = np.zeros(len(at), bool)
        columns: dict[str, pa.Array] = {}
        for name, more in zip(self._schema.names, read.columns, strict=True):
            have = rows.column(name).combine_chunks().take(at)
            more = fitted(more.combine_chunks() if isinstance(more, pa.ChunkedArray) else more, have.type)
            columns[name], changed[name], clash = filled(have, more)
            clashes |= clash
        exact = self._of_other_types(topics.take(at))
        for row in np.flatnonzero(exact & ~clashes & np.any([*changed.values()], axis=0)):
            names = [name for name, one in changed.items() if one[row]]
            new = {name: columns[name].slice(row, 1) for name in names}
            clashes[row] = not _is_same(texts[row].as_py(), read.rescued[row].as_py(), new)
        good = ~clashes & np.any([*changed.values()], axis=0)
        if not good.any():
            return nothing
        done = at.filter(pa.array(good))
        left = read.rescued.filter(pa.array(good))
        if not self._order.keeps_empty:
            left = without_empty(pa.table({RESCUED: left})).column(RESCUED).combine_chunks()
        columns = {name: one.filter(pa.array(good)) for name, one in columns.items() if (changed[name] & good).any()}
        for name, one in {**columns, RESCUED: left}.items():
            rows = _replaced(rows, name, done, one)
        mask = np.zeros(rows.num_rows, bool)
        mask[done.to_numpy()] = True
        return FilledRows(rows, mask, {name: int((changed[name] & good).sum()) for name in columns})

    def fill_stored(self, rows: pa.Table) -> FilledRows:
        """The same of rows as a table has them, with `_kafka`."""
        return self.fill(rows, pc.struct_field(rows.column("_kafka").combine_chunks(), "topic"))

    def _of_other_types(self, topics: pa.Array) -> Any:
        """Which rows are of topics whose values are no JSON as it was sent."""
        said = pc.dictionary_encode(topics)
        forms = [self._order.routing.format_of(topic or "") for topic in said.dictionary.to_pylist()]
        others = [not (one.kind in ("json", "json_schema") and one.envelope == "none") for one in forms]
        return np.array([*others, True])[said.indices.fill_null(len(others)).to_numpy(zero_copy_only=False)]


def _replaced(rows: pa.Table, name: str, at: pa.Array, values: pa.Array) -> pa.Table:
    """Rows with other values of a column in some of them."""
    number = rows.schema.get_field_index(name)
    column = rows.column(number).combine_chunks()
    order = np.arange(rows.num_rows)
    order[at.to_numpy()] = rows.num_rows + np.arange(len(at))
    column = pa.concat_arrays([column, values.cast(column.type)]).take(pa.array(order))
    return rows.set_column(number, rows.schema.field(number), column)


def _is_same(before: str, after: str | None, new: Mapping[str, pa.Array]) -> bool:
    """Whether values of a row of another format than JSON are surely those that its `_rescued` had.

    before, after: what is there. new: each column that was filled, one value.
    """
    members, left = members_of(before.encode()), members_of((after or "{}").encode())
    if any(name not in members or name in left for name in new):
        return False
    texts = {name: bytes(members[name]).decode() for name in new}
    if any(texts[name] != json_text(one)[0].as_py() or _is_doubtful(one) for name, one in new.items()):
        return False
    return not unavailable({name: rescued_value(text) for name, text in texts.items()}, new.keys())


def _is_doubtful(column: pa.Array) -> bool:
    """Whether a text may have been that of a number of 32 bits, which is another one in 64."""
    kind = column.type
    if pa.types.is_struct(kind):
        return any(map(_is_doubtful, column.flatten()))
    if pa.types.is_list(kind):
        return _is_doubtful(column.flatten())
    if not pa.types.is_float64(kind):
        return bool(pa.types.is_map(kind))
    shorts = ((one, np.float32(one)) for one in column.drop_null().to_pylist())
    return any(float(short) != one and str(short) == str(one) for one, short in shorts)


def fill(order: FillOrder, batches: Iterator[pa.RecordBatch], count: Any) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: whole rows of a table. count: an accumulator of Spark's."""
    filler = Filler(order)
    for batch in batches:
        done = filler.fill_stored(pa.Table.from_batches([batch]))
        count.add(int(done.filled.sum()))
        yield from done.rows.to_batches()


def counted(order: FillOrder, batches: Iterator[pa.RecordBatch], once: bool = False) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: COUNTS of rows with their `file`. once: whether any would be filled."""
    filler, counts = Filler(order), FileCounts()
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        for file in pc.unique(rows.column("file")).to_pylist():
            if not (once and file in counts):
                counts.add(file, filler.fill_stored(rows.filter(pc.equal(rows.column("file"), file))))
    yield counts.batch()


class FileCounts:
    """How many rows of which files are filled, or would be."""

    def __init__(self) -> None:
        self._rows = Counter[tuple[str, str]]()

    def __contains__(self, file: str) -> bool:
        return (file, "") in self._rows

    def add(self, file: str, done: FilledRows) -> None:
        """Some rows of a file."""
        if done.by_column:
            self._rows.update({(file, name): number for name, number in done.by_column.items()})
            self._rows[file, ""] += int(done.filled.sum())

    def leave(self, file: str) -> None:
        """One that only Spark can read."""
        self._rows[file, ""] = LEFT

    def batch(self) -> pa.RecordBatch:
        """All that was added, as COUNTS."""
        found = [{"file": file, "column": name, "rows": number} for (file, name), number in self._rows.items()]
        return pa.RecordBatch.from_pylist(found, schema=COUNTS)
