"""JSON values -> the declared columns of one event type. Runs on Spark executors.

Three readers, from fast to exact, with ONE verdict per record whatever the path (ROUTE):

    wrapped     pyarrow's JSON reader over a block of the batch; taken only if all is proven good. Records that are
                cut short, if they are few, are judged before it reads; others that it refuses are judged alone, and
                the rest read again in smaller blocks. Unknown fields are cut out before it reads (layouts.py)
    classifier  msgspec, typed and strict, per record; tells the doubtful ones from the others
    judge       stdlib json, per record; the only one that refuses a record and words the reason

Values always come out of the wrapped reader: what the judge passes is read by it too, rewritten
where the reader cannot take it as sent (unknown fields taken out, fraction digits 7-9 cut, decimals
written plainly). So the judge passes all that the reader passes, and a record alone decodes as it
does in a batch. The reader is not trusted with decimals beyond the plain (see decimal_guard). A schema
with maps below arrays or maps has every record judged and these maps rewritten as lists of entries.
What a column is to each of the three stands in shapes.py, two of them in wrapped.py and judge.py.
Must never let a value become null in silence, drop a record, or look at a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.years import Years
from exporter.core.routing import Routing
from exporter.formats.decoded import Decoded
from exporter.formats.event_times import EventTimes
from exporter.formats.json.judge import VALUES_MAX, Judge, Verdict, too_many_values
from exporter.formats.json.layouts import Cut, Layouts
from exporter.formats.json.reading import Asked, Reader, Readers, Taken
from exporter.formats.json.shapes import (
    TIME_CUT_HINT,
    UTC_US,
    LongTimes,
    Map,
    Struct,
    decimal_guard,
    free_maps,
    graft,
    nodes_of,
    numbered,
    shape_of,
)
from exporter.formats.json.text import PARSE_ERRORS
from exporter.text import shorten

BLOCK_ROWS = 4_096
"""Values that are read at once, as long as none is refused: as text they fit a core's cache."""

PART_ROWS = 512
"""So many are read at once after a refused one, then a quarter more each time: few others are read a second time."""

SUSPECTS_MAX = 80
"""A reader that refuses a block is tried on parts of it down to this size before the judge sees them."""

NAMED_MAX = 4
"""So many refused records of a part are judged one by one before the classifier is asked about all."""

WARY_AFTER = 2
"""After so many blocks in a row that the classifier had to sort out the next one goes to it at once."""

GUARDED_SHARE = 20
"""If more than one value in so many may hold a decimal that the reader gets wrong, its block is classified at once."""

LEARNT_MAX = 4
"""So many records of a block are looked at for where their unknown fields stand."""


class _Block(NamedTuple):
    """Values that are read at once. texts: what is read of each. cut: what is not. readers: of such texts."""

    sent: pa.BinaryArray
    texts: pa.BinaryArray
    cut: Cut | None
    readers: Readers

    @property
    def notes(self) -> Cut | None:
        """What was cut out, once the texts are read."""
        return None if self.cut is None else self.cut._replace(texts=pa.nulls(len(self.sent), pa.binary()))

    def part(self, size: int) -> _Block:
        """Its first values."""
        cut = None if self.cut is None else self.cut.part(size)
        return _Block(self.sent.slice(0, size), self.texts.slice(0, size), cut, self.readers)


@dataclass
class _Sorted:
    """What the reader took of so many rows: all but those that a verdict refuses. verdicts: of rows not as sent.

    cut: what was cut out of the rows that have no verdict.
    """

    size: int
    taken: Taken
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    cut: Cut | None = None


