"""A row is shaped as if it were alone, whatever stands beside it: random rows, expressions and batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from exporter.core.shapes import Shape
from exporter.errors import ConfigError
from exporter.shape.shaper import Shaped, Shaper
from exporter.shape.sql import checked_sql
from tests.support.schemas import schema
from tests.unit.shape.rows import decoded, equal, made, records

DECODED = schema(
    "a BIGINT, b INT, d DOUBLE, m DECIMAL(6,2), s STRING, u STRING, f BOOLEAN, t TIMESTAMP, day DATE, l ARRAY<STRING>, "
    "p STRUCT<x: STRING>"
)
TEXTS = st.sampled_from(["", "0", "7", "-3", "x", "é😀", "1.5", "2024-02-29", '{"k": 1}', "{", "a,b", "%", "(", " 7 "])
NUMBERS = st.sampled_from([0, 1, -1, 2, 7, 100, 2**31 - 1])
VALUES = {
    "a": NUMBERS | st.sampled_from([2**63 - 1, -(2**63)]), "b": NUMBERS, "s": TEXTS, "u": TEXTS, "f": st.booleans(),
    "d": st.sampled_from([0.0, -0.0, 1.5, -2.0, 1e300, float("nan"), float("inf")]),
    "m": st.decimals(-999, 999, places=2), "t": st.sampled_from([0, -1, 1_700_000_000_123_456]),
    "day": st.sampled_from([0, 19_000, -700_000]), "l": st.lists(TEXTS | st.none(), max_size=3),
    "p": st.fixed_dictionaries({"x": TEXTS | st.none()}),
}  # fmt: skip
ROWS = st.lists(st.fixed_dictionaries({name: one | st.none() for name, one in VALUES.items()}), min_size=1, max_size=9)

NUMERIC = st.deferred(lambda: st.sampled_from(["a", "b", "d", "m", "0", "3", "s::INTEGER", "length(s)"]) | _numeric)
TEXTUAL = st.deferred(lambda: st.sampled_from(["s", "u", "'7'", "a::VARCHAR", "p.x", "l[1]", "t::VARCHAR"]) | _textual)
CONDITION = st.deferred(lambda: st.sampled_from(["f", "s = ''", "a > 0", "u LIKE '%7'", "s IS NULL"]) | _condition)
# No macros: what is in one is written out as often as the macro has it, and those in it again.
_numeric = st.builds(
    "{}".format,
    st.builds("({} {} {})".format, NUMERIC, st.sampled_from(["+", "-", "*", "/", "//", "%"]), NUMERIC)
    | st.builds("CAST({} AS {})".format, NUMERIC | TEXTUAL, st.sampled_from(["INTEGER", "TINYINT", "DECIMAL(4,1)"]))
    | st.builds("CASE WHEN {} THEN {} ELSE {} END".format, CONDITION, NUMERIC, NUMERIC)
    | st.builds("coalesce({}, {})".format, NUMERIC, NUMERIC)
    | st.builds("{}({})".format, st.sampled_from(["abs", "sqrt", "ln", "factorial", "round"]), NUMERIC)
    | st.sampled_from(["date_diff('day', day, t::DATE)", "list_sum(list_transform(l, lambda x: x::INTEGER))"]),
)
_textual = st.builds(
    "{}".format,
    st.builds("({} || {})".format, TEXTUAL, TEXTUAL)
    | st.builds("{}({})".format, st.sampled_from(["upper", "sha256", "reverse", "trim"]), TEXTUAL)
    | st.builds("regexp_replace({}, {}, 'r')".format, TEXTUAL, TEXTUAL)
    | st.builds("({}->>'$.k')".format, TEXTUAL)
    | st.builds("string_split({}, ',')[CAST({} AS TINYINT)]".format, TEXTUAL, NUMERIC)
    | st.builds("substr({}, {}, {})".format, TEXTUAL, NUMERIC, NUMERIC)
    | st.builds("CASE WHEN {} THEN {} ELSE error({}) END".format, CONDITION, TEXTUAL, TEXTUAL)
    | st.builds("strftime(CAST({} AS TIMESTAMP), '%Y-%j')".format, TEXTUAL)
    | st.builds("TRY({})".format, TEXTUAL)
    | st.builds("list_aggr(list_filter(l, lambda x: x > {}), 'string_agg', '+')".format, TEXTUAL),
)
_condition = st.builds(
    "{}".format,
    st.builds("({} {} {})".format, CONDITION, st.sampled_from(["AND", "OR"]), CONDITION)
    | st.builds("(NOT {})".format, CONDITION)
    | st.builds("({} {} {})".format, NUMERIC, st.sampled_from(["<", "=", "IS DISTINCT FROM"]), NUMERIC)
    | st.builds("({} IN ({}, {}))".format, TEXTUAL, TEXTUAL, TEXTUAL)
    | st.builds("regexp_matches({}, {})".format, TEXTUAL, TEXTUAL)
    | st.builds("({} BETWEEN {} AND {})".format, NUMERIC, NUMERIC, NUMERIC),
)
LENGTH_MAX = 600
"""Characters of all expressions of a shape."""
SHAPES = st.builds(
    lambda where, one, other: Shape(DECODED, where=where, computed=(("one", one), ("s", other))),
    CONDITION | st.just(""), NUMERIC | CONDITION, TEXTUAL,
).filter(lambda shape: len(shape.where + "".join(text for _, text in shape.computed)) < LENGTH_MAX)  # fmt: skip


def outcomes(shaper: Shaper, values: Sequence[dict[str, Any]], first: int = 0) -> list[Any]:
    """Of each row: what it is in the table, None if it is filtered, or why it cannot be there."""
    answer: Shaped = shaper.shaped(decoded(DECODED, values), records(len(values), first))
    by_row: dict[int, Any] = dict(answer.bad)
    by_row |= dict(zip(answer.kept.to_pylist(), made(answer), strict=True))
    by_row |= dict.fromkeys(answer.filtered.to_pylist())
    assert sorted(by_row) == list(range(len(values)))
    assert len(answer.bad) + len(answer.kept) + len(answer.filtered) == len(values)
    return [by_row[row] for row in range(len(values))]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(SHAPES, ROWS, st.data())
def test_each_row_is_what_it_is_alone(shape: Shape, values: list[dict[str, Any]], data: st.DataObject) -> None:
    """The same value, filtered or not, for the same reason: alone, in one batch, in two, and among many copies."""
    try:
        checked_sql(shape)
    except ConfigError:
        assume(False)
    shaper = Shaper(shape, [])
    alone = [outcomes(shaper, [value], row)[0] for row, value in enumerate(values)]
    assert equal(outcomes(shaper, values), alone)
    cut = data.draw(st.integers(0, len(values)))
    assert equal(outcomes(shaper, values[:cut]) + outcomes(shaper, values[cut:], cut), alone)
    order = data.draw(st.permutations(range(len(values))))
    assert equal(outcomes(shaper, [values[row] for row in order]), [alone[row] for row in order])
