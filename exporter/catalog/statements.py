"""What to tell a catalog or an engine that this process cannot reach, in its own words. Pure."""

from __future__ import annotations

from collections.abc import Callable

from exporter.catalog.catalog import CatalogEntry, plain_location


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _with_backslashes(text: str) -> str:
    """`${...}` would be replaced by whoever runs Spark as it is by default."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("${", r"\u0024{") + "'"


def _in_backticks(database: str, *name: str) -> str:
    return ".".join(f"`{part}`" for part in (*database.split("."), *name) if part)


def _in_quotes(database: str, *name: str) -> str:
    return _in_backticks(database, *name).replace("`", '"')


def _trinos(database: str) -> tuple[str, str]:
    """Catalog and schema: `delta` where the database is in no catalog."""
    catalog, _, schema = database.rpartition(".")
    return catalog or "delta", schema or "default"


def _spark(database: str, entry: CatalogEntry) -> str:
    place = _with_backslashes(entry.location)
    return f"CREATE TABLE IF NOT EXISTS {_in_backticks(database, entry.name)} USING DELTA LOCATION {place};"


def _databricks(database: str, entry: CatalogEntry) -> str:
    return _spark(database, CatalogEntry(entry.name, plain_location(entry.location)))


def _athena(database: str, entry: CatalogEntry) -> str:
    name, place = _in_backticks(database, entry.name), _quoted(f"{plain_location(entry.location)}/")
    return f"CREATE EXTERNAL TABLE IF NOT EXISTS {name} LOCATION {place} TBLPROPERTIES ('table_type' = 'DELTA');"


def _trino(database: str, entry: CatalogEntry) -> str:
    catalog, schema = _trinos(database)
    given = {"schema_name": schema, "table_name": entry.name, "table_location": plain_location(entry.location)}
    named = ", ".join(f"{name} => {_quoted(text)}" for name, text in given.items())
    return f"CALL {catalog}.system.register_table({named});"


def _duckdb(database: str, entry: CatalogEntry) -> str:
    scan = f"delta_scan({_quoted(plain_location(entry.location))})"
    return f"CREATE OR REPLACE VIEW {_in_quotes(database, entry.name)} AS SELECT * FROM {scan};"


DIALECTS: dict[str, tuple[Callable[[str], str], Callable[[str, CatalogEntry], str]]] = {
    "spark": (lambda name: f"CREATE DATABASE IF NOT EXISTS {_in_backticks(name)};", _spark),
    "databricks": (lambda name: f"CREATE SCHEMA IF NOT EXISTS {_in_backticks(name)};", _databricks),
    "athena": (lambda name: f"CREATE DATABASE IF NOT EXISTS {_in_backticks(name)};", _athena),
    "trino": (lambda name: f"CREATE SCHEMA IF NOT EXISTS {'.'.join(_trinos(name))};", _trino),
    "duckdb": (lambda name: f"CREATE SCHEMA IF NOT EXISTS {_in_quotes(name)};", _duckdb),
}
"""Whose words -> what makes the statement of a database, and the one of a table."""


def statement(dialect: str, database: str, entry: CatalogEntry) -> str:
    """The statement that registers one table in a dialect."""
    return DIALECTS[dialect][1](database, entry)


def database_statement(dialect: str, database: str) -> str:
    """The statement that makes the database in a dialect."""
    return DIALECTS[dialect][0](database)
