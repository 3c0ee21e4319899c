"""What says nothing in `_rescued`: where there is no more than that, the column is null. Runs on Spark executors.

*Empty* is null, {}, [], and an object or an array of which each member or item is empty, at any depth. No text, number
or boolean is, "", 0 and false included; keys say nothing by themselves (protocol 1.6). What has anything that is not
empty stays whole, byte for byte.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

RESCUED = "_rescued"

_KEY = r'"(?:[^"\\]|\\.)*"\s*:'
_EMPTY = rf"(?s)^(?:[\[\]{{}},\s]|null|{_KEY})*$"
"""Of JSON: it has no value but null. A text that is a value has no colon behind it."""


def without_empty(rows: pa.Table) -> pa.Table:
    """The same rows, null in `_rescued` where all that it has is empty. The texts there are JSON."""
    at = rows.schema.get_field_index(RESCUED)
    texts = rows.column(at)
    if texts.null_count == len(texts):
        return rows
    empty = pc.match_substring_regex(texts, _EMPTY)
    if not pc.any(empty).as_py():
        return rows
    kept = pc.if_else(empty, pa.scalar(None, texts.type), texts)
    return rows.set_column(at, rows.schema.field(at), kept)
