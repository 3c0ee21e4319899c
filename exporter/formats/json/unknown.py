"""Takes the unknown fields out of one record without reading them: as raw text, by msgspec. Runs on Spark executors.

For records that are good but for fields that no column holds: several times as fast as the judge, and in memory of a
small multiple of the record, where the judge makes an object of each value. What it says is the judge's word or nothing
(None): of the rest of the record it proves only that it is JSON, so the reader has to take it as well. A value of
another kind than its column is, where nobody has declared that, is an unknown one; what else does not fit is left in.

    twins   msgspec keeps the last of two equal keys. Each member of an object has one colon outside of texts, so only
            where none is hidden the parts have as many colons as the whole has
    text    numbers as sent, all else as the judge writes it
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec

from exporter.formats.json.leaves import JsonLeaf
from exporter.formats.json.parts import compact, items_of, members_of
from exporter.formats.json.shapes import List, Map, Node, Struct, nodes_of
from exporter.formats.json.specs import dict_of, list_of, or_null
from exporter.formats.json.text import PARSE_ERRORS, too_deep
from exporter.formats.json.values import UnknownFound

_decode = msgspec.json.Decoder().decode
_decode_exact = msgspec.json.Decoder(float_hook=msgspec.Raw).decode

_ESCAPED_COLON = re.compile(rb"\\u003[aA]")
_MINUS_ZERO = re.compile(rb"-0(?![.0-9eE])")
_NULL = b"null"


def plain(text: bytes) -> tuple[bytes, dict[str, Any]] | None:
    """JSON as the judge writes it, and read; None if it is not sure to be JSON in which no key occurs twice.

    Not asked of the text: how deep it is. Memory: up to 30 bytes for each of its bytes.
    """
    with suppress(*PARSE_ERRORS):  # there may be a number that is too great for it
        value = _decode(text)
        if compact(value) == text:
            return text, value
    try:
        value = _decode_exact(text)
        written = compact(value)
    except (*PARSE_ERRORS, TypeError):
        return None
    return (written, value) if same_members(text, written) else None


def same_members(text: bytes, written: bytes) -> bool:
    """Whether msgspec has written all that it read, number by number: if so, no key occurs twice."""
    if written.count(b":") != text.count(b":") or hides_colon(text):
        return False
    return b"-0" not in text or not _MINUS_ZERO.search(text)


def hides_colon(text: bytes) -> bool:
    """Whether a colon may be written as an escape."""
    return b"\\u003" in text and _ESCAPED_COLON.search(text) is not None


@dataclass
class _Taken(UnknownFound):
    """colons: of the names that stand on both sides."""

    colons: int = 0


class SetApart(NamedTuple):
    """rest: a record without its unknown fields. unknown: these, as the judge writes them."""

    rest: bytes
    unknown: bytes
    found: UnknownFound


_Parts: TypeAlias = tuple[bytes, bytes | None]
"""A value without its unknown fields, and these; None if it has none."""


class Splitter:
    """Takes records of one shape apart. Looks below a field only where there may be unknown ones."""

    def __init__(self, root: Struct) -> None:
        self._root = root
        self._deep: dict[int, dict[str, Node]] = {}
        self._kinds: dict[int, dict[str, bytes]] = {}
        self._without: dict[int, Callable[[Any], Any]] = {}
        for node in nodes_of(root):
            if isinstance(node, Struct):
                self._deep[id(node)] = {name: one.node for name, one in node.children.items() if _may_hold(one.node)}
                evolved = {name: one.node for name, one in node.children.items() if one.evolved}
                self._kinds[id(node)] = {name: _begins(one) for name, one in evolved.items()}
            if _may_hold(node):
                self._without[id(node)] = msgspec.json.Decoder(_spec(node)).decode

    def split(self, raw: bytes) -> SetApart | None:
        """The parts of a record with unknown fields; None if it has none, or is in doubt."""
        taken = _Taken()
        try:
            if too_deep(raw) or hides_colon(raw):
                return None
            rest, unknown = self._object(self._root, raw, "$", taken)
        except (*PARSE_ERRORS, TypeError):
            return None
        if unknown is None or rest.count(b":") + unknown.count(b":") - taken.colons != raw.count(b":"):
            return None
        written = plain(unknown)
        return None if written is None else SetApart(rest, written[0], taken)

    def _below(self, node: Node, raw: Any, path: str, taken: _Taken) -> _Parts:
        """The parts of a value. Raises what msgspec raises if it is of another kind."""
        try:
            self._without[id(node)](raw)
            return raw, None
        except PARSE_ERRORS:  # most often for an unknown field
            pass
        if isinstance(node, Struct):
            return self._object(node, raw, path, taken)
        if isinstance(node, List):
            return self._list(node, raw, path, taken)
        if isinstance(node, Map):
            return self._map(node, raw, path, taken)
        raise TypeError("nothing stands below a scalar")

    def _object(self, node: Struct, raw: Any, path: str, taken: _Taken) -> _Parts:
        members: dict[str, Any] = members_of(raw)
        known, deep, kinds = node.children, self._deep[id(node)], self._kinds[id(node)]
        unknown: dict[str, Any] = {}
        for name in [name for name in members if name in deep or name not in known or name in kinds]:
            fits = name not in kinds or memoryview(members[name])[0] in kinds[name]
            if name in deep and fits:
                self._member(deep[name], name, f"{path}.{name}", members, unknown, taken)
            elif name not in known or not fits:
                taken.add(f"{path}.{name}")
                unknown[name] = members.pop(name)
        return (compact(members), compact(unknown)) if unknown else (raw, None)

    def _map(self, node: Map, raw: Any, path: str, taken: _Taken) -> _Parts:
        members: dict[str, Any] = members_of(raw)
        unknown: dict[str, Any] = {}
        for key in members:
            self._member(node.item.node, key, f"{path}.{key}", members, unknown, taken)
        return (compact(members), compact(unknown)) if unknown else (raw, None)

    def _member(
        self, node: Node, name: str, path: str, members: dict[str, Any], unknown: dict[str, Any], taken: _Taken
    ) -> None:
        """One member of an object that is known: what is unknown below it moves from `members` to `unknown`."""
        rest, inner = self._below(node, members[name], path, taken)
        if inner is not None:
            members[name], unknown[name] = msgspec.Raw(rest), msgspec.Raw(inner)
            taken.colons += 1 + name.count(":")

    def _list(self, node: List, raw: Any, path: str, taken: _Taken) -> _Parts:
        """Positions stay: null where an element has nothing unknown."""
        before = taken.count
        rest, unknown = bytearray(), bytearray()
        for at, item in enumerate(items_of(raw)):
            kept, inner = self._below(node.item.node, item, f"{path}[{at}]", taken)
            rest += b","
            rest += kept
            unknown += b"," + (_NULL if inner is None else inner)
        if taken.count == before:
            return raw, None
        return b"[" + rest[1:] + b"]", b"[" + unknown[1:] + b"]"


def _spec(node: Node) -> Any:
    """msgspec's type of a value without unknown fields, null among them, that reads no other value than it must."""
    if isinstance(node, Struct):
        specs = [_evolved_spec(one.node) if one.evolved else _spec(one.node) for one in node.children.values()]
        fields = [(f"f{i}", spec, None) for i, spec in enumerate(specs)]
        names = {f"f{i}": name for i, name in enumerate(node.children)}
        return or_null(msgspec.defstruct("Known", fields, rename=names, forbid_unknown_fields=True, gc=False))
    if isinstance(node, JsonLeaf) or not _may_hold(node):
        return msgspec.Raw
    inner = _spec(node.item.node)
    return or_null(list_of(inner) if isinstance(node, List) else dict_of(inner))


def _evolved_spec(node: Node) -> Any:
    """The same where nobody has declared it: it takes no value of another kind."""
    return or_null(node.spec) if isinstance(node, JsonLeaf) or not _may_hold(node) else _spec(node)


def _begins(node: Node) -> bytes:
    """The bytes that one of them begins a value with that may fit, null among them."""
    kinds = {JsonLeaf: b"", Struct: b"{", List: b"[", Map: b"{"}
    return b"n" + (node.begins if isinstance(node, JsonLeaf) else kinds[type(node)])


def _may_hold(node: Node) -> bool:
    """Whether a field of this node may hold unknown ones."""
    return any(isinstance(below, Struct) for below in nodes_of(node))
