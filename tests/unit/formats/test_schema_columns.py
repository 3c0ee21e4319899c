"""Which schema a type's columns follow from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from exporter.column.types import Field, ScalarType, StructType, Type
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import JSON, ValueFormat
from exporter.errors import ConfigError
from exporter.formats.schema_columns import FromSchemas
from tests.support.fake_schemas import FRAMED, TEXT


@dataclass(frozen=True)
class Columns:
    fields: Any
    name: str = "shop.Order"


def fields(*names: str, kind: Type = ScalarType("long")) -> Any:  # noqa: B008
    return [Field(name, kind) for name in names]


def registered(schema: SchemaText, place: str, semantic: str) -> Columns:
    if schema.text == "recursive":
        raise ConfigError("it holds itself")
    if schema.text == "envelope":
        row = StructType(tuple(fields("id")))
        return Columns([*fields("op"), *fields("before", "after", kind=row)])
    return Columns(fields("a", *(["b"] if place else [])))


def files(form: ValueFormat) -> Mapping[str, Columns]:
    return {name: Columns(fields(name.rpartition(".")[2])) for name, _ in form.schemas}


ROUTING = Routing(TypeFrom("header", "t"), EventTime("record"), (), value_format=FRAMED)
KNOWN = KnownSchemas({7: (TEXT,), 8: (SchemaText("AVRO", "recursive"),), 9: (SchemaText("AVRO", "envelope"),)})


def names(found: Any) -> list[str]:
    return [one.name for one in found]


def test_a_registered_schema_gives_its_columns() -> None:
    """By id and place; none of what no column can hold, or is not decided."""
    columns = FromSchemas(ROUTING, registered, files)
    found = [names(columns.of_key(key, KNOWN, "t")) for key in ("7", "7:1.0", "8", "1")]
    assert found == [["a"], ["a", "b"], [], []]
    assert not columns.of_type("order")


def test_a_record_that_a_file_has_as_well_is_read_by_the_file() -> None:
    """Whoever wrote it has the columns of the reader; another record has its own."""
    for name, found in (("shop.Order", ["Order"]), ("shop.Click", ["a"])):
        form = replace(FRAMED, schemas=((name, ""),))
        columns = FromSchemas(replace(ROUTING, value_format=form), registered, files)
        assert names(columns.of_key("7", KNOWN, "t")) == found


def test_of_an_envelope_the_row_counts() -> None:
    """What is around it is no column."""
    wrapped = replace(ROUTING, value_format=replace(FRAMED, envelope="debezium"))
    assert names(FromSchemas(wrapped, registered, files).of_key("9", KNOWN, "t")) == ["id"]
    assert not FromSchemas(wrapped, registered, files).of_key("7", KNOWN, "t")


TWO = ValueFormat("avro", "none", schemas=(("shop.Click", ""), ("shop.Order", "")))


def test_a_schema_of_the_settings_is_that_of_types_by_its_name() -> None:
    """In full or short, as the event type follows from it."""
    for source, event_type in (("short", "Order"), ("full", "shop.Order")):
        routing = replace(ROUTING, type_from=TypeFrom("schema", source), value_format=TWO)
        columns = FromSchemas(routing, registered, files)
        assert (names(columns.of_type(event_type)), columns.of_type("order")) == (["Order"], ())


def test_one_schema_is_that_of_every_type_and_of_several_the_one_that_is_named() -> None:
    """Else it is not known."""
    one = replace(ROUTING, value_format=replace(TWO, schemas=TWO.schemas[:1]))
    assert names(FromSchemas(one, registered, files).of_type("any")) == ["Click"]
    assert not FromSchemas(replace(ROUTING, value_format=TWO), registered, files).of_type("any")
    told = replace(ROUTING, value_format=replace(TWO, message="shop.Order"))
    assert names(FromSchemas(told, registered, files).of_type("any")) == ["Order"]


def test_of_several_formats_the_topic_tells_if_it_is_the_type() -> None:
    """Else nothing is known beforehand."""
    mixed = replace(ROUTING, value_format=JSON, topic_formats=(("o.*", replace(TWO, message="shop.Order")),))
    assert not FromSchemas(mixed, registered, files).of_type("orders")
    by_topic = FromSchemas(replace(mixed, type_from=TypeFrom("topic")), registered, files)
    assert (names(by_topic.of_type("orders")), by_topic.of_type("clicks")) == (["Order"], ())


def test_of_a_registered_schema_the_format_of_the_topic_counts() -> None:
    """Whether its row stands in an envelope, and whether Connect's names mean types: each topic by its own."""
    asked: list[str] = []

    def noting(schema: SchemaText, place: str, semantic: str) -> Columns:
        asked.append(semantic)
        return registered(schema, place, semantic)

    changes = replace(FRAMED, envelope="debezium", semantic_types="connect")
    columns = FromSchemas(replace(ROUTING, topic_formats=(("db", changes),)), noting, files)
    found = {topic: names(columns.of_key("9", KNOWN, topic)) for topic in ("db", "plain")}
    assert found == {"db": ["id"], "plain": ["op", "before", "after"]}
    assert (names(columns.of_key("7", KNOWN, "plain")), asked) == (["a"], ["connect", "none", "none"])


def test_of_schemas_in_files_the_format_of_the_topic_counts() -> None:
    """Where the type does not say the topic, it is told once a record has come from one."""
    mixed = replace(ROUTING, value_format=JSON, topic_formats=(("o.*", replace(TWO, message="shop.Order")),))
    columns = FromSchemas(mixed, registered, files)
    assert (names(columns.of_type("any", "orders")), columns.of_type("any", "clicks")) == (["Order"], ())
