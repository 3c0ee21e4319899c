"""Columns as DDL, read and written, by a parser of our own: Spark's knows no type JSON, and needs a JVM. Pure.

    columns := column, ...  |  STRUCT<column, ...>
    column  := name [:] type [NOT NULL] [COMMENT 'text']
    type    := a word | DECIMAL(p, s) | VARCHAR(n) | CHAR(n) | ARRAY<type> | MAP<type, type> | STRUCT<column, ...>

What both know is the same text, byte for byte, in Spark's JSON: it is in fingerprints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeVar

from exporter.column.scalars import SCALARS, spelling
from exporter.column.spark_json import text_of
from exporter.column.types import DecimalType, Field, Fold, ListType, MapType, ScalarType, StructType, Type

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\r\n]*)"""
    r"""|(?P<quoted>`(?:[^`]|``)+`)"""
    r"""|(?P<raw>[rR](?:'[^']*'|"[^"]*"))"""
    r"""|(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"""|(?P<number>[0-9]+(?:[LSYDF]|BD|E[0-9]+)?\b)"""
    r"""|(?P<word>[A-Za-z0-9_]+)"""
    r"""|(?P<sign>[<>(),:])""",
    re.DOTALL | re.IGNORECASE,
)
_COMMENT = re.compile(r"/\*(?!\+)|\*/")
_WORDS = {
    **{spelt.ddl: name for name, spelt in SCALARS.items()},
    "BYTE": "byte", "SHORT": "short", "INTEGER": "integer", "LONG": "long", "REAL": "float",
    "TIMESTAMP_LTZ": "timestamp",
}  # fmt: skip
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_TEXTS = {"VARCHAR": "varchar", "CHAR": "char", "CHARACTER": "char"}
_DIGITS_MAX = 38
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""What stands for a character behind a backslash; any other one stands for itself."""
_KINDS = {*_WORDS, *_DECIMALS, *_TEXTS, "ARRAY", "MAP", "STRUCT"}
T = TypeVar("T")


class NotColumns(ValueError):
    """Text that declares no columns. It says where, and what was due there."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def struct_of_ddl(ddl: str) -> StructType:
    """The columns that a text of DDL declares. Raises NotColumns."""
    try:
        return _Columns(ddl).whole()
    except RecursionError:
        raise NotColumns("too many types in one another") from None


def ddl_schema(ddl: str) -> str:
    """Spark schema JSON, as Spark writes it. Raises NotColumns."""
    return text_of(struct_of_ddl(ddl), sort_keys=True)


def ddl_of(fields: Iterable[Field]) -> list[str]:
    """Each column as one text: `items ARRAY<STRUCT<sku: STRING>>`."""
    return [f"{quoted(one.name)} {type_ddl(one.type)}" for one in fields]


def quoted(name: str) -> str:
    """A column's name as DDL takes it."""
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


type_ddl = Fold[str](
    scalar=lambda one: spelling(one).ddl,
    struct=lambda _, parts: f"STRUCT<{', '.join(f'{quoted(one.name)}: {part}' for one, part in parts)}>",
    list=lambda _, inner: f"ARRAY<{inner}>",
    map=lambda _, key, inner: f"MAP<{key}, {inner}>",
)
"""A type, as the settings take it."""
short_ddl = replace(type_ddl, struct=lambda *_: "STRUCT")
"""The same without what is in its structs."""


