"""The columns that a schema gives, of Arrow's types, without what no column can be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from exporter.arrow.spark_types import scalar_of
from exporter.column.types import Field, ListType, MapType, ScalarType, StructType, Type
from exporter.core.columns import Names, never_added
from exporter.formats.typed.typed import KEPT


@dataclass(frozen=True)
class Registered:
    """What a schema says of a table. name: of the record or message, in full; of JSON Schema its title.

    fields: all nullable. refused: path -> why no column can hold what is there; it is left out of the fields.
    """

    name: str
    fields: Sequence[Field]
    refused: Mapping[str, str] = field(default_factory=dict)


def spark_fields(
    fields: Sequence[pa.Field], refused: dict[str, str], path: str = "$", top: bool = True
) -> tuple[Field, ...]:
    """Columns without those that are refused, to which those are added that have no possible name."""
    names, found = Names(()), list[Field]()
    for one in fields:
        here = f"{path}.{one.name}"
        if here in refused:
            continue
        if never_added(one.name, top):
            refused[here] = "no column can have that name"
            continue
        if names.clash(one.name):
            refused[here] = "readers of a table would take it for another field: they ignore case"
            continue
        kind = _type_of(one.type, refused, here)
        if kind is not None:
            names.add(one.name)
            found.append(Field(one.name, kind))
    return tuple(found)


def _type_of(kind: pa.DataType, refused: dict[str, str], path: str) -> Type | None:
    """None if nothing is left of it."""
    if path in refused:
        return None
    if pa.types.is_struct(kind):
        fields = spark_fields(list(kind), refused, path, top=False)
        if not fields:
            refused[path] = "no field of it can be one of a column"
        return StructType(fields) if fields else None
    if pa.types.is_map(kind):
        value = _type_of(kind.item_type, refused, path + MapType.shown)
        return value and MapType(ScalarType("string"), value)
    if pa.types.is_list(kind):
        element = _type_of(kind.value_type, refused, path + ListType.shown)
        return element and ListType(element)
    if kind == KEPT:
        refused[path] = "no column can hold it"
        return None
    return scalar_of(kind)
