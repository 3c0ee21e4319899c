"""One record at a time: where the items of a long list begin. It finds places and values none. Runs on Spark executors.

A list that is longer than those around it would be read alone, step by step, by code that is made for many rows. So
its items are located here, and then read as rows of their own, by the same code as all others. What is wrong with a
value is therefore said in one place only: who cannot pass over an item stops there, and its reading says why.
"""

from __future__ import annotations

from exporter.formats.binary.cursor import ValueBytes


class CannotWalk(Exception):
    """It cannot be passed over."""


class Walk:
    """Where one record stands; see Cursor."""

    __slots__ = ("end", "left", "pos", "raw")

    def __init__(self, batch: ValueBytes, pos: int, end: int, left: int) -> None:
        self.raw = batch.raw
        self.pos = pos
        self.end = end
        self.left = left

    def varint(self) -> int:
        """The next number, without a sign. Raises CannotWalk."""
        raw, pos, end = self.raw, self.pos, self.end
        found = shift = 0
        while True:
            if pos >= end:
                raise CannotWalk
            byte = raw[pos]
            pos += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise CannotWalk
        if shift == 63 and byte > 1:
            raise CannotWalk
        self.pos = pos
        return found

    def zigzag(self) -> int:
        """The next number. Raises CannotWalk."""
        found = self.varint()
        return (found >> 1) ^ -(found & 1)

    def forward(self, size: int) -> None:
        """Pass over some bytes. Raises CannotWalk."""
        if size < 0 or size > self.end - self.pos:
            raise CannotWalk
        self.pos += size

    def count(self, least: int, unit: int) -> int:
        """How many items the next block of a list has; they are paid for. least: bytes of one. Raises CannotWalk."""
        found = self.zigzag()
        if found < 0:
            self.zigzag()
            found = -found
        if found >= 2**63 or found * least > self.end - self.pos or found * unit > self.left:
            raise CannotWalk
        self.left -= found * unit
        return found
