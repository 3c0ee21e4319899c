"""Decoded rows by the names of the table: against plain Python over the same values."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.naming import Names, decoded_schema
from exporter.core.shapes import Shape
from exporter.formats.schema import arrow_schema
from exporter.shape.names import Naming
from exporter.shape.shaper import OWN, Shaper
from tests.unit.core.test_naming import field, struct, text

COLUMNS = text(
    field("a", "long"),
    field("uid", "long", nullable=False),
    field("tel"),
    field("at", struct(field("x", "double"))),
    field("list", {"type": "array", "elementType": "long", "containsNull": True}),
    field("map", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}),
    field("box", struct(field("in", "long", nullable=False))),
)
KINDS: dict[str, Any] = {
    "a": 1, "uid": 2, "tel": "t", "at": {"x": 0.5}, "list": [1, None], "map": {"k": 1}, "box": {"in": 3},
}  # fmt: skip


def named(names: Names, values: list[dict[str, Any]]) -> tuple[pa.Table, dict[int, str]]:
    decoded = decoded_schema(COLUMNS, names)
    schema = arrow_schema(decoded, "order", "JSON")
    kept = pa.schema([one.with_nullable(True) for one in schema])
    own = pa.table({name: [f"{name}{row}" for row in range(len(values))] for name in OWN})
    table = pa.Table.from_pylist(values, schema=kept)
    for name in OWN:
        table = table.append_column(name, own[name])
    return Naming(decoded, names).named(table, len(OWN))


def at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put(value: dict[str, Any], path: str, what: Any) -> None:
    *way, last = path.split(".")
    for name in way:
        value[name] = value.get(name) or {}
        value = value[name]
    value[last] = what


def test_a_column_is_the_first_of_its_paths_that_is_there() -> None:
    """Null is not there; a column that is NOT NULL and nowhere is told, with all of its paths."""
    names: Names = (("uid", ("user.id", "uid")), ("tel", ("user.phone",)))
    values: list[dict[str, Any]] = [
        {"user": {"id": 1, "phone": "a"}, "uid": 9},
        {"user": {"id": None}, "uid": 9},
        {"user": None, "uid": 8, "a": 5},
        {"user": {"phone": "b"}},
        {"uid": None},
    ]
    table, bad = named(names, values)
    assert table.column_names == ["a", "at", "list", "map", "box", "uid", "tel", *OWN]
    assert table["uid"].to_pylist() == [1, 9, 8, None, None]
    assert table["tel"].to_pylist() == ["a", None, None, "b", None]
    assert table["a"].to_pylist() == [None, None, 5, None, None]
    assert table["_rescued"].to_pylist() == [f"_rescued{row}" for row in range(5)]
    reason = "missing_field: $.user.id or $.uid is required, but null or missing"
    assert bad == {3: reason, 4: reason}


def test_a_struct_that_leads_to_a_path_keeps_its_own_fields() -> None:
    """And is null where the value has none."""
    table, bad = named((("tel", ("at.tel",)),), [{"at": {"x": 1.5, "tel": "t"}}, {"at": {}}, {}])
    assert table["at"].to_pylist() == [{"x": 1.5}, {"x": None}, None]
    assert table["tel"].to_pylist() == ["t", None, None]
    assert table["at"].type == pa.struct([("x", pa.float64())])
    assert not bad


def test_rows_that_lack_a_required_column_are_dead_letters_and_no_others() -> None:
    """The shaper leaves them out, and says why by their rows."""
    names: Names = (("uid", ("user.id",)),)
    decoded = decoded_schema(text(field("uid", "long", nullable=False)), names)
    table = pa.table({
        "user": pa.array([{"id": 1}, None, {"id": 3}, {"id": None}], pa.struct([("id", pa.int64())])),
        "_rescued": pa.nulls(4, pa.string()),
        "_event_time": pa.nulls(4, pa.timestamp("us", "UTC")),
    })  # fmt: skip
    shaped = Shaper(Shape(decoded, names), [("site", "x")]).shaped(table, table.select([]))
    assert shaped.kept.to_pylist() == [0, 2]
    assert shaped.table.to_pydict() == {
        "uid": [1, 3], "site": ["x", "x"], "_rescued": [None, None], "_event_time": [None, None],
    }  # fmt: skip
    reason = "missing_field: $.user.id is required, but null or missing"
    assert shaped.bad == [(1, reason), (3, reason)]
    assert len(shaped.filtered) == 0


def some_names(rng: random.Random) -> dict[str, list[str]]:
    """Paths of some columns, none of which stands in another's way."""
    moved = rng.sample(list(KINDS), rng.randrange(1, len(KINDS)))
    free = ["u.p", "u.q", "u.r", "v.w.p", "v.w.q", "top", "é", "with space"]
    free += [one for one in moved if one != "at"]
    free += [] if "at" in moved else ["at.p", "at.q"]
    rng.shuffle(free)
    paths: dict[str, list[str]] = {column: [free.pop()] for column in moved}
    for path in free:
        paths[rng.choice(moved)].append(path)
    return paths


def expected(names: Mapping[str, list[str]], value: dict[str, Any]) -> dict[str, Any]:
    return {
        column: next((found for path in names.get(column, [column]) if (found := at(value, path)) is not None), None)
        for column in KINDS
    }


@pytest.mark.parametrize("seed", range(40))
def test_any_names_give_what_plain_python_finds_at_the_paths(seed: int) -> None:
    """For values of any kind, and a row alone is what it is in a batch."""
    rng = random.Random(seed)
    names = some_names(rng)
    of = {path: column for column in KINDS for path in names.get(column, [column])}
    values = []
    for _ in range(rng.randrange(1, 12)):
        value: dict[str, Any] = {}
        for path in sorted(of, key=len):
            if rng.random() < 0.6:
                put(value, path, deepcopy(rng.choice([None, KINDS[of[path]]])))
        values.append(value)
    table, bad = named([*names.items()], values)
    rows = table.drop_columns(list(OWN)).to_pylist(maps_as_pydicts="strict")
    for row, value in enumerate(values):
        wanted = expected(names, value)
        if isinstance(wanted["at"], dict):
            wanted["at"] = {"x": wanted["at"].get("x")}
        assert rows[row] == wanted, (names, value)
        assert (row in bad) == ("uid" in names and wanted["uid"] is None)
        alone, _ = named([*names.items()], [value])
        assert alone.drop_columns(list(OWN)).to_pylist(maps_as_pydicts="strict") == [rows[row]]
    decoded = json.loads(decoded_schema(COLUMNS, [*names.items()]))
    assert {one["name"] for one in decoded["fields"]} >= {path.split(".")[0] for path in of}
