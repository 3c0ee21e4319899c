"""The event type and the event time in records of their writer's types. Runs on Spark executors.

    event time       the writer's field
    -----------------------------------------------------------------------------------------------
    any unit         DATE, TIMESTAMP, TIMESTAMP_NTZ (as UTC): the instant that it is
    iso              STRING: what a JSON value may have there
    s, ms, us, ns    an integer, or DECIMAL without a fraction
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from exporter.arrow.rows import patched
from exporter.formats.asked import Path
from exporter.formats.json.leaves import Means, leaf_of
from exporter.formats.json.values import BadValue, Note
from exporter.formats.said import SaidType
from exporter.formats.typed.compiled import UnfitType, sql_name
from exporter.text import shorten

_NAIVE = pa.timestamp("us")
_ZONED = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$"
_read_time = leaf_of(US, Means()).read


class TypedTimes(NamedTuple):
    """times: US, or int64 in the unit. bad: row -> reason. cut: texts that lost digits which no column can hold."""

    times: pa.Array
    bad: dict[int, str]
    cut: int = 0


class EventPlace:
    """Where something stands in a record."""

    def __init__(self, record: pa.StructType, path: Path, what: str) -> None:
        """Raises UnfitType if what is on the way is no struct."""
        self.path = path
        self.kind: pa.DataType | None = record
        self._indices: list[int] = []
        for depth, name in enumerate(path):
            if not pa.types.is_struct(self.kind):
                unfit = UnfitType(f"the writer has {sql_name(self.kind)}, but {what} stands below it")
                unfit.path += [f".{step}" for step in reversed(path[:depth])]
                raise unfit
            at = self.kind.get_field_index(name)
            if at < 0:
                self.kind = None
                return
            self._indices.append(at)
            self.kind = self.kind.field(at).type

    def of(self, record: pa.StructArray) -> pa.Array:
        """What stands there. `kind` is not None."""
        return pc.struct_field(record, indices=self._indices)

    def unfit(self, what: str) -> UnfitType:
        """What is wrong with its type."""
        unfit = UnfitType(f"the writer has {sql_name(self.kind)}, but it holds {what}")
        unfit.path += [f".{step}" for step in reversed(self.path)]
        return unfit


class EventTypeReader:
    """Reads event types of records in Arrow."""

    def __init__(self, record: pa.StructType, path: Path) -> None:
        """path: of the field. Raises UnfitType where it is no text."""
        self._place = EventPlace(record, path, "the event type")
        if self._place.kind is not None and not _is_any(self._place.kind, pa.types.is_string, pa.types.is_null):
            raise self._place.unfit("the event type")

    def of(self, record: pa.StructArray) -> pa.StringArray:
        """The event type of each record, null where there is none."""
        kind = self._place.kind
        return pa.nulls(len(record), pa.string()) if kind != pa.string() else self._place.of(record)

    def peeked(self, record: pa.StructArray) -> tuple[pa.StringArray, dict[int, str]]:
        """The same with a reason for each record that has none or an empty one, which are null."""
        return told_types(self.of(record), self._place.path)


def told_types(found: pa.StringArray, path: Sequence[str]) -> tuple[pa.StringArray, dict[int, str]]:
    """What stands at a path as event types, with a reason for each that is null or empty, which are null."""
    name = "$." + ".".join(path)
    nulls = pc.indices_nonzero(found.is_null()).to_pylist() if found.null_count else []
    why = dict.fromkeys(nulls, f"no_type: {name} is null or missing")
    empty = pc.equal(found, "").fill_null(False)
    if empty.true_count:
        why |= dict.fromkeys(pc.indices_nonzero(empty).to_pylist(), f"no_type: {name} is an empty string")
        found = pc.if_else(empty, None, found)
    return found, why


def check_types(types: pa.StringArray, said: SaidType, bad: dict[int, str]) -> None:
    """A record's type must be one by which it is routed. bad: gets those of others."""
    fits = said.fitting(types)
    if fits.false_count:
        for row in pc.indices_nonzero(pc.invert(fits)).to_pylist():
            bad.setdefault(row, said.mismatch)


