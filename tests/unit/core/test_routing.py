"""The routing configuration: a stored value whose fingerprint stands for everything that decides a record's way."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.columns import NO_COLUMNS
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom, dead_letters_last
from exporter.core.shapes import Rename, Shape
from exporter.core.value_format import ValueFormat

ROUTING = Routing(
    type_from=TypeFrom("json", "meta.type"),
    event_time=EventTime("json", "ts", "ms"),
    types=(("Order", '{"type":"struct","fields":[]}'), ("Zahlung-ä", "{}")),
)
STORED = (
    '{"decoder_version":1,"event_time":{"kind":"json","path":"ts","unit":"ms"},"event_time_ahead_max_secs":86400,'
    '"event_time_min_us":946684800000000,"generation":0,"isolation":"read_committed","new_type":"dead_letter",'
    '"record_bytes_max":10000000,"type_from":{"kind":"json","name":"meta.type"},'
    '"types":[["Order","{\\"type\\":\\"struct\\",\\"fields\\":[]}"],["Zahlung-\\u00e4","{}"]],"unknown_fields":"rescue"}'
)
SHAPE = Shape(
    '{"type":"struct","fields":[]}',
    names=(("id", ("order.id", "id")),),
    case="insensitive",
    python="shop:masked",
    python_version="2",
    python_columns='{"type":"struct","fields":[]}',
    computed=(("mail", "sha256(mail)"),),
    where="amount > 0",
    drop=("card",),
)
CHANGES = {
    "type_from": TypeFrom("header", "meta.type"),
    "event_time": EventTime("json", "ts", "us"),
    "types": (("Order", "{}"),),
    "unknown_fields": "ignore",
    "new_type": "table",
    "isolation": "read_uncommitted",
    "record_bytes_max": 1,
    "event_time_min_us": 0,
    "event_time_ahead_max_secs": 1,
    "generation": 1,
    "decoder_version": 2,
    "value_format": ValueFormat("avro", "confluent", schemas=(("a.avsc", "{}"),)),
    "topic_formats": (("a.*", ValueFormat("string")),),
    "registry": "other",
    "renames": (Rename("a[.](.*)", "$1"),),
    "matches": (("Order", "order.*"),),
    "unrouted": "count",
    "shapes": (("Order", SHAPE),),
    "constants": (("cluster", "east"), ("zone", 3), ("test", False), ("share", 0.5)),
}


def test_configurations_stored_so_far_are_read_for_ever():
    """Literal JSON that dead-letter tables hold (decoder version 1): a later version can still drain it."""
    assert Routing.from_json(STORED) == replace(ROUTING, decoder_version=1)


def test_the_fingerprint_of_a_stored_configuration_never_changes():
    """Literal: if this fails, every running exporter would switch its routing at the upgrade (protocol 5.3)."""
    assert replace(ROUTING, decoder_version=1).to_json() == STORED
    assert Routing.from_json(STORED).fingerprint() == "1dc50af5295c7ad1"


@dataclass(frozen=True)
class LaterTypeFrom(TypeFrom):
    """As a later version may have it."""

    subject: str = ""


@dataclass(frozen=True)
class Later(Routing):
    """The same of the whole."""

    masked: tuple[str, ...] = ()


def test_a_field_that_comes_new_changes_no_fingerprint_until_it_is_set():
    """In the whole and in its parts: an upgrade alone drains and seals nothing."""
    one = Routing.from_json(STORED)
    given = {field.name: getattr(one, field.name) for field in fields(one)}
    later = Later(**given)
    assert later.to_json() == STORED and later.fingerprint() == one.fingerprint()
    parts = replace(later, type_from=LaterTypeFrom("json", "meta.type"))
    assert parts.to_json() == STORED
    for changed in (replace(later, masked=("a",)), replace(parts, type_from=LaterTypeFrom("json", "meta.type", "s"))):
        assert changed.fingerprint() != one.fingerprint()


def test_every_field_is_part_of_the_fingerprint():
    """ROUTE: a field that decides a record's way and is not here would switch the routing in silence."""
    assert set(CHANGES) == {field.name for field in fields(Routing)}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_one_field_is_another_configuration(name):
    """ROUTE: each field alone changes the fingerprint."""
    assert replace(ROUTING, **{name: CHANGES[name]}).fingerprint() != ROUTING.fingerprint()


