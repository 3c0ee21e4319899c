"""Messages by their numbers, as AWS Glue's serialisers write them, and by the indexes that Confluent's write.

All messages of a file, nested ones and the entries of maps too, are numbered from 0 in the order of their full names.
Source: awslabs/aws-glue-schema-registry, MessageIndexFinder.
"""

from __future__ import annotations

from functools import lru_cache

from exporter.core.schemas import SchemaText
from exporter.errors import ConfigError
from exporter.formats.protobuf.descriptors import descriptors

BYTES_MAX = 5
NUMBER_MAX = 2**31 - 1


def number_of(value: bytes) -> tuple[int, int] | None:
    """The number in front of a message, and how many bytes it has; None if there is none that can be."""
    number = 0
    for at, byte in enumerate(value[:BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return (number, at + 1) if number <= NUMBER_MAX else None
    return None


def indexes(schema: SchemaText, number: int) -> bytes:
    """What stands behind the id in Confluent's frame: how many indexes in zigzag, then each.

    Of a number that no message has: such that none is there either. The schema may be one that cannot be used.
    """
    places = _places(schema)
    place = places[number] if number < len(places) else (number,)
    return b"".join(_zigzag(one) for one in (len(place), *place))


@lru_cache(maxsize=256)
def _places(schema: SchemaText) -> tuple[tuple[int, ...], ...]:
    if schema.why:
        return ()
    try:
        found = descriptors(schema.text, schema.references).places
    except ConfigError:  # its reader says why
        return ()
    return tuple(sorted(found, key=found.__getitem__))


def _zigzag(number: int) -> bytes:
    left, made = number << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])
