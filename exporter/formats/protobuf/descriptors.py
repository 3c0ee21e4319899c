"""Texts of Protobuf schemas -> their descriptors.

    base64 of a FileDescriptorSet     has everything; its last file is the one that message indexes count in
    base64 of a FileDescriptorProto   one file; what it imports are its references, and files that everybody knows

google.protobuf puts the files together, and so says what cannot be. It is an extra, imported when it is needed.
"""

from __future__ import annotations

import base64
import binascii
import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from exporter.core.schemas import SchemaText
from exporter.errors import ConfigError
from exporter.formats.binary.decimals import DIGITS_MAX
from exporter.formats.protobuf.compile import descriptor_set
from exporter.formats.protobuf.known import KNOWN
from exporter.formats.protobuf.model import DECIMAL, Descriptors, Kind, Message, ProtobufField
from exporter.text import shorten

GOOGLE = "google/protobuf/"
"""Folder of the files that come with every compiler; no registry lists them as references."""
_WELL_KNOWN = frozenset((
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
))  # fmt: skip

_KINDS: dict[int, Kind] = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32", 16: "sfixed64", 17: "sint32",
    18: "sint64",
}  # fmt: skip
"""The numbers of FieldDescriptorProto.Type."""


class BadSchema(ConfigError):
    """The text itself cannot be used, wherever it is read."""


def as_descriptor_set(text: str, references: Sequence[tuple[str, SchemaText]] = ()) -> bytes:
    """The FileDescriptorSet that a registered text stands for, with all that it imports; its last file is the text's
    last one.

    Raises BadSchema if the text is no base64 of descriptors, or imports what nobody gives; ConfigError if what reads
    them is not installed.
    """
    files: dict[str, Any] = {}
    return _complete(files, _gather(text, references, files))


def descriptors(text: str, references: Sequence[tuple[str, SchemaText]] = ()) -> Descriptors:
    """What a text says. Raises BadSchema for one that cannot be, and ConfigError as above."""
    found = _protos().FileDescriptorSet.FromString(as_descriptor_set(text, references))
    pool = _imported("google.protobuf.descriptor_pool").DescriptorPool()
    try:
        for proto in found.file:
            pool.AddSerializedFile(proto.SerializeToString())
        files = [pool.FindFileByName(proto.name) for proto in found.file]
    except (TypeError, KeyError, ValueError) as error:
        raise _unusable(f"the files do not fit together: {shorten(' '.join(str(error).split()))}") from None
    options = _FieldOptions(pool)
    every = (one for file in files for one in _nested(file.message_types_by_name.values()))
    messages = {one.full_name: _message(one, options) for one in every}
    enums = {one.full_name: _numbers(one) for file in files for one in _enums(file)}
    return Descriptors(messages, enums, dict(_places(found.file[-1].message_type, found.file[-1].package, ())))


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(
            f"values are Protobuf, and {name} is not installed", "pip install 'kafka-delta-exporter[protobuf]'"
        ) from None


def _protos() -> Any:
    return _imported("google.protobuf.descriptor_pb2")


def _unusable(what: str) -> BadSchema:
    return BadSchema(f"a Protobuf schema cannot be used: {what}", "give a FileDescriptorSet that has every import")


def _gather(
    text: str, references: Sequence[tuple[str, SchemaText]], files: dict[str, Any], name: str = ""
) -> list[str]:
    """Put the files of a text and of its references among the others; the names of its own. name: what others call
    the last one."""
    for called, schema in references:
        _gather(schema.text, schema.references, files, called)
    found = _parsed(text)
    if name and name not in [one.name for one in found]:
        found[-1].name = name
    for one in found:
        files[one.name] = one
    return [one.name for one in found]


def _parsed(text: str) -> list[Any]:
    """The files of one text, at least one."""
    protos = _protos()
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _unusable("it is no base64") from None
    for kind in (protos.FileDescriptorSet, protos.FileDescriptorProto):
        found = _strictly(kind, raw)
        if found is not None:
            files = [*found.file] if kind is protos.FileDescriptorSet else [found]
            if files and all(one.name and _is_named(one) for one in files):
                return files
    raise _unusable("it is neither a FileDescriptorSet nor a FileDescriptorProto")


def _is_named(file: Any) -> bool:
    """Whether its names are text: of what is no UTF-8 the library gives bytes."""
    return all(isinstance(name, str) for name in (file.name, file.package, *file.dependency))


def _strictly(kind: Any, raw: bytes) -> Any:
    """The message that the bytes are; None if they are another one: a file taken for a set has unknown fields."""
    try:
        found = kind.FromString(raw)
    except _imported("google.protobuf.message").DecodeError:
        return None
    unknown = _imported("google.protobuf.unknown_fields").UnknownFieldSet(found)
    return None if len(unknown) else found


