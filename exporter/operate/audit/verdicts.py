"""What became of each offset: its record and its rows side by side, and the first verdict that holds. Pure columns."""

from __future__ import annotations

from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.operate.audit.columns import PARTITION, RECORDS, VERDICTS, nowhere
from exporter.operate.audit.replays import NoReplays
from exporter.operate.audit.sql import EITHER, FILTERED, LETTERS, UNKNOWN


def verdicts_of(records: DataFrame, rows: DataFrame, day: date | None, replays: NoReplays) -> DataFrame:
    """One row per (topic, partition, offset), with VERDICTS. day: only offsets whose row or record is of this day."""
    both = records.withColumn("in_topic", sf.lit(1)).unionByName(
        rows.withColumn("in_topic", sf.lit(0)), allowMissingColumns=True
    )
    grouped = both.groupBy(*PARTITION, "offset").agg(
        sf.sum("in_topic").alias("in_topic"),
        sf.count("code").alias("rows"),
        sf.min("code").alias("code"),
        sf.max("code").alias("code_max"),
        *(sf.max(name).alias(name) for name in (*RECORDS, "faulty", "unread", "outside", "checkable")),
        *replays.of_the_row(),
        sf.min("row_day").alias("row_day_min"),
    )
    grouped = replays.settled(grouped)
    if day is not None:
        wanted = sf.lit(day)
        of_rows = (sf.col("row_day") == wanted) | (sf.col("row_day_min") == wanted)
        of_record = sf.coalesce("event_day", "kafka_day") == wanted
        grouped = grouped.filter(sf.when(sf.col("rows") > 0, of_rows).otherwise(of_record))
    expected, code = sf.col("expected"), sf.col("code")
    other = sf.when(sf.col("kind") == "twice", sf.col("code_max")).otherwise(sf.greatest(expected, sf.lit(LETTERS)))
    return (
        grouped.withColumn("kind", _kind())
        .withColumn("amount", sf.when(nowhere(), sf.col("rows")).otherwise(sf.lit(1)))
        .withColumn("other", sf.coalesce(other, sf.lit(LETTERS)))
        .withColumn("code", sf.when(sf.col("rows") > 0, code).otherwise(sf.greatest(expected, sf.lit(LETTERS))))
        .select(VERDICTS)
    )


def _kind() -> Column:
    """The verdict on one offset; the first that holds."""
    code, expected, rows = sf.col("code"), sf.col("expected"), sf.col("rows")
    in_letters = code == LETTERS
    in_none = expected == FILTERED
    accounted = (in_letters & (~in_none | sf.col("unread"))) | (code == expected) | (expected == EITHER)
    right_hash = sf.when(in_letters, sf.col("letter_hash")).otherwise(sf.col("typed_hash"))
    right_day = sf.when(in_letters, sf.col("kafka_day")).otherwise(sf.col("event_day"))
    differs = sf.coalesce(sf.col("row_hash") != right_hash, sf.lit(False)) & (expected != EITHER)
    differs = differs | (right_day.isNotNull() & ~sf.col("row_day").eqNullSafe(right_day)) | ~accounted
    differs = differs | sf.coalesce(sf.col("row_time") != sf.col("event_time"), sf.lit(False))
    for row, record in (("row_key", "key_hash"), ("row_headers", "headers_hash")):
        differs = differs | (sf.col(row).isNotNull() & ~sf.col(row).eqNullSafe(sf.col(record)))
    differs = sf.col("faulty") | (differs & ~sf.col("again_fits") & ~sf.col("unread"))
    return (
        sf.when(nowhere(), "foreign")
        .when(rows > 1, "twice")
        .when((rows == 1) & sf.col("outside"), "outside")
        .when((rows == 1) & (sf.col("in_topic") == 0), sf.when(sf.col("checkable"), "foreign").otherwise("gone"))
        .when(expected == UNKNOWN, "unchecked")
        .when((rows == 1) & ~accounted & ~sf.col("again_table"), "wrong_table")
        .when((rows == 1) & differs, "different")
        .when(rows == 1, "once")
        .when(in_none, "filtered")
        .when(sf.col("must"), "missing")
        .otherwise("pending")
    )
