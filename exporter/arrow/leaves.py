"""The leaves of a schema: its columns and, for a struct, those below it. A name may hold dots: a path is a tuple."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Leaf:
    """A column or field that is no struct; a list or a map is one leaf.

    path: names from the top. column: the number of its first column in Parquet.
    """

    path: tuple[str, ...]
    kind: pa.DataType
    column: int


@cache
def leaves(schema: pa.Schema) -> tuple[Leaf, ...]:
    """All leaves, in the order of the schema."""
    return tuple(_below(schema, (), 0))


def _below(fields: Iterable[pa.Field], path: tuple[str, ...], column: int) -> Iterator[Leaf]:
    """column: number of the first field's own first column in Parquet."""
    for field in fields:
        here = (*path, field.name)
        if pa.types.is_struct(field.type):
            yield from _below(field.type, here, column)
        else:
            yield Leaf(here, field.type, column)
        column += _width(field.type)


def _width(kind: pa.DataType) -> int:
    """How many columns a type has in Parquet."""
    if pa.types.is_map(kind):
        return _width(kind.key_type) + _width(kind.item_type)
    return sum(_width(kind.field(number).type) for number in range(kind.num_fields)) or 1


def values_at(table: pa.Table, path: Sequence[str]) -> pa.ChunkedArray:
    """The values of a leaf, null where a struct above it is."""
    top, *below = path
    values = table.column(top)
    for name in below:
        values = pc.struct_field(values, indices=[values.type.get_field_index(name)])
    return values
