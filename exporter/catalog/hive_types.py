"""The columns of a table in the words of Hive, which Glue and Athena speak too. Pure."""

from __future__ import annotations

from exporter.column.scalars import spelling
from exporter.column.types import Fold, StructType

Columns = tuple[tuple[str, str], ...]
"""(name, type in the words of Hive), in the table's order."""


def hive_columns(schema: StructType) -> Columns:
    """Names and Hive types of a table's columns."""
    return tuple((one.name, hive_type(one.type)) for one in schema.fields)


hive_type = Fold[str](
    scalar=lambda one: "string" if one.name == "variant" else spelling(one).hive,  # which Hive does not have
    struct=lambda _, parts: f"struct<{','.join(f'{one.name}:{part}' for one, part in parts)}>",
    list=lambda _, inner: f"array<{inner}>",
    map=lambda _, key, inner: f"map<{key},{inner}>",
)
