"""Columns' types in Arrow's, each way; and the exporter's own columns, which are declared as Arrow's.

Everything that is made here is nullable. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.column.ddl import ddl_of
from exporter.column.scalars import SCALARS
from exporter.column.types import JSON, DecimalType, Field, Fold, ListType, ScalarType, StructType, Type

_SCALARS: Mapping[str, pa.DataType] = {
    **{name: pa.type_for_alias(spelt.arrow) for name, spelt in SCALARS.items()},
    "timestamp": US,
}
_NAMES = {kind: name for name, kind in _SCALARS.items() if name != JSON.name}


def arrow_scalar(kind: ScalarType | DecimalType) -> pa.DataType:
    """Raises KeyError for what no column can be of."""
    return pa.decimal128(kind.digits, kind.scale) if isinstance(kind, DecimalType) else _SCALARS[kind.name]


arrow_type = Fold[pa.DataType](
    scalar=arrow_scalar,
    struct=lambda _, parts: pa.struct([pa.field(one.name, part) for one, part in parts]),
    list=lambda _, inner: pa.list_(pa.field("element", inner)),
    map=lambda _, key, inner: pa.map_(key, pa.field("value", inner)),
)
"""A type with the names that decoders give to elements and values. Raises KeyError."""


def scalar_of(kind: pa.DataType) -> ScalarType | DecimalType:
    """Raises KeyError for a type that no column can be of."""
    return DecimalType(kind.precision, kind.scale) if pa.types.is_decimal(kind) else ScalarType(_NAMES[kind])


def type_of(kind: pa.DataType) -> Type:
    """Of what the exporter's own columns are of. Raises KeyError."""
    if pa.types.is_struct(kind):
        return StructType(fields_of(kind))
    if pa.types.is_list(kind):
        return ListType(type_of(kind.value_type), text={"type": "array", "containsNull": True})  # as tables have it
    return scalar_of(kind)


def fields_of(fields: Iterable[pa.Field]) -> tuple[Field, ...]:
    """Columns of Arrow fields. Raises KeyError for a type that no column can be of."""
    return tuple(Field(one.name, type_of(one.type)) for one in fields)


def as_ddl(fields: Iterable[pa.Field]) -> str:
    """As mapInArrow wants columns: `topic STRING, partition INT`. Raises KeyError."""
    return ", ".join(ddl_of(fields_of(fields)))
