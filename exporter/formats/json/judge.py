"""The exact verdict on one record, and the only place that words a reason. Runs on Spark executors.

stdlib json with every token kept as sent, then the shape's own reading. Slow, so blocks.py asks
only for the doubtful records; what it passes is text that the fast reader takes, and reads the
same. A record whose only oddity may be unknown fields is asked of first in another way: a guess, that
holds if the reader takes the rest. Must never raise on what a record holds, or know its neighbours.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporter.formats.asked import Asked
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.json.shapes import Struct
from exporter.formats.json.text import StrictJson
from exporter.formats.json.unknown import Splitter, plain
from exporter.formats.json.values import BadValue, FloatToken, IntToken, Note, UnknownFound
from exporter.text import shorten

LARGE_BYTES = 64 << 10
"""From here on a record's unknown fields are not read: the judge makes an object of each value that it reads."""
VALUES_MAX = 10_000_000
"""Commas, colons and opening brackets outside of strings, beyond which no object is made of a record: they would take
gigabytes."""
TOO_MANY = f"too_many_values: the value is no plain good record, and has over {VALUES_MAX} commas, colons and brackets"
PASSED_IN_VAIN = "not_json: the reader refuses what the judge passed"

_PUNCTUATION = re.compile(rb'\\.|[",:\[{]', re.DOTALL)
_SMALL = {str(number): IntToken(number) for number in range(1_000)}
"""Of numbers that come in millions one object is enough."""


class RecordVerdict(NamedTuple):
    """The judge's word on one record: `text` for the reader, or None and the reason.

    A text and a reason: the record is refused for it if the reader takes the text. changed: known values were
    rewritten. unknown: unknown fields that the record has besides the text.
    """

    text: bytes | None
    reason: str = ""
    rescued: str | None = None
    unknown: int = 0
    cut: int = 0
    changed: bool = False


def too_many_values(raw: bytes) -> bool:
    """True if a record is too large for the judge."""
    if len(raw) <= VALUES_MAX or sum(map(raw.count, (b",", b":", b"[", b"{"))) <= VALUES_MAX:
        return False
    number, in_string = 0, False
    for match in _PUNCTUATION.finditer(raw):
        token = match.group()
        if token == b'"':
            in_string = not in_string
        elif not in_string:
            number += 1
    return number > VALUES_MAX


def outsized(values: pa.BinaryArray) -> dict[int, bytes]:
    """Rows with more values than the judge can look at, and what was sent."""
    long = pc.indices_nonzero(pc.greater(pc.binary_length(values), VALUES_MAX)).to_pylist()
    sent = {row: values[row].as_py() for row in long}
    return {row: raw for row, raw in sent.items() if too_many_values(raw)}


class Judge:
    """Reads one record exactly. Slow, so it only sees doubtful ones."""

    def __init__(self, root: Struct, asked: Asked) -> None:
        self._root = root
        self._splitter = Splitter(root)
        self._policy = asked.policy
        self._route = asked.route
        self._said = asked.said
        self._keep_all = asked.keeps_all
        self._json = StrictJson(_int, FloatToken)

    def verdict(self, raw: bytes | None) -> RecordVerdict:
        """Judge one value; never raises on its content."""
        if raw is None:
            return RecordVerdict(None, "tombstone: the value is null")
        if len(raw) >= LARGE_BYTES and (word := self._without_unknown(raw)):
            return word
        return RecordVerdict(None, TOO_MANY) if too_many_values(raw) else self.exact(raw)

    def _without_unknown(self, raw: bytes) -> RecordVerdict | None:
        """The verdict on a record with unknown fields by a look at the rest only, if that tells it."""
        guess = self.guess(raw)
        if guess is None or guess.text is None or too_many_values(guess.text):
            return None
        rest = self.exact(guess.text)
        if rest.text is None:
            return None if rest.reason.startswith("not_") else rest  # those tell a position in the record
        if rest.unknown:  # what does not fit a column that nobody declared: it goes in between the others
            return None
        if guess.reason:
            return RecordVerdict(None, guess.reason)
        return rest._replace(rescued=guess.rescued, unknown=guess.unknown)

    def guess(self, raw: bytes | None) -> RecordVerdict | None:
        """The verdict on a record with unknown fields, if the reader takes its text; None for all that is in doubt."""
        apart = None if raw is None else self._splitter.split(raw)
        if raw is None or apart is None:
            return None
        if self._keep_all:
            whole = plain(raw)
            return None if whole is None else RecordVerdict(apart.rest, "", whole[0].decode(), apart.found.count)
        reason = f"unknown_field: {shorten(apart.found.first)}" if self._policy == "dead_letter" else ""
        rescued = apart.unknown.decode() if self._policy == "rescue" else None
        return RecordVerdict(apart.rest, reason, rescued, apart.found.count)

    def exact(self, raw: bytes) -> RecordVerdict:
        """The verdict by a look at each value of the record."""
        try:
            value = self._json.read(raw)
            note = Note()
            known = self._root.read(value, note)
            self._check_route(value)
            return self._settle(raw, value, known, note)
        except BadValue as bad:
            return RecordVerdict(None, bad.reason)
        except DeadLetter as unreadable:
            return RecordVerdict(None, str(unreadable))

    def _check_route(self, value: Any) -> None:
        """The record's type must be the one it was routed by."""
        if self._route is None:
            return
        for name in self._route:
            value = value.get(name) if type(value) is dict else None
        if not self._said.fits(value):
            raise DeadLetter(self._said.mismatch)

    def _settle(self, raw: bytes, value: Any, known: Any, note: Note) -> RecordVerdict:
        """Apply the policy for unknown fields and write the text for the reader."""
        found = UnknownFound(unfit=note.unfit)
        rest = self._root.unknown(value, "$", found)
        if self._keep_all:
            rest = value
        elif found.count and self._policy == "dead_letter":
            raise DeadLetter(f"unknown_field: {shorten(found.first)}")
        elif self._policy == "ignore":
            rest = None
        text = dump(known).encode() if found.count or note.changed else raw
        return RecordVerdict(text, "", None if rest is None else dump(rest), found.count, note.cut, note.changed)


def _int(token: str) -> IntToken:
    """json's hook for a number of digits only."""
    return _SMALL.get(token) or IntToken(token)


tokens_of = json.JSONDecoder(parse_int=_int, parse_float=FloatToken).decode
"""Good JSON as the judge's values."""


def dump(value: Any) -> str:
    """Compact JSON of the judge's values; number tokens as sent, text unescaped where JSON allows."""
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is dict:
        return "{" + ",".join([f"{encode_basestring(key)}:{dump(item)}" for key, item in value.items()]) + "}"
    if kind is list:
        return "[" + ",".join([dump(item) for item in value]) + "]"
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    number: str = value
    return number
