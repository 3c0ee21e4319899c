"""JSON whose fields are spelled as the columns are, whatever their case was. Runs on Spark executors.

    values ── may a field be spelled otherwise? ── the record with its column's name for it ── the reader of JSON

Two patterns tell of most values that they need nothing. Others are taken apart by msgspec, which keeps what it need not
look into as it was sent. A record that is no JSON, or has a key twice, stays as it is: its reader says why it is bad.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import patched
from exporter.formats.cased import CasedItems, Inside, Spelling, Values, fold
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.format import Read, Reader
from exporter.formats.json.judge import TOO_MANY, too_many_values
from exporter.formats.json.parts import compact, items_of, members_of
from exporter.formats.json.templates import PATTERN_MAX
from exporter.formats.json.text import PARSE_ERRORS
from exporter.formats.json.unknown import hides_colon

_END = r'"[ \t\r\n]*:'
_ESCAPED = rf'\\[u/][^"]*{_END}'
"""The end of a key with an escape that may stand for a character of a name."""
_ALSO = {"i": r"\xc4\xb1|\xc4\xb0", "k": r"\xe2\x84\xaa", "s": r"\xc5\xbf"}
"""Letter -> the bytes of the letters beyond ASCII that differ from it by case only."""
_DOTS = r"(?:\xcc\x87)*"
"""Dots above an `i`, which it has in lower case where it is another letter in upper case."""


class CasedReader:
    """See Reader. inner: reads fields that are spelled as the columns are."""

    def __init__(self, inner: Reader, spelling: Spelling) -> None:
        self.inner = inner
        self._spelling = spelling
        self._patterns = _patterns(spelling)

    def read(self, values: pa.BinaryArray) -> Read:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        texts: dict[int, bytes | None] = {}
        refused: dict[int, str] = {}
        for row in self._unsure(values):
            raw = values[row].as_py()
            try:
                text = spelled(raw, self._spelling)
            except DeadLetter as reason:
                text, refused[row] = None, str(reason)
            if text is not raw:
                texts[row] = text
        read = self.inner.read(patched(values, texts))
        return replace(read, refused={**read.refused, **refused}) if refused else read

    def _unsure(self, values: pa.BinaryArray) -> list[int]:
        """The rows that may have a field which is spelled otherwise."""
        found = values.is_valid()
        if self._patterns is not None:
            any_case, as_is = (pc.count_substring_regex(values, pattern) for pattern in self._patterns)
            found = pc.or_(pc.not_equal(any_case, as_is), pc.match_substring_regex(values, _ESCAPED))
        rows: list[int] = pc.indices_nonzero(found).to_pylist()
        return rows


def spelled(raw: bytes, spelling: Spelling) -> bytes:
    """A record with its columns' names; as it was sent if that is the same, or if who reads it refuses it anyway.

    Raises DeadLetter.
    """
    try:
        text = _object(raw, spelling, "$")
    except PARSE_ERRORS:
        return raw
    if text is raw or (text.count(b":") == raw.count(b":") and not hides_colon(raw)):
        return text
    if too_many_values(raw):
        raise DeadLetter(TOO_MANY)
    return raw if _has_twins(raw) else text


def _object(raw: bytes, spelling: Spelling, path: str) -> bytes:
    """An object with the names of columns. Raises DeadLetter, and what msgspec raises."""
    members: dict[str, Any] = members_of(raw)
    names = spelling.spelled(members, path)
    made = {names.get(sent, sent): item for sent, item in members.items()}
    changed = bool(names)
    for name, inside in spelling.deep.items():
        if name in made:
            before = bytes(made[name])
            made[name] = after = _below(before, inside, f"{path}.{name}")
            changed = changed or after is not before
    return compact({name: msgspec.Raw(item) for name, item in made.items()}) if changed else raw


def _below(raw: bytes, inside: Inside, path: str) -> bytes:
    """A value with the names of columns; itself if they are the same, or if it is of another kind."""
    first = raw[:1]
    if isinstance(inside, Spelling) and first == b"{":
        return _object(raw, inside, path)
    if isinstance(inside, CasedItems) and first == b"[":
        items = [bytes(item) for item in items_of(raw)]
        made = [_below(item, inside.item, f"{path}[{at}]") for at, item in enumerate(items)]
        same = all(one is other for one, other in zip(items, made, strict=True))
        return raw if same else b"[" + b",".join(made) + b"]"
    if isinstance(inside, Values) and first == b"{":
        members = {key: bytes(item) for key, item in members_of(raw).items()}
        values = {key: _below(item, inside.item, f"{path}.{key}") for key, item in members.items()}
        same = all(values[key] is item for key, item in members.items())
        return raw if same else compact({key: msgspec.Raw(item) for key, item in values.items()})
    return raw


def _has_twins(raw: bytes) -> bool:
    """Whether a key occurs twice in an object, or the text is no JSON after all."""
    twins: list[bool] = []

    def made(pairs: list[tuple[str, Any]]) -> None:
        twins.append(len({key for key, _ in pairs}) < len(pairs))

    try:
        json.loads(raw, object_pairs_hook=made, parse_int=str, parse_float=str)
    except PARSE_ERRORS:
        return True
    return any(twins)


def _patterns(spelling: Spelling) -> tuple[str, str] | None:
    """What finds keys that a column may be called, in any case and as the columns are; None: any value is unsure."""
    names: dict[str, set[str]] = {}
    for name in _names(spelling):
        names.setdefault(fold(name), set()).add(name)
    if not all(map(str.isascii, names)):
        return None
    once = [min(spellings) for spellings in names.values() if len(spellings) == 1]
    if not once:
        return None
    any_case, as_is = (f'"(?:{"|".join(texts)}){_END}' for texts in (map(_any_case, names), map(re.escape, once)))
    return (any_case, as_is) if max(len(any_case), len(as_is)) <= PATTERN_MAX else None


def _any_case(name: str) -> str:
    """A pattern of a folded name of ASCII letters. Patterns are of bytes here, not of characters."""
    parts = []
    for char in name:
        also = f"|{_ALSO[char]}" if char in _ALSO else ""
        parts.append(f"(?:{char}|{char.upper()}{also})" if char.isalpha() else re.escape(char))
        parts.append(_DOTS if char == "i" else "")
    return "".join(parts)


def _names(inside: Inside) -> Iterator[str]:
    """The names of columns, at every level."""
    if isinstance(inside, Spelling):
        for name, below in inside.fields.values():
            yield name
            yield from _names(below)
    elif inside is not None:
        yield from _names(inside.item)
