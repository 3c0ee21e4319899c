"""What a reader of values says of one: a document, that no table of a type may have it, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol, TypeVar

from exporter.core.schemas import SchemaText
from exporter.proof.contents.changes import ToldChange
from exporter.proof.contents.documents import NotJson


class NoGoodRecord(NotJson):
    """Certainly no good record: a dead letter."""


class NoValue(NoGoodRecord):
    """The value says that there is none: a tombstone."""


class Undecided(Exception):
    """Nothing can be said of this one: no decision speaks of its schema, or this machine cannot read it."""


@dataclass(frozen=True)
class SentValue:
    """One value. document: as documents.py has it, with what JSON lacks as in typed.py; an object at the top.

    name: full name of its schema. source: of what is in an envelope, where the row is from. enveloped: the envelope.
    change: what was done to it. comparable: the document is all of the row; else whole contents are not compared.
    """

    document: Any
    name: str = ""
    source: str = ""
    enveloped: Any = None
    change: ToldChange | None = None
    comparable: bool = True


Text = TypeVar("Text", str, bytes)


def object_in(text: Text, read: Callable[[Text], Any]) -> dict[str, Any]:
    """The object that a text of JSON is. read: as documents.read. Raises NoGoodRecord."""
    try:
        found = read(text)
    except NotJson as error:
        raise NoGoodRecord(str(error)) from error
    if type(found) is not dict:
        raise NoGoodRecord("no object")
    return found


def base128(body: bytes, at: int, bytes_max: int, what: str) -> tuple[int, int]:
    """A number of base 128, and the place behind it. what: is said of one that is longer, or cut off: NoGoodRecord."""
    number = 0
    for nth, byte in enumerate(body[at : at + bytes_max]):
        number |= (byte & 127) << 7 * nth
        if byte < 128:
            return number, at + nth + 1
    raise NoGoodRecord(what)


def decimal_of(unscaled: bytes, scale: int) -> Decimal:
    """A number as its unscaled bytes, big-endian."""
    number = int.from_bytes(unscaled, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


class ValueReader(Protocol):
    """Reads values of one format without their frame."""

    def read(self, body: bytes, schema: SchemaText | None) -> SentValue:
        """schema: of values that name one. Raises NoGoodRecord, and Undecided."""
        ...
