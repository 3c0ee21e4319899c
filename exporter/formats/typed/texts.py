"""Values of any type as the JSON that stands for them in `_rescued` and in columns for any JSON. On Spark executors.

    text, numbers, booleans     as JSON has them; a number with a fraction's type has a point or an exponent
    NaN, Infinity, -Infinity    these texts
    BINARY                      base64
    DATE                        2026-01-31
    TIMESTAMP                   2026-01-31T12:00:00.000000Z; TIMESTAMP_NTZ without Z
    outside the years 1 - 9999  days or microseconds since 1970, as a number
    structs, maps, arrays       objects and arrays; a struct's nulls are left out
    what no column can hold     JSON already (typed.py)

No value of ours is ever rounded. Whole columns at a time; value by value only what Arrow has no function for.
"""

from __future__ import annotations

import base64
from decimal import Decimal
from json.encoder import encode_basestring

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.years import DAY_FIRST, DAY_LAST, US_FIRST, US_LAST
from exporter.formats.typed.items import items_of, joined

_ESCAPED = r'["\\\x00-\x1f]'
_WHOLE = r"^(-?[0-9]+)$"
_ODD = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def json_text(array: pa.Array) -> pa.StringArray:
    """The JSON of each value; null is null."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _objects(array)
    if pa.types.is_list(kind):
        items = items_of(array)
        texts = joined(items.offsets, json_text(items.parts[0]).fill_null("null"), "[", "]")
        return _null_as(texts, array)
    if pa.types.is_map(kind):
        items = items_of(array)
        keys, values = items.parts
        texts = pc.binary_join_element_wise(quoted(keys), json_text(values).fill_null("null"), ":")
        return _null_as(joined(items.offsets, texts, "{", "}"), array)
    if pa.types.is_string(kind):
        return quoted(array)
    if pa.types.is_binary(kind):
        texts = [None if raw is None else f'"{base64.b64encode(raw).decode()}"' for raw in array.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_decimal(kind):
        return _decimals(array)
    if pa.types.is_date(kind):
        return _instants(array, pa.int32(), DAY_FIRST, DAY_LAST)
    if pa.types.is_timestamp(kind):
        return _instants(array, pa.int64(), US_FIRST, US_LAST)
    return array.cast(pa.string())  # numbers, booleans, and what is JSON already


def quoted(array: pa.StringArray) -> pa.StringArray:
    """Texts as JSON; what stands in no need of an escape is not looked at one by one."""
    plain = pc.binary_join_element_wise('"', array, '"', "")
    escaped = pc.match_substring_regex(array, _ESCAPED).fill_null(False)
    if not escaped.true_count:
        return plain
    texts = [encode_basestring(text) for text in array.filter(escaped).to_pylist()]
    return pc.replace_with_mask(plain, escaped, pa.array(texts, pa.string()))


def _null_as(texts: pa.StringArray, array: pa.Array) -> pa.StringArray:
    return pc.if_else(array.is_valid(), texts, None) if array.null_count else texts


def _objects(array: pa.StructArray) -> pa.StringArray:
    named = [(field.name, json_text(part)) for field, part in zip(array.type, array.flatten(), strict=True)]
    found = [pc.binary_join_element_wise(f",{encode_basestring(name)}:", text, "") for name, text in named]
    if not found:
        return _null_as(pa.repeat("{}", len(array)), array)
    return _null_as(braced(found), array)


def braced(members: list[pa.StringArray]) -> pa.StringArray:
    """Objects of members that each begin with a comma; null is no member."""
    # Arrow 26 drops rows of nulls alone where it is to skip nulls, so they are replaced
    texts = pc.binary_join_element_wise("{", *members, "}", "", null_handling="replace", null_replacement="")
    return pc.replace_substring(texts, "{,", "{", max_replacements=1)


def _floats(array: pa.Array) -> pa.StringArray:
    texts = pc.replace_substring_regex(array.cast(pa.string()), _WHOLE, r"\1.0")
    finite = pc.is_finite(array).fill_null(True)
    if finite.false_count:
        odd = pc.invert(finite)
        texts = pc.replace_with_mask(texts, odd, pa.array([_ODD[one] for one in texts.filter(odd).to_pylist()]))
    return texts


def _decimals(array: pa.Array) -> pa.StringArray:
    """Without an exponent, which Arrow writes for small ones."""
    texts = array.cast(pa.string())
    long = pc.match_substring(texts, "E").fill_null(False)
    if long.true_count:
        plain = [format(Decimal(one), "f") for one in texts.filter(long).to_pylist()]
        texts = pc.replace_with_mask(texts, long, pa.array(plain))
    return texts


def _instants(array: pa.Array, number: pa.DataType, low: int, high: int) -> pa.StringArray:
    numbers = array.cast(number)
    beyond = outside(numbers, low, high)
    held = array
    if len(beyond):
        mask = np.zeros(len(array), bool)
        mask[beyond] = True
        held = pc.if_else(pa.array(mask), None, array)
    texts = held.cast(pa.string())
    if pa.types.is_timestamp(array.type):
        texts = pc.replace_substring(texts, " ", "T")
    texts = pc.binary_join_element_wise('"', texts, '"', "")
    return pc.replace_with_mask(texts, pa.array(mask), numbers.take(beyond).cast(pa.string())) if len(beyond) else texts


def outside(numbers: pa.Array, low: int, high: int) -> np.ndarray:
    """The rows of integers that lie outside of bounds; most often none."""
    ends = pc.min_max(numbers)
    if not ends["min"].is_valid or low <= ends["min"].as_py() <= ends["max"].as_py() <= high:
        return np.empty(0, np.int64)
    beyond = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
    rows: np.ndarray = pc.indices_nonzero(beyond.fill_null(False)).to_numpy().astype(np.int64)
    return rows
