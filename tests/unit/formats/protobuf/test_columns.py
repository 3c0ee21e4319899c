"""What a table is when a Protobuf schema gives it, and what its columns hold: line by line."""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from exporter.column.spark_json import name_of
from exporter.column.types import Fold
from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.protobuf.descriptors import descriptors
from exporter.formats.protobuf.plan import FIELDS_MAX, Unusable, plan_of
from exporter.formats.registered import Registered, registered_files
from exporter.formats.registered import registered as registered_columns
from tests.support.proto_files import EVERY, OLD, classes, raw_set, text_of
from tests.unit.formats.protobuf.test_damaged import read

_FIELD = descriptor_pb2.FieldDescriptorProto
INNER = {"x": "integer", "y": "string", "z": ["integer"]}
LEAF = {"v": "integer", "w": "boolean"}
INNER |= {"leaf": LEAF, "leaves": [LEAF]}
MAP, STAMP = "map", "timestamp"

LINES: dict[str, Any] = {
    "i32": "integer", "s32": "integer", "sf32": "integer", "i64": "long", "s64": "long", "sf64": "long",
    "u32": "long", "f32": "long", "u64": "decimal(20,0)", "f64": "decimal(20,0)",
    "single": "float", "twice": "double", "flag": "boolean", "text": "string", "raw": "binary",
    "color": "string", "maybe_color": "string", "colors": ["string"], "maybe": "integer", "maybe_text": "string",
    "inner": INNER, "packed": ["integer"], "texts": ["string"], "inners": [INNER],
    "counts": {MAP: "long"}, "named": {MAP: INNER}, "moments": {MAP: STAMP}, "boxes": {MAP: "integer"},
    "by_number": [{"key": "integer", "value": "string"}], "by_flag": [{"key": "boolean", "value": "double"}],
    "a": "string", "b": "integer", "c": INNER,
    "at": STAMP, "times": [STAMP], "took": {"seconds": "long", "nanos": "integer"},
    "wrapped": "long", "wrapped_text": "string", "wrapped_flags": ["boolean"],
    "any": {"type_url": "string", "value": "binary"},
}  # fmt: skip
"""Column of the message with every kind of field -> its Spark type, in short."""


short: Fold[Any] = Fold(
    scalar=lambda one: one.name,
    struct=lambda _, parts: {one.name: part for one, part in parts},
    list=lambda _, inner: [inner],
    map=lambda _, key, inner: {MAP: inner},
)
"""A type as it is written above."""


def registered(text: str, place: str = "") -> Registered:
    return registered_columns(SchemaText("PROTOBUF", text_of(text)), place)


@pytest.mark.parametrize("name", LINES)
def test_each_kind_of_field_has_its_type(name: str) -> None:
    """As the handbook's table has it; every column may be null."""
    found = registered(EVERY)
    assert found.name == "every.Every"
    (field,) = (one for one in found.fields if one.name == name)
    assert short(field.type) == LINES[name] and field.nullable is True


def test_a_message_without_fields_is_no_column_and_its_values_are_kept_as_unknown() -> None:
    """No table can hold a struct without fields; that it was there is told all the same."""
    found = registered(EVERY)
    assert dict(found.refused) == {"$.empty": "no field of it can be one of a column"}
    assert "empty" not in [field.name for field in found.fields]


def test_a_message_inside_of_another_has_its_place() -> None:
    """Counted in the file, then in the message."""
    text = "syntax = \"proto3\"; message A { int32 x = 1; message B { bool y = 1; } } message C { A.B b = 1; }"
    assert [registered(text, place).name for place in ("", "0", "0.0", "1")] == ["A", "A", "A.B", "C"]
    assert [field.name for field in registered(text, "0.0").fields] == ["y"]
    with pytest.raises(ConfigError, match="no message 2"):
        registered(text, "2")


def test_names_that_readers_take_for_one_another_are_left_out() -> None:
    """And those that are the exporter's own, at the top."""
    found = registered("syntax = \"proto3\"; message A { int32 x = 1; int32 X = 2; int32 _rescued = 3; B b = 4; }"
                       "message B { int32 _rescued = 1; string S = 2; string s = 3; }")  # fmt: skip
    assert {*found.refused} == {"$.X", "$._rescued", "$.b.s"}
    assert [field.name for field in found.fields] == ["x", "b"]


