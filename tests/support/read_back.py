"""The rows of a table as readers that are not ours have them: Spark, delta-rs' QueryBuilder, DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import deltalake
import duckdb
import pyarrow as pa

from tests.support.lakes import Export

Rows = list[dict[str, Any]]


def by_spark(spark: Any, e: Export, event_type: str, names: Sequence[str]) -> Rows:
    """See READERS."""
    frame = spark.read.format("delta").load(e.uri(event_type))
    return _rows(frame.orderBy("_kafka.partition", "_kafka.offset").select(*names).toArrow())


def by_query_builder(_spark: Any, e: Export, event_type: str, names: Sequence[str]) -> Rows:
    """See READERS."""
    ask = deltalake.QueryBuilder().register("t", e.table(event_type)).execute
    return _rows(pa.table(ask(_query(names)).read_all()))


def by_duckdb(_spark: Any, e: Export, event_type: str, names: Sequence[str]) -> Rows:
    """See READERS."""
    with duckdb.connect() as connection:
        connection.register("t", e.table(event_type).to_pyarrow_dataset())
        connection.execute("SET TimeZone = 'UTC'")
        return _rows(connection.execute(_query(names)).to_arrow_table())


READERS: Mapping[str, Callable[[Any, Export, str, Sequence[str]], Rows]] = {
    "Spark": by_spark,
    "QueryBuilder": by_query_builder,
    "DuckDB": by_duckdb,
}
"""Name -> the columns of these names of all rows of an event type, by partition and offset; maps as dicts."""


def _query(names: Sequence[str]) -> str:
    listed = ", ".join(f'"{name}"' for name in names)
    return f'SELECT {listed} FROM t ORDER BY "_kafka"[\'partition\'], "_kafka"[\'offset\']'


def _rows(table: pa.Table) -> Rows:
    kinds = {field.name: field.type for field in table.schema}
    return [{name: _value(kinds[name], value) for name, value in row.items()} for row in table.to_pylist()]


def _value(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _value(one.type, value[one.name]) for one in kind}
    if pa.types.is_map(kind):
        return {key: _value(kind.item_type, one) for key, one in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return [_value(kind.value_type, one) for one in value]
    return value
