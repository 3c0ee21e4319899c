"""JSON values -> the declared columns of one event type. Runs on Spark executors.

Three readers, from fast to exact, with ONE verdict per record whatever the path (ROUTE):

    wrapped     pyarrow's JSON reader over a block of the batch; taken only if all is proven good. Records that are
                cut short, if they are few, are judged before it reads; others that it refuses are judged alone, and
                the rest read again in smaller blocks
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

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.judge import Judge, Verdict
from exporter.route import PARSE_ERRORS
from exporter.routing import Routing
from exporter.shapes import (
    TIME_CUT_HINT,
    UTC_US,
    Doubt,
    Leaf,
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
from exporter.wrapped import WrappedReader
from exporter.years import US_FIRST, US_LAST, Years

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

_NAMED_ROW = re.compile(r" (?:in row|at string index) (\d+)$")
"""How the reader's errors, and those of Arrow's check of UTF-8, end where they tell the record."""

_FACTORS_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class Decoded:
    """A decoded batch: each input row is in exactly one of `good` and `bad`.

    table: one row per good record: the declared columns, `_rescued` (string) and `_event_time`
    (timestamp[us, UTC], never null). good: ascending int32 input rows. bad: (input row, stage,
    reason), ascending. rescued: good records with a `_rescued` text. ignored: unknown fields left
    out of good records. truncated: timestamps that lost fraction digits 7-9, in good records and those
    that only a time out of its bounds made bad.
    """

    table: pa.Table
    good: pa.Int32Array
    bad: list[tuple[int, str, str]]
    rescued: int = 0
    ignored: int = 0
    truncated: int = 0


class _Reader:
    """A shape and what reads it."""

    def __init__(self, root: Struct) -> None:
        self.root = root
        self.read = WrappedReader(root).read

    def leaf(self, path: list[str]) -> tuple[Leaf, bool]:
        """The leaf at a known path, and whether a column holds it."""
        node: Any = self.root
        declared = True
        for name in path:
            child = node.children[name]
            node, declared = child.node, declared and child.declared
        return node, declared


@dataclass(frozen=True)
class _Taken:
    """What the reader made of some values: the declared columns, the event time as sent, timestamps cut."""

    columns: list[pa.Array | pa.ChunkedArray]
    time: pa.Array | None
    cut: int


@dataclass
class _Sorted:
    """What the reader took of so many rows: all but those that a verdict refuses. verdicts: of rows not as sent."""

    size: int
    taken: _Taken
    verdicts: dict[int, Verdict] = field(default_factory=dict)


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
        self._plain = _Reader(self._shaped(shape_of))
        self._reader = self._plain
        root = self._plain.root
        self._classify = msgspec.json.Decoder(root.spec).decode
        self._judge = Judge(root, routing, self._route, event_type, keep_all=len(schema) == 0)
        self._judge_all = len(schema) == 0 or any(isinstance(node, Map) and node.entries for node in nodes_of(root))
        self._guard = decimal_guard(root)
        self._cuts = False
        self._doubted = 0
        self._rows = BLOCK_ROWS

    @cached_property
    def _long(self) -> _Reader:
        """Of timestamps with more digits than it keeps: few topics have them, and of 50 types each takes its time."""
        return _Reader(self._shaped(lambda wanted: shape_of(wanted, self._cutter)))

    def _shaped(self, shape: Callable[[pa.DataType], Any]) -> Struct:
        """The declared columns with the route and event-time fields made known."""
        root: Struct = shape(pa.struct(list(self._schema)))
        unit = self._routing.event_time.unit
        if self._route:
            graft(root, self._route, shape(pa.string()), pa.types.is_string, "the event type")
        if self._time and unit == "iso":
            graft(root, self._time, shape(UTC_US), pa.types.is_timestamp, "the event time as text")
        elif self._time:
            graft(root, self._time, shape(pa.int64()), pa.types.is_integer, f"the event time in {unit}")
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
        self._reader = self._long if result.truncated * 100 > len(values) else self._plain
        return result

    def _sorted(self, values: pa.BinaryArray) -> _Sorted:
        """The first of these values, as many as are worth reading at once, by the fastest reader that proves them."""
        block = values.slice(0, self._rows)
        guarded = self._guarded(block)
        wary = self._judge_all or self._doubted >= WARY_AFTER or self._rewritten(guarded, block)
        cut = {} if wary else self._cut_short(block)
        done = None if wary else self._read(block, cut)
        if done is not None:
            self._doubted = 0
        else:
            size = len(block) if wary else PART_ROWS
            done = self._sort_out(block.slice(0, size), [row for row in guarded if row < size])
            self._doubted = self._doubted + 1 if done.verdicts else 0
        refused = done.size < len(block) or len(done.verdicts) > len(cut)
        self._rows = PART_ROWS if refused and not self._judge_all else min(self._rows * 5 // 4, BLOCK_ROWS)
        return done

    def _cut_short(self, values: pa.BinaryArray) -> dict[int, Verdict]:
        """The refused among values that do not end as an object does, if these are few: none is read in vain."""
        ended = pc.ends_with(values, pattern="}")
        if not 0 < ended.false_count <= NAMED_MAX:
            return {}
        rows = pc.indices_nonzero(pc.invert(ended)).to_pylist()
        judged = {row: self._judge.verdict(values[row].as_py()) for row in rows}
        return {row: verdict for row, verdict in judged.items() if verdict.text is None}

    def _read(self, values: pa.BinaryArray, cut: dict[int, Verdict]) -> _Sorted | None:
        """The first of these values through the wrapped reader: all, those before a refused one, or a part without it.

        None if that one is not to be told. cut: of rows that are refused already.
        """
        rows, texts = _texts(values, cut)
        taken, named = self._try_or_name(texts)
        if named is not None:
            first = rows[named]
            values = values.slice(0, max(first, PART_ROWS))
            cut = {row: verdict for row, verdict in cut.items() if row < len(values)}
            if first < PART_ROWS:
                return self._without_named(values, first, cut)
            taken = self._take(_texts(values, cut)[1], self._reader)
        return None if taken is None else _Sorted(len(values), taken, cut)

    def _without_named(self, values: pa.BinaryArray, first: int, cut: dict[int, Verdict]) -> _Sorted | None:
        """All values through the wrapped reader but for a few, `first` among them; None if there are more or others."""
        rows: Sequence[int] = range(len(values))
        named: int | None = first
        verdicts = dict(cut)
        while named is not None and len(verdicts) < NAMED_MAX:
            raw = values[rows[named]].as_py()
            verdict = self._judge.verdict(raw)
            if verdict == Verdict(raw) or rows[named] in verdicts:
                return None
            verdicts[rows[named]] = verdict
            rows, texts = _texts(values, verdicts)
            taken, named = self._try_or_name(texts)
            if taken is not None:
                return _Sorted(len(values), taken, verdicts)
        return None

    def _try_or_name(self, values: pa.BinaryArray) -> tuple[_Taken | None, int | None]:
        """As _try; where the reader names none, the first that the classifier does not pass."""
        taken, named = self._try(values, self._reader)
        if taken is None and named is None:
            named = next(self._unclassified(values.to_pylist()), None)
        return taken, named

    def _take(self, values: pa.BinaryArray, reader: _Reader) -> _Taken | None:
        """All values through the wrapped reader, or None if one of them is in doubt."""
        return self._try(values, reader)[0]

    def _try(self, values: pa.BinaryArray, reader: _Reader) -> tuple[_Taken | None, int | None]:
        """As _take; if it is None, the position of a doubtful value where the reader names one. That is a hint only."""
        if values.null_count:
            return None, values.is_null().index(True).as_py()
        self._cutter.count = 0
        time = None
        try:
            parsed = reader.read(values)
            columns = reader.root.columns(parsed)
            if self._time:
                leaf, declared = reader.leaf(self._time)
                before = self._cutter.count
                time = leaf.convert(_at(parsed, self._time))
                self._cutter.count = before if declared else self._cutter.count
        except (pa.ArrowInvalid, Doubt) as doubt:
            told = _NAMED_ROW.search(str(doubt))
            at = len(values) if told is None else int(told[1])
            return None, at if at < len(values) else None
        if self._route and len(parsed):
            same = pc.equal(_at(parsed, self._route), self._event_type)
            if same.null_count or not pc.all(same).as_py():
                return None, None
        return _Taken(columns, time, self._cutter.count), None

    def _sort_out(self, values: pa.BinaryArray, guarded: list[int]) -> _Sorted:
        """Classify each record, judge the doubtful and the guarded, read the good ones."""
        raws: list[bytes | None] = values.to_pylist()
        verdicts: dict[int, Verdict] = {}

        def settle(doubtful: Iterable[int], reader: _Reader) -> tuple[_Taken | None, Sequence[int], pa.BinaryArray]:
            for row in doubtful:
                if row not in verdicts:
                    verdicts[row] = self._judge.verdict(raws[row])
            changed = {row: v for row, v in verdicts.items() if v.text is None or v.text is not raws[row]}
            rows, texts = _texts(values, changed)
            return self._take(texts, reader), rows, texts

        taken, rows, texts = settle(self._doubtful(values, raws, guarded), self._reader)
        if taken is None:
            taken, rows, texts = settle([rows[at] for at in self._suspects(texts, 0)], self._reader)
        if taken is None:
            taken, rows, texts = settle(rows, self._plain)
        if taken is None:
            refused = Verdict(None, "not_json: the reader refuses what the judge passed")
            verdicts.update((rows[at], refused) for at in self._unread(texts, 0))
            taken, rows, texts = settle([], self._plain)
        if taken is None:
            raise RuntimeError("records that are read one by one are refused together")
        return _Sorted(len(values), taken, {row: v for row, v in verdicts.items() if v != Verdict(raws[row])})

    def _suspects(self, texts: pa.BinaryArray, start: int) -> list[int]:
        """Positions of the blocks that hold all values which the reader refuses."""
        if len(texts) <= SUSPECTS_MAX:
            return list(range(start, start + len(texts)))
        found: list[int] = []
        step = max(len(texts) // 16, SUSPECTS_MAX)
        for at in range(0, len(texts), step):
            block = texts.slice(at, step)
            if self._take(block, self._reader) is None:
                found += self._suspects(block, start + at)
        return found

    def _doubtful(self, values: pa.BinaryArray, raws: list[bytes | None], guarded: list[int]) -> Iterable[int]:
        """Rows that the classifier does not pass, or that the reader is known to get wrong or refuse."""
        if self._judge_all:
            return range(len(raws))
        doubtful = [*guarded]
        if self._cuts and self._reader is self._plain:
            doubtful += pc.indices_nonzero(pc.match_substring_regex(values, TIME_CUT_HINT)).to_pylist()
        return [*doubtful, *self._unclassified(raws)]

    def _unclassified(self, raws: list[bytes | None]) -> Iterator[int]:
        """Rows that the classifier does not pass, one after the other."""
        for row, raw in enumerate(raws):
            try:
                self._classify(raw)  # type: ignore[arg-type]
            except (*PARSE_ERRORS, TypeError):
                yield row

    def _guarded(self, values: pa.BinaryArray) -> list[int]:
        """Rows that may hold a decimal which the reader gets wrong; none where the judge sees every row anyway."""
        if self._guard is None or self._judge_all:
            return []
        hits: list[int] = pc.indices_nonzero(pc.match_substring_regex(values, self._guard)).to_pylist()
        return hits

    def _rewritten(self, guarded: list[int], values: pa.BinaryArray) -> bool:
        """Whether the judge does not pass all of these rows as they were sent."""
        if len(guarded) * GUARDED_SHARE > len(values):
            return True
        raws = [values[row].as_py() for row in guarded]
        return any(self._judge.verdict(raw) != Verdict(raw) for raw in raws)

    def _unread(self, texts: pa.BinaryArray, start: int) -> list[int]:
        """Positions of the values that the reader refuses alone."""
        if self._take(texts, self._plain) is not None:
            return []
        if len(texts) == 1:
            return [start]
        half = len(texts) // 2
        return self._unread(texts.slice(0, half), start) + self._unread(texts.slice(half), start + half)

    def _finish(self, done: _Sorted, timestamps: pa.TimestampArray) -> Decoded:
        """Check the event times and build the result."""
        notes = done.verdicts
        refused = sorted(row for row, verdict in notes.items() if verdict.text is None)
        rows, kafka = numbered(len(timestamps)), timestamps.cast(UTC_US)
        if refused:
            rows = _but(rows, refused)
            kafka = kafka.take(rows)
        times, inside, late = self._event_times(kafka if done.taken.time is None else done.taken.time, kafka)
        table = pa.table([*done.taken.columns, _rescued(notes, refused, len(rows)), times], schema=self._table_schema)
        bad = [(row, "decode", notes[row].reason) for row in refused]
        if late:
            bad += [(rows[at].as_py(), "event_time", reason) for at, reason in late.items()]
            table, rows = table.filter(inside), rows.filter(inside)
        if beyond := self._years.beyond(table):
            bad += [(rows[at].as_py(), "decode", reason) for at, reason in beyond.items()]
            within = _but(numbered(len(rows)), sorted(beyond))
            table, rows = table.take(within), rows.take(within)
        bad_rows = {row for row, _, _ in bad}
        good = [verdict for row, verdict in notes.items() if row not in bad_rows]
        return Decoded(
            table,
            rows,
            sorted(bad),
            rescued=sum(v.rescued is not None for v in good),
            ignored=sum(v.ignored for v in good),
            truncated=done.taken.cut + sum(v.cut for v in notes.values() if v.text is not None),
        )

    @property
    def _table_schema(self) -> pa.Schema:
        return pa.schema([*self._schema, pa.field("_rescued", pa.string()), pa.field("_event_time", UTC_US)])

    def _event_times(self, sent: pa.Array, kafka: pa.Array) -> tuple[pa.Array, pa.BooleanArray, dict[int, str]]:
        """Event time per row, whether it is within bounds, and the reason per position where it is not."""
        micros, representable = _micros(sent, self._routing.event_time.unit if self._time else "iso")
        low, ahead = self._routing.event_time_min_us, self._routing.event_time_ahead_max_secs * 1_000_000
        inside = pc.and_(representable, pc.greater_equal(micros, max(low, US_FIRST)))
        inside = pc.and_(inside, pc.less_equal(micros, US_LAST))
        inside = pc.and_(inside, pc.less_equal(pc.subtract(micros, ahead), kafka.cast(pa.int64())))
        inside = pc.fill_null(inside, False)
        times = micros.cast(UTC_US)
        if inside.true_count == len(inside):
            return times, inside, {}
        late = pc.indices_nonzero(pc.invert(inside))
        shown = sent.take(late).cast(pa.string()).to_pylist()
        behind = kafka.take(late).cast(pa.string()).to_pylist()
        reasons = map(self._late_reason, shown, behind)
        return times, inside, dict(zip(late.to_pylist(), reasons, strict=True))

    def _late_reason(self, value: str | None, record: str | None) -> str:
        path = "the Kafka timestamp" if self._time is None else "$." + ".".join(self._time)
        if value is None:
            return f"missing_event_time: {path} is null or missing"
        unit = self._routing.event_time.unit
        shown = value if self._time is None or unit == "iso" else f"{value} {unit}"
        ahead = self._routing.event_time_ahead_max_secs
        low = pa.scalar(self._routing.event_time_min_us, UTC_US).cast(pa.string()).as_py()
        return f"event_time_out_of_bounds: {path} = {shown} lies outside {low} .. {record} (Kafka) + {ahead} s"


def _joined(blocks: list[_Sorted]) -> _Sorted:
    """Blocks that follow each other as one. Its columns are not copied together: that is done once a file is made."""
    if len(blocks) == 1:
        return blocks[0]
    columns = [pa.chunked_array(parts) for parts in zip(*(block.taken.columns for block in blocks), strict=True)]
    times = [block.taken.time for block in blocks if block.taken.time is not None]
    taken = _Taken(columns, pa.concat_arrays(times) if times else None, sum(block.taken.cut for block in blocks))
    starts = list(accumulate((block.size for block in blocks), initial=0))
    verdicts = {
        start + row: verdict
        for start, block in zip(starts, blocks, strict=False)
        for row, verdict in block.verdicts.items()
    }
    return _Sorted(starts[-1], taken, verdicts)


def _but(rows: pa.Int32Array, refused: list[int]) -> pa.Int32Array:
    """All rows but some. rows: 0, 1, 2 and so on. refused: ascending."""
    begins, ends = [0, *(row + 1 for row in refused)], [*refused, len(rows)]
    return pa.concat_arrays([rows.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True)])


def _rescued(notes: dict[int, Verdict], refused: list[int], count: int) -> pa.StringArray:
    """What was rescued of each of the `count` rows that are not refused, most often of none."""
    if all(verdict.rescued is None for verdict in notes.values()):
        return pa.nulls(count, pa.string())
    texts: list[str | None] = [None] * count
    for row, verdict in notes.items():
        if verdict.text is not None:
            texts[row - bisect_left(refused, row)] = verdict.rescued
    return pa.array(texts, pa.string())


def _texts(values: pa.BinaryArray, verdicts: dict[int, Verdict]) -> tuple[Sequence[int], pa.BinaryArray]:
    """Rows not refused, and the text to read for each: its verdict's, or its own if there is none."""
    if not verdicts:
        return range(len(values)), values
    rows: list[int] = []
    pieces: list[pa.BinaryArray] = []
    after = 0
    for row in [*sorted(verdicts), len(values)]:
        if row > after:
            rows += range(after, row)
            pieces.append(values.slice(after, row - after))
        text = verdicts[row].text if row < len(values) else None
        if text is not None:
            rows.append(row)
            pieces.append(pa.array([text], pa.binary()))
        after = row + 1
    return rows, pa.concat_arrays(pieces) if pieces else values.slice(0, 0)


def _at(parsed: pa.StructArray, path: list[str]) -> pa.Array:
    """The column at a path; null where a parent is."""
    column: pa.Array = parsed
    for name in path:
        column = pc.struct_field(column, name)
    return column


def _micros(sent: pa.Array, unit: str) -> tuple[pa.Array, pa.Array]:
    """Event times as int64 microseconds, and whether each can be expressed so."""
    if unit == "iso":
        micros = sent.cast(pa.int64())
        return micros, micros.is_valid()
    number = sent.cast(pa.int64())
    if unit == "ns":
        cut = pc.divide(number, 1000)
        return pc.if_else(pc.greater(pc.multiply(cut, 1000), number), pc.subtract(cut, 1), cut), number.is_valid()
    factor = _FACTORS_US[unit]
    limit = (2**63 - 1) // factor
    fits = pc.and_(pc.less_equal(number, limit), pc.greater_equal(number, -limit))
    return pc.multiply(pc.if_else(fits, number, 0), factor), fits
