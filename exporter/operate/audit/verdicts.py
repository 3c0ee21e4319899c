"""What became of each offset: its record and its rows side by side, and the first verdict that holds. Pure columns."""

from __future__ import annotations

from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.operate.audit.codes import (
    EARLIER,
    EARLIER_UNROUTED,
    EITHER,
    FILTERED,
    LETTERS,
    NOT_HERE,
    SIFTED,
    UNKNOWN,
    UNROUTED,
)
from exporter.operate.audit.columns import PARTITION, RECORDS, VERDICTS, nowhere
from exporter.operate.audit.replays import NoReplays
from exporter.operate.audit.rules import slots


def verdicts_of(
    records: DataFrame, rows: DataFrame, day: date | None, replays: NoReplays, in_slots: bool = False
) -> DataFrame:
    """One row per (topic, partition, offset), with VERDICTS. day: only offsets whose row or record is of this day.

    in_slots: one for each slot of an offset (rules/slots.py).
    """
    both = records.withColumn("in_topic", sf.lit(1)).unionByName(
        rows.withColumn("in_topic", sf.lit(0)), allowMissingColumns=True
    )
    if in_slots:  # all slots of an offset in one place, for what they say of each other
        both = both.repartition(*PARTITION, "offset")
    grouped = both.groupBy(*PARTITION, "offset", *(["slot"] if in_slots else [])).agg(
        sf.sum("in_topic").alias("in_topic"),
        sf.count("code").alias("rows"),
        sf.min("code").alias("code"),
        sf.max("code").alias("code_max"),
        *(sf.max(name).alias(name) for name in (*RECORDS, "faulty", "unread", "outside", "checkable")),
        *replays.of_the_row(),
        *(sf.max(name).alias(name) for name in (slots.TOLD if in_slots else ())),
        sf.min("row_day").alias("row_day_min"),
    )
    grouped = replays.settled(grouped)
    if in_slots:
        grouped = slots.seen_together(grouped)
    if day is not None:
        wanted = sf.lit(day)
        of_rows = (sf.col("row_day") == wanted) | (sf.col("row_day_min") == wanted)
        of_record = sf.coalesce("event_day", "kafka_day") == wanted
        grouped = grouped.filter(sf.when(sf.col("rows") > 0, of_rows).otherwise(of_record))
    expected, code = sf.col("expected"), sf.col("code")
    belongs = sf.col("belongs") if in_slots else sf.greatest(expected, sf.lit(LETTERS))
    second = sf.when(sf.col("rows") > 1, sf.col("code_max"))  # else the dead letter of the whole record
    other = sf.when(sf.col("kind") == "twice", second).otherwise(belongs)
    place = sf.when(sf.col("kind") == "filtered", expected).otherwise(sf.greatest(expected, sf.lit(LETTERS)))
    return (
        grouped.withColumn("kind", slots.kind_of(_kind()) if in_slots else _kind())
        .withColumn("amount", sf.when(nowhere(), sf.col("rows")).otherwise(sf.lit(1)))
        .withColumn("other", sf.coalesce(other, sf.lit(LETTERS)))
        .withColumn("code", sf.when(sf.col("rows") > 0, code).otherwise(place))
        .withColumn("in_topic", sf.coalesce("leads", sf.lit(0)) if in_slots else sf.col("in_topic"))
        .select(VERDICTS)
    )


def _kind() -> Column:
    """The verdict on one offset; the first that holds."""
    code, expected, rows = sf.col("code"), sf.col("expected"), sf.col("rows")
    in_letters = code == LETTERS
    counted = expected.isin(FILTERED, UNROUTED, EARLIER_UNROUTED) | (expected <= SIFTED)
    misplaced = sf.when(counted, "unfiltered").otherwise("wrong_table")
    no_letter = expected.isin(FILTERED, UNROUTED, NOT_HERE) & ~sf.col("unread")
    accounted = (in_letters & ~no_letter) | (code == expected) | expected.isin(EITHER, EARLIER)
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
        .when((rows == 1) & ~accounted & ~sf.col("again_table"), misplaced)
        .when((rows == 1) & differs, "different")
        .when(rows == 1, "once")
        .when(counted, "filtered")
        .when(sf.col("must"), "missing")
        .otherwise("pending")
    )
