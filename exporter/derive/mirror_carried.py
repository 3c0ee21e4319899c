"""Rows of a mirror that were made by other rules, made anew without losing what the source does not have any more.

    of a key ── the source has each row that the mirror says it comes from ──> what the source says
             └─ it has not ──> column by column the greater order, of equal ones what the source says (protocol 9.5)
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.derive.mirror_rows import BASE, DELETED, ORDER, POSITION, WRITTEN, MirrorShape, keyed
from exporter.derive.mirror_sql import merged
from exporter.sql_text import column


def carried_over(shape: MirrorShape, made: DataFrame, former: DataFrame, source: DataFrame) -> DataFrame:
    """made: of all rows of the source. former: the rows of the mirror as it is. Both one row per key."""
    by, keys = shape.by, keyed(shape.table.keys)
    news, olds = made.select("*", *keys), _as_now(shape, made, former).select("*", *keys)
    told = olds.join(_of_lost_rows(by, olds, source), by, "left_semi")
    both = news.alias("t").join(told.alias("s"), by).selectExpr(
        *(f"{value} AS {name}" for name, value in merged(shape).items())
    )  # fmt: skip
    columns = [*map(column, shape.columns), ORDER, DELETED, BASE, WRITTEN]
    kept = news.join(told, by, "left_anti").selectExpr(*columns)
    alone = olds.join(news, by, "left_anti").selectExpr(*columns)
    return kept.unionByName(both.selectExpr(*columns)).unionByName(alone)


def _as_now(shape: MirrorShape, made: DataFrame, former: DataFrame) -> DataFrame:
    """Former rows with the columns of today; a deleted key has no values, and each of them by its delete."""
    shown = []
    for field in made.schema:
        name, kind = column(field.name), field.dataType.simpleString()
        there = sf.col(name) if field.name in former.columns else sf.lit(None)
        value = there.cast(field.dataType)
        if field.name in shape.own_writers:
            value = sf.when(~sf.col(DELETED), value)
        elif field.name == BASE:
            value = sf.when(sf.col(DELETED), sf.col(ORDER)).otherwise(value)
        elif field.name == WRITTEN:
            value = sf.expr(f"map_filter({WRITTEN}, (name, at) -> NOT {DELETED})").cast(kind)
        shown.append(value.alias(field.name))
    return former.select(*shown)


def _of_lost_rows(by: Sequence[str], olds: DataFrame, source: DataFrame) -> DataFrame:
    """The keys of rows of a mirror that come from rows which the source does not have."""
    orders = sf.explode(sf.expr(f"concat(array({ORDER}, {BASE}), map_values({WRITTEN}))")).alias("at")
    wanted = olds.select(*by, orders).where("at IS NOT NULL").select(*by, *(f"at.{part}" for part in POSITION))
    there = source.select(*(f"_kafka.{part}" for part in POSITION))
    return wanted.join(there, [*POSITION], "left_anti").select(*by).distinct()
