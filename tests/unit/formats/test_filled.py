"""What one column lacks is taken from another, at every level."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from exporter.formats.filled import filled

PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
CASES: list[tuple[pa.DataType, list[Any], list[Any], list[Any], list[bool], list[bool]]] = [
    (pa.int64(), [1, None, None, 1], [None, 2, None, 1], [1, 2, None, 1], [False, True, False, False],
     [False, False, False, True]),
    (PAIR, [{"a": 1, "b": None}, None, {"a": 1, "b": "x"}], [{"a": None, "b": "y"}, {"a": 2, "b": None}, None],
     [{"a": 1, "b": "y"}, {"a": 2, "b": None}, {"a": 1, "b": "x"}], [True, True, False], [False] * 3),
    (PAIR, [{"a": 1, "b": None}], [{"a": 1, "b": "y"}], [{"a": 1, "b": "y"}], [True], [True]),
    (pa.list_(PAIR), [[{"a": 1, "b": None}, None], [], [{"a": 1, "b": None}]], [[None, {"a": 3, "b": "z"}], [], []],
     [[{"a": 1, "b": None}, {"a": 3, "b": "z"}], [], [{"a": 1, "b": None}]], [True, False, False],
     [False, False, True]),
    (pa.list_(pa.list_(pa.int64())), [[[1, None], None]], [[[None, 2], [3]]], [[[1, 2], [3]]], [True], [False]),
    (pa.map_(pa.string(), pa.int64()), [[("k", 1)], None], [[("l", 2)], [("l", 2)]], [[("k", 1)], [("l", 2)]],
     [False, True], [True, False]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "have", "more", "both", "changed", "clashes"), CASES)
def test_what_is_lacking_is_taken(
    kind: pa.DataType, have: list[Any], more: list[Any], both: list[Any], changed: list[bool], clashes: list[bool]
) -> None:
    """Rows in which both have a value clash; those before and behind them are filled all the same."""
    pad = [None]
    one, other = (pa.array([*pad, *some, *pad], kind).slice(1, len(some)) for some in (have, more))
    found = filled(one, other)
    assert found.column.type == kind
    assert (found.column.to_pylist(), [*found.changed], [*found.clashes]) == (both, changed, clashes)


def test_nothing_new_leaves_a_column_as_it_is() -> None:
    """It is the very same one."""
    have = pa.array([1, None])
    assert filled(have, pa.nulls(2, pa.int64())).column is have
