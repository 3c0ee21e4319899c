"""What becomes of fields that no column holds, by the policy for them. Runs on Spark executors.

Each policy makes a *part* of an array: what it notes of the array's rows. None is a part without a note. Parts of
fields, items and entries become one of the struct, list or map that has them:

    RescueUnknown   rescue         JSON text: nested fields in their objects, items by position with null for those
                                   that have nothing; null where there is nothing
    IgnoreUnknown   ignore         how many fields there are
    RefuseUnknown   dead_letter    the path of the first one, row -> text

Only values that are not null are noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.formats.typed.items import TypedItems, joined
from exporter.formats.typed.texts import braced, json_text, quoted

Part: TypeAlias = Any
"""What a policy makes of one array; only the policy that has made it looks into it."""


class UnknownPolicy(Protocol):
    """What becomes of values that no column holds: one of the three policies."""

    def whole(self, array: pa.Array) -> Part | None:
        """Of values that are unknown as a whole."""
        ...

    def fields(self, parts: Sequence[tuple[str, Part]]) -> Part:
        """Of structs with these fields, in the writer's order; there is one at least."""
        ...

    def items(self, items: TypedItems, part: Part) -> Part:
        """What is unknown of items, put together by list."""
        ...

    def entries(self, items: TypedItems, part: Part) -> Part:
        """What is unknown of entries, put together by map."""
        ...


class RescueUnknown:
    """The policy `rescue`: a JSON text of what is unknown, by row."""

    def whole(self, array: pa.Array) -> Part | None:
        """Implements `UnknownPolicy.whole`: all of the values, as unknown."""
        return None if array.null_count == len(array) else json_text(array)

    def at(self, rows: np.ndarray, array: pa.Array, part: Part | None) -> Part:
        """A part with the whole values of some rows."""
        texts = pa.nulls(len(array), pa.string()) if part is None else part
        mask = np.zeros(len(array), bool)
        mask[rows] = True
        return pc.replace_with_mask(texts, pa.array(mask), json_text(array.take(pa.array(np.sort(rows)))))

    def fields(self, parts: Sequence[tuple[str, Part]]) -> Part:
        """Implements `UnknownPolicy.fields`: what is unknown of several fields, as one."""
        if len(parts) == 1:
            name, text = parts[0]
            return pc.binary_join_element_wise(f"{{{encode_basestring(name)}:", text, "}", "")
        named = [pc.binary_join_element_wise(f",{encode_basestring(name)}:", text, "") for name, text in parts]
        found = named[0].is_valid()
        for one in named[1:]:
            found = pc.or_(found, one.is_valid())
        return pc.if_else(found, braced(named), None)

    def items(self, items: TypedItems, part: Part) -> Part:
        """Implements `UnknownPolicy.items`: what is unknown of items, by list."""
        texts = joined(items.offsets, part.fill_null("null"), "[", "]")
        return _where(IgnoreUnknown().items(items, np.asarray(part.is_valid())), texts)

    def entries(self, items: TypedItems, part: Part) -> Part:
        """Implements `UnknownPolicy.entries`: what is unknown of entries, by map."""
        there = np.asarray(part.is_valid())
        left = TypedItems(items.offsets, [items.parts[0], part]).kept(there)
        keys, texts = left.parts
        members = pc.binary_join_element_wise(quoted(keys), texts, ":")
        return _where(np.diff(left.offsets), joined(left.offsets, members, "{", "}"))


class IgnoreUnknown:
    """The policy `ignore`: how many values are unknown, by row."""

    def whole(self, array: pa.Array) -> Part | None:
        """Implements `UnknownPolicy.whole`: all of the values, as unknown."""
        return None if array.null_count == len(array) else np.asarray(array.is_valid()).astype(np.int32)

    def fields(self, parts: Sequence[tuple[str, Part]]) -> Part:
        """Implements `UnknownPolicy.fields`: what is unknown of several fields, as one."""
        return np.sum([part for _, part in parts], axis=0, dtype=np.int32)

    def items(self, items: TypedItems, part: Part) -> Part:
        """Implements `UnknownPolicy.items`: what is unknown of items, by list."""
        before = np.concatenate(([0], np.cumsum(part, dtype=np.int32)))
        return np.diff(before[items.offsets])

    entries = items


class RefuseUnknown:
    """The policy `dead_letter`: the path of the first unknown value, by row."""

    def whole(self, array: pa.Array) -> Part | None:
        """Implements `UnknownPolicy.whole`: all of the values, as unknown."""
        return None if array.null_count == len(array) else dict.fromkeys(np.flatnonzero(array.is_valid()).tolist(), "")

    def fields(self, parts: Sequence[tuple[str, Part]]) -> Part:
        """Implements `UnknownPolicy.fields`: what is unknown of several fields, as one."""
        first: dict[int, str] = {}
        for name, part in parts:
            for row, path in part.items():
                first.setdefault(row, f".{name}{path}")
        return first

    def items(self, items: TypedItems, part: Part) -> Part:
        """Implements `UnknownPolicy.items`: what is unknown of items, by list."""
        return self._first(items, part, [f"[{at}]" for at in positions(items, sorted(part))])

    def entries(self, items: TypedItems, part: Part) -> Part:
        """Implements `UnknownPolicy.entries`: what is unknown of entries, by map."""
        return self._first(items, part, [f".{items.parts[0][at].as_py()}" for at in sorted(part)])

    @staticmethod
    def _first(items: TypedItems, part: dict[int, str], steps: Sequence[str]) -> dict[int, str]:
        """Of each row the path of its first item that has one."""
        return {row: step + part[number] for row, (number, step) in first_of(items, sorted(part), steps).items()}


def positions(items: TypedItems, numbers: Sequence[int]) -> list[int]:
    """Of items their places in their lists."""
    found: list[int] = (np.asarray(numbers, np.int64) - items.offsets[items.parents(numbers)]).tolist()
    return found


def first_of(items: TypedItems, numbers: Sequence[int], steps: Sequence[str]) -> dict[int, tuple[int, str]]:
    """Of each row the first of some items, and the step to it. numbers: of these, ascending. steps: to each."""
    every = zip(items.parents(numbers).tolist(), numbers, steps, strict=True)
    first: dict[int, tuple[int, str]] = {}
    for row, number, step in every:
        first.setdefault(row, (number, step))
    return first


def _where(counts: np.ndarray, texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pa.array(counts > 0), texts, None)


POLICIES: dict[str, UnknownPolicy] = {
    "rescue": RescueUnknown(),
    "ignore": IgnoreUnknown(),
    "dead_letter": RefuseUnknown(),
}