KEPT = {
    "a message that holds itself": ("message A { A a = 1; }", {"$.a": "A can hold itself"}, []),
    "by way of another": (
        "message A { repeated B b = 1; } message B { A a = 1; int32 x = 2; }",
        {"$.b[].a": "A can hold itself"},
        [("b", "array")],
    ),
    "in maps": (
        "message A { map<string, A> m = 1; map<int32, A> n = 2; int32 x = 3; }",
        {"$.m{}": "A can hold itself", "$.n[].value": "A can hold itself"},
        [("n", "array"), ("x", "integer")],
    ),
    "Struct": (
        'import "google/protobuf/struct.proto"; message A { google.protobuf.Struct s = 1; }',
        {
            "$.s.fields{}.struct_value": "google.protobuf.Struct can hold itself",
            "$.s.fields{}.list_value.values": "google.protobuf.Value can hold itself",
        },
        [("s", "struct")],
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_message_in_itself_has_no_column_there_and_all_else_has(case: str) -> None:
    """By its path; what is in it is kept as it was sent."""
    text, refused, columns = KEPT[case]
    found = registered(f'syntax = "proto3"; {text}')
    assert found.refused.items() >= refused.items()
    assert [(one.name, name_of(one.type)) for one in found.fields] == columns


def test_a_group_is_refused_with_its_path() -> None:
    """When the plan is made, before any message is seen."""
    with pytest.raises(Unusable, match=r"\$\.g: it is a group"):
        plan_of(descriptors(text_of(GROUP)), "A")
    with pytest.raises(ConfigError, match="message A has no columns"):
        registered(GROUP)


GROUP = 'syntax = "proto2"; message A { optional group G = 1 { optional int32 x = 1; } }'


def test_a_message_that_only_calls_itself_a_timestamp_or_a_wrapper_is_a_struct() -> None:
    """Whoever registers a schema may bring files of Google's names."""
    files = [
        descriptor_pb2.FileDescriptorProto(name="google/protobuf/timestamp.proto", package="google.protobuf"),
        descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=["google/protobuf/timestamp.proto"]),
    ]
    for name in ("Timestamp", "Int64Value"):
        made = files[0].message_type.add(name=name)
        made.field.add(name="x", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
        made.field.add(name="y", number=2, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    outer = files[1].message_type.add(name="A")
    for number, name in enumerate(("Timestamp", "Int64Value"), 1):
        outer.field.add(name=name, number=number, type=_FIELD.TYPE_MESSAGE, label=_FIELD.LABEL_OPTIONAL,
                        type_name=f".google.protobuf.{name}")  # fmt: skip
    text = base64.b64encode(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()).decode()
    found = registered_columns(SchemaText("PROTOBUF", text))
    assert [short(field.type) for field in found.fields] == [{"x": "string", "y": "string"}] * 2


def test_a_message_that_only_calls_itself_an_entry_is_refused() -> None:
    """The entries of a map have a key and a value."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto")
    outer = file.message_type.add(name="A")
    entry = outer.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    outer.field.add(name="m", number=1, type=_FIELD.TYPE_MESSAGE, label=_FIELD.LABEL_REPEATED, type_name=".A.MEntry")
    text = base64.b64encode(file.SerializeToString()).decode()
    with pytest.raises(ConfigError):
        registered_columns(SchemaText("PROTOBUF", text))


def test_groups_are_refused() -> None:
    """Nobody makes them any more."""
    text = 'syntax = "proto2"; message A { optional group G = 1 { optional int32 x = 1; } }'
    with pytest.raises(Unusable, match=r"\$\.g: it is a group"):
        plan_of(descriptors(text_of(text)), "A")


def test_a_few_lines_that_stand_for_too_many_fields_are_refused() -> None:
    """Each message twice in the next one: a thousand lines would be more fields than there are atoms."""
    lines = "message A0 { int32 x = 1; } " + " ".join(
        f"message A{n} {{ A{n - 1} a = 1; A{n - 1} b = 2; }}" for n in range(1, 30)
    )
    with pytest.raises(Unusable, match=f"over {FIELDS_MAX} fields"):
        plan_of(descriptors(text_of(f'syntax = "proto3"; {lines}')), "A29")


def test_absent_is_the_default_where_the_wire_cannot_tell_and_null_where_it_can() -> None:
    """proto3 without `optional`: the default. Everything with presence: null."""
    row = read([b""]).record[0].as_py()
    zero = {"i32": 0, "u64": Decimal(0), "flag": False, "color": "NONE", "text": "", "raw": b"", "single": 0.0}
    assert {name: row[name] for name in zero} == zero
    assert [row[name] for name in ("maybe", "maybe_color", "maybe_u64", "inner", "a", "c", "at", "wrapped", "any")] == [
        None
    ] * 9
    assert (row["packed"], row["inners"], row["counts"]) == ([], [], [])


def test_values_of_every_kind_come_back() -> None:
    """Unsigned ones with all of their bits, enums by name, instants in microseconds, wrappers as what is in them."""
    made = classes(EVERY)["every.Every"](
        u32=2**32 - 1, u64=2**64 - 1, f64=2**64 - 1, maybe_u64=1, color=-5, single=0.1, maybe=0, by_flag={True: 0.5}
    )
    made.at.FromJsonString("1969-12-31T23:59:59.999999Z")
    made.wrapped.value = 0
    made.any.type_url, made.any.value = "t/x", b"\x01"
    made.moments["a"].seconds = 1
    row = read([made.SerializeToString()]).record[0].as_py()
    assert (row["u32"], row["u64"], row["f64"], row["maybe_u64"]) == (2**32 - 1, 2**64 - 1, 2**64 - 1, 1)
    assert (row["color"], row["single"], row["maybe"]) == ("BELOW", struct.unpack("<f", struct.pack("<f", 0.1))[0], 0)
    assert row["by_flag"] == [{"key": True, "value": 0.5}] and row["wrapped"] == 0
    assert row["at"].isoformat() == "1969-12-31T23:59:59.999999+00:00"
    assert row["any"] == {"type_url": "t/x", "value": b"\x01"} and row["moments"][0][1].second == 1


def test_files_give_the_columns_of_every_message_that_has_any() -> None:
    """By full name. A message that has none is told only if it is the one that is asked for."""
    both = ((f"{name}.proto", text_of(text)) for name, text in (("every", EVERY), ("old", OLD)))
    found = registered_files(ValueFormat("protobuf", schemas=tuple(both)))
    assert {*found} == {"every.Every", "every.Inner", "every.Leaf", "old.Old", "old.Part"}
    odd = ValueFormat("protobuf", schemas=(("a", text_of(GROUP)),))
    assert "A" not in registered_files(odd)
    with pytest.raises(ConfigError, match="message A cannot be read"):
        registered_files(ValueFormat("protobuf", message="A", schemas=odd.schemas))
    with pytest.raises(ConfigError, match=r"schema file a: .* no base64"):
        registered_files(ValueFormat("protobuf", schemas=(("a", "?"),)))


def test_a_file_with_one_message_beside_those_inside_of_it_gives_that_one() -> None:
    """It is what unframed values are."""
    text = 'syntax = "proto3"; message A { message B { int32 x = 1; } B b = 1; }'
    found = registered_files(ValueFormat("protobuf", schemas=(("a", text_of(text)),)))
    assert {*found} == {"A"}
    framed = registered_files(ValueFormat("protobuf", "confluent", schemas=(("a", text_of(text)),)))
    assert {*framed} == {"A", "A.B"}


def test_the_same_schema_as_one_file_and_its_references() -> None:
    """As confluent-kafka's client registers it: Google's own files are never among the references."""
    files = descriptor_pb2.FileDescriptorSet.FromString(raw_set(EVERY)).file
    alone = base64.b64encode(files[-1].SerializeToString()).decode()
    assert registered_columns(SchemaText("PROTOBUF", alone)) == registered(EVERY)
