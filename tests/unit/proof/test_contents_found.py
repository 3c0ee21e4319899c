"""Whole contents of random values and tables: a right row has no difference, and each change of one value has.

a schema, a value ── the test's own small decoder ── columns and `_rescued` ── one change ── found
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.columns import EVOLVED, JSON_TEXT
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.proof.contents.compare import Configured

NAMES = st.sampled_from("abcdef")
SCALARS: dict[str, Any] = {
    "string": st.text(st.characters(codec="utf-8"), max_size=3),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.integers(-(10**6), 10**6).map(lambda n: n / 8),
    "boolean": st.booleans(),
}
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | SCALARS["double"] | st.text("xyz", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
JSON = "json"
KINDS = st.recursive(
    st.sampled_from([*SCALARS, JSON]),
    lambda inner: (
        st.tuples(st.just("array"), inner)
        | st.tuples(st.just("map"), inner)
        | st.tuples(st.just("struct"), st.dictionaries(NAMES, inner, min_size=1, max_size=3))
    ),
    max_leaves=6,
)
"""A kind: a scalar's name, JSON, or (array, kind), (map, kind), (struct, {name: kind})."""


class Misfit(Exception):
    """A value that its evolved column cannot hold."""


def spark(kind: Any) -> Any:
    if kind == JSON:
        return "string"
    if isinstance(kind, str):
        return kind
    if kind[0] == "struct":
        return {"type": "struct", "fields": fields(kind[1])}
    part = "elementType" if kind[0] == "array" else "valueType"
    return {"type": kind[0], part: spark(kind[1])} | ({"keyType": "string"} if kind[0] == "map" else {})


def texts(kind: Any, path: tuple[str, ...] = ()) -> list[str]:
    """Where a field holds JSON texts."""
    if kind == JSON:
        return [".".join(path) or "."]
    step = {"array": "element", "map": "value"}.get(kind[0])
    return texts(kind[1], (*path, step)) if step else []


def fields(kinds: dict[str, Any], marked: bool = False) -> list[Any]:
    found = []
    for name, kind in kinds.items():
        metadata = {EVOLVED: "t/0/0"} if marked else {}
        metadata |= {JSON_TEXT: ",".join(texts(kind))} if texts(kind) else {}
        found.append({"name": name, "type": spark(kind), "nullable": True, "metadata": metadata})
    return found


def values_of(kind: Any) -> Any:
    """Values that a declared column takes, unknown fields of objects among them."""
    if kind == JSON:
        return ANY
    if isinstance(kind, str):
        return st.none() | SCALARS[kind]
    inner = st.deferred(lambda: values_of(kind[1]))
    if kind[0] == "array":
        return st.none() | st.lists(inner, max_size=3)
    if kind[0] == "map":
        return st.none() | st.dictionaries(NAMES, inner, max_size=3)
    return st.none() | record_of(kind[1])


def record_of(kinds: dict[str, Any]) -> Any:
    known = st.fixed_dictionaries({}, optional={name: values_of(kind) for name, kind in kinds.items()})
    return st.tuples(st.dictionaries(NAMES, ANY, max_size=3), known).map(
        lambda both: {**{name: value for name, value in both[0].items() if name not in kinds}, **both[1]}
    )


def row(kinds: dict[str, Any], value: dict[str, Any], evolved: bool) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What the columns hold of an object, and what is left."""
    held, rest = {}, {}
    for name, one in value.items():
        if name not in kinds:
            rest[name] = one
        elif one is not None:
            try:
                column, left = part(kinds[name], one, evolved)
            except Misfit:
                column, left = None, one
            held |= {name: column} if column is not None else {}
            rest |= {name: left} if left is not None else {}
    return held, rest or None


def part(kind: Any, value: Any, evolved: bool) -> tuple[Any, Any]:
    """The same of one value that is not null."""
    if kind == JSON:
        return json.dumps(value), None
    if isinstance(kind, str):
        fits = {"string": str, "long": int, "boolean": bool, "double": (int, float)}[kind]
        exact = kind != "double" or type(value) is not int or abs(value) < 2**53
        if not isinstance(value, fits) or (type(value) is bool) != (kind == "boolean") or not exact:
            raise Misfit
        if kind == "long" and not -(2**63) <= value < 2**63:
            raise Misfit
        return value, None
    if not isinstance(value, list if kind[0] == "array" else dict):
        raise Misfit
    if kind[0] == "struct":
        return row(kind[1], value, evolved)
    pairs = enumerate(value) if kind[0] == "array" else sorted(value.items())
    found = {at: (None, None) if one is None else part(kind[1], one, evolved) for at, one in pairs}
    columns, left = ({at: one[side] for at, one in found.items()} for side in (0, 1))
    some = any(one is not None for one in left.values())
    if kind[0] == "array":
        return [*columns.values()], [*left.values()] if some else None
    return columns, {at: one for at, one in left.items() if one is not None} if some else None


def leaves(held: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Everything in it that is a value of its own."""
    inside = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else None
    if inside is None:
        if held is not None:
            yield path, held
        return
    for step, one in inside:
        yield from leaves(one, (*path, step))


