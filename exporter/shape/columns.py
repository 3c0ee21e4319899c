"""The columns that a table has, by what its type decodes and what becomes of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import Field
from exporter.core.shapes import Constant, Shape, constant_fields, with_fields
from exporter.errors import ConfigError
from exporter.shape.sql import checked_sql, seen_columns


def table_columns(event_type: str, shape: Shape, constants: Iterable[tuple[str, Constant]]) -> str:
    """Spark schema JSON of a table's columns. Raises ConfigError for SQL that cannot be evaluated here.

    A computed column of the name of another one replaces it. Whether the names can be those of columns is for
    core/columns.py to judge.
    """
    seen = struct_of(seen_columns(shape))
    fields = seen.named
    if shape.sql:
        try:
            found = checked_sql(shape)
        except ConfigError as error:
            raise ConfigError(f"types.{event_type}, {error.message}", error.hint) from None
        for one in found.computed:
            fields[one.column] = Field(one.column, one.kind)
    kept = tuple(one for name, one in fields.items() if name not in shape.drop)
    return with_fields(text_of(replace(seen, fields=kept)), constant_fields(constants))
