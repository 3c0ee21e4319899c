"""Columns as DDL -> Spark's schema, for whoever has no JVM. Pure.

    column  := name [:] type [NOT NULL] [COMMENT 'text'], ...
    type    := a word | DECIMAL(p, s) | VARCHAR(n) | CHAR(n) | ARRAY<type> | MAP<type, type> | STRUCT<column, ...>

Spark's own parser decides what can be declared (workbench.py). What is written otherwise than here is left to it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from exporter.core.ddl import with_json, with_marks

_TOKEN = re.compile(
    r"\s+|--[^\r\n]*|/\*(?!\+).*?\*/|(`(?:[^`]|``)+`|'[^'\\]*'|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[<>(),:])", re.DOTALL
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = {
    "BOOLEAN": "boolean", "TINYINT": "byte", "BYTE": "byte", "SMALLINT": "short", "SHORT": "short", "INT": "integer",
    "INTEGER": "integer", "BIGINT": "long", "LONG": "long", "FLOAT": "float", "REAL": "float", "DOUBLE": "double",
    "DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMP_NTZ": "timestamp_ntz", "TIMESTAMP_LTZ": "timestamp",
    "STRING": "string", "BINARY": "binary",
}  # fmt: skip
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_TEXTS = ("VARCHAR", "CHAR")
_DIGITS_MAX = 38


class _Unknown(Exception):
    """It is not written as above."""


def ddl_schema(ddl: str) -> str | None:
    """Spark schema JSON, the very text that Spark makes of it, types JSON as in core/ddl.py; None for what only Spark
    can tell."""
    try:
        columns = _Columns(with_marks(ddl))
        struct = {"type": "struct", "fields": columns.whole()}
        return with_json(json.dumps(struct, separators=(",", ":"), sort_keys=True))  # each character is in fingerprints
    except (_Unknown, RecursionError):
        return None


class _Columns:
    """The tokens of one text, read once from left to right."""

    def __init__(self, ddl: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(ddl):
            if (found := _TOKEN.match(ddl, at)) is None:
                raise _Unknown
            if found[1]:
                self._tokens.append(found[1])
            at = found.end()
        self._tokens.reverse()

    def whole(self) -> list[dict[str, Any]]:
        """Its columns. Raises _Unknown."""
        fields = self._fields()
        if self._tokens:
            raise _Unknown
        return fields

    def _fields(self) -> list[dict[str, Any]]:
        fields = [self._field()]
        while self._skips(","):
            fields.append(self._field())
        return fields

    def _field(self) -> dict[str, Any]:
        token = self._next()
        if token.startswith("`"):
            token = token[1:-1].replace("``", "`")
        elif not _NAME.fullmatch(token):
            raise _Unknown
        self._skips(":")
        kind = self._type()
        nullable = not (self._skips("NOT") and self._needs("NULL"))
        metadata = {"comment": self._text()} if self._skips("COMMENT") else {}
        return {"name": token, "type": kind, "nullable": nullable, "metadata": metadata}

    def _type(self) -> Any:
        word = self._next().upper()
        if word in _DECIMALS:
            digits, scale = [*(numbers := self._numbers(2)), *(10, 0)[len(numbers) :]]
            if not 0 < digits <= _DIGITS_MAX or scale > digits:
                raise _Unknown
            return f"decimal({digits},{scale})"
        if word in _TEXTS and (lengths := self._numbers(1)):
            return f"{word.lower()}({lengths[0]})"
        if word in ("ARRAY", "MAP", "STRUCT"):
            self._needs("<")
            made = getattr(self, f"_{word.lower()}")()
            self._needs(">")
            return made
        if word not in _WORDS:
            raise _Unknown
        return _WORDS[word]

    def _array(self) -> dict[str, Any]:
        return {"type": "array", "elementType": self._type(), "containsNull": True}

    def _map(self) -> dict[str, Any]:
        key = self._type()
        self._needs(",")
        return {"type": "map", "keyType": key, "valueType": self._type(), "valueContainsNull": True}

    def _struct(self) -> dict[str, Any]:
        return {"type": "struct", "fields": [] if self._tokens[-1:] == [">"] else self._fields()}

    def _numbers(self, most: int) -> list[int]:
        """What stands in parentheses, if any follow: at most so many."""
        if not self._skips("("):
            return []
        numbers = [self._number()]
        while len(numbers) < most and self._skips(","):
            numbers.append(self._number())
        self._needs(")")
        return numbers

    def _number(self) -> int:
        if not (token := self._next()).isdigit():
            raise _Unknown
        return int(token)

    def _text(self) -> str:
        if not (token := self._next()).startswith("'") or (self._tokens[-1:] and self._tokens[-1].startswith("'")):
            raise _Unknown
        return token[1:-1]

    def _next(self) -> str:
        if not self._tokens:
            raise _Unknown
        return self._tokens.pop()

    def _skips(self, word: str) -> bool:
        """Whether this comes next; it is passed if it does."""
        there = bool(self._tokens) and self._tokens[-1].upper() == word
        if there:
            self._tokens.pop()
        return there

    def _needs(self, word: str) -> bool:
        if not self._skips(word):
            raise _Unknown
        return True
