"""Proof of a query's table: the query over all rows of the source at once, as a multiset, by no slice and no file.

    source, pinned ── rows at or below the cursor, by their topic, epoch and offset ── query ─┬─ each row as text,
    table, pinned ────────────────────────────────────────────────────────────────────────────┘  counted on both sides

What a user deleted from the source since is in the table still: such rows are told, and are no finding. Reads only.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.derive.audited_rows import rows_through
from exporter.derive.job import AuditLine
from exporter.derive.query import KAFKA, Query
from exporter.derive.replays import COORDINATES
from exporter.derive.source import PinnedSource
from exporter.sql_text import column
from offsets.cursors import Cursor

MICROS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
"""By default Spark writes times to the millisecond."""


def compared(job: str, table: DataFrame, query: Query, source: PinnedSource, taken: Cursor) -> AuditLine:
    """One finding for the whole table. taken: the job's cursor."""
    frame = source.frame()
    wanted = query.over(rows_through(source, taken))
    names = wanted.columns
    left, right = _counted(wanted, "wanted"), _counted(table.select(*map(column, names)), "found")
    both = left.join(right, ["row", "at"], "full_outer").na.fill(0, ["wanted", "found"])
    there = frame.select(*(sf.col(f"{KAFKA}.{part}") for part in COORDINATES)).withColumn("there", sf.lit(True))
    odd = both.where("wanted <> found")
    same = [odd["at"][part].eqNullSafe(there[part]) for part in COORDINATES]
    judged = odd.join(there, same, "left").select("wanted", "found", sf.col("there").isNotNull().alias("there"))
    lacking = sf.sum(sf.greatest(sf.col("wanted") - sf.col("found"), sf.lit(0)))
    beyond = sf.greatest(sf.col("found") - sf.col("wanted"), sf.lit(0))
    sums = judged.agg(
        sf.coalesce(lacking, sf.lit(0)).alias("lacking"),
        sf.coalesce(sf.sum(sf.when(sf.col("there"), beyond)), sf.lit(0)).alias("beyond"),
        sf.coalesce(sf.sum(sf.when(~sf.col("there"), beyond)), sf.lit(0)).alias("deleted"),
    ).collect()[0]
    rows = table.count()
    parts = [f"{sums[what]} rows {text}" for what, text in SAID.items() if sums[what]]
    clean = not (sums["lacking"] or sums["beyond"])
    return AuditLine(job, "rows are those of the query", clean, rows, "; ".join(parts))


SAID = {
    "lacking": "are missing",
    "beyond": "are there too often, or are not those of the query",
    "deleted": "are of rows that were deleted from the source since",
}


def _counted(rows: DataFrame, name: str) -> DataFrame:
    """Row as JSON text, without what is null, with its place in the source -> how often it is there."""
    text = sf.to_json(sf.struct("*"), MICROS).alias("row")
    return rows.select(text, sf.col(KAFKA).alias("at")).groupBy("row", "at").agg(sf.count("*").alias(name))
