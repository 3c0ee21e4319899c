"""The columns that a schema gives: Arrow's types as Spark has them, without what no column can be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from exporter.arrow.spark_types import spark_scalar
from exporter.core.columns import Names, never_added
from exporter.formats.typed.typed import KEPT


@dataclass(frozen=True)
class Registered:
    """What a schema says of a table. name: of the record or message, in full; of JSON Schema its title.

    fields: of a Spark schema as parsed JSON, all nullable. refused: path -> why no column can hold what is there; it is
    left out of the fields.
    """

    name: str
    fields: Sequence[Mapping[str, Any]]
    refused: Mapping[str, str] = field(default_factory=dict)


def spark_fields(
    fields: Sequence[pa.Field], refused: dict[str, str], path: str = "$", top: bool = True
) -> list[dict[str, Any]]:
    """Fields of a Spark schema, without those that are refused, to which those are added that have no possible name."""
    names, found = Names(()), []
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
        kind = _spark_type(one.type, refused, here)
        if kind is not None:
            names.add(one.name)
            found.append({"name": one.name, "type": kind, "nullable": True, "metadata": {}})
    return found


def _spark_type(kind: pa.DataType, refused: dict[str, str], path: str) -> Any:
    """A type as parsed JSON; None if nothing is left of it."""
    if path in refused:
        return None
    if pa.types.is_struct(kind):
        fields = spark_fields(list(kind), refused, path, top=False)
        if not fields:
            refused[path] = "no field of it can be one of a column"
        return {"type": "struct", "fields": fields} if fields else None
    if pa.types.is_map(kind):
        value = _spark_type(kind.item_type, refused, path + "{}")
        return value and {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
    if pa.types.is_list(kind):
        element = _spark_type(kind.value_type, refused, path + "[]")
        return element and {"type": "array", "elementType": element, "containsNull": True}
    if kind == KEPT:
        refused[path] = "no column can hold it"
        return None
    return spark_scalar(kind)
