"""How far the versions of each table have been announced, as texts that a consumer group keeps. Pure (protocol 4.13).

    {"click":[40,52],"order":17}     table -> version of the last announcement, version of the log that was looked at;
                                     one number if they are the same

A broker keeps OFFSET_METADATA_MAX characters for each partition, so that many tables need several of these texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.announce.message import NONE_YET

OFFSET_METADATA_MAX = 4096
"""What brokers take by default (offset.metadata.max.bytes)."""


class Pointer(NamedTuple):
    """Of one table. announced: the last version that was; looked: through which there is no other to be announced."""

    announced: int = NONE_YET
    looked: int = NONE_YET


Pointers = Mapping[str, Pointer]


def texts_of(pointers: Pointers, texts_max: int) -> tuple[list[str], tuple[str, ...]]:
    """At most so many texts, at least one, and the tables that found no place in them."""
    filled: list[list[str]] = [[]]
    size, left_out = 2, list[str]()
    for table, pointer in sorted(pointers.items()):
        item = json.dumps({table: _value(pointer)}, ensure_ascii=False, separators=(",", ":"))[1:-1]
        more = len(item.encode("utf-8", "surrogatepass")) + 1
        if size + more > OFFSET_METADATA_MAX and len(filled) < texts_max:
            filled.append([])
            size = 2
        if size + more > OFFSET_METADATA_MAX:
            left_out.append(table)
            continue
        filled[-1].append(item)
        size += more
    return ["{" + ",".join(items) + "}" for items in filled], tuple(left_out)


def pointers_of(texts: Iterable[str]) -> dict[str, Pointer] | None:
    """None if none of the texts is one of ours. Of a table in several of them that goes that has gone the furthest."""
    found: dict[str, Pointer] = {}
    told = False
    for text in texts:
        try:
            read = {table: _pointer(value) for table, value in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError):
            continue
        told = True
        for table, pointer in read.items():
            found[table] = max(pointer, found.get(table, Pointer()), key=lambda one: one.looked)
    return found if told else None


def _value(pointer: Pointer) -> int | list[int]:
    return pointer.looked if pointer.announced == pointer.looked else [*pointer]


def _pointer(value: object) -> Pointer:
    announced, looked = value if isinstance(value, list) else (value, value)
    if type(announced) is not int or type(looked) is not int:
        raise ValueError(f"{value!r} are no versions")
    return Pointer(announced, looked)
