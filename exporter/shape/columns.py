"""The columns that a table has, by what its type decodes and what becomes of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from exporter.core.naming import named_columns
from exporter.core.shapes import Constant, Shape, constant_fields, with_fields
from exporter.shape.kinds import spark_field
from exporter.shape.sql import checked_sql


def table_columns(event_type: str, shape: Shape, constants: Iterable[tuple[str, Constant]]) -> str:
    """Spark schema JSON of a table's columns. Raises ConfigError for SQL that cannot be evaluated here.

    A computed column of the name of another one replaces it. Whether the names can be those of columns is for
    core/columns.py to judge.
    """
    seen = json.loads(seen_columns(shape))
    fields = {one["name"]: one for one in seen["fields"]}
    if shape.sql:
        for one in checked_sql(event_type, shape, json.dumps(seen)).computed:
            fields[one.column] = spark_field(one.column, one.kind)
    kept: list[dict[str, Any]] = [one for name, one in fields.items() if name not in shape.drop]
    return with_fields(json.dumps({**seen, "fields": kept}), constant_fields(constants))


def seen_columns(shape: Shape) -> str:
    """Spark schema JSON of what SQL sees: the decoded columns by the table's names, and what a function adds."""
    added = json.loads(shape.python_columns)["fields"] if shape.python_columns else []
    return with_fields(named_columns(shape.decoded, shape.names), added)
