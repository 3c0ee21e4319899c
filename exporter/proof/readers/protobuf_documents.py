"""Protobuf values, by Google's own library (upb): messages by their descriptors, turned into documents here.

    a scalar without presence    its default, if it is not on the wire
    optional, oneof, message     null, if it is not on the wire
    Timestamp, wrappers          a time; the value in it or null
    enum                         its name; one without a name is refused
    google.type.Date             a date, or what it is made of where the table has that; so Confluent's decimals
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import date
from decimal import Decimal, localcontext
from typing import Any, TypeAlias

from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.proof.contents.typed import Day, Either, Floating, Instant, ObjectPairs
from exporter.proof.readers.reader import NoGoodRecord, SentValue, Undecided, base128

_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
Which: TypeAlias = "tuple[int, ...] | int"
"""Of the messages of a file: by the places from the outermost one inwards, or by its number among all names."""


class ProtobufValues:
    """See Reader. Raises ConfigError where the library is not installed."""

    def __init__(self, form: ValueFormat) -> None:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        except ImportError as error:
            hint = "pip install 'kafka-delta-exporter[protobuf]'"
            raise ConfigError("Protobuf values are audited by protobuf, which is not installed", hint) from error
        self._descriptor_pb2, self._descriptor_pool = descriptor_pb2, descriptor_pool
        self._class_of = message_factory.GetMessageClass
        self._form = form
        self._known: dict[tuple[str, Which], Any] = {}
        self._of_reader: Any = None
        self._recursive: dict[Any, bool] = {}

    def read(self, body: bytes, schema: SchemaText | None) -> SentValue:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        if schema is not None:
            which, body = number_in(body) if self._form.frame == "glue" else place_in(body)
            kind = self._made(schema.text, which)
        else:
            kind = self._made("", ())
        if isinstance(kind, (NoGoodRecord, Undecided)):
            raise type(kind)(*kind.args)  # a new one: the same would grow by a traceback each time
        try:
            message = kind.FromString(body)
        except MemoryError as error:
            raise Undecided(str(error)) from error
        except Exception as error:
            odd = Undecided if self._holds_itself(kind.DESCRIPTOR) else NoGoodRecord
            raise odd(f"protobuf: {error!r}") from error
        name = kind.DESCRIPTOR.full_name
        if self._holds_itself(kind.DESCRIPTOR):  # where it is in itself the exporter keeps its bytes as they were sent
            return self._partly(message, name)
        if not message.IsInitialized():
            raise NoGoodRecord("a required field is missing")
        return SentValue(_document(message, self._reader(name)), name)

    def _holds_itself(self, kind: Any) -> bool:
        if kind not in self._recursive:
            self._recursive[kind] = _holds_itself(kind, (), set())
        return self._recursive[kind]

    def _partly(self, message: Any, name: str) -> SentValue:
        """Raises Undecided for what is refused, which may be wrong inside of those bytes alone."""
        try:
            return SentValue(_document(message, self._reader(name)), name, comparable=False)
        except NoGoodRecord as refused:
            raise Undecided(str(refused)) from refused

    def _reader(self, name: str) -> Any:
        """What the files say of a registered message: fields are called as there. None if they say nothing."""
        if not self._form.has_ids or not self._form.schemas:
            return None
        if self._of_reader is None:
            self._of_reader, _ = self._pool([text for _, text in self._form.schemas])
        try:
            return self._of_reader.FindMessageTypeByName(name)
        except KeyError:
            return None

    def _made(self, text: str, place: Which) -> Any:
        """The class of a message, or why there is none. text: a set of descriptors; without, those of the files."""
        if (text, place) not in self._known:
            try:
                found: Any = self._class_at(text, place) if text else self._class_of_files()
            except (NoGoodRecord, Undecided) as error:
                found = error
            self._known[text, place] = found
        return self._known[text, place]

    def _class_at(self, text: str, place: Which) -> Any:
        pool, names = self._pool([text])
        top = pool.FindFileByName(names[-1])
        if isinstance(place, int):
            return self._class_of(_numbered(top, place))
        found: Any = None
        messages = list(top.message_types_by_name.values())
        for index in place:
            if index >= len(messages):
                raise NoGoodRecord("no message at that place")
            found = messages[index]
            messages = list(found.nested_types)
        return self._class_of(found)

    def _class_of_files(self) -> Any:
        pool, names = self._pool([text for _, text in self._form.schemas])
        if self._form.message:
            try:
                return self._class_of(pool.FindMessageTypeByName(self._form.message))
            except KeyError as error:
                raise Undecided(f"no message {self._form.message}") from error
        tops = [one for name in names for one in pool.FindFileByName(name).message_types_by_name.values()]
        tops = [one for one in tops if not one.full_name.startswith("google.protobuf.")]
        if len(tops) != 1:
            raise Undecided("it is not told which of the messages these values are")
        return self._class_of(tops[0])

    def _pool(self, texts: Iterable[str]) -> tuple[Any, list[str]]:
        """All descriptors of some sets, and the names of their files as they stand there. Raises Undecided."""
        pool, names = self._descriptor_pool.DescriptorPool(), list[str]()
        try:
            for text in texts:
                found = self._descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text))
                for file in found.file:
                    if file.name not in names:
                        pool.Add(file)
                        names.append(file.name)
        except Exception as error:
            raise Undecided(f"the schema: {error!r}") from error
        return pool, names


def number_in(body: bytes) -> tuple[int, bytes]:
    """The number in front of a message of Glue's, and the message. Raises NoGoodRecord."""
    number, at = base128(body, 0, 5, "no number of a message")
    if number >= 1 << 31:
        raise NoGoodRecord("no number of a message")
    return number, body[at:]


