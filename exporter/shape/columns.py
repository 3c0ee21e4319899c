"""The columns that a table has, by what its type decodes and what becomes of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from exporter.core.shapes import Constant, Shape, constant_fields, with_fields
from exporter.errors import ConfigError
from exporter.shape.kinds import spark_field
from exporter.shape.sql import checked_sql, seen_columns


def table_columns(event_type: str, shape: Shape, constants: Iterable[tuple[str, Constant]]) -> str:
    """Spark schema JSON of a table's columns. Raises ConfigError for SQL that cannot be evaluated here.

    A computed column of the name of another one replaces it. Whether the names can be those of columns is for
    core/columns.py to judge.
    """
    seen = json.loads(seen_columns(shape))
    fields = {one["name"]: one for one in seen["fields"]}
    if shape.sql:
        try:
            found = checked_sql(shape)
        except ConfigError as error:
            raise ConfigError(f"types.{event_type}, {error.message}", error.hint) from None
        for one in found.computed:
            fields[one.column] = spark_field(one.column, one.kind)
    kept: list[dict[str, Any]] = [one for name, one in fields.items() if name not in shape.drop]
    return with_fields(json.dumps({**seen, "fields": kept}), constant_fields(constants))
