"""Messages that stand for a date or a decimal -> numbers of such a column. Runs on Spark executors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from exporter.formats.binary.columns import Numbers, Spans, Structs
from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.decimals import DIGITS_MAX, decimals

YEARS = (1, 9999)
_WORD = (1 << 64) - 1


def days(record: Structs) -> tuple[Numbers, np.ndarray]:
    """The dates of years, months and days, and which are none: one of the three is 0, or there is no such day."""
    year, month, day = (one.values.astype(np.int64) for one in record.fields)
    odd = (year < YEARS[0]) | (year > YEARS[1]) | (month < 1) | (month > 12) | (day < 1) | (day > 31)
    year, month, day = np.where(odd, 1970, year), np.where(odd, 1, month), np.where(odd, 1, day)
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    found = months.astype("datetime64[D]") + (day - 1)
    odd |= found.astype("datetime64[M]") != months
    return Numbers(found.astype(np.int64).astype(np.int32), pa.date32()), odd


def numbers(batch: ValueBytes, record: Structs, kind: pa.Decimal128Type) -> tuple[Numbers, np.ndarray]:
    """The decimals of whole numbers and scales, and which are none: without bytes, or with digits that the column has
    no place for. A message's own precision says nothing that the number does not."""
    spans, _, scales = record.fields
    if not isinstance(spans, Spans):
        raise TypeError("the value of a decimal is bytes")
    empty = spans.sizes == 0
    same = scales.values == kind.scale
    words, over = decimals(batch, spans.begins, spans.sizes, kind.precision)
    bad = empty | (over & same)
    for at in np.flatnonzero(~same & ~empty).tolist():
        begin = int(spans.begins[at])
        found = _rescaled(bytes(batch.raw[begin : begin + int(spans.sizes[at])]), int(scales.values[at]), kind)
        bad[at] = found is None
        words[at] = (0, 0) if found is None else (found & _WORD, found >> 64 & _WORD)
    return Numbers(words, kind), bad


def _rescaled(raw: bytes, scale: int, kind: pa.Decimal128Type) -> int | None:
    """A number with the scale of the column; None if it does not fit there exactly."""
    number, more = int.from_bytes(raw, "big", signed=True), kind.scale - scale
    if not number:
        return 0
    if more > DIGITS_MAX or (more < 0 and -more > len(raw) * 3):  # the number has no more digits than that
        return None
    number, left = (number * 10**more, 0) if more >= 0 else divmod(number, 10**-more)
    return number if not left and abs(number) < 10**kind.precision else None
