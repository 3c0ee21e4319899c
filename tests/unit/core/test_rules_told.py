"""What is said of the rules of a configuration: all of them, each at its type, and nothing where there are none."""

from __future__ import annotations

from dataclasses import fields

from exporter.core.columns import NO_COLUMNS
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.rules_told import ALL, rules_told
from exporter.core.shapes import Rename, Shape

PLAIN = Routing(TypeFrom("key"), EventTime("record"), (("order", NO_COLUMNS), ("rest", NO_COLUMNS)))


def test_each_rule_is_told_where_it_is_in_force() -> None:
    """In the order in which a record meets them; whatever a shape can say is said."""
    shape = Shape(
        NO_COLUMNS, (("id", ("a.id", "b")),), "insensitive", "shop:priced", "7", NO_COLUMNS,
        (("mail", "sha256(mail)"),), "id > 0", ("card", "city"),
    )  # fmt: skip
    assert all(getattr(shape, field.name) != field.default for field in fields(Shape))
    routing = Routing(
        PLAIN.type_from, PLAIN.event_time, PLAIN.types, renames=(Rename("a(.*)", "$1"),), matches=(("order", "o.*"),),
        unrouted="rest", shapes=(("order", shape),), constants=(("cluster", "east"), ("zone", 3)),
    )  # fmt: skip
    assert rules_told(routing) == {
        ALL: [
            "rename a(.*) to $1", "unrouted records go to rest", "constant cluster = 'east'", "constant zone = 3",
        ],
        "order": [
            "match = o.*", "id from a.id or b", "case = insensitive", "python = shop:priced (7)",
            "set mail = sha256(mail)", "where id > 0", "drop card, city",
        ],
    }  # fmt: skip


def test_where_there_are_no_rules_nothing_is_told() -> None:
    """Not a line more than before; records that are counted are told of."""
    assert rules_told(PLAIN) == {}
    counted = Routing(PLAIN.type_from, PLAIN.event_time, PLAIN.types, unrouted="count")
    assert rules_told(counted) == {ALL: ["unrouted records are counted"]}
