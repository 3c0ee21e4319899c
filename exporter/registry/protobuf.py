"""Protobuf as registries have it, a file's text or its FileDescriptorProto in base64, made one set with all imports.

Confluent's servers give the text, unless asked otherwise; what was registered by confluent-kafka's Python client is the
descriptor, and some servers give back just what they got.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec

from exporter.core.schemas import SchemaText
from exporter.errors import ConfigError, RegistryUnreachable

WHY_MAX = 500
"""Of what the compiler says of a text: it is in the reason of each of its records."""
_INSTALL = "pip install 'kafka-delta-exporter[protobuf]'"


def as_one_set(schema: SchemaText) -> SchemaText:
    """The schema as a FileDescriptorSet in base64 of all files; one that is refused stays as it is, and says why.

    Raises ConfigError if what is needed to compile it is not installed, RegistryUnreachable where the compiler comes to
    no verdict, and for a text that imports what is there as a descriptor only.
    """
    from exporter.formats.protobuf.compile import Uncompilable, descriptor_set
    from exporter.formats.protobuf.descriptors import as_descriptor_set

    for package in ("google.protobuf", "grpc_tools") if _has_text(schema) else ("google.protobuf",):
        if not _installed(package):
            raise ConfigError(f"the schema registry has Protobuf schemas, and {package} is not installed", _INSTALL)

    def compiled(one: SchemaText) -> SchemaText:
        """With base64 all the way down."""
        if _is_text(one):
            files = dict(_files(one))
            if any(map(_is_descriptor, files.values())):
                what = "a Protobuf schema is registered as text and imports what is registered as a descriptor only"
                raise RegistryUnreachable(what, "register both in the same form")
            main = "registered.proto"
            while main in files:
                main = f"_{main}"
            try:
                return SchemaText("PROTOBUF", _base64(descriptor_set({**files, main: one.text}, main)))
            except Uncompilable:
                raise
            except ConfigError as error:
                raise RegistryUnreachable(f"a Protobuf schema could not be compiled: {error.message}") from error
        return SchemaText("PROTOBUF", one.text, tuple((name, compiled(below)) for name, below in one.references))

    try:
        done = compiled(schema)
        return SchemaText("PROTOBUF", _base64(as_descriptor_set(done.text, done.references)))
    except ConfigError as error:
        return replace(schema, why=error.message[:WHY_MAX])


def taken_up(schema: SchemaText) -> SchemaText:
    """A recorded schema as this version reads it: another one may not have known what it imports (protocol 3.8).

    Raises as as_one_set does.
    """
    if schema.kind != "PROTOBUF" or not _installed("google.protobuf"):
        return schema
    return as_one_set(schema)


def _files(schema: SchemaText) -> Iterator[tuple[str, str]]:
    """Name -> text of all that a schema refers to."""
    for name, one in schema.references:
        yield from _files(one)
        yield name, one.text


def _has_text(schema: SchemaText) -> bool:
    return _is_text(schema) or any(_has_text(one) for _, one in schema.references)


def _is_text(schema: SchemaText) -> bool:
    return not _is_descriptor(schema.text)


def _is_descriptor(text: str) -> bool:
    """Whether a text is base64: a file's text has blanks and signs that base64 has not."""
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
