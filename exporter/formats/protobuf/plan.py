"""How messages of one type are read: which column each field becomes, by the descriptors of whoever wrote them.

    int32, sint32, sfixed32    INT                      enum           STRING, its name
    int64, sint64, sfixed64    BIGINT                   message        STRUCT
    uint32, fixed32            BIGINT                   repeated       ARRAY, of map entries MAP if the keys are text
    uint64, fixed64            DECIMAL(20,0)            Timestamp      TIMESTAMP
    float, double, bool, string, bytes                  wrappers       their value, null if absent
    google.type.Date           DATE                     confluent.type.Decimal DECIMAL, where the field says of which

A field without presence is never null: absent is its default. A message that can hold itself is bytes there, which no
column has: they are kept where those of unknown fields are. Whoever reads may call a field of the same number
otherwise. A message that a table has as a STRUCT already stays one. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import pyarrow as pa

from exporter.formats.protobuf.model import DECIMAL, LENGTH, WIRE, Descriptors, Kind, Message, ProtobufField
from exporter.formats.schema import SCHEMA_DEPTH_MAX

FIELDS_MAX = 10_000
"""Fields of a message and of all in it: few lines of a schema can stand for more than any memory holds."""

TIMESTAMP = "google.protobuf.Timestamp"
DATE = "google.type.Date"
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

_ARROW: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), pa.int32()),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), pa.int64()),
    **dict.fromkeys(("uint64", "fixed64"), pa.decimal128(20, 0)),
    "float": pa.float32(), "double": pa.float64(), "bool": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
    "enum": pa.string(),
}  # fmt: skip
UTC_MICROS = pa.timestamp("us", "UTC")
_SECONDS_AND_NANOS = [(1, "int64", "one"), (2, "int32", "one")]
_YEAR_MONTH_DAY = [(number, "int32", "one") for number in (1, 2, 3)]
_VALUE_AND_SCALE = [(1, "bytes", "one"), (2, "uint32", "one"), (3, "int32", "one")]
_KEY_AND_VALUE = [(1, "one"), (2, "one")]


class Unusable(Exception):
    """No plan can be made. path: of the field, from the message: `$.a.b`. why: what is wrong with it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


Unwrapped: TypeAlias = Literal["", "timestamp", "value", "date", "decimal"]
"""What a message stands for, in whose stead it is a column."""


@dataclass(frozen=True)
class FieldPlan:
    """One field as it is read. name: of the column. message: what is in each value; None for scalars.

    one: Arrow type of one value; type: of the column. width: bytes that one value takes in Arrow at least. presence:
    whether absent is null; required: whether it is a reason. names: of an enum. unwrapped: what a message stands for.
    """

    name: str
    number: int
    kind: Kind
    shape: Literal["one", "list", "map"]
    one: pa.DataType
    type: pa.DataType
    width: int
    presence: bool = False
    required: bool = False
    oneof: str = ""
    names: tuple[tuple[int, str], ...] = ()
    message: MessagePlan | None = None
    unwrapped: Unwrapped = ""

    @property
    def tag(self) -> int:
        """The tag of one value."""
        return self.number << 3 | WIRE[self.kind]

    @property
    def packed_tag(self) -> int:
        """The tag of several values in one piece; 0 if there is none."""
        return self.number << 3 | LENGTH if self.shape == "list" and WIRE[self.kind] != LENGTH else 0


@dataclass(frozen=True)
class MessagePlan:
    """How one message is read. name: full. slots: by their numbers. entry: of a map: its values are never absent."""

    name: str
    slots: tuple[FieldPlan, ...]
    entry: bool = False

    @property
    def type(self) -> pa.StructType:
        """One field per slot."""
        return pa.struct([pa.field(slot.name, slot.type) for slot in self.slots])

    @property
    def width(self) -> int:
        """Bytes that one message takes in Arrow at least."""
        return 1 + sum(slot.width if slot.shape == "one" else 4 for slot in self.slots)


def plan_of(
    written: Descriptors,
    name: str,
    wanted: Descriptors | None = None,
    refused: dict[str, str] | None = None,
    structs: frozenset[str] = frozenset(),
) -> MessagePlan:
    """The plan of a message by its full name. wanted: descriptors of the reader: if they have a message of that name,
    its fields are called as there. refused: path -> why no column holds what is there, grows: it is read as bytes.
    structs: paths, `a.b`, in small letters, of dates and decimals that stay messages.

    Raises Unusable for a message that is not there, or that no column can hold.
    """
    if name not in written.messages or written.messages[name].entry:
        raise Unusable("$", f"there is no message {name}")
    other = wanted.messages.get(name) if wanted else None
    told = {} if refused is None else refused
    return _Planner(written, wanted, told, structs).plan(written.messages[name], other, "$", ())