def test_equal_configurations_have_equal_text():
    """The fingerprint does not depend on the process or on the order of building."""
    assert replace(ROUTING).to_json() == ROUTING.to_json()
    assert len(ROUTING.fingerprint()) == 16


@settings(deadline=None)
@given(
    st.builds(
        Routing,
        st.builds(TypeFrom),
        st.builds(EventTime),
        st.lists(st.tuples(st.text(), st.text())).map(sorted).map(tuple),
    )
)
def test_every_configuration_comes_back_from_its_json(routing):
    """from_json(to_json(x)) = x, any text in names and schemas included."""
    assert Routing.from_json(routing.to_json()) == routing
    assert Routing.from_json(routing.to_json()).fingerprint() == routing.fingerprint()


@pytest.mark.parametrize("name", CHANGES)
def test_each_field_comes_back_from_the_json(name):
    """from_json(to_json(x)) = x, whatever stands there."""
    changed = replace(ROUTING, **{name: CHANGES[name]})
    assert Routing.from_json(changed.to_json()) == changed


def test_an_event_type_goes_to_each_table_that_takes_it():
    """By its new name: to those whose pattern fits it whole, and to the one that is called so and has no pattern."""
    routing = replace(
        ROUTING,
        types=(("a", "{}"), ("b", "{}"), ("c", "{}")),
        renames=(Rename("x[.](.*)", "$1"), Rename("(?P<n>.)b", "${n}$$")),
        matches=(("b", "a|b|y.*"), ("c", ".*")),
    )
    found = {text: routing.tables_of(text) for text in ("a", "b", "x.a", "x.b", "ya", "yb", "", "A")}
    assert found == {
        "a": ("a", "b", "c"), "b": ("b", "c"), "x.a": ("a", "b", "c"), "x.b": ("b", "c"), "ya": ("b", "c"),
        "yb": ("b", "c"), "": ("c",), "A": ("c",),
    }  # fmt: skip
    assert replace(routing, matches=()).tables_of("yb") == ()
    assert replace(routing, matches=(), new_type="table").tables_of("yb") == ("y$",)


def test_constants_are_columns_of_every_table_and_nothing_that_is_decoded():
    """A type without declared columns has them alone."""
    routing = replace(ROUTING, constants=(("zone", 3),))
    assert '"zone"' in routing.columns_of("new") and '"long"' in routing.columns_of("new")
    assert routing.decoded_of("new") == NO_COLUMNS and routing.decoded_of("Order") == routing.columns_of("Order")


def test_the_dead_letters_are_an_active_type_and_come_first():
    """They are in every minimum and anchored first (ANCHOR)."""
    assert ROUTING.active_types == (DEAD_LETTERS, "Order", "Zahlung-ä")
    assert replace(ROUTING, types=()).active_types == (DEAD_LETTERS,)


def test_a_table_that_is_there_makes_a_type_active_where_the_configuration_fills_it():
    """With new_type = table, unless the name clashes: what no record reaches would hold every minimum back."""
    stored = ("refund", "ORDER", DEAD_LETTERS, "Order")
    assert ROUTING.active_with(stored) == ROUTING.active_types
    assert replace(ROUTING, new_type="table").active_with(stored) == (*ROUTING.active_types, "refund")


def test_schemas_are_found_by_event_type():
    """Event type -> Spark schema JSON."""
    assert ROUTING.schemas == dict(ROUTING.types)


@pytest.mark.parametrize("text", ["", "{}", "not json", STORED.replace('"generation"', '"generation_of_tomorrow"')])
def test_a_configuration_that_this_version_cannot_run_raises(text):
    """Nothing is guessed: a missing or an unknown field is an error for the caller to turn into exit 70."""
    with pytest.raises((ValueError, TypeError, KeyError)):
        Routing.from_json(text)


def test_the_dead_letters_come_last_in_the_order_of_tables():
    """Protocol 5.1: whatever the names of the types, in upper case, beside them or after them in the alphabet."""
    assert dead_letters_last([DEAD_LETTERS, "zebra", "Order", "dead_letter", "zebra"]) == [
        "Order", "dead_letter", "zebra", DEAD_LETTERS,
    ]  # fmt: skip
    assert dead_letters_last(iter(["b", "a"])) == ["a", "b"]
