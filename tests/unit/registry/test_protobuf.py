"""Protobuf schemas in each form that a registry gives them come to the same set of files."""

from __future__ import annotations

import base64
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from exporter.core.schemas import SchemaText
from exporter.errors import ConfigError, RegistryUnreachable
from exporter.formats.protobuf import compile as compiler
from exporter.formats.protobuf.known import KNOWN
from exporter.registry import protobuf
from exporter.registry.protobuf import as_one_set

COMMON = 'syntax = "proto3"; package shop; message Address { string city = 1; }'
ORDER = """
    syntax = "proto3"; package shop; import "common.proto"; import "google/protobuf/timestamp.proto";
    message Order { Address to = 1; google.protobuf.Timestamp at = 2; }
"""
CONNECT = """
    syntax = "proto3"; package shop;
    import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "google/type/date.proto";
    import "google/type/timeofday.proto"; import "google/protobuf/timestamp.proto";
    message Order {
      int64 id = 1;
      confluent.type.Decimal price = 2 [(confluent.field_meta) = {
        params: [ { key: "precision", value: "8" }, { key: "scale", value: "2" } ] }];
      google.type.Date day = 3;
      google.type.TimeOfDay at = 4;
      google.protobuf.Timestamp seen = 5;
    }
"""


def text(one: str, *references: tuple[str, SchemaText]) -> SchemaText:
    return SchemaText("PROTOBUF", one, references)


def files_of(made: SchemaText) -> list[FileDescriptorProto]:
    assert made.kind == "PROTOBUF" and made.references == ()
    return [*FileDescriptorSet.FromString(base64.b64decode(made.text)).file]


def descriptor(made: SchemaText) -> str:
    """The last file alone, as confluent-kafka's Python client registers it."""
    return base64.b64encode(files_of(made)[-1].SerializeToString()).decode()


def test_a_text_and_its_descriptor_come_to_the_same_set() -> None:
    """Everything that is imported is in it, Google's own files too; a reference may be text where the file is none."""
    by_text = as_one_set(text(ORDER, ("common.proto", text(COMMON))))
    assert {one.name for one in files_of(by_text)} >= {"common.proto", "google/protobuf/timestamp.proto"}
    common, order = descriptor(as_one_set(text(COMMON))), descriptor(by_text)
    for reference in (text(common), text(COMMON)):
        found = files_of(as_one_set(text(order, ("common.proto", reference))))
        assert [one.name for one in found[-1:]] == [files_of(by_text)[-1].name]
        assert {one.name for one in found} == {one.name for one in files_of(by_text)}
        assert files_of(by_text)[-1] == found[-1]
    assert as_one_set(by_text).text == by_text.text, "a set is one already"


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (text("syntax = oops"), "does not compile: registered.proto:1:"),
        (text('syntax = "proto3"; message A { Missing b = 1; }'), '"Missing" is not defined'),
        (text("AAAA"), "neither a FileDescriptorSet nor a FileDescriptorProto"),
        (text(ORDER), "common.proto: File not found"),
        (text(ORDER, ("other.proto", text(COMMON))), "common.proto: File not found"),
    ],
)  # fmt: skip
def test_what_the_compiler_refuses_stays_as_it_is_with_the_compiler_s_own_words(refused: SchemaText, why: str) -> None:
    """So its records are told by the reader, and a later version has all that there is to try it once more."""
    found = as_one_set(refused)
    assert replace(found, why="") == refused and why in found.why


def outline(file: FileDescriptorProto) -> str:
    """What readers need of a file: options of generators, and names that follow from others, say nothing."""
    bare = FileDescriptorProto()
    bare.CopyFrom(file)
    bare.ClearField("options")
    waiting = [*bare.message_type]
    for message in waiting:
        waiting += message.nested_type
        del message.field[:]
        message.field.extend(sorted(message.field, key=lambda one: one.number))
    for field in [*bare.extension, *(one for message in waiting for one in message.field)]:
        field.ClearField("json_name")
    bare.message_type.sort(key=lambda one: one.name)
    return str(bare)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_files_that_registries_take_for_known_are_those_that_are_published(name: str) -> None:
    """Compared with the descriptors that Google's and Confluent's own packages bring along."""
    stem = name.removesuffix(".proto").replace("/", ".")
    package = "google" if name.startswith("google") else "confluent_kafka.schema_registry.confluent"
    module = import_module(f"{package}.{stem.partition('.')[2]}_pb2")
    published = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(published)
    ours = as_one_set(text(f'syntax = "proto3"; import "{name}"; message A {{}}'))
    assert outline(next(one for one in files_of(ours) if one.name == name)) == outline(published)


def test_what_connect_registers_is_read_without_references() -> None:
    """Neither Connect nor Confluent's clients send references for files that every registry knows; as a descriptor it
    is the same."""
    made = as_one_set(text(CONNECT))
    assert not made.why and {"confluent/meta.proto", "google/type/date.proto"} <= {one.name for one in files_of(made)}
    again = as_one_set(text(descriptor(made)))
    assert not again.why and files_of(again)[-1] == files_of(made)[-1]
    own = 'syntax = "proto3"; package google.type; message Date { string text = 1; }'
    other = as_one_set(text(CONNECT, ("google/type/date.proto", text(own))))
    (date,) = (one for one in files_of(other) if one.name == "google/type/date.proto")
    assert [one.name for one in date.message_type[0].field] == ["text"]


def test_a_compiler_that_comes_to_no_verdict_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed, say, or out of time."""

    def killed(*_: Any) -> None:
        raise ConfigError("main.proto is not compiled after 60 s")

    monkeypatch.setattr(compiler, "_compile", killed)
    with pytest.raises(RegistryUnreachable, match="not compiled after 60 s"):
        as_one_set(text(COMMON))


def test_a_text_that_imports_a_descriptor_waits() -> None:
    """No printer of descriptors is at hand; it is told rather than recorded."""
    common = descriptor(as_one_set(text(COMMON)))
    with pytest.raises(RegistryUnreachable, match="imports what is registered as a descriptor only"):
        as_one_set(text(ORDER, ("common.proto", text(common))))


def test_what_is_not_installed_is_told_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler is needed for texts alone."""
    common = descriptor(as_one_set(text(COMMON)))
    monkeypatch.setattr(protobuf, "_installed", lambda package: package != "grpc_tools")
    assert files_of(as_one_set(text(common)))
    with pytest.raises(ConfigError, match="grpc_tools") as caught:
        as_one_set(text(COMMON))
    assert "[protobuf]" in caught.value.hint


def test_a_name_that_the_schema_s_own_would_have_is_left_to_what_it_imports() -> None:
    """Two files of one name would be one."""
    own = 'syntax = "proto3"; import "registered.proto"; message Order { shop.Address to = 1; }'
    found = files_of(as_one_set(text(own, ("registered.proto", text(COMMON)))))
    assert len({one.name for one in found}) == len(found) == 2
