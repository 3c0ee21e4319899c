"""JSON values -> the declared columns of one event type. Runs on Spark executors.

Three readers, from fast to exact, with ONE verdict per record whatever the path (ROUTE):

    reader      pyarrow's JSON reader over a block of the batch (wrapped.py); taken only if all is proven good. Unknown
                fields whose place is known are cut out before it reads (layouts.py)
    classifier  msgspec, typed and strict, per record; tells the doubtful ones from the others
    judge       stdlib json, per record; the only one that refuses a record and words the reason

ways.py draws which of them see which records of a block. Values always come out of the reader: what the judge passes
is read by it too, rewritten where the reader cannot take it as sent (unknown fields taken out, fraction digits 7-9
cut, decimals written plainly). So the judge passes all that the reader passes, and a record alone decodes as it does
in a batch. The reader is not trusted with decimals beyond the plain (see decimal_guard). A schema with maps below
arrays or maps has every record judged and these maps rewritten as lists of entries. What a column is to each of the
three stands in shapes.py and leaves.py. Columns for any JSON are columns of text to them, for their values are lifted
out of the records first (lifted.py). What does not fit a column that nobody declared is for the reader a doubt and for
the judge an unknown field. Must never let a value become null in silence, drop a record, or look at a clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import all_but, numbered, patched
from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom
from exporter.errors import ConfigError
from exporter.formats.cased import Spelling
from exporter.formats.format import Read
from exporter.formats.json.asked import JsonAsked
from exporter.formats.json.block import JudgedBlock, joined
from exporter.formats.json.blocks import BlockReader
from exporter.formats.json.cased import CasedReader
from exporter.formats.json.judge import TOO_MANY, Judge, outsized
from exporter.formats.json.layouts import Layouts
from exporter.formats.json.lifted import Lifter, holds_json
from exporter.formats.json.peek import JsonPeek
from exporter.formats.json.reading import ShapeReaders
from exporter.formats.json.ways import Habits, Tuning, Way
from exporter.formats.marks import has_evolved, widened
from exporter.formats.schema import arrow_schema
from exporter.text import shorten


class Json:
    """The format of values that are one JSON object each."""

    def __init__(self, tuning: Tuning | None = None) -> None:
        self._tuning = tuning or Tuning()

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """Implements `Format.schema`: the Arrow schema of a type's columns."""
        return arrow_schema(spark_json, event_type, "JSON")

    def peek(self, source: TypeFrom) -> JsonPeek:
        """Implements `Format.peek`: what finds event types in values."""
        if source.kind != "json":
            raise ConfigError(
                f"JSON values name no {source.kind}", "take the event type from a field, a header or the key"
            )
        return JsonPeek(source.name)

    def reader(
        self, event_type: str, schema: pa.Schema, routing: Routing, json_text: JsonText = "as_sent"
    ) -> JsonReader | CasedReader:
        """Implements `Format.reader`: what reads a type's values into columns."""
        made = JsonReader(event_type, schema, routing, self._tuning, canonical=json_text == "canonical")
        return CasedReader(made, Spelling.of(schema)) if routing.ignores_case(event_type) else made