class _Planner:
    """Makes one plan. wanted: descriptors that the names are taken from."""

    def __init__(
        self, written: Descriptors, wanted: Descriptors | None, refused: dict[str, str], structs: frozenset[str]
    ) -> None:
        self._refused = refused
        self._written = written
        self._wanted = wanted
        self._structs = structs
        self._left = FIELDS_MAX

    def plan(self, message: Message, other: Message | None, path: str, above: tuple[str, ...]) -> MessagePlan:
        """above: the messages that this one stands in."""
        self._left -= len(message.fields)
        if self._left < 0:
            raise Unusable(path, f"the message has over {FIELDS_MAX} fields with those of all in it")
        called = {field.number: field for field in other.fields} if other else {}
        slots = tuple(
            self._slot(field, called.get(field.number), message, path, (*above, message.name))
            for field in message.fields
        )
        seen: dict[str, int] = {}
        for slot in slots:
            if seen.setdefault(slot.name, slot.number) != slot.number:
                why = f"it would be the name of two fields, {seen[slot.name]} and {slot.number}"
                raise Unusable(f"{path}.{slot.name}", why)
        return MessagePlan(message.name, slots, message.entry)

    def _slot(
        self, field: ProtobufField, other: ProtobufField | None, message: Message, path: str, above: tuple[str, ...]
    ) -> FieldPlan:
        name = other.name if other else field.name
        path = path if _is_value_of_map(message, field) else f"{path}.{name}"
        if field.kind == "group":
            raise Unusable(path, "it is a group, which is not read")
        made = FieldPlan(
            name, field.number, field.kind, "list" if field.repeated else "one", pa.null(), pa.null(), 4,
            presence=field.presence and not message.entry,
            required=field.required and not message.entry,
            oneof=field.oneof,
        )  # fmt: skip
        if why := self._unheld(field, above):
            self._refused[path] = why
            made = replace(made, kind="bytes")
        if made.kind != "message":
            one = _ARROW[made.kind]
            names = tuple(self._written.enums[field.of].items()) if field.kind == "enum" else ()
            width = one.bit_width // 8 or 1 if one not in (pa.string(), pa.binary()) else 4
            return replace(made, one=one, type=_list(one) if field.repeated else one, width=width, names=names)
        inside = self._inside(field, other, path, above)
        like = [(slot.number, slot.kind, slot.shape) for slot in inside.slots]
        unwrapped, one, width = self._stands_for(field, inside, path)
        made = replace(made, unwrapped=unwrapped, width=width)
        made = replace(made, one=one, message=inside)
        if inside.entry and not (field.repeated and [(number, shape) for number, _, shape in like] == _KEY_AND_VALUE):
            raise Unusable(path, f"{field.of} is no entry of a map")
        if inside.entry and inside.slots[0].kind == "string":
            return replace(made, shape="map", type=pa.map_(pa.string(), pa.field("value", inside.slots[1].type)))
        return replace(made, type=_list(one) if field.repeated else one)

    @staticmethod
    def _unheld(field: ProtobufField, above: tuple[str, ...]) -> str:
        """Why no column can hold a message; empty if one can."""
        if field.kind != "message":
            return ""
        if field.of in above:
            return f"{field.of} can hold itself"
        return f"messages are nested deeper than {SCHEMA_DEPTH_MAX} levels" if len(above) >= SCHEMA_DEPTH_MAX else ""

    def _stands_for(self, field: ProtobufField, inside: MessagePlan, path: str) -> tuple[Unwrapped, pa.DataType, int]:
        """What a message in a field is made, its type, and the bytes that one takes."""
        like = [(slot.number, slot.kind, slot.shape) for slot in inside.slots]
        stays = path.replace("[]", "").replace("{}", "").removeprefix("$.").lower() in self._structs
        if field.of == TIMESTAMP and like == _SECONDS_AND_NANOS:
            return "timestamp", UTC_MICROS, 8
        if field.of in WRAPPERS and len(like) == 1 and like[0][2] == "one" and inside.slots[0].message is None:
            return "value", inside.slots[0].type, inside.slots[0].width
        if field.of == DATE and like == _YEAR_MONTH_DAY and not stays:
            return "date", pa.date32(), 4
        if field.of == DECIMAL and like == _VALUE_AND_SCALE and field.decimal and not stays:
            return "decimal", pa.decimal128(*field.decimal), 16
        return "", inside.type, inside.width

    def _inside(
        self, field: ProtobufField, other: ProtobufField | None, path: str, above: tuple[str, ...]
    ) -> MessagePlan:
        message, wanted = self._written.messages[field.of], None
        if self._wanted and other and other.kind == "message":
            wanted = self._wanted.messages.get(other.of)
        if field.of in WRAPPERS or field.of in (TIMESTAMP, DATE, DECIMAL) or message.entry:
            wanted = wanted if message.entry and wanted and wanted.entry else None
        has_texts = message.entry and message.fields[0].kind == "string"
        return self.plan(message, wanted, path + ("{}" if has_texts else "[]" if field.repeated else ""), above)


def _is_value_of_map(message: Message, field: ProtobufField) -> bool:
    """Whether a field is the value of a map, not of a list of keys and values."""
    return message.entry and field.number == 2 and message.fields[0].kind == "string"


def _list(one: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("element", one))
