"""What the descriptors of a schema say, as far as a reader needs it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum", "fixed32", "sfixed32", "float",
    "fixed64", "sfixed64", "double", "string", "bytes", "message", "group",
]  # fmt: skip
"""The type of a field, as .proto files call it."""

DECIMAL = "confluent.type.Decimal"
"""A message whose field says, beside it, which decimals it holds."""

VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = range(6)
"""Wire types."""

WIRE: Mapping[str, int] = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum"), VARINT),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), FIXED32),
    **dict.fromkeys(("string", "bytes", "message"), LENGTH),
}
"""Kind -> wire type of one value."""


@dataclass(frozen=True)
class ProtobufField:
    """One field of a message.

    presence: whether a message says that the field is absent; else absent is its default. required: proto2's. oneof:
    name of the group of fields of which one at most is there; empty if it is in none. of: full name of the message or
    the enum that it holds. decimal: precision and scale of a field of DECIMAL; None where it does not say them.
    """

    name: str
    number: int
    kind: Kind
    repeated: bool = False
    presence: bool = False
    required: bool = False
    oneof: str = ""
    of: str = ""
    decimal: tuple[int, int] | None = None


@dataclass(frozen=True)
class Message:
    """name: full, with the package. fields: by their numbers. entry: whether it is made for the entries of a map."""

    name: str
    fields: tuple[ProtobufField, ...]
    entry: bool = False


@dataclass(frozen=True)
class Descriptors:
    """One set of files.

    messages: by full name, of all files. enums: full name -> number -> name, the first of several with a number.
    places: of the last file's messages, by their message indexes: (1, 0) is the first one inside the second.
    """

    messages: Mapping[str, Message]
    enums: Mapping[str, Mapping[int, str]]
    places: Mapping[tuple[int, ...], str]
