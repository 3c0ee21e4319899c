"""How a table grows if its columns are not all called as the fields that fill them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from exporter.core.columns import EVOLVED
from exporter.core.evolve import Evolution, grown, known_beforehand
from exporter.core.named_growth import NamedGrowth, naming_of
from exporter.core.naming import Names, decoded_schema
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.seen import At, Seen
from exporter.core.shapes import Shape, constant_fields, with_fields
from exporter.lake.schema import table_schema
from tests.support.schemas import ddl, fields, schema
from tests.unit.core.test_evolve import seen_of

COLUMNS = schema("a BIGINT, uid STRUCT<n: BIGINT>, tel STRING")
NAMES: Names = (("uid", ("user.id", "uid")), ("tel", ("user.phone",)))


def a_routing(names: Names = NAMES, case: Any = "exact", columns_json: str = COLUMNS) -> Routing:
    """With a computed column `hash` and a constant `site`."""
    shape = Shape(decoded_schema(columns_json, names), tuple((one, tuple(paths)) for one, paths in names), case,
                  computed=(("hash", "md5(tel)"),))  # fmt: skip
    table = with_fields(columns_json, [*fields("hash STRUCT<x: STRING>"), *constant_fields([("site", "x")])])
    return Routing(TypeFrom("header", "t"), EventTime("record"), (("order", table),), shapes=(("order", shape),),
                   constants=(("site", "x"),))  # fmt: skip


def growth(*values: Any, routing: Routing | None = None, table: str = "") -> tuple[list[str], str]:
    """The columns that a table has after these values were seen in `_rescued`, and what is decoded then."""
    routing = routing or a_routing()
    named = naming_of(routing, "order")
    assert named is not None
    wider = grown(table or table_schema(routing.columns_of("order")), named.seen(seen_of(*values)), Evolution())
    return ddl(wider), ", ".join(ddl(named.decoded(wider)))


START = ["a BIGINT", "uid STRUCT<n: BIGINT>", "tel STRING", "hash STRUCT<x: STRING>", "site STRING"]
DECODED = "a BIGINT, user STRUCT<id: STRUCT<n: BIGINT>, phone: STRING>, uid STRUCT<n: BIGINT>"


def test_a_table_without_such_columns_grows_as_ever() -> None:
    """There is nothing between."""
    assert naming_of(Routing(TypeFrom("header", "t"), EventTime("record"), (("order", COLUMNS),)), "order") is None


@pytest.mark.parametrize(
    ("seen", "table", "decoded"),
    [
        ({}, START, DECODED),
        ({"b": 1}, [*START, "b BIGINT"],
         "a BIGINT, b BIGINT, user STRUCT<id: STRUCT<n: BIGINT>, phone: STRING>, uid STRUCT<n: BIGINT>"),
        # beside a path: a column under its own name
        ({"user": {"mail": "m"}}, [*START, "user STRUCT<mail: STRING>"],
         "a BIGINT, user STRUCT<mail: STRING, id: STRUCT<n: BIGINT>, phone: STRING>, uid STRUCT<n: BIGINT>"),
        # below a path: the column grows, and is read so at each of its paths
        ({"user": {"id": {"x": True}}},
         ["a BIGINT", "uid STRUCT<n: BIGINT, x: BOOLEAN>", "tel STRING", "hash STRUCT<x: STRING>", "site STRING"],
         "a BIGINT, user STRUCT<id: STRUCT<n: BIGINT, x: BOOLEAN>, phone: STRING>, uid STRUCT<n: BIGINT, x: BOOLEAN>"),
        ({"uid": {"y": 1.5}, "user": {"id": {"x": True}, "z": [1]}},
         ["a BIGINT", "uid STRUCT<n: BIGINT, x: BOOLEAN, y: DOUBLE>", "tel STRING", "hash STRUCT<x: STRING>",
          "site STRING", "user STRUCT<z: ARRAY<BIGINT>>"],
         "a BIGINT, user STRUCT<z: ARRAY<BIGINT>, id: STRUCT<n: BIGINT, x: BOOLEAN, y: DOUBLE>, phone: STRING>, "
         "uid STRUCT<n: BIGINT, x: BOOLEAN, y: DOUBLE>"),
        # names that other fields, expressions and constants fill
        ({"tel": "1"}, START, DECODED),
        ({"tel": {"x": 1}, "site": {"x": 1}, "hash": {"y": "q"}, "TEL": 5}, START, DECODED),
    ],
)  # fmt: skip
def test_a_column_grows_by_what_stands_at_its_paths_and_by_nothing_else(
    seen: dict[str, Any], table: list[str], decoded: str
) -> None:
    """What is unknown beside them becomes columns of its own; names that are taken stay in `_rescued`."""
    assert growth(seen) == (table, decoded)


def test_columns_of_before_there_were_names_stay_and_are_in_no_path_s_way() -> None:
    """Nothing fills them any more, but for what is beside the paths."""
    before = table_schema(COLUMNS)
    wider = grown(before, seen_of({"user": {"id": 1, "mail": "m", "phone": 5}, "site": {"x": 1}}), Evolution())
    assert ddl(wider)[3:] == ["site STRUCT<x: BIGINT>", "user STRUCT<id: BIGINT, mail: STRING, phone: BIGINT>"]
    table, decoded = growth({}, table=wider)
    assert table == ddl(wider)
    assert decoded == "a BIGINT, user STRUCT<mail: STRING, id: STRUCT<n: BIGINT>, phone: STRING>, uid STRUCT<n: BIGINT>"


def test_what_is_known_beforehand_goes_the_same_way() -> None:
    """A field that fills a column becomes none again, however deep; with `insensitive` neither one of another case."""
    sent = (
        "user STRUCT<id: STRUCT<n: BIGINT, q: STRING>, phone: STRING, mail: STRING>, tel DOUBLE, site STRING, "
        "hash STRUCT<y: STRING>, c STRING"
    )
    other = "USER STRUCT<ID: STRUCT<N: BIGINT, Q: STRING>, Phone: STRING, Mail: STRING>, A BIGINT"
    grown_by = {
        ("exact", sent): ["q: STRING", "user STRUCT<mail: STRING>", "c STRING"],
        ("insensitive", sent): ["q: STRING", "user STRUCT<mail: STRING>", "c STRING"],
        ("insensitive", other): ["Q: STRING", "user STRUCT<Mail: STRING>"],
    }
    for (case, known), (inside, *new) in grown_by.items():
        named = NamedGrowth(a_routing(case=case), "order")
        found = known_beforehand(table_schema(a_routing().columns_of("order")), named.fields(fields(known)), "id 7")
        start, uid, *rest = START
        assert ddl(found) == [start, uid.replace(">", f", {inside}>"), *rest, *new]


def test_growing_loses_nothing_that_was_seen_and_changes_nothing_that_was_given() -> None:
    """Of any values: what is at paths and what is beside them is all there is, and it grows once."""
    rng = random.Random(7)
    routing = a_routing()
    named = NamedGrowth(routing, "order")
    for _ in range(200):
        value = {
            key: rng.choice([1, None, {"id": {"x": 1}, "phone": {"y": 2}, "z": 3}, {"id": 5}, [1]])
            for key in rng.sample(["user", "uid", "b", "site", "a"], rng.randrange(1, 5))
        }
        seen = seen_of(value)
        before = seen.to_json()
        moved = named.seen(seen)
        assert seen.to_json() == before
        wider = grown(table_schema(routing.columns_of("order")), moved, Evolution())
        assert grown(wider, moved, Evolution()) is wider
        decoded = json.loads(named.decoded(wider))
        assert EVOLVED not in json.dumps([one for one in decoded["fields"] if one["name"] == "a"])
        assert named.decoded(wider) == named.decoded(wider)


def test_a_record_s_first_place_is_kept() -> None:
    """EVOLVED tells where a field was seen first, also of one at a path."""
    seen = Seen()
    seen.add({"user": {"id": {"x": 1}, "mail": 2}}, At("t", 3, 4))
    wider = grown(table_schema(COLUMNS), NamedGrowth(a_routing(), "order").seen(seen), Evolution())
    assert wider.count('"exporter.evolved":"t/3/4"') == 3
