"""The SQL of one type, checked: what it reads, what it gives, and the statements that say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from exporter.arrow.own_columns import SHAPING_SCHEMA
from exporter.arrow.spark_types import fields_of
from exporter.column.spark_json import struct_of
from exporter.column.types import Field, ScalarType, Type
from exporter.core.naming import named_columns
from exporter.core.shapes import Shape, with_fields
from exporter.errors import ConfigError
from exporter.shape.engine import connection, quoted
from exporter.shape.expressions import NotARowsOwn, NotSql, used_columns
from exporter.shape.kinds import NoSuchKind, sql_type, type_of

ROWS = "__rows"
"""What the rows are called in SQL; no column of ours is called so."""
RECORD_COLUMNS = fields_of(SHAPING_SCHEMA)
"""What SQL and functions see of a record beside its value's columns."""
_DIALECT = 'the SQL is DuckDB\'s; a name that is a word of it stands in double quotes, as in "at"'


@dataclass(frozen=True)
class Computed:
    """One expression. column: what it fills, of a filter `where`. kind: its type. reads: names of columns."""

    column: str
    text: str
    kind: Type
    reads: frozenset[str]

    @property
    def sql(self) -> str:
        """It in the type that the column has."""
        return f"CAST((\n{self.text}\n) AS {sql_type(self.kind)})"


@dataclass(frozen=True)
class Sql:
    """The expressions of one type: its filter and computed columns."""

    where: Computed | None
    computed: Sequence[Computed]


@cache
def checked_sql(shape: Shape) -> Sql:
    """Raises ConfigError for what cannot be evaluated."""
    check = _Check(struct_of(seen_columns(shape)).fields)
    where = check.computed("where", "where", shape.where) if shape.where else None
    if where is not None and where.kind != ScalarType("boolean"):
        raise ConfigError(f"where: it is no condition: its type is {sql_type(where.kind)}", "compare it: `x = 1`")
    return Sql(where, [check.computed(f"set.{column}", column, text) for column, text in shape.computed])


def seen_columns(shape: Shape) -> str:
    """Spark schema JSON of what SQL sees: the decoded columns by the table's names, and what a function adds."""
    added = struct_of(shape.python_columns).fields if shape.python_columns else ()
    return with_fields(named_columns(shape.decoded, shape.names), added)


class _Check:
    """fields: what it sees of a value."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._connection = connection()
        self._kinds = {one.name: one.type for one in (*fields, *RECORD_COLUMNS)}
        for one in RECORD_COLUMNS:
            if taken := [field.name for field in fields if field.name.lower() == one.name]:
                raise ConfigError(f"column {taken[0]}: SQL calls a part of the record so", "rename the column")

    def computed(self, place: str, column: str, text: str) -> Computed:
        """One expression of the settings. place: where in them it stands."""
        try:
            reads = used_columns(text, self._kinds)
        except NotARowsOwn as why:
            hint = "an expression gives the same whenever, and beside whatever other rows, it is evaluated"
            raise ConfigError(f"{place}: {why}", hint) from None
        except NotSql as why:
            raise ConfigError(f"{place}: {why}", _DIALECT) from None
        kind = self._type_of(place, text, sorted(reads))
        try:
            return Computed(column, text, type_of(kind), reads)
        except NoSuchKind as why:
            hint = "cast it, as in CAST(x AS VARCHAR)"
            raise ConfigError(f"{place}: {why}", hint) from None

    def _type_of(self, place: str, text: str, reads: Sequence[str]) -> Any:
        """DuckDB's type of an expression."""
        import duckdb

        nulls = [f"CAST(NULL AS {sql_type(self._kinds[name])}) AS {quoted(name)}" for name in reads]
        try:
            made = self._connection.sql(f"SELECT (\n{text}\n) FROM (SELECT {', '.join(nulls) or 1}) AS {ROWS}")
        except duckdb.Error as error:
            raise ConfigError(f"{place}: {message_of(error)}", _DIALECT) from None
        return made.types[0]


def message_of(error: Exception) -> str:
    """What DuckDB says, on one line, without the statement."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split())
