"""What is empty in `_rescued`: the rule against a plain reader, over all small documents and over odd texts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.executor.empty import without_empty

ODD = ["", ":", '"', '":', '\\":null', "{}", "[", "null", "a\n", "\u2028", "é", "😀", '","":', "\\", "\x00"]
"""Texts that look like something else."""
WAYS = ({"separators": (",", ":"), "ensure_ascii": False}, {}, {"indent": 1})


def left(*parts: list[str | None]) -> list[str | None]:
    """What the column has of texts, in as many chunks."""
    column = pa.chunked_array([pa.array(part, pa.string()) for part in parts], pa.string())
    rows = pa.table({"n": range(len(column)), "_rescued": column, "day": pa.nulls(len(column))})
    found = without_empty(rows)
    assert found.schema == rows.schema and found.drop_columns("_rescued") == rows.drop_columns("_rescued")
    told: list[str | None] = found["_rescued"].to_pylist()
    return told


def says(value: Any) -> bool:
    """Whether there is anything in a value: a plain reader."""
    if isinstance(value, dict):
        return any(says(one) for one in value.values())
    return any(map(says, value)) if isinstance(value, list) else value is not None


def expected(texts: list[str | None]) -> list[str | None]:
    return [text if text is not None and says(json.loads(text)) else None for text in texts]


def documents(levels: int, size_max: int) -> Iterator[Any]:
    """All values of so many levels, with so many members or items at most in each object and array."""
    yield from (None, "", 0, False, "null")
    if levels:
        inner = [*documents(levels - 1, size_max)]
        for size in range(size_max + 1):
            for values in itertools.product(inner, repeat=size):
                yield dict(zip(("", '":{'), values, strict=False))
                yield list(values)


@pytest.mark.parametrize(("levels", "size_max", "number"), [(2, 2, 9_119), (6, 1, 761)])
def test_no_value_is_left_out_of_any_small_document_and_no_empty_one_is_left(
    levels: int, size_max: int, number: int
) -> None:
    """All of them, in one batch, compact and with blanks."""
    values = [{"u": one} for one in documents(levels, size_max)]
    assert len(values) == number
    for way in WAYS:
        texts: list[str | None] = [json.dumps(one, **way) for one in values]
        assert left(texts) == expected(texts)
        assert any(text is None for text in left(texts)) and any(left(texts))


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ODD) | st.text(), inner, max_size=3),
    max_leaves=8,
)
NOTHING = st.recursive(
    st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ODD), inner, max_size=3)
)
DOCUMENT = st.dictionaries(st.sampled_from(ODD) | st.text(), VALUE | NOTHING, max_size=3)


@given(st.lists(st.none() | st.tuples(DOCUMENT, st.sampled_from(WAYS)), max_size=6), st.integers(0, 6))
def test_a_row_alone_has_what_it_has_in_a_batch(rows: list[Any], cut: int) -> None:
    """Whatever its neighbours and the chunks, and as a plain reader says; what stays is the text as it was."""
    texts = [None if one is None else json.dumps(one[0], **one[1]) for one in rows]
    assert left(texts) == expected(texts) == left(texts[:cut], texts[cut:])
    assert [left([text])[0] for text in texts] == expected(texts)


def test_the_rows_are_the_same_object_where_nothing_is_left_out() -> None:
    """Most batches have no `_rescued` at all, or values in each."""
    for texts in ([], [None, None], ['{"u":1}', None, '{"u":""}']):
        rows = pa.table({"_rescued": pa.array(texts, pa.string())})
        assert without_empty(rows) is rows


@pytest.mark.parametrize("levels", [10, 100_000])
def test_deep_and_long_texts_are_told_in_one_pass(levels: int) -> None:
    """No depth is too great for it, and a value at the very end is seen."""
    deep, long = "[" * levels, '{"u":{}},' * levels
    for begin, end in ((deep, "]" * levels), (f"[{long}", "{}]")):
        texts: list[str | None] = [f'{{"a":{begin}{end}}}', f'{{"a":{begin}{end},"z":0}}']
        assert left(texts) == [None, texts[1]]