class _Columns:
    """The tokens of one text, read once from left to right."""

    def __init__(self, ddl: str) -> None:
        self._tokens = [*reversed([*_tokens(ddl)])]

    def whole(self) -> StructType:
        """Its columns; none of an empty text."""
        if not self._tokens:
            return StructType()
        if self._is("STRUCT") and self._tokens[-2:-1] and self._tokens[-2].text == "<":
            self._next()
            found = self._struct()
        else:
            found = self._fields()
        if self._tokens:
            raise self._wrong("a comma or the end is due")
        return found

    def _fields(self) -> StructType:
        fields = [self._field()]
        while self._skips(","):
            fields.append(self._field())
        return StructType(tuple(fields))

    def _field(self) -> Field:
        name = self._name()
        self._skips(":")
        kind = self._type()
        nullable = not (self._skips("NOT") and self._needs("NULL"))
        return Field(name, kind, nullable, {"comment": self._text()} if self._skips("COMMENT") else {})

    def _name(self) -> str:
        if not self._tokens or self._tokens[-1].kind not in ("quoted", "word"):
            raise self._wrong("a name is due; one that is no word stands in backquotes")
        kind, text, _ = self._next()
        return text[1:-1].replace("``", "`") if kind == "quoted" else text

    def _type(self) -> Type:
        if not self._tokens or (word := self._tokens[-1].text.upper()) not in _KINDS:
            raise self._wrong("a type is due")
        self._next()
        if word == "ARRAY":
            return ListType(self._inside(self._type))
        if word == "MAP":
            return self._inside(self._map)
        if word == "STRUCT":
            return self._struct()
        if word in _DECIMALS:
            return self._decimal()
        if word in _TEXTS:
            return ScalarType(f"{_TEXTS[word]}({self._numbers(1)[0]})")
        if word == "TIMESTAMP" and self._skips("WITHOUT"):
            return ScalarType("timestamp_ntz" if self._needs("TIME") and self._needs("ZONE") else "")
        return ScalarType(_WORDS[word])

    def _map(self) -> MapType:
        key = self._type()
        self._needs(",")
        return MapType(key, self._type())

    def _struct(self) -> StructType:
        return self._inside(lambda: StructType() if self._is(">") else self._fields())

    def _inside(self, read: Callable[[], T]) -> T:
        """What stands between < and >."""
        self._needs("<")
        found = read()
        self._needs(">")
        return found

    def _decimal(self) -> DecimalType:
        at = self._tokens[-1] if self._tokens else None
        digits, scale = [*(numbers := self._numbers(2) if self._is("(") else []), *(10, 0)[len(numbers) :]]
        if not 0 < digits <= _DIGITS_MAX or scale > digits:
            raise self._wrong(f"a decimal has 1 to {_DIGITS_MAX} digits, as many of them behind the point at most", at)
        return DecimalType(digits, scale)

    def _numbers(self, most: int) -> list[int]:
        """What stands in parentheses: at most so many."""
        self._needs("(")
        numbers = [self._number()]
        while len(numbers) < most and self._skips(","):
            numbers.append(self._number())
        self._needs(")")
        return numbers

    def _number(self) -> int:
        if not self._tokens or not self._tokens[-1].text.isdigit():
            raise self._wrong("a number is due")
        return int(self._next().text)

    def _text(self) -> str:
        """One, or several side by side."""
        found: list[str] = []
        while self._tokens and self._tokens[-1].kind in ("text", "raw"):
            found.append(_meant(self._next()))
        if not found:
            raise self._wrong("a text is due")
        return "".join(found)

    def _next(self) -> _Token:
        return self._tokens.pop()

    def _is(self, word: str) -> bool:
        return bool(self._tokens) and self._tokens[-1].text.upper() == word

    def _skips(self, word: str) -> bool:
        """Whether this comes next; it is passed if it does."""
        there = self._is(word)
        if there:
            self._next()
        return there

    def _needs(self, word: str) -> bool:
        if not self._skips(word):
            raise self._wrong(f"{word} is due")
        return True

    def _wrong(self, what: str, at: _Token | None = None) -> NotColumns:
        at = at or (self._tokens[-1] if self._tokens else None)
        return NotColumns(f"at the end: {what}" if at is None else f"at {at.text!r} (character {at.at + 1}): {what}")


def _tokens(ddl: str) -> Iterator[_Token]:
    """What counts of a text. Raises NotColumns."""
    at = 0
    while at < len(ddl):
        if ddl.startswith("/*", at) and not ddl.startswith("/*+", at):
            at = _behind_comment(ddl, at)
            continue
        found = _TOKEN.match(ddl, at)
        if found is None:
            raise NotColumns(f"at {ddl[at : at + 20]!r} (character {at + 1}): nothing of columns begins so")
        if found.lastgroup != "blank":
            yield _Token(str(found.lastgroup), found[0], at)
        at = found.end()


def _behind_comment(ddl: str, at: int) -> int:
    """They stand in one another."""
    depth = 0
    for found in _COMMENT.finditer(ddl, at):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    raise NotColumns(f"the comment at character {at + 1} has no end")


def _meant(token: _Token) -> str:
    """What a text of SQL says. Raises NotColumns."""
    if token.kind == "raw":
        return token.text[2:-1]
    quote, inner = token.text[0], token.text[1:-1]
    if re.search(r"\\(?:u|U|[0-9]{3})", inner):
        raise NotColumns(f"at {token.text!r} (character {token.at + 1}): write the character instead of its number")
    said = re.compile(rf"\\(.)|{quote}{quote}", re.DOTALL)
    return said.sub(lambda found: quote if found[1] is None else _ESCAPED.get(found[1], found[1]), inner)