def of_nothings(value: Any) -> bool:
    """Whether a text is JSON with no value in it."""
    try:
        return isinstance(value, str) and not [*leaves(json.loads(value))]
    except ValueError:
        return False


def put(held: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = deepcopy(held)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


def other(value: Any) -> Any:
    """Another value of the same kind, also as the text of a JSON value."""
    if type(value) is bool:
        return not value
    return "1" + value if isinstance(value, str) else value + 1


def alike(one: Any, two: Any) -> bool:
    """Whether two leaves are one value, also where they are texts of JSON."""
    try:
        one, two = json.loads(one), json.loads(two)
    except (TypeError, ValueError):
        return bool(one == two)
    return bool(without_nulls(one) == without_nulls(two))


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def clean(form: Configured, text: str, held: Any, rest: Any) -> bool:
    rescued = None if rest is None else json.dumps(rest)
    return not form.differences(text.encode(), held, rescued, None)


@st.composite
def drawn(draw: Any, kinds: Any = KINDS) -> tuple[Routing, list[Any], str, dict[str, Any]]:
    """A configuration, a table's columns, a value as JSON, and its row: {"c": columns, "r": what is left}."""
    declared = draw(st.dictionaries(st.sampled_from("abc"), kinds, max_size=3))
    evolved = draw(st.dictionaries(st.sampled_from("def"), kinds, max_size=3))
    table = [*fields(declared), *fields(evolved, marked=True)]
    value = draw(record_of(declared))
    value |= {name: one for name, one in draw(record_of(evolved)).items() if name in evolved}
    held, left = row(declared, {name: value[name] for name in value if name in declared}, False)
    more, others = row(evolved, {name: value[name] for name in value if name not in declared}, True)
    rest = {**(left or {}), **(others or {})}
    types = (("a", json.dumps({"type": "struct", "fields": fields(declared)})),)
    routing = Routing(TypeFrom("header", "t"), EventTime("record"), types)
    return routing, table, json.dumps(value), {"c": {**held, **more}, "r": rest or None}


def rows() -> st.SearchStrategy[tuple[Configured, str, dict[str, Any]]]:
    """A table's view, a value as JSON, and its row."""
    return drawn().map(lambda one: (view_of(one[0], one[1]), one[2], one[3]))


def view_of(routing: Routing, table: list[Any]) -> Configured:
    return Configured.of(routing, "a", json.dumps({"type": "struct", "fields": table}))


@settings(max_examples=150)
@given(rows())
def test_a_right_row_has_no_difference(given_row: tuple[Configured, str, dict[str, Any]]) -> None:
    """Whatever the columns, and whatever is left to `_rescued`."""
    form, text, stands = given_row
    assert clean(form, text, stands["c"], stands["r"]), (text, stands, form.differences(
        text.encode(), stands["c"], stands["r"] and json.dumps(stands["r"]), None))  # fmt: skip


@settings(max_examples=150)
@given(rows(), st.data())
def test_one_changed_lost_or_moved_value_is_found(
    given_row: tuple[Configured, str, dict[str, Any]], data: st.DataObject
) -> None:
    """A value is made another, taken away, or changes places with another one, in columns and `_rescued` alike.

    But for what is empty and stands alone in a column: a row of before that column has it nowhere (protocol 1.6).
    """
    form, text, stands = given_row
    found = [(path, value) for path, value in leaves(stands) if stands["r"] or not of_nothings(value)]
    if not found:
        return
    path, value = data.draw(st.sampled_from(found))
    for new in (other(value), None):
        spoilt = put(stands, path, new)
        assert not clean(form, text, spoilt["c"], spoilt["r"]), (text, stands, spoilt)
    second, that = data.draw(st.sampled_from(found))
    if type(value) is type(that) and not alike(value, that):
        spoilt = put(put(stands, path, that), second, value)
        assert not clean(form, text, spoilt["c"], spoilt["r"]), (text, stands, spoilt)
