"""JSON Schemas that are a choice of objects at their root: which one a value is, its type, its columns."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from exporter.column.spark_json import text_of
from exporter.column.types import StructType
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.formats.formats import format_of
from exporter.formats.frames import confluent_ids, row_schemas
from exporter.formats.places import places_of
from exporter.formats.registered import places, registered
from exporter.proof.readers.reading import ValueReading, event_type_of
from offsets.ranges import TopicPartition

FRAMED = ValueFormat("json_schema", "confluent")
HEAD = b"\0\0\0\0\7"
SHORT = TypeFrom("schema", "short")


def thing(title: str, kind: str = "", **more: str) -> dict[str, Any]:
    told = {"kind": {"const": kind}} if kind else {}
    properties = {"id": {"type": "integer"}, **told, **{name: {"type": one} for name, one in more.items()}}
    return {"title": title, "type": "object", "properties": properties, "required": ["id", *more]}


def choice(*some: Any, word: str = "oneOf", **more: Any) -> SchemaText:
    """By references, as Confluent registers several event types of a topic."""
    named = [(f"{number}.json", SchemaText("JSON", json.dumps(one))) for number, one in enumerate(some)]
    return SchemaText("JSON", json.dumps({word: [{"$ref": name} for name, _ in named], **more}), tuple(named))


def types(schema: SchemaText, *values: Any, form: ValueFormat = FRAMED) -> tuple[list[Any], dict[int, str]]:
    bodies = [None if one is None else HEAD + json.dumps(one).encode() for one in values]
    peek = format_of(form, KnownSchemas({7: [schema]})).peek(SHORT)
    found, reasons = peek.types(pa.array(bodies, pa.binary()), pa.array([False] * len(bodies)))
    return found.to_pylist(), reasons


CUSTOMER, ORDER = thing("shop.Customer", name="string"), thing("shop.Order", amount="number")
BOTH = choice(CUSTOMER, ORDER)


def test_the_object_that_a_value_fits_is_its_event_type() -> None:
    """By what it requires; a value of none, and one of both, has no type."""
    values = [{"id": 1, "name": "x"}, {"id": 2, "amount": 1}, {"id": 3}, {"id": 4, "name": "x", "amount": 1}, None, []]
    found, reasons = types(BOTH, *values)
    assert found == ["Customer", "Order", None, None, None, None]
    why = "no_type: the value fits none of what its schema may be, or several alike"
    assert reasons == dict.fromkeys((2, 3, 5), why)


def test_a_text_that_is_told_decides() -> None:
    """A `const` or an `enum` of texts; of several that fit the one that asks for more."""
    some = choice(thing("A", "a"), thing("B", "b", extra="string"), {**thing("C"), "required": []}, word="anyOf")
    values = [{"id": 1, "kind": "a"}, {"id": 1, "kind": "b", "extra": "x"}, {"id": 1, "kind": "z"}, {"kind": "b"}]
    assert types(some, *values)[0] == ["A", "B", "C", "C"]


def test_a_title_or_properties_of_its_own_make_it_one() -> None:
    """As before: all values are called so."""
    assert types(choice(CUSTOMER, ORDER, title="All"), {"id": 1, "name": "x"})[0] == ["All"]
    assert places(choice(CUSTOMER, ORDER, title="All")) == ("",)
    optional = SchemaText("JSON", json.dumps({"oneOf": [{"type": "null"}, {**CUSTOMER, "title": ""}]}))
    assert types(optional, {"id": 1, "name": "x"})[0] == [None] and places(optional) == ("",)
    assert [one.name for one in registered(optional).fields] == ["id", "name"]


def test_each_object_gives_its_own_columns_and_what_fits_none_those_of_all() -> None:
    """By the number of the choice behind the id."""
    assert places(BOTH) == ["0", "1"]
    found = [registered(BOTH, place) for place in ("0", "1", "")]
    assert [one.name for one in found] == ["shop.Customer", "shop.Order", ""]
    assert [[column.name for column in one.fields] for one in found] == [["id", "name"], ["id", "amount"], ["id"]]
    values = pa.array([HEAD + one for one in (b'{"id":1,"amount":2}', b'{"id":1,"name":""}', b"{}", b"{")], pa.binary())
    ids = confluent_ids(values)
    keys = row_schemas(ids, places_of(values, ids, FRAMED, KnownSchemas({7: [BOTH]})))
    assert [keys.of(pa.array([row], pa.int32())) for row in range(4)] == [["7:1"], ["7:0"], ["7"], ["7"]]
    one = KnownSchemas({7: [SchemaText("JSON", json.dumps(ORDER))]})
    assert places_of(values, ids, FRAMED, one) is None


def test_bare_values_of_one_schema_may_be_of_a_choice() -> None:
    """Within one document."""
    text = json.dumps({"oneOf": [{"$ref": "#/$defs/Customer"}, {"$ref": "#/$defs/Order"}],
                       "$defs": {"Customer": {**CUSTOMER, "title": ""}, "Order": ORDER}})  # fmt: skip
    form = ValueFormat("json_schema", schemas=(("all.json", text),))
    peek = format_of(form).peek(TypeFrom("schema", "full"))
    values = pa.array([b'{"id":1,"name":"x"}', b'{"id":1,"amount":2}', b"{}", None], pa.binary())
    found, reasons = peek.types(values, pa.array([False] * 4))
    assert found.to_pylist() == ["Customer", "shop.Order", None, None] and list(reasons) == [2]


@pytest.mark.parametrize("seed", range(30))
def test_the_audit_says_the_same_of_random_choices(seed: int) -> None:
    """Its own reading of the rule, of values that fit one, several and none."""
    dice = random.Random(seed)
    some = []
    for number in range(dice.randint(2, 4)):
        fields = {name: {"type": "string"} for name in dice.sample("abcd", dice.randint(1, 4))}
        for name in dice.sample("st", dice.randint(0, 2)):
            texts = dice.sample("xyz", dice.randint(1, 2))
            fields[name] = {"const": texts[0]} if dice.random() < 0.5 else {"enum": texts}
        required = dice.sample(sorted(fields), dice.randint(0, len(fields)))
        some.append({"title": f"n.T{number}", "properties": fields, "required": required})
    schema = choice(*some)
    values = [{name: dice.choice("xyz") if dice.random() < 0.9 else 5
               for name in dice.sample("abcdst", dice.randint(0, 6))} for _ in range(60)]  # fmt: skip
    reading = ValueReading(FRAMED, KnownSchemas({7: [schema]}))
    told = [event_type_of(reading.read(HEAD + json.dumps(one).encode(), TopicPartition("t", 0), 0), SHORT)
            for one in values]  # fmt: skip
    assert types(schema, *values)[0] == told


def test_values_are_read_whatever_choice_they_are_of() -> None:
    """Nothing is validated, as of any other schema."""
    form = format_of(FRAMED, KnownSchemas({7: [BOTH]}))
    spark = text_of(StructType(tuple(registered(BOTH, "1").fields)))
    reader = form.reader("Order", form.schema(spark, "Order"), Routing(TypeFrom("topic"), EventTime("record"), ()))
    found = reader.read(pa.array([HEAD + b'{"id":1,"amount":2}', HEAD + b'{"id":1,"name":"x"}'], pa.binary()))
    assert found.columns[1].to_pylist() == [2.0, None] and found.rescued.to_pylist() == [None, '{"name":"x"}']
