"""The exact verdict on one record, and the only place that words a reason. Runs on Spark executors.

stdlib json with every token kept as sent, then the shape's own reading. Slow, so decode.py asks
only for the doubtful records; what it passes is text that the fast reader takes, and reads the
same. Must never raise on what a record holds, or know a record's neighbours.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from exporter.route import NOT_OBJECT, PARSE_ERRORS, TOO_DEEP, not_utf8, refuse_constant, shorten, too_deep
from exporter.routing import Routing
from exporter.shapes import Float, Int, Note, Refused, Struct

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _Unreadable(Exception):
    """One record is bad as a whole; the text is the reason."""


@dataclass(frozen=True)
class Verdict:
    """The judge's word on one record: `text` for the reader, or None and the reason."""

    text: bytes | None
    reason: str = ""
    rescued: str | None = None
    ignored: int = 0
    cut: int = 0


class Judge:
    """Reads one record exactly. Slow (about 30 MB/s), so it only sees doubtful ones."""

    def __init__(
        self, root: Struct, routing: Routing, route: list[str] | None, event_type: str, keep_all: bool
    ) -> None:
        self._root = root
        self._policy = routing.unknown_fields
        self._route = route
        self._event_type = event_type
        self._keep_all = keep_all
        self._twins: list[str] = []
        self._scan = json.JSONDecoder(
            parse_int=Int, parse_float=Float, parse_constant=refuse_constant, object_pairs_hook=self._object
        ).decode

    def verdict(self, raw: bytes | None) -> Verdict:
        """Judge one value; never raises on its content."""
        if raw is None:
            return Verdict(None, "tombstone: the value is null")
        try:
            value = self._parse(raw)
            note = Note()
            known = self._root.read(value, note)
            self._check_route(value)
            return self._settle(raw, value, known, note)
        except Refused as refused:
            return Verdict(None, refused.reason)
        except _Unreadable as unreadable:
            return Verdict(None, str(unreadable))

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """json's hook for one object; notes its first key that occurs twice."""
        made = dict(pairs)
        if len(made) != len(pairs):
            left = list(made)
            self._twins.append(next(key for key, _ in pairs if not left or key != left.pop(0)))
        return made

    def _parse(self, raw: bytes) -> dict[str, Any]:
        """The value as an object of tokens. Raises _Unreadable."""
        self._twins.clear()
        try:
            text = raw.decode()
            if too_deep(raw):
                raise _Unreadable(TOO_DEEP)
            value = self._scan(text)
            if _SURROGATE.search(text):
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeDecodeError as bad:
            raise _Unreadable(not_utf8(bad)) from None
        except UnicodeEncodeError:
            raise _Unreadable("not_json: half of a surrogate pair") from None
        except PARSE_ERRORS as bad:
            blank = not raw.strip(b" \t\n\r")
            raise _Unreadable("not_json: the value is empty" if blank else f"not_json: {shorten(str(bad))}") from None
        if self._twins:
            raise _Unreadable(f"duplicate_key: {shorten(self._twins[0])!r} occurs twice in one object")
        if type(value) is not dict:
            raise _Unreadable(NOT_OBJECT)
        return value

    def _check_route(self, value: Any) -> None:
        """The record's type must be the one it was routed by."""
        if self._route is None:
            return
        for name in self._route:
            value = value.get(name) if type(value) is dict else None
        if value != self._event_type:
            raise _Unreadable(f"type_mismatch: the event type was read as {self._event_type!r} and is another")

    def _settle(self, raw: bytes, value: Any, known: Any, note: Note) -> Verdict:
        """Apply the policy for unknown fields and write the text for the reader."""
        found: list[str] = []
        rest = self._root.unknown(value, "$", found)
        ignored = 0
        if self._keep_all:
            rest = value
        elif found and self._policy == "dead_letter":
            raise _Unreadable(f"unknown_field: {shorten(found[0])}")
        elif self._policy == "ignore":
            rest, ignored = None, len(found)
        text = dump(known).encode() if found or note.changed else raw
        return Verdict(text, "", None if rest is None else dump(rest), ignored, note.cut)


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
    return str(value)
