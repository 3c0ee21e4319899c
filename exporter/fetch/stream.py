"""The bytes of a batch one after the other, and how far they were read. Pure."""

from __future__ import annotations

from exporter.fetch.codecs import BadBytes, Stream
from exporter.text import why

_SKIP_BYTES = 1 << 20
_WRAP = 1 << 64


class CorruptBatch(ValueError):
    """Bytes that cannot be what the broker was given."""


class CountedStream:
    """A stream, and how far it was read."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.at = 0

    def read_some(self, size: int) -> bytes:
        """Raises BadBytes, whatever the codec raises of what it is given."""
        try:
            found = self._stream.read(size)
        except (ValueError, MemoryError):
            raise
        except Exception as error:
            raise BadBytes(f"what was packed does not unpack: {why(error)}") from error
        self.at += len(found)
        return found

    def exactly(self, size: int) -> bytes:
        """So many bytes. Raises CorruptBatch if there are fewer."""
        parts, missing = [], size
        while missing:
            part = self.read_some(missing)
            if not part:
                raise CorruptBatch(f"{missing} bytes are missing")
            parts.append(part)
            missing -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def skip(self, size: int) -> None:
        while size:
            size -= len(self.exactly(min(size, _SKIP_BYTES)))

    def varint(self) -> int:
        """A number of base 128 with its sign in its last bit. Raises CorruptBatch beyond 64 bits."""
        number = shift = 0
        while True:
            byte = self.exactly(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise CorruptBatch("a number of more than 64 bits")
        number %= _WRAP
        return (number >> 1) ^ -(number & 1)
