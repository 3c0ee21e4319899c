"""What a reader of values says of one: a document, that no table of a type may have it, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from exporter.core.schemas import SchemaText
from exporter.proof.contents.changes import Change
from exporter.proof.contents.documents import NotJson


class Refused(NotJson):
    """Certainly no good record: a dead letter."""


class NoValue(Refused):
    """The value says that there is none: a tombstone."""


class Undecided(Exception):
    """Nothing can be said of this one: no decision speaks of its schema, or this machine cannot read it."""


@dataclass(frozen=True)
class Sent:
    """One value. document: as documents.py has it, with what JSON lacks as in typed.py; an object at the top.

    name: full name of its schema. source: of what is in an envelope, where the row is from. enveloped: the envelope.
    change: what was done to it. comparable: the document is all of the row; else whole contents are not compared.
    """

    document: Any
    name: str = ""
    source: str = ""
    enveloped: Any = None
    change: Change | None = None
    comparable: bool = True


Text = TypeVar("Text", str, bytes)


def object_in(text: Text, read: Callable[[Text], Any]) -> dict[str, Any]:
    """The object that a text of JSON is. read: as documents.read. Raises Refused."""
    try:
        found = read(text)
    except NotJson as error:
        raise Refused(str(error)) from error
    if type(found) is not dict:
        raise Refused("no object")
    return found


class Reader(Protocol):
    """Reads values of one format without their frame."""

    def read(self, body: bytes, schema: SchemaText | None) -> Sent:
        """schema: of values that name one. Raises Refused, and Undecided."""
        ...