def _numbered(file: Any, number: int) -> Any:
    """The message of a number: the order is that of all full names in the file. Raises NoGoodRecord."""
    every, new = list[Any](), [*file.message_types_by_name.values()]
    while new:
        every += new
        new = [inner for one in new for inner in one.nested_types]
    names = sorted(one.full_name for one in every)
    if number >= len(names):
        raise NoGoodRecord("no message of that number")
    return next(one for one in every if one.full_name == names[number])


def place_in(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """Where in its file the message is declared, as Confluent's frame says, and what follows. Raises NoGoodRecord."""
    count, at = _zigzag(body, 0)
    if count == 0:
        return (0,), body[at:]
    if not 0 < count <= len(body):
        raise NoGoodRecord("no place of a message")
    place: list[int] = []
    for _ in range(count):
        index, at = _zigzag(body, at)
        if index < 0:
            raise NoGoodRecord("no place of a message")
        place.append(index)
    return tuple(place), body[at:]


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    number, at = base128(body, at, 10, "no place of a message")
    return (number >> 1) ^ -(number & 1), at


def _holds_itself(kind: Any, above: tuple[str, ...], done: set[str]) -> bool:
    """Whether a message, or one in it, can stand in itself. above: those that it stands in. done: those that cannot."""
    if kind.full_name in above:
        return True
    if kind.full_name in done:
        return False
    inside = (*above, kind.full_name)
    found = any(one.message_type is not None and _holds_itself(one.message_type, inside, done) for one in kind.fields)
    done.add(kind.full_name)
    return found


def _document(message: Any, like: Any) -> Any:
    """A message as an object, or what stands for it. like: the reader's descriptor, or None. Raises NoGoodRecord."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return Instant((message.seconds * 1_000_000_000 + message.nanos) // 1_000)
    if name in _WRAPPERS:
        return _scalar(message.DESCRIPTOR.fields_by_name["value"], message.value, None)
    others = like.fields_by_number if like is not None else {}
    found = {}
    for field in message.DESCRIPTOR.fields:
        other = others.get(field.number)
        found[(other or field).name] = _field(message, field, other)
    return found


def _field(message: Any, field: Any, other: Any) -> Any:
    """other: the reader's field of the same number, or None."""
    value = getattr(message, field.name)
    if _is_map(field):
        return _map(field, value, other)
    if _repeated(field):
        return [_scalar(field, one, other) for one in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _scalar(field, value, other)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _map(field: Any, value: Any, other: Any) -> Any:
    """An object; a list of keys and values where the keys are no texts."""
    keys, values = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    held = other.message_type.fields_by_name["value"] if other is not None and _is_map(other) else None
    if keys.type == keys.TYPE_STRING:
        return {key: _scalar(values, one, held) for key, one in value.items()}
    return ObjectPairs(
        {"key": _scalar(keys, key, None), "value": _scalar(values, one, held)} for key, one in value.items()
    )


def _repeated(field: Any) -> bool:
    told = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if told is None else told)


def _scalar(field: Any, value: Any, other: Any) -> Any:
    if field.message_type is not None:
        document = _document(value, other.message_type if other is not None else None)
        if field.message_type.full_name == "google.type.Date":
            return Either(document, _day(value))
        if field.message_type.full_name == "confluent.type.Decimal" and (digits := _digits(field)) is not None:
            return Either(document, _decimal(value, *digits))
        return document
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        if named is None:
            raise NoGoodRecord(f"no value {value} of {field.enum_type.full_name}")
        return named.name
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return Floating(value, field.type == field.TYPE_FLOAT)
    return value


def _day(value: Any) -> Day:
    """Raises Undecided for what is no day: as a date it is refused, as an object it is well."""
    try:
        return Day(date(value.year, value.month, value.day).toordinal() - date(1970, 1, 1).toordinal())
    except (ValueError, OverflowError) as error:
        raise Undecided(f"no date: {error}") from error


def _digits(field: Any) -> tuple[int, int] | None:
    """Precision and scale that a field's options say by Confluent's parameters; None if no decimal has them."""
    for extension, meta in field.GetOptions().ListFields():
        if extension.full_name == "confluent.field_meta":
            said = meta.params
            break
    else:
        said = _said(field)
    scale, precision = said.get("scale"), said.get("precision", "38")
    try:
        found = int(precision), int(scale)
    except (TypeError, ValueError):
        return None
    return found if 0 <= found[1] <= found[0] <= 38 and found[0] else None


def _said(field: Any) -> dict[str, str]:
    """The parameters among the options, by the descriptors that came with the schema."""
    from google.protobuf.message_factory import GetMessageClass

    pool = field.file.pool
    try:
        extension = pool.FindExtensionByName("confluent.field_meta")
        kind = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FieldOptions"))
    except KeyError:
        return {}
    found = kind.FromString(field.GetOptions().SerializeToString())
    return dict(found.Extensions[extension].params)


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    """Raises Undecided for what has no place in such a column: as an object it is well."""
    if not value.value:
        raise Undecided("a decimal of no bytes")
    with localcontext() as context:
        context.prec = 1_000
        number = Decimal(int.from_bytes(value.value, "big", signed=True)).scaleb(-value.scale)
        above = Decimal(10) ** (precision - scale)
        if abs(value.scale) > 500 or number != round(number, scale) or abs(number) >= above:
            raise Undecided("a decimal that the column has no place for")
        return number
