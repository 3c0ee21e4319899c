"""SQL over rows, by a DuckDB of the audit's own: in memory, in UTC, one thread, nothing from outside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.errors import ConfigError
from exporter.proof.rules.values import Unsure

SETTINGS: dict[str, Any] = {
    "threads": 1,
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def engine() -> Any:
    """The engine of this process. Raises ConfigError if there is none."""
    return _engine(os.getpid())


def check(routings: Iterable[Routing]) -> None:
    """Raises ConfigError if there is SQL, and nothing here that evaluates it."""
    if any(shape.sql for one in routings for _, shape in one.shapes):
        engine()


@cache
def _engine(process: int) -> Any:
    """process: what is forked has one of its own."""
    try:
        import duckdb
    except ImportError as error:
        what = "rows with `where` or `set` are judged by DuckDB, which is not installed"
        raise ConfigError(what, "pip install 'kafka-delta-exporter[sql]'") from error
    made = duckdb.connect(":memory:", config=SETTINGS)
    made.execute("SET TimeZone = 'UTC'")
    return made


def evaluated(expressions: Sequence[str], rows: pa.Table) -> list[tuple[Any, ...] | None]:
    """What each expression is of each row; None of a row on which one of them fails.

    Values as Python has those of Arrow; an OverflowError stands for one that it has not. Raises Unsure if this engine
    does not take the expressions at all.
    """
    import duckdb

    parts = [f"c{number} := (\n{text}\n)" for number, text in enumerate(expressions)]
    made = f"struct_pack({', '.join(parts)})"
    try:
        _selected(made, rows.slice(0, 0))
    except duckdb.Error as error:
        raise Unsure(str(error)) from error
    found = _evaluated(made, rows) if rows.num_rows else ()
    nothing = (OverflowError(),) * len(expressions)
    return [tuple(one.values()) if isinstance(one, dict) else one and nothing for one in found]


def _evaluated(made: str, rows: pa.Table) -> Iterator[Any]:
    """Of each row. All of them at once, else each by itself within the engine, else by halves."""
    import duckdb

    for expression in (made, f"TRY({made})"):
        try:
            yield from _selected(expression, rows)
        except duckdb.Error:
            continue
        return
    if rows.num_rows == 1:
        yield None
        return
    half = rows.num_rows // 2
    yield from _evaluated(made, rows.slice(0, half))
    yield from _evaluated(made, rows.slice(half))


def _selected(expression: str, rows: pa.Table) -> list[Any]:
    connection = engine()
    connection.register("rows", rows)
    try:
        return _values(connection.sql(f"SELECT {expression} FROM rows").to_arrow_table().column(0))
    finally:
        connection.unregister("rows")


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return [_value(one) for one in column]


def _value(one: pa.Scalar) -> Any:
    try:
        return one.as_py()
    except (ValueError, OverflowError) as error:
        return OverflowError(str(error))
