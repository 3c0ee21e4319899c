"""Columns for tests, by their DDL: as a schema's text, as fields, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from exporter.column.ddl import ddl_of, struct_of_ddl
from exporter.column.spark_json import as_json, struct_of, text_of
from exporter.column.types import Field, StructType, Type


def fields(ddl: str, **noted: Mapping[str, Any]) -> tuple[Field, ...]:
    """noted: name of a column -> its metadata."""
    made = struct_of_ddl(ddl).fields
    return tuple(replace(one, metadata={**one.metadata, **noted.get(one.name, {})}) for one in made)


def schema(ddl: str, **noted: Mapping[str, Any]) -> str:
    """Spark schema JSON, as Spark writes it."""
    return text_of(StructType(fields(ddl, **noted)), sort_keys=True)


def kind(ddl: str) -> Type:
    """One type."""
    (one,) = fields(f"one {ddl}")
    return one.type


def listed(columns: Iterable[Field]) -> list[Any]:
    """Columns as parsed JSON."""
    found: list[Any] = as_json(StructType(tuple(columns)))["fields"]
    return found


def whole(columns: Iterable[Field]) -> str:
    """Spark schema JSON of columns."""
    return text_of(StructType(tuple(columns)))


def names(schema_json: str) -> list[str]:
    """Of the columns."""
    return [*struct_of(schema_json).named]


def column(schema_json: str | None, name: str) -> Field:
    return struct_of(schema_json or "").named[name]


def ddl(schema_json: str) -> list[str]:
    """The users' columns of a table."""
    return ddl_of(
        one for one in struct_of(schema_json).fields if not one.name.startswith("_") and one.name != "day"
    )
