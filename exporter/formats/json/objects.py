"""Many small JSON objects read and written again at once, as the judge writes them. Runs on Spark executors.

What it says of a text is the judge's word or nothing (null): never a text with a key that occurs twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.formats.json.text import PARSE_ERRORS
from exporter.formats.json.unknown import plain, same_members

LINES_BYTES = 32 << 10
"""Stretches are read together in so many bytes, which are up to thirty times that as objects: a core's cache."""
OPENED_MAX = 100
"""Opening brackets of a stretch beyond which the judge has to see how deep they go."""

_decode_lines = msgspec.json.Decoder(dict[str, Any]).decode_lines
_decode_lines_exact = msgspec.json.Decoder(dict[str, Any], float_hook=msgspec.Raw).decode_lines
_encode_lines = msgspec.json.Encoder().encode_lines


def objects(begin: str, texts: pa.BinaryArray, end: str, known: frozenset[str]) -> tuple[pa.BinaryArray, pa.Int32Array]:
    """What is JSON objects between `begin` and `end`: as the judge writes it, and how many fields each object has.

    Null and 0 if in doubt or with a known field.
    """
    first, last = begin.encode(), end.encode()
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), last + b"\n" + first)[0].as_py()
    lines = first + joined + last
    if _shallow(texts, joined):
        sizes, written = _read_lines(lines, known, _decode_lines)
        if len(sizes) == len(texts) and written == lines:
            return texts, pa.array(sizes, pa.int32())
        sizes, written = _read_lines(lines, known, _decode_lines_exact)
        if len(sizes) == len(texts) and same_members(lines, written):
            return _inner(written.split(b"\n"), first, last), pa.array(sizes, pa.int32())
    found = [_object(first + text + last, known) for text in texts.to_pylist()]
    return _inner([text for text, _ in found], first, last), pa.array([size for _, size in found], pa.int32())


def _inner(texts: Sequence[bytes | None], first: bytes, last: bytes) -> pa.BinaryArray:
    """The texts without their beginning and end."""
    return pa.array([text and text[len(first) : len(text) - len(last)] for text in texts], pa.binary())


def _read_lines(lines: bytes, known: frozenset[str], decode: Callable[[bytes], Any]) -> tuple[list[int], bytes]:
    """The objects, most often one a line, written again; how many fields each has. Without doubt all, or none.

    A line break between two braces stands in no object: there are as many objects as texts only if each is one.
    """
    sizes: list[int] = []
    written: list[bytes] = []
    at = 0
    while at < len(lines):
        end = lines.find(b"\n", at + LINES_BYTES) + 1 or len(lines)
        try:
            read = decode(lines[at:end])
        except PARSE_ERRORS:
            return [], b""
        numbers = list(map(len, read))
        if numbers.count(1) < len(numbers) and not all(map(known.isdisjoint, read)):
            return [], b""
        sizes += numbers
        written.append(_encode_lines(read))
        at = end
    return sizes, b"".join(written)[:-1]


def _object(text: bytes, known: frozenset[str]) -> tuple[bytes | None, int]:
    found = plain(text) if text.count(b"[") + text.count(b"{") <= OPENED_MAX else None
    return (None, 0) if found is None or not known.isdisjoint(found[1]) else (found[0], len(found[1]))


def _shallow(texts: pa.BinaryArray, joined: bytes) -> bool:
    """Whether none has too many opening brackets. A shorter text has not."""
    if joined.count(b"[") + joined.count(b"{") <= len(texts) + OPENED_MAX:
        return True
    if pc.max(pc.binary_length(texts)).as_py() <= OPENED_MAX:
        return True
    opened = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    return bool(pc.max(opened).as_py() <= OPENED_MAX)
