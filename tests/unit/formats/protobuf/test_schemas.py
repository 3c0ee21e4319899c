"""Texts of Protobuf schemas: compiled, put together, and what is wrong with them."""

from __future__ import annotations

import base64
import random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.protobuf import compile as compiling
from exporter.formats.protobuf import descriptors as reading
from exporter.formats.protobuf.compile import descriptor_set
from exporter.formats.protobuf.descriptors import BadSchema, as_descriptor_set, descriptors
from exporter.formats.protobuf.format import Protobuf
from exporter.formats.protobuf.model import ProtobufField
from tests.contract.test_format import PLAIN, struct
from tests.support.proto_files import EVERY, raw_set
from tests.support.proto_place import framed

MONEY = 'syntax = "proto3"; package shop; message Money { int64 units = 1; }'
ORDER = ('syntax = "proto3"; package shop; import "shop/money.proto"; import "google/protobuf/timestamp.proto"; '
         'message Order { Money price = 1; google.protobuf.Timestamp at = 2; }')  # fmt: skip
TEXTS = {"shop/money.proto": MONEY, "order.proto": ORDER}


def files_of(raw: bytes) -> list[Any]:
    return [*descriptor_pb2.FileDescriptorSet.FromString(raw).file]


def encoded(message: Any) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


def test_a_text_is_compiled_with_all_that_it_imports_and_stands_last() -> None:
    """Google's own files need not be given; what nobody imports is left out."""
    raw = descriptor_set({"unused.proto": MONEY.replace("Money", "Unused"), **TEXTS})
    assert [file.name for file in files_of(raw)] == [
        "shop/money.proto", "google/protobuf/timestamp.proto", "order.proto"
    ]  # fmt: skip
    assert files_of(descriptor_set(TEXTS, "shop/money.proto"))[-1].name == "shop/money.proto"
    found = descriptors(base64.b64encode(raw).decode())
    assert found.places == {(0,): "shop.Order"} and {*found.messages} == {
        "shop.Money", "shop.Order", "google.protobuf.Timestamp"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "why"),
    [({"a.proto": 'syntax = "proto3"; message { }'}, r"a\.proto does not compile: a\.proto:1:\d+: Expected message"),
     ({"order.proto": ORDER}, r"shop/money\.proto: File not found"), ({"../a.proto": MONEY}, "no name of a .proto"),
     ({"/etc/a.proto": MONEY}, "no name of a .proto"), ({"--version": MONEY}, "no name of a .proto")],
)  # fmt: skip
def test_what_does_not_compile_is_told_in_the_compiler_s_words(texts: dict[str, str], why: str) -> None:
    """With the place in the file, and without any folder of ours."""
    with pytest.raises(ConfigError, match=why) as raised:
        descriptor_set(texts)
    assert "/tmp" not in str(raised.value)


def test_without_the_compiler_or_the_reader_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are of the extra; it is no schema's fault."""
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"kafka-delta-exporter\[protobuf\]"):
        descriptor_set(TEXTS)

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(reading.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"kafka-delta-exporter\[protobuf\]") as raised:
        descriptors("")
    assert not isinstance(raised.value, BadSchema)


def test_one_file_and_its_references_are_one_set() -> None:
    """A reference is called as it is imported, whatever it calls itself; references may have their own."""
    money, _, order = files_of(descriptor_set(TEXTS))
    money.name = "registered-once-as.proto"
    references = [("shop/money.proto", SchemaText("PROTOBUF", encoded(money)))]
    found = files_of(as_descriptor_set(encoded(order), references))
    assert [file.name for file in found] == ["shop/money.proto", "google/protobuf/timestamp.proto", "order.proto"]
    above = descriptor_pb2.FileDescriptorProto(name="top.proto", syntax="proto3", dependency=["order.proto"])
    above.message_type.add(name="Top").field.add(
        name="o", number=1, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE, type_name=".shop.Order",
    )  # fmt: skip
    whole = descriptors(encoded(above), [("order.proto", SchemaText("PROTOBUF", encoded(order), tuple(references)))])
    assert whole.places == {(0,): "Top"} and whole.messages["Top"].fields == (
        ProtobufField("o", 1, "message", presence=True, of="shop.Order"),
    )


