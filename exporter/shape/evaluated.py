"""SQL over the rows of one type: what its expressions give, and on which rows they fail. Runs on Spark executors.

Whatever DuckDB gives for a row it gives for the row alone: no statement sees more rows than those in which the order of
conditions is as written, and a row is bad only if an expression fails on it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from threading import Lock
from typing import Any

import pyarrow as pa

from exporter.arrow.spark_types import arrow_type
from exporter.arrow.years import Years
from exporter.core.columns import EVENT_TIME
from exporter.core.shapes import Shape
from exporter.errors import InvariantBroken
from exporter.shape.apart import MadeRows, RowFails, each, reason
from exporter.shape.engine import connection, quoted
from exporter.shape.sql import ROWS, Computed, checked_sql, message_of
from offsets import Invariant

ROWS_MAX = 8 * 2048
"""Rows of a statement. After some 25 vectors of 2,048 values DuckDB may try ANDed conditions in another order: then
another one would be the first to fail, or to spare the others."""


_FAILS = r"CREATE TEMP MACRO error(message) AS [NULL][CAST(decode('\xFF'::BLOB) AS INTEGER)]"
"""What has the type of error(), and fails as it does."""


class Evaluation:
    """Of some expressions, in their order. reads: columns, and parts of the record."""

    def __init__(self, computed: Sequence[Computed]) -> None:
        import duckdb

        self._failures = (duckdb.DataError, duckdb.InvalidInputException, duckdb.NotImplementedException)
        """What is a row's own fault; memory, storage or a fault of DuckDB's is none."""
        self._no_tries = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
        self._reading = _Reading(connection())
        self._schema = pa.schema([(one.column, arrow_type(one.kind)) for one in computed])
        self._years = [Years(pa.schema([field])) for field in self._schema]
        self.reads = frozenset(name for one in computed for name in one.reads)
        self._columns = sorted(self.reads) or [EVENT_TIME]  # what has no column has no rows, and each has this one
        self._at_once = _select(f"{one.sql} AS {quoted(one.column)}" for one in computed)
        self._alone = [(one.column, _select([one.sql])) for one in computed]
        failing = (f"TRY({{'tried': {one.sql}}}) IS NULL" for one in computed)
        self._tries = _select([f"{' OR '.join(failing)} AS failing"])

    def of(self, rows: pa.Table) -> MadeRows:
        """rows: at least the columns that are read. A reason says of which column it is."""
        read = rows.select(self._columns)
        starts = range(0, max(1, rows.num_rows), ROWS_MAX)
        parts = [self._part(read.slice(start, ROWS_MAX)) for start in starts]
        bad = {start + row: why for start, one in zip(starts, parts, strict=True) for row, why in one.bad.items()}
        return MadeRows(pa.concat_tables([one.table for one in parts]), bad)

    def _part(self, rows: pa.Table) -> MadeRows:
        found = each(rows, self._attempt, self._schema, self._suspected)
        beyond: dict[int, str] = {}
        for column, years in zip(found.table.column_names, self._years, strict=True):
            for row, why in years.beyond(found.table.select([column])).items():
                beyond.setdefault(row, reason(column, why))
        if not beyond:
            return found
        good = [row for row in range(rows.num_rows) if row not in found.bad]
        bad = found.bad | {good[row]: why for row, why in beyond.items()}
        within = pa.array([row not in beyond for row in range(len(good))])
        return MadeRows(found.table.filter(within), dict(sorted(bad.items())))

    def _attempt(self, rows: pa.Table) -> pa.Table:
        try:
            made = self._reading.selected(self._at_once, rows)
        except self._failures as error:
            raise RowFails(self._why(rows, error) if rows.num_rows == 1 else "") from error
        if made.num_rows != rows.num_rows:
            raise InvariantBroken(Invariant.ROUTE, f"{self._at_once} makes {made.num_rows} rows of {rows.num_rows}")
        return made.cast(self._schema)

    @cached_property
    def _guessing(self) -> _Reading:
        """With an error() that TRY takes: it takes nothing volatile."""
        made = connection()
        made.execute(_FAILS)
        return _Reading(made)

    def _suspected(self, rows: pa.Table) -> pa.BooleanArray | None:
        """Rows on which TRY gives nothing. An earlier DuckDB has no TRY."""
        try:
            return self._guessing.selected(self._tries, rows).column(0).combine_chunks()
        except (*self._failures, *self._no_tries):
            return None

    def _why(self, row: pa.Table, error: Exception) -> str:
        """The reason of the first expression that fails on a row. error: what they say together."""
        for column, statement in self._alone if len(self._alone) > 1 else ():
            try:
                self._reading.selected(statement, row)
            except self._failures as failure:
                return reason(column, message_of(failure))
        return reason(self._alone[0][0], message_of(error))


class _Reading:
    """Statements of one connection over rows that change. To register each batch costs as much as to select of it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._source = _Source()
        self._schema: pa.Schema | None = None
        self._one_at_a_time = Lock()

    def selected(self, statement: str, rows: pa.Table) -> pa.Table:
        """The rows of a statement. Raises whatever DuckDB raises."""
        with self._one_at_a_time:
            self._source.rows = rows
            if rows.schema != self._schema:
                self._engine.register(ROWS, self._source)
                self._schema = rows.schema
            try:
                return self._engine.sql(statement).to_arrow_table()
            finally:
                self._source.rows = None


class _Source:
    """What DuckDB reads: the rows as they are when it does."""

    rows: pa.Table | None = None

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        if self.rows is None:
            raise ValueError("rows are read outside of a statement")
        return self.rows.__arrow_c_stream__(requested_schema)


@cache
def evaluations_of(process: int, shape: Shape) -> tuple[Evaluation | None, Evaluation | None]:
    """The filter and the computed columns of a type, made once: tasks come and go. process: an engine is of one."""
    found = checked_sql(shape)
    return Evaluation([found.where]) if found.where else None, Evaluation(found.computed) if found.computed else None


def _select(items: Iterable[str]) -> str:
    return f"SELECT {', '.join(items)} FROM {ROWS}"

