"""The columns of a row that stands in an envelope, of what a schema says of the whole envelope. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.column.types import Field, StructType

IMAGES: Mapping[str, tuple[str, ...]] = {"debezium": ("after", "before"), "debezium_mongo": (), "dms": ("data",)}
"""Envelope -> the fields in which its rows stand, the one that is looked at first before others. Documents of MongoDB
are texts, of which no schema says what is in them."""


def unwrapped(fields: Sequence[Field], envelope: str) -> Sequence[Field]:
    """The fields of the rows of an envelope with these fields; all without one."""
    if envelope == "none":
        return fields
    kinds = {one.name: one.type for one in fields}
    for name in IMAGES[envelope]:
        if isinstance(kind := kinds.get(name), StructType):
            return kind.fields
    return ()
