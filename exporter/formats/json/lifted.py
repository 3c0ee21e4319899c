"""Columns for any JSON: the value of each becomes a text before anything else reads the record. On Spark executors.

    {"id":7,"p":{"a": [1]}}             a record whose p is declared JSON
    {"id":7,"p":"{\\"a\\": [1]}"}         what is read in its stead: from here on p is a column of texts like any

What is lifted is proven to be JSON in which no key occurs twice, for nobody sees it as such afterwards. Where that is
in doubt the judge decides on the record as it was sent. What stands where nobody declared a column, and is of another
kind than that on the way to the JSON, is left as it is: it stays in `_rescued`. A refused record's reason is always
that of the record as it was sent.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from exporter.formats.json.judge import PASSED_IN_VAIN, Judge, dump, tokens_of
from exporter.formats.json.leaves import JsonLeaf
from exporter.formats.json.parts import compact, items_of, members_of
from exporter.formats.json.shapes import Child, List, Node, Struct, nodes_of
from exporter.formats.json.text import PARSE_ERRORS, too_deep
from exporter.formats.json.unknown import hides_colon, plain

_NULL = b"null"


class _Doubt(Exception):
    """Somebody else has to look at the record."""


class _Unfit(Exception):
    """A value of another kind than what leads to a JSON column."""


def holds_json(node: Node) -> bool:
    """Whether there is a column for any JSON in it."""
    return any(isinstance(one, JsonLeaf) and one.holds_json for one in nodes_of(node))


class Lifter:
    """Lifts the values of one shape. judge: of values as they are sent. canonical: texts are as in `_rescued`."""

    def __init__(self, root: Struct, judge: Judge, canonical: bool) -> None:
        self._root = root
        self._judge = judge
        self._canonical = canonical
        self._deep = {
            id(node): {name: child for name, child in node.children.items() if holds_json(child.node)}
            for node in nodes_of(root)
            if isinstance(node, Struct)
        }

    def lifted(self, values: pa.BinaryArray) -> tuple[pa.BinaryArray, dict[int, str]]:
        """What is read instead of these values, and why not: those are null."""
        refused: dict[int, str] = {}
        texts: list[bytes | None] = []
        for row, raw in enumerate(values.to_pylist()):
            text = None if raw is None else self._lifted(raw, False)
            if raw is not None and text is None:
                verdict = self._judge.verdict(raw)
                text = None if verdict.text is None else self._lifted(raw, True)
                if text is None:
                    refused[row] = verdict.reason or PASSED_IN_VAIN
            texts.append(text)
        return pa.array(texts, pa.binary()), refused

    def reason(self, raw: bytes | None, otherwise: str) -> str:
        """Why a record is refused, as it was sent. otherwise: the reason after it was lifted."""
        return self._judge.verdict(raw).reason or otherwise

    def _lifted(self, raw: bytes, passed: bool) -> bytes | None:
        """The text of one record; None if in doubt. passed: the judge has passed it."""
        try:
            if not passed and (too_deep(raw) or hides_colon(raw)):
                return None
            text = self._object(self._root, raw, passed)
        except (*PARSE_ERRORS, _Doubt, _Unfit):
            return None
        return text if passed or text.count(b":") == raw.count(b":") else None

    def _object(self, node: Struct, raw: bytes, passed: bool) -> bytes:
        members: dict[str, Any] = members_of(raw)
        found = {name: child for name, child in self._deep[id(node)].items() if name in members}
        changed = [self._member(child, name, members, passed) for name, child in found.items()]
        return compact(members) if any(changed) else raw

    def _member(self, child: Child, name: str, members: dict[str, Any], passed: bool) -> bool:
        """One member of an object or a map: whether it is another now."""
        raw = bytes(members[name])
        try:
            text = self._value(child.node, raw, passed)
        except _Unfit:
            if not child.evolved:
                raise
            return False
        members[name] = msgspec.Raw(text)
        return text is not raw

    def _value(self, node: Node, raw: bytes, passed: bool) -> bytes:
        """Raises _Unfit if it is of another kind."""
        if raw == _NULL:
            return raw
        if isinstance(node, JsonLeaf):
            return self._quoted(raw, passed)
        if raw[:1] != (b"[" if isinstance(node, List) else b"{"):
            raise _Unfit
        if isinstance(node, Struct):
            return self._object(node, raw, passed)
        if isinstance(node, List):
            return b"[" + b",".join([self._value(node.item.node, bytes(item), passed) for item in items_of(raw)]) + b"]"
        members: dict[str, Any] = members_of(raw)
        changed = [self._member(node.item, key, members, passed) for key in members]
        return compact(members) if any(changed) else raw

    def _quoted(self, raw: bytes, passed: bool) -> bytes:
        """A value as a text. Raises _Doubt."""
        if passed:
            return compact(str(dump(tokens_of(raw.decode()))) if self._canonical else raw.decode())
        found = plain(raw)
        if found is None:
            raise _Doubt
        return compact((found[0] if self._canonical else raw).decode())
