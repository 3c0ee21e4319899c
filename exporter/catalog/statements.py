"""What to tell a catalog or an engine that this process cannot reach, in its own words. Pure."""

from __future__ import annotations

from collections.abc import Callable

from exporter.catalog.catalog import CatalogEntry


def _plain(location: str) -> str:
    """As everybody but Hadoop writes a bucket."""
    return location.replace("s3a://", "s3://", 1)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _with_backslashes(text: str) -> str:
    """`${...}` would be replaced by whoever runs Spark as it is by default."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("${", r"\u0024{") + "'"


def _in_backticks(database: str, name: str) -> str:
    return ".".join(f"`{part}`" for part in (database, name) if part)


def _in_quotes(database: str, name: str) -> str:
    return ".".join(f'"{part}"' for part in (database, name) if part)


def _spark(database: str, entry: CatalogEntry) -> str:
    place = _with_backslashes(entry.location)
    return f"CREATE TABLE IF NOT EXISTS {_in_backticks(database, entry.name)} USING DELTA LOCATION {place};"


def _databricks(database: str, entry: CatalogEntry) -> str:
    return _spark(database, CatalogEntry(entry.name, _plain(entry.location)))


def _athena(database: str, entry: CatalogEntry) -> str:
    name, place = _in_backticks(database, entry.name), _quoted(f"{_plain(entry.location)}/")
    return f"CREATE EXTERNAL TABLE IF NOT EXISTS {name} LOCATION {place} TBLPROPERTIES ('table_type' = 'DELTA');"


def _trino(database: str, entry: CatalogEntry) -> str:
    given = {"schema_name": database or "default", "table_name": entry.name, "table_location": _plain(entry.location)}
    named = ", ".join(f"{name} => {_quoted(text)}" for name, text in given.items())
    return f"CALL delta.system.register_table({named});"


def _duckdb(database: str, entry: CatalogEntry) -> str:
    scan = f"delta_scan({_quoted(_plain(entry.location))})"
    return f"CREATE OR REPLACE VIEW {_in_quotes(database, entry.name)} AS SELECT * FROM {scan};"


DIALECTS: dict[str, tuple[str, Callable[[str, CatalogEntry], str]]] = {
    "spark": ("CREATE DATABASE IF NOT EXISTS `{}`;", _spark),
    "databricks": ("CREATE SCHEMA IF NOT EXISTS `{}`;", _databricks),
    "athena": ("CREATE DATABASE IF NOT EXISTS `{}`;", _athena),
    "trino": ("CREATE SCHEMA IF NOT EXISTS delta.{};", _trino),
    "duckdb": ('CREATE SCHEMA IF NOT EXISTS "{}";', _duckdb),
}
"""Whose words -> the statement that makes the database, and the one of a table."""


def statement(dialect: str, database: str, entry: CatalogEntry) -> str:
    """The statement that registers one table in a dialect."""
    return DIALECTS[dialect][1](database, entry)


def database_statement(dialect: str, database: str) -> str:
    """The statement that makes the database in a dialect."""
    return DIALECTS[dialect][0].format(database)