def _complete(files: dict[str, Any], own: list[str]) -> bytes:
    """All files of a text and what they need, each behind what it imports; what needs the last one is left out."""
    ordered: dict[str, Any] = {}

    def put(name: str, above: tuple[str, ...]) -> None:
        if name in ordered:
            return
        if name in above:
            raise _unusable(f"{name} imports itself")
        proto = files.get(name) or _well_known(name) or _known(name)
        if proto is None:
            raise _unusable(f"{above[-1]} imports {name}, which is not among its references")
        for needed in proto.dependency:
            put(needed, (*above, name))
        ordered[name] = proto

    for name in own:
        if name == own[-1] or own[-1] not in _needed(files, name):
            put(name, ())
    made: bytes = _protos().FileDescriptorSet(file=[*ordered.values()]).SerializeToString(deterministic=True)
    return made


def _needed(files: dict[str, Any], name: str) -> set[str]:
    """All that a file imports, and what that imports."""
    waiting, seen = [name], set[str]()
    while waiting:
        new = {*(files[one].dependency if (one := waiting.pop()) in files else ())} - seen
        seen |= new
        waiting += new
    return seen


def _well_known(name: str) -> Any:
    """One of Google's own files; None for any other."""
    stem = name.removeprefix(GOOGLE).removesuffix(".proto")
    if f"{GOOGLE}{stem}.proto" != name or stem not in _WELL_KNOWN:
        return None
    proto = _protos().FileDescriptorProto()
    _imported(f"google.protobuf.{stem}_pb2").DESCRIPTOR.CopyToProto(proto)
    return proto


@cache
def _known(name: str) -> Any:
    """One of the files of known.py; None for any other. Raises ConfigError if the compiler is not installed."""
    if name not in KNOWN:
        return None
    return _protos().FileDescriptorSet.FromString(descriptor_set({name: KNOWN[name]})).file[-1]


class _FieldOptions:
    """What the options of fields say that Confluent's file declares, if it is among the files."""

    def __init__(self, pool: Any) -> None:
        self._extension: Any = None
        try:
            self._extension = pool.FindExtensionByName("confluent.field_meta")
            options = pool.FindMessageTypeByName("google.protobuf.FieldOptions")
        except KeyError:
            return
        self._class = _imported("google.protobuf.message_factory").GetMessageClass(options)

    def params(self, field: Any) -> Mapping[str, str]:
        """The parameters of a field; none where there are none. Raises nothing: options may be anything."""
        if self._extension is None or not field.has_options:
            return {}
        found = self._class.FromString(field.GetOptions().SerializeToString())
        meta = found.Extensions[self._extension]
        return dict(getattr(meta, "params", {}))


def _decimal(params: Mapping[str, str]) -> tuple[int, int] | None:
    """Precision, the greatest without one, and scale; None if no column has them."""
    try:
        scale, precision = int(params["scale"]), int(params.get("precision", DIGITS_MAX))
    except (KeyError, ValueError):
        return None
    return (precision, scale) if 0 <= scale <= precision <= DIGITS_MAX and precision else None


def _nested(messages: Any) -> Iterator[Any]:
    for one in messages:
        yield one
        yield from _nested(one.nested_types)


def _enums(file: Any) -> Iterator[Any]:
    yield from file.enum_types_by_name.values()
    for message in _nested(file.message_types_by_name.values()):
        yield from message.enum_types


def _numbers(enum: Any) -> dict[int, str]:
    """Number -> name, the default first."""
    numbers: dict[int, str] = {}
    for value in enum.values:
        numbers.setdefault(value.number, value.name)
    return numbers


def _message(message: Any, options: _FieldOptions) -> Message:
    fields = tuple(_field(one, options) for one in sorted(message.fields, key=lambda one: one.number))
    return Message(message.full_name, fields, message.GetOptions().map_entry)


def _field(field: Any, options: _FieldOptions) -> ProtobufField:
    oneof = field.containing_oneof
    real = oneof is not None and not (len(oneof.fields) == 1 and oneof.name == f"_{field.name}")
    holds = field.message_type or field.enum_type
    return ProtobufField(
        field.name,
        field.number,
        _KINDS[field.type],
        repeated=field.is_repeated,
        presence=field.has_presence,
        required=field.is_required,
        oneof=oneof.name if real else "",
        of=holds.full_name if holds else "",
        decimal=_decimal(options.params(field)) if holds and holds.full_name == DECIMAL else None,
    )


def _places(protos: Any, prefix: str, above: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], str]]:
    for number, proto in enumerate(protos):
        name = f"{prefix}.{proto.name}" if prefix else proto.name
        yield (*above, number), name
        yield from _places(proto.nested_type, name, (*above, number))
