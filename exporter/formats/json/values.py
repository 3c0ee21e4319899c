"""What the judge reads: tokens as sent, notes about one record, and the two ways to say no. Runs on Spark executors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from exporter.text import shorten


class Unproven(Exception):
    """The fast reader cannot prove that all records of a block are good: some other reader has to look."""


class BadValue(Exception):
    """One record is bad: a code, what was found, and the path, collected from the leaf up."""

    def __init__(self, code: str, what: str) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what
        self.path: list[str] = []

    @property
    def reason(self) -> str:
        return f"{self.code}: {shorten('$' + ''.join(reversed(self.path)))} {self.what}"


class IntToken(str):
    """A JSON number token of digits only, as sent."""

    __slots__ = ()


class FloatToken(str):
    """A JSON number token with a fraction or an exponent, as sent."""

    __slots__ = ()


@dataclass
class Note:
    """What reading one record brought up: must it be rewritten, how many timestamps were cut.

    unfit: members whose value does not fit a column that nobody declared: id() of the object, and the key.
    """

    changed: bool = False
    cut: int = 0
    unfit: set[tuple[int, str]] = field(default_factory=set)


@dataclass
class UnknownFound:
    """The unknown fields of one record: how many, and the path of the first one. unfit: those that are (see Note)."""

    count: int = 0
    first: str = ""
    unfit: set[tuple[int, str]] = field(default_factory=set)

    def add(self, path: str) -> None:
        self.first = self.first or path
        self.count += 1


_KINDS = {
    type(None): "null", bool: "a boolean", IntToken: "an integer", FloatToken: "a number", str: "a string",
    list: "an array", dict: "an object",
}  # fmt: skip


def mismatch(expected: str, value: Any) -> BadValue:
    """The error of a value of another kind than its column needs."""
    return BadValue("type_mismatch", f"expected {expected}, got {_KINDS[type(value)]}")