class EventTimeOf:
    """Reads event times of records in Arrow."""

    def __init__(self, record: pa.StructType, path: Path, unit: str) -> None:
        """path: of the field; unit: of its numbers, or iso. Raises UnfitType."""
        self._iso = unit == "iso"
        what = "the event time" if self._iso else f"the event time in {unit}"
        self._place = EventPlace(record, path, what)
        self._step = "$." + ".".join(path)
        kind, types = self._place.kind, pa.types
        numbers = (types.is_string,) if self._iso else (types.is_integer, _is_whole)
        if kind is not None and not _is_any(kind, types.is_null, types.is_timestamp, types.is_date, *numbers):
            raise self._place.unfit(what)

    def of(self, record: pa.StructArray) -> TypedTimes:
        """The event time of each record, null where there is none."""
        kind = self._place.kind
        if kind is None or pa.types.is_null(kind):
            return TypedTimes(pa.nulls(len(record), US if self._iso else pa.int64()), {})
        sent = self._place.of(record)
        if pa.types.is_string(kind):
            return self._read(sent)
        if pa.types.is_date(kind):
            return TypedTimes(sent.cast(_NAIVE).cast(US), {})
        return TypedTimes(sent.cast(US), {}) if pa.types.is_timestamp(kind) else self._numbers(sent)

    @staticmethod
    def told(reader: EventTimeOf | None, record: pa.StructArray, bad: dict[int, str]) -> tuple[pa.Array | None, int]:
        """What a reader finds, if there is one, and what is cut of it. bad: gets what is wrong where nothing is."""
        if reader is None:
            return None, 0
        found = reader.of(record)
        for row, reason in found.bad.items():
            bad.setdefault(row, reason)
        return found.times, found.cut

    def _numbers(self, sent: pa.Array) -> TypedTimes:
        bad: dict[int, str] = {}
        if pa.types.is_decimal(sent.type) and sent.type.precision > 18:
            low, high = (pa.scalar(edge, pa.decimal128(19, 0)) for edge in (-(2**63), 2**63 - 1))
            beyond = pc.or_(pc.less(sent, low), pc.greater(sent, high)).fill_null(False)
            shown = sent.filter(beyond).cast(pa.string()).to_pylist()
            rows = pc.indices_nonzero(beyond).to_pylist()
            bad = {
                row: f"out_of_range: {shorten(self._step)} = {text} does not fit 64 bits"
                for row, text in zip(rows, shown, strict=True)
            }
            sent = pc.if_else(beyond, None, sent)
        return TypedTimes(sent.cast(pa.int64()), bad)

    def _read(self, texts: pa.StringArray) -> TypedTimes:
        """Texts as the JSON reader takes them, all at once if they are plain."""
        if pc.all(pc.match_substring_regex(texts, _ZONED)).as_py() is not False:
            with suppress(pa.ArrowInvalid):
                return TypedTimes(texts.cast(US), {})
        bad: dict[int, str] = {}
        note = Note()
        micros: dict[int, int] = {}
        for row, text in enumerate(texts.to_pylist()):
            if text is None:
                continue
            try:
                micros[row] = _instant(_read_time(text, note))
            except BadValue as unfit:
                unfit.path.append(self._step[1:])
                bad[row] = unfit.reason
        times = patched(pa.nulls(len(texts), pa.int64()), micros)
        return TypedTimes(times.cast(US), bad, note.cut)


def _instant(text: str) -> int:
    """Microseconds since 1970 of a text that is a time; without a zone it is one of UTC."""
    for kind in (US, _NAIVE):
        with suppress(pa.ArrowInvalid):
            micros: int = pa.array([text], pa.string()).cast(kind).cast(pa.int64())[0].as_py()
            return micros
    raise ValueError(text)


def _is_any(kind: pa.DataType, *tests: Callable[[pa.DataType], bool]) -> bool:
    return any(test(kind) for test in tests)


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind)) and kind.scale == 0
