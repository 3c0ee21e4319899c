"""Bytes -> text, and text -> what it says; and which of many say nothing. Runs on Spark executors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from exporter.formats.json.times import INFINITE, plain_time

_LONG_FRACTION = r"([.][0-9]{6})[0-9]{1,3}(Z|[+-][0-9:]+)$"


def told(raw: pa.BinaryArray, form: str) -> tuple[pa.Array, np.ndarray | None]:
    """Bytes as text (`plain`), or as the instants that they say in ISO-8601 (`time`), whose digits 7 to 9 are cut.

    Returns them, and where digits were cut; None: nowhere. Raises ArrowInvalid if one is none.
    """
    texts = raw.cast(pa.string())
    if form == "plain":
        return texts, None
    try:
        return _instants(texts)
    except pa.ArrowInvalid:
        plain = pa.array([None if one is None else plain_time(one) for one in texts.to_pylist()], pa.string())
        if plain.equals(texts):
            raise
        return _instants(plain)


def _instants(texts: pa.StringArray) -> tuple[pa.Array, np.ndarray | None]:
    long = pc.match_substring_regex(texts, pattern=_LONG_FRACTION).fill_null(False)
    if not long.true_count:
        return texts.cast(US), None
    texts = pc.replace_substring_regex(texts, pattern=_LONG_FRACTION, replacement=r"\1\2")
    return texts.cast(US), long.to_numpy(zero_copy_only=False)


def infinite(raw: pa.BinaryArray) -> np.ndarray:
    """Which values say that a time is infinite."""
    found: np.ndarray = pc.is_in(raw, pa.array([one.encode() for one in INFINITE], raw.type)).to_numpy(
        zero_copy_only=False
    )
    return found


def untold(raw: pa.BinaryArray, form: str) -> np.ndarray:
    """Which values are none of this form. Most are, so times are looked for by halves."""
    odd = np.zeros(len(raw), bool)
    if form == "plain":
        for at, one in enumerate(raw.to_pylist()):
            try:
                str(one or b"", "utf-8")
            except UnicodeDecodeError:
                odd[at] = True
        return odd
    parts = [(0, len(raw))]
    while parts:
        begin, end = parts.pop()
        try:
            told(raw.slice(begin, end - begin), form)
        except pa.ArrowInvalid:
            middle = (begin + end) // 2
            odd[begin] = odd[begin] or end - begin == 1
            parts += [(begin, middle), (middle, end)] if end - begin > 1 else []
    return odd