def test_a_set_of_several_files_has_the_messages_of_all_of_them() -> None:
    """As protoc makes it of several; message indexes count in the last one. What needs the last one is left out."""
    files = files_of(descriptor_set(TEXTS))
    other = files_of(descriptor_set({"other.proto": MONEY.replace("Money", "Other")}))
    found = descriptors(encoded(descriptor_pb2.FileDescriptorSet(file=[*other, *files])))
    assert {"shop.Other", "shop.Order"} <= {*found.messages} and found.places == {(0,): "shop.Order"}
    turned = descriptors(encoded(descriptor_pb2.FileDescriptorSet(file=[*other, *files[1:], files[0]])))
    assert "shop.Order" not in turned.messages and turned.places == {(0,): "shop.Money"}


def broken() -> dict[str, str]:
    order = files_of(descriptor_set(TEXTS))[-1]
    itself = descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=["a.proto"])
    odd = descriptor_pb2.FileDescriptorProto(name="a.proto")
    odd.message_type.add(name="A").field.add(name="b", number=1, type_name=".Nothing", type=11, label=1)
    return {
        "no base64": "message A {}",
        "neither a FileDescriptorSet nor a FileDescriptorProto": base64.b64encode(b"\xff\xff").decode(),
        "neither": encoded(descriptor_pb2.FileDescriptorSet()),
        "imports shop/money.proto, which is not among its references": encoded(order),
        "a.proto imports itself": encoded(itself),
        "do not fit together": encoded(odd),
    }


@pytest.mark.parametrize("why", broken())
def test_what_is_no_schema_is_a_bad_one(why: str) -> None:
    """And that is the record's trouble, not the machine's."""
    with pytest.raises(BadSchema, match=why):
        descriptors(broken()[why])


def test_fields_are_as_google_s_library_has_them() -> None:
    """Presence, oneofs that somebody wrote, enums by number: the first of several names counts."""
    text = (
        'syntax = "proto3"; enum E { option allow_alias = true; A = 0; B = 0; C = -1; } message M { optional E e = 2; '
        "oneof o { int32 x = 3; bytes y = 1; } repeated M m = 4; oneof alone { bool z = 5; } }"
    )
    found = descriptors(base64.b64encode(raw_set(text)).decode())
    assert found.enums == {"E": {0: "A", -1: "C"}}
    assert found.messages["M"].fields == (
        ProtobufField("y", 1, "bytes", presence=True, oneof="o"),
        ProtobufField("e", 2, "enum", presence=True, of="E"),
        ProtobufField("x", 3, "int32", presence=True, oneof="o"),
        ProtobufField("m", 4, "message", repeated=True, of="M"),
        ProtobufField("z", 5, "bool", presence=True, oneof="alone"),
    )


def test_places_count_as_message_indexes_do() -> None:
    """With the entries of maps, which are messages in a message, and no values."""
    found = descriptors(base64.b64encode(raw_set(EVERY)).decode())
    assert (found.places[(0,)], found.places[(1,)]) == ("every.Every", "every.Inner")
    assert found.messages[found.places[(0, 0)]].entry


def test_a_damaged_schema_ends_nobody() -> None:
    """Whatever a registry has under an id: its records are refused, or read; no worker fails by it."""
    rng = random.Random(3)
    value = pa.array([framed(1, b"\x08\x05"), framed(1, b"")], pa.binary())
    refused = 0
    for _ in range(400):
        raw = bytearray(raw_set(EVERY))
        for _ in range(rng.choice((1, 2))):
            at = rng.randrange(len(raw))
            raw[at] = rng.choice((raw[at] ^ 1 << rng.randrange(8), rng.randrange(20)))
        schemas = KnownSchemas({1: [SchemaText("PROTOBUF", base64.b64encode(bytes(raw)).decode())]})
        made = Protobuf(ValueFormat("protobuf", "confluent"), schemas)
        found = made.reader("e", made.schema(struct(("i32", "long", True)), "e"), PLAIN).read(value)
        assert sorted([*found.rows.to_pylist(), *found.refused]) == [0, 1]
        refused += len(found.refused) == 2
    assert 100 < refused < 400
