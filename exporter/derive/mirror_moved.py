"""Updates that change a key: once more, as deletes of the key that they had before (protocol 9.5, MOVED).

{id: 7, _cdc_before: {"id": 6}} ── upsert of 7, by its own order
                                └─ delete of 6, by the same
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import MapType, StringType, StructType

from exporter.core.record_columns import BEFORE
from exporter.sql_text import column, quoted


def moved_away(rows: DataFrame, keys: Sequence[str], order: str, op: str) -> DataFrame:
    """Of rows of a source those that tell of a former key, with that key instead of theirs, and their order as
    `_order`. keys: paths. order, op: SQL over a row. Delta reads no file that has no such row."""
    heads = [*dict.fromkeys(path.split(".")[0] for path in keys)]
    former = sf.from_json(BEFORE, StructType([rows.schema[head] for head in heads]))
    told = sf.from_json(BEFORE, MapType(StringType(), StringType()))
    has_one = sf.col(BEFORE).isNotNull() & sf.expr(op).isin("upsert", "patch")
    by = rows.where(has_one).select(
        "*", sf.expr(order).alias("_order"), *(sf.expr(quoted(key)).alias(f"_key{n}") for n, key in enumerate(keys))
    )
    replaced = by.withColumns({
        head: sf.when(sf.map_contains_key(told, sf.lit(head)), former[head]).otherwise(sf.col(column(head)))
        for head in heads
    })  # fmt: skip
    moved = sf.lit(False)
    for n, key in enumerate(keys):
        replaced = replaced.where(sf.expr(quoted(key)).isNotNull())
        moved |= sf.expr(quoted(key)) != sf.col(f"_key{n}")
    return replaced.where(sf.coalesce(moved, sf.lit(True)))