class JsonReader:
    """Reads values of one event type. ways: how many blocks took which, so far."""

    def __init__(
        self, event_type: str, schema: pa.Schema, routing: Routing, tuning: Tuning, canonical: bool = False
    ) -> None:
        asked = JsonAsked.by(event_type, schema, routing, tuning.maps_as_objects)
        readers = ShapeReaders(asked.shape, asked)
        judge = Judge(readers.root, asked)
        self.ways: Counter[Way] = Counter()
        self._asked = asked
        self._widens = asked.read != schema
        self._evolved = has_evolved(asked.read)
        self._lifter = None
        if holds_json(readers.root):
            as_sent = Judge(asked.shape(False, as_sent=True), asked)
            self._lifter = Lifter(readers.root, as_sent, canonical)
        self._blocks = BlockReader(asked, readers, judge, tuning)

    @property
    def habits(self) -> Habits:
        """What the values so far suggest about the next ones."""
        return self._blocks.habits

    @property
    def layouts(self) -> Layouts:
        """Where records of this type are known to hold unknown fields."""
        return self._blocks.layouts

    def read(self, values: pa.BinaryArray) -> Read:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        texts, refused = self._texts(values)
        blocks = [self._blocks.judge_block(texts)]
        at = blocks[0].size
        while at < len(texts):
            blocks.append(self._blocks.judge_block(texts.slice(at)))
            at += blocks[-1].size
        self.ways.update(block.way for block in blocks if block.way)
        read = self._read(joined(blocks))
        self.habits.cuts = read.truncated > 0
        self.habits.long = read.truncated * 100 > len(values)
        if self._lifter is not None and not self._evolved:  # else others say why (evolving.py)
            told = self._lifter.reason
            refused = {row: refused.get(row) or told(values[row].as_py(), why) for row, why in read.refused.items()}
            read = replace(read, refused=refused)
        if self._widens:
            read = replace(read, columns=widened(read.columns, self._asked.read, self._asked.schema, len(read.rows)))
        return read

    def _texts(self, values: pa.BinaryArray) -> tuple[pa.BinaryArray, dict[int, str]]:
        """What is read of the values, null for some that are refused at once, and why these are.

        A record with too many values is, if there are columns that nobody declared: whether it can be read depends on
        which of its fields are unknown ones, so it is left to those who know of no such columns.
        """
        refused: dict[int, str] = dict.fromkeys(outsized(values), TOO_MANY) if self._evolved else {}
        texts = patched(values, dict.fromkeys(refused))
        if self._lifter is None:
            return texts, refused
        texts, unlifted = self._lifter.lifted(texts)
        return texts, {**refused, **unlifted}

    def _read(self, done: JudgedBlock) -> Read:
        """What the reader took, without what is refused all the same."""
        refused = {row: verdict.reason for row, verdict in done.verdicts.items() if verdict.text is None}
        rows, unknown, columns, time = numbered(done.size), self._unknown(done), done.taken.columns, done.taken.time
        if refused:
            rows = all_but(rows, sorted(refused))
            unknown = [column.take(rows) for column in unknown]
        if odd := self._refused_if_taken(done):
            refused |= odd
            kept = pc.invert(pc.is_in(rows, value_set=pa.array(list(odd), pa.int32())))
            rows, time = rows.filter(kept), None if time is None else time.filter(kept)
            unknown, columns = ([column.filter(kept) for column in some] for some in (unknown, columns))
        truncated = done.taken.cut + sum(v.cut for v in done.verdicts.values() if v.text is not None)
        rescued, ignored = unknown
        return Read(rows, columns, time, rescued, ignored, refused, truncated)

    def _unknown(self, done: JudgedBlock) -> list[Any]:
        """Of each row what is kept of its unknown fields, most often null, and how many are not."""
        texts, counts = pa.nulls(done.size, pa.string()), pa.nulls(done.size, pa.int32())
        if self._asked.policy == "ignore" and not self._asked.keeps_all:
            counts = counts if done.cut is None else done.cut.found
            return [texts, patched(counts, {row: verdict.unknown for row, verdict in done.verdicts.items()})]
        if self._asked.policy == "rescue" and done.cut is not None:
            texts = done.cut.unknown
        elif all(verdict.rescued is None for verdict in done.verdicts.values()):
            return [texts, counts]
        return [patched(texts, {row: verdict.rescued for row, verdict in done.verdicts.items()}), counts]

    def _refused_if_taken(self, done: JudgedBlock) -> dict[int, str]:
        """Rows that are refused although the reader took them, and why: it saw them without their unknown fields."""
        odd = {row: v.reason for row, v in done.verdicts.items() if v.text is not None and v.reason}
        if done.cut is not None and self._asked.policy == "dead_letter":
            first = done.cut.first
            rows = set(pc.indices_nonzero(first.is_valid()).to_pylist()) - done.verdicts.keys()
            odd |= {row: f"unknown_field: {shorten(first[row].as_py())}" for row in rows}
        return odd
