"""The statistics of a data file in its `add` action, the same that Delta's own writer makes. Runs where files are made.

    Arrow schema    which columns have any: the first 32 leaves, a list or a map being one
    Arrow rows      what no footer tells: how many lists and maps are null, whether a number is NaN, texts over 4 KiB
    Parquet footer  all else, in the numbers that Parquet stores

Readers pass over whole files by them: a bound may be wider than the values, never narrower. Dates and times do not
become Python's on the way, which hold less than Parquet does; one that Delta's text cannot say is no bound.
Source: the Delta protocol, 'Per-file Statistics', and StatisticsCollection.scala of delta-spark 4.4.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.arrow.leaves import Leaf, leaves, values_at
from exporter.arrow.years import DAY_FIRST, DAY_LAST, DAY_US

COLUMNS_MAX = 32
"""Delta's `dataSkippingNumIndexedCols` where a table does not set it."""
TEXT_MAX = 32
"""Delta's `dataSkippingStringPrefixLength`: so much of a longer text is in its bounds."""
FOOTER_TEXT_BYTES = 4096
"""Of a column of texts with a longer one Parquet keeps no bounds."""

_EPOCH = date(1970, 1, 1).toordinal()
_ASCII_LAST, _LAST = "\x7f", "\U0010ffff"
_encode = msgspec.json.Encoder().encode


class RowNotes:
    """What is noted of a file's rows because its footer will not tell."""

    def __init__(self) -> None:
        self.nulls: Counter[Leaf] = Counter()
        self.ends: dict[Leaf, list[Any]] = defaultdict(list)

    def add(self, rows: pa.Table) -> None:
        """Rows that no other call has brought."""
        for leaf, form in _columns(rows.schema):
            if form.nested:
                self.nulls[leaf] += values_at(rows, leaf.path).null_count
            elif form.untold is not None:
                self.ends[leaf] += form.untold(values_at(rows, leaf.path))


def statistics(metadata: pq.FileMetaData, schema: pa.Schema, seen: RowNotes) -> str:
    """Delta's JSON: numRecords, minValues, maxValues, nullCount. schema: of the rows. seen: all of them."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for leaf, form in _columns(schema):
        if form.nested:
            _put(nulls, leaf, seen.nulls[leaf])
            continue
        chunks = [group.column(leaf.column).statistics for group in groups]
        _put(nulls, leaf, sum(chunk.null_count for chunk in chunks))
        if form.write is not None:
            ends = [form.value(end) for chunk in chunks if chunk.has_min_max for end in (chunk.min_raw, chunk.max_raw)]
            ends += seen.ends[leaf]
            _put(low, leaf, form.write(min(ends, key=_order)) if ends else None)
            _put(high, leaf, (form.high or form.write)(max(ends, key=_order)) if ends else None)
    return _encode({"numRecords": metadata.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}).decode()


def _put(target: dict[str, Any], leaf: Leaf, value: Any) -> None:
    """Put a bound as Delta does: a struct is there even if nothing in it has a value."""
    *parents, name = leaf.path
    for parent in parents:
        target = target.setdefault(parent, {})
    if value is not None:
        target[name] = value


def _order(end: Any) -> tuple[bool, Any]:
    """A key that orders numbers as Spark does: NaN is greater than any other."""
    return end != end, end


@dataclass(frozen=True)
class _Form:
    """How a type's bounds are made. It has none without `write`: of booleans and binary values Delta keeps none.

    value: of what Parquet stores. write, high: of a value, for JSON; None where it is no bound. high: of the upper one.
    untold: values that are to be bounds as well, of rows whose footer does not have them.
    nested: of a list or a map, only nulls are counted.
    """

    write: Callable[[Any], Any] | None = None
    high: Callable[[Any], Any] | None = None
    value: Callable[[Any], Any] = lambda stored: stored
    untold: Callable[[pa.ChunkedArray], list[Any]] | None = None
    nested: bool = False


@cache
def _columns(schema: pa.Schema) -> tuple[tuple[Leaf, _Form], ...]:
    return tuple((leaf, _form(leaf.kind)) for leaf in leaves(schema)[:COLUMNS_MAX])


def _form(kind: pa.DataType) -> _Form:
    types = pa.types
    if types.is_string(kind):
        return _Form(lambda text: text[:TEXT_MAX], upper_text, bytes.decode, _long_texts)
    if types.is_decimal(kind):
        return _Form(lambda number: _decimal(number, kind.scale), value=_unscaled)
    if types.is_floating(kind):
        return _Form(_float, untold=_nan)
    if types.is_integer(kind):
        return _Form(lambda number: number)
    if types.is_date(kind):
        return _Form(_day)
    if types.is_timestamp(kind):
        return _Form(lambda micros: _instant(micros, "Z" if kind.tz else ""))
    return _Form(nested=types.is_nested(kind))


def _nan(numbers: pa.ChunkedArray) -> list[float]:
    return [math.nan] if pc.any(pc.is_nan(numbers)).as_py() else []


def _long_texts(texts: pa.ChunkedArray) -> list[str]:
    """The least and the greatest, if one is too long for a footer."""
    if texts.nbytes <= FOOTER_TEXT_BYTES or (pc.max(pc.binary_length(texts)).as_py() or 0) <= FOOTER_TEXT_BYTES:
        return []
    ends = pc.min_max(texts)
    return [ends["min"].as_py(), ends["max"].as_py()]


def upper_text(text: str) -> str | None:
    """A text that is not less than any that begins with what is left of this one; None if Delta has none either.

    Delta counts by UTF-16, in which some characters are two. It ends a text that it cuts with the last character of
    ASCII where that does, else with the last of all; where just that one was cut off, it goes on.
    """
    length, cut = 0, 0
    while length < TEXT_MAX and cut < len(text):
        length, cut = length + _units(text[cut]), cut + 1
    while cut < len(text) and length <= 2 * TEXT_MAX:
        if text[cut] != _LAST:
            return text[:cut] + (_ASCII_LAST if text[cut] < _ASCII_LAST else _LAST)
        length, cut = length + 2, cut + 1
    return text if cut == len(text) and length <= 2 * TEXT_MAX else None


def _units(character: str) -> int:
    return 2 if character > "\uffff" else 1


def _unscaled(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _decimal(unscaled: int, scale: int) -> msgspec.Raw:
    """A number of JSON with all its digits."""
    sign, digits = int(unscaled < 0), tuple(map(int, str(abs(unscaled))))
    return msgspec.Raw(format(Decimal((sign, digits, -scale)), "f").encode())


def _float(number: float) -> float | str:
    """What JSON has no number for is a text, as in Spark.

    A FLOAT is written as the DOUBLE that it is: in the fewest digits that tell it apart from other FLOATs, as Delta
    writes it, it would be no bound any more once the column is widened.
    """
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _day(days: int) -> str | None:
    return date.fromordinal(_EPOCH + days).isoformat() if DAY_FIRST <= days <= DAY_LAST else None


def _instant(micros: int, zone: str) -> str | None:
    """An instant cut to milliseconds; readers add one to an upper bound."""
    days, rest = divmod(micros, DAY_US)
    seconds, millis = divmod(rest // 1000, 1000)
    day = _day(days)
    return day and f"{day}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{millis:03}{zone}"
