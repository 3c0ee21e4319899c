"""Which wider types a table's column may get, and how the table's schema tells readers of it. Pure.

Delta itself looks at no change of a type that a transaction brings: what is not refused here makes a table that nobody
can read. Old files stay as they are; readers turn their values into the wider type. Nor does Delta look at their
statistics, in which a FLOAT is 0.1 that as a DOUBLE is 0.10000000149011612: a filter passes over files with such rows
(found by running, also after ALTER TABLE). So these bounds are stated anew, in the commit that widens.
Source: the Delta protocol, 'Type Widening'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from exporter.column.spark_json import name_of
from exporter.column.types import DecimalType, Field, ScalarType, StructType, Type

ENABLED = "delta.enableTypeWidening"
"""Property of a table with widened columns. Delta raises the protocol to reader 3 and writer 7 with it."""
CHANGES = "delta.typeChanges"
"""Key in the metadata of a column, or of a field of a struct, whose type was widened: all changes, in order."""

_WIDER: Mapping[str, Collection[str]] = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
"""Type -> those that hold each of its values, and that readers make of it by themselves. DOUBLE is not one of LONG, it
would round; nor is TIMESTAMP one of DATE: that would depend on a time zone."""


def is_wider(have: Type, want: Type) -> bool:
    """Whether a column of the type `have` may become one of `want`."""
    if isinstance(have, DecimalType) and isinstance(want, DecimalType):
        scale = want.scale - have.scale
        return have != want and scale >= 0 and want.digits - have.digits >= scale
    return isinstance(have, ScalarType) and isinstance(want, ScalarType) and want.name in _WIDER.get(have.name, ())


def change(have: Type, want: Type, within: Sequence[str]) -> dict[str, str]:
    """One entry of CHANGES. within: the way from the field to the type, such as `value`, `element`; empty: its own."""
    return {"toType": name_of(want), "fromType": name_of(have), **({"fieldPath": ".".join(within)} if within else {})}


def before(field: Field, within: Sequence[str]) -> frozenset[str]:
    """The types that a field of a schema had, at that place in it, before it was widened."""
    changes = field.metadata.get(CHANGES, ())
    return frozenset(one["fromType"] for one in changes if one.get("fieldPath", "") == ".".join(within))


def now_double(have: StructType, want: StructType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths, through structs, of what is FLOAT in one schema and DOUBLE in the other."""
    wanted = want.named
    for one in have.fields:
        kind, wide, at = one.type, wanted[one.name].type if one.name in wanted else None, (*path, one.name)
        if (kind, wide) == (ScalarType("float"), ScalarType("double")):
            yield at
        elif isinstance(kind, StructType) and isinstance(wide, StructType):
            yield from now_double(kind, wide, at)


def restated(stats: str, paths: Collection[tuple[str, ...]]) -> str:
    """Delta's statistics of a file with bounds at these paths that hold for its values as DOUBLE.

    A FLOAT is off its shortest text by half of what lies between it and its neighbours, at most.
    """
    mark = "\ue000"
    while mark in stats:
        mark += "\ue000"
    parsed = json.loads(stats, parse_float=lambda text: mark + text)  # all other numbers keep their digits
    for side, outward in (("minValues", -1), ("maxValues", 1)):
        for *parents, name in paths:
            bounds = parsed.get(side) or {}
            for parent in parents:
                bounds = bounds.get(parent) or {}
            text = str(bounds.get(name, "")).removeprefix(mark)
            if text and text not in ("NaN", "Infinity", "-Infinity"):
                bounds[name] = float(text) + outward * (abs(float(text)) * 2**-23 + 2**-149)
    return re.sub(f'"{mark}([^"]*)"', r"\1", json.dumps(parsed, ensure_ascii=False, separators=(",", ":")))
