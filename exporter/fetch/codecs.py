"""What the records of a batch unpack to, a piece at a time: nothing else bounds what they unpack to. Pure."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable, Mapping
from typing import Protocol

PLAIN, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEAD, _BLOCK = 16, struct.Struct(">i")
BLOCK_BYTES_MAX = 256 << 20
"""That one block of snappy may unpack to: it comes as a whole."""


class BadBytes(ValueError):
    """Bytes that do not unpack, or a codec that nobody knows here."""


class Stream(Protocol):
    """Bytes that are unpacked as they are read."""

    def read(self, size: int, /) -> bytes: ...


def unpacked(codec: int, body: memoryview) -> Stream:
    """The records of a batch. Its `read` raises what the codec raises. Raises BadBytes, for an unknown codec too."""
    if codec not in _OPENED:
        raise BadBytes(f"codec {codec} is unknown")
    return _OPENED[codec](body)


def _gzip(body: memoryview) -> Stream:
    return gzip.GzipFile(fileobj=io.BytesIO(body))


def _lz4(body: memoryview) -> Stream:
    import lz4.frame

    opened: Stream = lz4.frame.LZ4FrameFile(io.BytesIO(body))
    return opened


def _zstd(body: memoryview) -> Stream:
    import zstandard

    opened: Stream = zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True)
    return opened


class _Snappy:
    """Blocks as the xerial library frames them, or a single one without a frame."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._framed = bytes(body[: len(_XERIAL)]) == _XERIAL
        self._at = _XERIAL_HEAD if self._framed else 0
        self._held, self._from = b"", 0

    def read(self, size: int, /) -> bytes:
        parts, missing = [], size
        while missing:
            part = self._held[self._from : self._from + missing]
            if not part:
                if self._at >= len(self._body):
                    break
                self._held, self._from = self._block(), 0
                continue
            self._from += len(part)
            missing -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _block(self) -> bytes:
        import snappy

        begin, size = self._at, len(self._body) - self._at
        if self._framed:
            if size < _BLOCK.size:
                raise BadBytes("a block of snappy is cut off")
            begin += _BLOCK.size
            (size,) = _BLOCK.unpack_from(self._body, self._at)
            if not 0 <= size <= len(self._body) - begin:
                raise BadBytes(f"a block of snappy has {size} bytes")
        block = bytes(self._body[begin : begin + size])
        self._at = begin + size
        if _claimed(block) > BLOCK_BYTES_MAX:
            raise BadBytes(f"a block of snappy says that it unpacks to {_claimed(block)} bytes")
        out: bytes = snappy.decompress(block)
        return out


def _claimed(block: bytes) -> int:
    """What a block says that it unpacks to, in its first bytes."""
    size = 0
    for shift, byte in zip(range(0, 35, 7), block, strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return size


_OPENED: Mapping[int, Callable[[memoryview], Stream]] = {
    PLAIN: io.BytesIO, GZIP: _gzip, SNAPPY: _Snappy, LZ4: _lz4, ZSTD: _zstd,
}  # fmt: skip
