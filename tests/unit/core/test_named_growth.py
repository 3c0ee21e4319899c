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
from tests.unit.core.test_evolve import columns, seen_of, shown
from tests.unit.core.test_naming import field, struct, text

COLUMNS = text(field("a", "long"), field("uid", struct(field("n", "long"))), field("tel"))
NAMES: Names = (("uid", ("user.id", "uid")), ("tel", ("user.phone",)))


def a_routing(names: Names = NAMES, case: Any = "exact", columns_json: str = COLUMNS) -> Routing:
    """With a computed column `hash` and a constant `site`."""
    shape = Shape(decoded_schema(columns_json, names), tuple((one, tuple(paths)) for one, paths in names), case,
                  computed=(("hash", "md5(tel)"),))  # fmt: skip
    table = with_fields(columns_json, [field("hash", struct(field("x"))), *constant_fields([("site", "x")])])
    return Routing(TypeFrom("header", "t"), EventTime("record"), (("order", table),), shapes=(("order", shape),),
                   constants=(("site", "x"),))  # fmt: skip


def growth(*values: Any, routing: Routing | None = None, table: str = "") -> tuple[list[str], str]:
    """The columns that a table has after these values were seen in `_rescued`, and what is decoded then."""
    routing = routing or a_routing()
    named = naming_of(routing, "order")
    assert named is not None
    wider = grown(table or table_schema(routing.columns_of("order")), named.seen(seen_of(*values)), Evolution())
    return columns(wider), shown(json.loads(named.decoded(wider)))


START = ["a long", "uid <n long>", "tel string", "hash <x string>", "site string"]
DECODED = "<a long, user <id <n long>, phone string>, uid <n long>>"


def test_a_table_without_such_columns_grows_as_ever() -> None:
    """There is nothing between."""
    assert naming_of(Routing(TypeFrom("header", "t"), EventTime("record"), (("order", COLUMNS),)), "order") is None


@pytest.mark.parametrize(
    ("seen", "table", "decoded"),
    [
        ({}, START, DECODED),
        ({"b": 1}, [*START, "b long"], "<a long, b long, user <id <n long>, phone string>, uid <n long>>"),
        # beside a path: a column under its own name
        ({"user": {"mail": "m"}}, [*START, "user <mail string>"],
         "<a long, user <mail string, id <n long>, phone string>, uid <n long>>"),
        # below a path: the column grows, and is read so at each of its paths
        ({"user": {"id": {"x": True}}},
         ["a long", "uid <n long, x boolean>", "tel string", "hash <x string>", "site string"],
         "<a long, user <id <n long, x boolean>, phone string>, uid <n long, x boolean>>"),
        ({"uid": {"y": 1.5}, "user": {"id": {"x": True}, "z": [1]}},
         ["a long", "uid <n long, x boolean, y double>", "tel string", "hash <x string>", "site string",
          "user <z [long]>"],
         "<a long, user <z [long], id <n long, x boolean, y double>, phone string>, "
         "uid <n long, x boolean, y double>>"),
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
    before = table_schema(text(field("a", "long"), field("uid", struct(field("n", "long"))), field("tel")))
    wider = grown(before, seen_of({"user": {"id": 1, "mail": "m", "phone": 5}, "site": {"x": 1}}), Evolution())
    assert columns(wider)[3:] == ["site <x long>", "user <id long, mail string, phone long>"]
    table, decoded = growth({}, table=wider)
    assert table == columns(wider)
    assert decoded == "<a long, user <mail string, id <n long>, phone string>, uid <n long>>"


def test_what_is_known_beforehand_goes_the_same_way() -> None:
    """A field that fills a column becomes none again, however deep; with `insensitive` neither one of another case."""
    fields = [
        field("user", struct(field("id", struct(field("n", "long"), field("q"))), field("phone"), field("mail"))),
        field("tel", "double"),
        field("site"),
        field("hash", struct(field("y"))),
        field("c"),
    ]
    for case, sent in (("exact", fields), ("insensitive", fields)):
        named = NamedGrowth(a_routing(case=case), "order")
        found = known_beforehand(table_schema(a_routing().columns_of("order")), named.fields(sent), "id 7")
        assert columns(found) == [
            "a long", "uid <n long, q string>", "tel string", "hash <x string>", "site string", "user <mail string>",
            "c string",
        ]  # fmt: skip
    other = [
        field("USER", struct(field("ID", struct(field("N", "long"), field("Q"))), field("Phone"), field("Mail"))),
        field("A", "long"),
    ]
    named = NamedGrowth(a_routing(case="insensitive"), "order")
    found = known_beforehand(table_schema(a_routing().columns_of("order")), named.fields(other), "")
    assert columns(found) == [
        "a long", "uid <n long, Q string>", "tel string", "hash <x string>", "site string", "user <Mail string>",
    ]  # fmt: skip


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
