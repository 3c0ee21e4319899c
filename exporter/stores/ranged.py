"""A file of a store that hands out ranges of bytes, as something that is open."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any


class Ranged(io.RawIOBase):
    """What is asked for a range of bytes at a time. get: the bytes from a position up to another one."""

    def __init__(self, get: Callable[[int, int], bytes], size: int) -> None:
        self._get, self._size, self._at = get, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readall(self) -> bytes:
        """What is left, by one request; io would make one of every 8 KiB."""
        found = self._get(self._at, self._size) if self._at < self._size else b""
        self._at += len(found)
        return found

    def readinto(self, into: Any) -> int:
        end = min(self._size, self._at + len(into))
        found = self._get(self._at, end) if end > self._at else b""
        into[: len(found)] = found
        self._at += len(found)
        return len(found)