class Decoder:
    """Decodes batches of values of one event type.

    Between batches it only remembers which reader is likely to do (speed, never a verdict).
    An empty schema keeps the whole object in `_rescued`. Raises ConfigError if a declared column
    is in the way of the route or event-time field.
    """

    def __init__(self, event_type: str, schema: pa.Schema, routing: Routing) -> None:
        self._schema = schema
        self._routing = routing
        self._event_type = event_type
        time, kind = routing.event_time, routing.type_from
        self._route = kind.name.split(".") if kind.kind == "json" else None
        self._time = time.path.split(".") if time.kind == "json" else None
        self._cutter = LongTimes()
        self._years = Years(schema)
        self._event_times = EventTimes(routing, self._time)
        self._asked = Asked(event_type, self._route, self._time, self._cutter)
        self._readers = Readers(self._shaped, self._asked)
        root = self._readers.root
        self._layouts = Layouts(root)
        self._marked = self._readers
        self._judge = Judge(root, routing, self._route, event_type, keep_all=len(schema) == 0)
        self._judge_all = any(isinstance(node, Map) and node.entries for node in nodes_of(root))
        self._all_unknown = len(schema) == 0
        self._as_sent = not self._judge_all and not self._all_unknown
        self._guard = decimal_guard(root)
        self._long = False
        self._cuts = False
        self._doubted = 0
        self._rows = BLOCK_ROWS

    def _shaped(self, long: bool) -> Struct:
        """The declared columns with the route and event-time fields made known."""
        cutter = self._cutter if long else None
        root: Struct = shape_of(pa.struct(list(self._schema)), cutter)
        unit = self._routing.event_time.unit
        if self._route:
            graft(root, self._route, shape_of(pa.string(), cutter), pa.types.is_string, "the event type")
        if self._time and unit == "iso":
            graft(root, self._time, shape_of(UTC_US, cutter), pa.types.is_timestamp, "the event time as text")
        elif self._time:
            graft(root, self._time, shape_of(pa.int64(), cutter), pa.types.is_integer, f"the event time in {unit}")
        free_maps(root)
        return root

    def decode(self, values: pa.BinaryArray, timestamps: pa.TimestampArray) -> Decoded:
        """Decode values with their Kafka timestamps (timestamp[us], any zone); under 2 GB per batch."""
        blocks = [self._sorted(values)]
        at = blocks[0].size
        while at < len(values):
            blocks.append(self._sorted(values.slice(at)))
            at += blocks[-1].size
        result = self._finish(_joined(blocks), timestamps)
        self._cuts = result.truncated > 0
        self._long = result.truncated * 100 > len(values)
        return result

    def _sorted(self, values: pa.BinaryArray) -> _Sorted:
        """The first of these values, as many as are worth reading at once, by the fastest reader that proves them."""
        block = self._block(values.slice(0, self._rows))
        settled = self._outsized(block.sent)
        guarded = [row for row in self._guarded(block.texts) if row not in settled]
        each = self._judge_all or self._all_unknown
        wary = each or self._doubted >= WARY_AFTER or self._rewritten(guarded, block)
        if not wary:
            settled |= self._cut_short(block.sent, settled)
        done = None if wary else self._read(block, settled)
        if done is not None:
            self._doubted = 0
        else:
            part = block if wary else block.part(PART_ROWS)
            size = len(part.sent)
            done = self._sort_out(
                part, [row for row in guarded if row < size], {r: v for r, v in settled.items() if r < size}
            )
            self._doubted = self._doubted + 1 if done.verdicts else 0
        refused = done.size < len(block.sent) or len(done.verdicts) > len(settled)
        self._rows = PART_ROWS if refused and not each else min(self._rows * 5 // 4, BLOCK_ROWS)
        if not each and self._learn(block.sent, done.verdicts):
            self._rows = BLOCK_ROWS
        return done

    def _block(self, values: pa.BinaryArray) -> _Block:
        """The values, without the unknown fields whose place is known."""
        cut = None if self._alone else self._layouts.cut(values)
        return _Block(values, *((values, None, self._readers) if cut is None else (cut.texts, cut, self._marked)))

    @property
    def _alone(self) -> bool:
        """Whether refused records must not be read with good ones, because the reader counts what it cuts in all."""
        return self._long and self._routing.unknown_fields == "dead_letter"

    def _reader(self, block: _Block) -> Reader:
        return block.readers.long if self._long else block.readers.plain

    def _learn(self, sent: pa.BinaryArray, verdicts: dict[int, Verdict]) -> bool:
        """Look where some of the records that had to be taken apart have their unknown fields; whether that is news."""
        rows = [row for row, verdict in verdicts.items() if verdict.unknown and verdict.text is not None]
        some = rows[:: max(1, len(rows) // LEARNT_MAX)][:LEARNT_MAX]
        news = any(self._layouts.learn(sent[row].as_py()) for row in some)
        if news:
            layouts = self._layouts
            self._marked = Readers(lambda long: layouts.marked(self._shaped(long)), self._asked, layouts.marks)
        return news

    def _outsized(self, values: pa.BinaryArray) -> dict[int, Verdict]:
        """Those with more values than the judge can look at, by what the reader says of each alone."""
        long = pc.indices_nonzero(pc.greater(pc.binary_length(values), VALUES_MAX)).to_pylist()
        raws = {row: values[row].as_py() for row in long}
        return {row: self._read_alone(raw) for row, raw in raws.items() if too_many_values(raw)}

    def _read_alone(self, raw: bytes) -> Verdict:
        """The verdict on a record that the judge sees only if the reader takes neither it nor its declared fields."""
        for guess in (Verdict(raw), self._judge.guess(raw)) if self._as_sent else ():
            text = pa.array([] if guess is None else [guess.text], pa.binary())
            if guess is not None and not self._guarded(text) and self._readers.plain.take(text) is not None:
                return Verdict(None, guess.reason) if guess.reason else guess
        return self._judge.verdict(raw)

    def _cut_short(self, values: pa.BinaryArray, settled: dict[int, Verdict]) -> dict[int, Verdict]:
        """The refused among values that do not end as an object does, if these are few: none is read in vain."""
        ended = pc.ends_with(values, pattern="}")
        if not 0 < ended.false_count <= NAMED_MAX:
            return {}
        rows = pc.indices_nonzero(pc.invert(ended)).to_pylist()
        judged = {row: self._judge.verdict(values[row].as_py()) for row in rows if row not in settled}
        return {row: verdict for row, verdict in judged.items() if verdict.text is None}

    def _read(self, block: _Block, settled: dict[int, Verdict]) -> _Sorted | None:
        """The first of a block through the wrapped reader: all, those before a refused one, or a part without it.

        None if that one is not to be told. settled: rows with a verdict already.
        """
        rows, texts = _texts(block.texts, settled)
        taken, named = self._try_or_name(texts, block)
        if named is not None:
            first = rows[named]
            block = block.part(max(first, PART_ROWS))
            settled = {row: verdict for row, verdict in settled.items() if row < len(block.sent)}
            if first < PART_ROWS:
                return self._without_named(block, first, settled)
            taken = self._reader(block).take(_texts(block.texts, settled)[1])
        return None if taken is None else _Sorted(len(block.sent), taken, settled, block.notes)

    def _without_named(self, block: _Block, first: int, settled: dict[int, Verdict]) -> _Sorted | None:
        """A block through the wrapped reader but for a few, `first` among them; None if there are more or others."""
        rows: Sequence[int] = range(len(block.sent))
        named: int | None = first
        verdicts = dict(settled)
        while named is not None and len(verdicts) < NAMED_MAX + len(settled):
            row = rows[named]
            if row in verdicts:
                return None
            raw = block.sent[row].as_py()
            verdicts[row] = self._guess(raw) or self._judge.verdict(raw)
            if verdicts[row] == Verdict(raw):
                return None
            rows, texts = _texts(block.texts, verdicts)
            taken, named = self._try_or_name(texts, block)
            if taken is not None:
                return _Sorted(len(block.sent), taken, verdicts, block.notes)
        return None

    def _try_or_name(self, texts: pa.BinaryArray, block: _Block) -> tuple[Taken | None, int | None]:
        """All texts of a block; or the one that the reader names, else the first that the classifier does not pass."""
        taken, named = self._reader(block).take_or_name(texts)
        if taken is None and named is None:
            named = next(_unclassified(texts.to_pylist(), block.readers), None)
        return taken, named

    def _sort_out(self, block: _Block, guarded: list[int], settled: dict[int, Verdict]) -> _Sorted:
        """Classify each record, judge the doubtful and the guarded, read the good ones."""
        raws: list[bytes | None] = block.sent.to_pylist()
        verdicts = dict(settled)
        guessed: set[int] = set()

        def judge(doubtful: Iterable[int]) -> None:
            for row in doubtful:
                if row not in verdicts or row in guessed:
                    verdicts[row] = self._judge.verdict(raws[row])
                    guessed.discard(row)

        def read(reader: Reader) -> tuple[Taken | None, Sequence[int], pa.BinaryArray]:
            rows, texts = _texts(block.texts, verdicts)
            return reader.take(texts), rows, texts

        reader, plain = self._reader(block), block.readers.plain
        judge(self._known_doubts(block.texts, guarded))
        if not self._judge_all:
            texts = block.texts.to_pylist()
            unsure = range(len(raws)) if self._all_unknown else _unclassified(texts, block.readers)
            doubtful = [row for row in unsure if row not in verdicts]
            guesses = {row: guess for row in doubtful if (guess := self._guess(raws[row])) is not None}
            verdicts |= guesses
            guessed |= guesses.keys()
            judge(row for row in doubtful if row not in guesses)
        taken, rows, texts = read(reader)
        if taken is None:
            judge(rows[at] for at in self._suspects(texts, reader, 0))
            taken, rows, texts = read(reader)
        if taken is None:
            judge(rows)
            taken, rows, texts = read(plain)
        if taken is None:
            refused = Verdict(None, "not_json: the reader refuses what the judge passed")
            verdicts.update((rows[at], refused) for at in self._unread(texts, plain, 0))
            taken, rows, texts = read(plain)
        if taken is None:
            raise RuntimeError("records that are read one by one are refused together")
        if block.cut is None:
            verdicts = {row: v for row, v in verdicts.items() if row in guessed or v != Verdict(raws[row])}
        return _Sorted(len(raws), taken, verdicts, block.notes)

    def _guess(self, raw: bytes | None) -> Verdict | None:
        """What it is if its only oddity is unknown fields, and the reader takes the rest; None if that is in doubt."""
        return None if self._alone else self._judge.guess(raw)

    def _suspects(self, texts: pa.BinaryArray, reader: Reader, start: int) -> list[int]:
        """Positions of the blocks that hold all values which the reader refuses."""
        if len(texts) <= SUSPECTS_MAX:
            return list(range(start, start + len(texts)))
        found: list[int] = []
        step = max(len(texts) // 16, SUSPECTS_MAX)
        for at in range(0, len(texts), step):
            block = texts.slice(at, step)
            if reader.take(block) is None:
                found += self._suspects(block, reader, start + at)
        return found

    def _known_doubts(self, texts: pa.BinaryArray, guarded: list[int]) -> Iterable[int]:
        """Rows that the reader is known to get wrong or refuse; all where the judge has to see each."""
        if self._judge_all:
            return range(len(texts))
        if not self._cuts or self._long:
            return guarded
        return [*guarded, *pc.indices_nonzero(pc.match_substring_regex(texts, TIME_CUT_HINT)).to_pylist()]

    def _guarded(self, texts: pa.BinaryArray) -> list[int]:
        """Rows that may hold a decimal which the reader gets wrong; none where the judge sees every row anyway."""
        if self._guard is None or self._judge_all:
            return []
        hits: list[int] = pc.indices_nonzero(pc.match_substring_regex(texts, self._guard)).to_pylist()
        return hits

    def _rewritten(self, guarded: list[int], block: _Block) -> bool:
        """Whether the judge does not pass all of these rows as they are read."""
        if len(guarded) * GUARDED_SHARE > len(block.sent):
            return True
        for row in guarded:
            raw = block.sent[row].as_py()
            verdict = self._judge.verdict(raw)
            as_cut = block.cut is not None and block.cut.found[row].as_py() == verdict.unknown and not verdict.changed
            if verdict.text is None or (verdict != Verdict(raw) and not as_cut):
                return True
        return False

    def _unread(self, texts: pa.BinaryArray, reader: Reader, start: int) -> list[int]:
        """Positions of the values that the reader refuses alone."""
        if reader.take(texts) is not None:
            return []
        if len(texts) == 1:
            return [start]
        half = len(texts) // 2
        first = self._unread(texts.slice(0, half), reader, start)
        return first + self._unread(texts.slice(half), reader, start + half)

    def _finish(self, done: _Sorted, timestamps: pa.TimestampArray) -> Decoded:
        """Check the event times and build the result."""
        notes = done.verdicts
        refused = sorted(row for row, verdict in notes.items() if verdict.text is None)
        rows, kafka = numbered(len(timestamps)), timestamps.cast(UTC_US)
        columns: list[Any] = [*self._unknown(done)]
        if refused:
            rows = _but(rows, refused)
            kafka, *columns = [column.take(rows) for column in (kafka, *columns)]
        columns += [kafka, kafka if done.taken.time is None else done.taken.time, *done.taken.columns]
        bad = [(row, "decode", notes[row].reason) for row in refused]
        if odd := self._refused_if_taken(done):
            bad += [(row, "decode", reason) for row, reason in odd.items()]
            kept = pc.invert(pc.is_in(rows, value_set=pa.array(odd, pa.int32())))
            rows, *columns = [column.filter(kept) for column in (rows, *columns)]
        unknown, found, kafka, sent, *columns = columns
        times, inside, late = self._event_times.check(sent, kafka)
        table = pa.table([*columns, unknown, times], schema=self._table_schema)
        if late:
            bad += [(rows[at].as_py(), "event_time", reason) for at, reason in late.items()]
            table, rows, found = table.filter(inside), rows.filter(inside), found.filter(inside)
        if beyond := self._years.beyond(table):
            bad += [(rows[at].as_py(), "decode", reason) for at, reason in beyond.items()]
            within = _but(numbered(len(rows)), sorted(beyond))
            table, rows, found = table.take(within), rows.take(within), found.take(within)
        return Decoded(
            table,
            rows,
            sorted(bad),
            rescued=len(rows) - table["_rescued"].null_count,
            ignored=pc.sum(found).as_py() or 0,
            truncated=done.taken.cut + sum(v.cut for v in notes.values() if v.text is not None),
        )

    def _unknown(self, done: _Sorted) -> tuple[pa.StringArray, pa.Int32Array]:
        """Of each row what is kept of its unknown fields, most often null, and how many are not."""
        texts, counts = pa.nulls(done.size, pa.string()), pa.nulls(done.size, pa.int32())
        if self._routing.unknown_fields == "ignore" and len(self._schema):
            counts = counts if done.cut is None else done.cut.found
            return texts, _patched(counts, {row: verdict.unknown for row, verdict in done.verdicts.items()})
        if self._routing.unknown_fields == "rescue" and done.cut is not None:
            texts = done.cut.unknown
        elif all(verdict.rescued is None for verdict in done.verdicts.values()):
            return texts, counts
        return _patched(texts, {row: verdict.rescued for row, verdict in done.verdicts.items()}), counts

    def _refused_if_taken(self, done: _Sorted) -> dict[int, str]:
        """Rows that are refused although the reader took them, and why: it saw them without their unknown fields."""
        odd = {row: v.reason for row, v in done.verdicts.items() if v.text is not None and v.reason}
        if done.cut is not None and self._routing.unknown_fields == "dead_letter":
            first = done.cut.first
            rows = set(pc.indices_nonzero(first.is_valid()).to_pylist()) - done.verdicts.keys()
            odd |= {row: f"unknown_field: {shorten(first[row].as_py())}" for row in rows}
        return odd

    @property
    def _table_schema(self) -> pa.Schema:
        return pa.schema([*self._schema, pa.field("_rescued", pa.string()), pa.field("_event_time", UTC_US)])


def _unclassified(texts: list[bytes | None], readers: Readers) -> Iterator[int]:
    """Those that the classifier does not pass, one after the other."""
    for at, text in enumerate(texts):
        try:
            readers.classify(text)
        except (*PARSE_ERRORS, TypeError):
            yield at


def _joined(blocks: list[_Sorted]) -> _Sorted:
    """Blocks that follow each other as one. Its columns are not copied together: that is done once a file is made."""
    if len(blocks) == 1:
        return blocks[0]
    columns = [pa.chunked_array(parts) for parts in zip(*(block.taken.columns for block in blocks), strict=True)]
    times = [block.taken.time for block in blocks if block.taken.time is not None]
    taken = Taken(columns, pa.concat_arrays(times) if times else None, sum(block.taken.cut for block in blocks))
    starts = list(accumulate((block.size for block in blocks), initial=0))
    verdicts = {
        start + row: verdict
        for start, block in zip(starts, blocks, strict=False)
        for row, verdict in block.verdicts.items()
    }
    cut = None
    if any(block.cut is not None for block in blocks):
        cuts = [Cut.none(block.size) if block.cut is None else block.cut for block in blocks]
        cut = Cut(*map(pa.concat_arrays, zip(*cuts, strict=True)))
    return _Sorted(starts[-1], taken, verdicts, cut)


def _but(rows: pa.Int32Array, refused: list[int]) -> pa.Int32Array:
    """All rows but some. rows: 0, 1, 2 and so on. refused: ascending."""
    begins, ends = [0, *(row + 1 for row in refused)], [*refused, len(rows)]
    return pa.concat_arrays([rows.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True)])


def _patched(column: pa.Array, values: dict[int, Any]) -> pa.Array:
    """A column with other values in some rows."""
    if not values:
        return column
    rows = sorted(values)
    where = pc.is_in(numbered(len(column)), value_set=pa.array(rows, pa.int32()))
    return pc.replace_with_mask(column, where, pa.array([values[row] for row in rows], column.type))


def _texts(values: pa.BinaryArray, verdicts: dict[int, Verdict]) -> tuple[Sequence[int], pa.BinaryArray]:
    """Rows not refused, and the text to read for each: its verdict's, or its own if there is none."""
    refused = sorted(row for row, verdict in verdicts.items() if verdict.text is None)
    others = {row: verdict.text for row, verdict in verdicts.items() if verdict.text is not None}
    texts = _patched(values, others)
    if not refused:
        return range(len(values)), texts
    rows = _but(numbered(len(values)), refused)
    return rows.to_pylist(), texts.take(rows)
