"""Where several tables may take a record: its offset has a slot for each of them, with a verdict of its own.

    records ── a row for each table that takes them, and one for a dead letter of the record as a whole ─┐
                                                                                                          ├─ group
    rows ── the slot of their table; dead letters that of the type whose table did not take the record ───┘

    slot     code of a table, or WHOLE_SLOT
    a whole dead letter    accounts for all slots of its offset, and then no table has a row; but that of a condemned
                           record only for those without one (protocol 3.9)

Pure columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from exporter.operate.audit.codes import EARLIER, EITHER, LETTERS, NOT_HERE, UNKNOWN, WHOLE
from exporter.operate.audit.columns import PARTITION, nowhere
from exporter.operate.audit.rules.ruling import TAKER_DDL

WHOLE_SLOT = 0
WHOLE_STAGES = ("size", "route", "condemned", "gap")
"""Stages of dead letters that are of a record as a whole."""
TOLD = ("leads", "condemned")
"""What the two sides say of a slot beside what they always do."""
DONE = "done"
"""Verdict on a slot of which another one of its offset tells."""


def taker(code: int | Column, expected: int | Column) -> Column:
    """TAKER_DDL."""
    both = [one if isinstance(one, Column) else sf.lit(one) for one in (code, expected)]
    return sf.struct(both[0].alias("code"), both[1].alias("expected")).cast(TAKER_DDL)


def slot_of(code: Column) -> Column:
    """The slot of a taker."""
    return sf.greatest(code, sf.lit(WHOLE_SLOT))


def slots_of(records: DataFrame) -> DataFrame:
    """One row for each slot of a record, with `taker`, `slot`, and `leads`: 1 in the first of them, else 0.

    records: with `takers`, those of their configuration, and `later_takers`, codes of those by later ones.
    """
    takers, some = sf.col("takers"), sf.transform("takers", lambda one: one["code"])
    moved = sf.transform(sf.array_except("later_takers", some), lambda code: taker(code, NOT_HERE))
    whole = sf.array(taker(WHOLE, WHOLE))
    if_whole = sf.when(takers[0]["code"] > LETTERS, whole).otherwise(sf.array().cast(f"array<{TAKER_DDL}>"))
    told = records.select("*", sf.posexplode(sf.concat(takers, moved, if_whole)).alias("at", "taker"))
    return told.withColumn("slot", slot_of(sf.col("taker.code"))).withColumn("leads", (sf.col("at") == 0).cast("int"))


def slot_of_letter(codes: Mapping[str, int]) -> Column:
    """The slot of a dead letter."""
    name = sf.col("event_type")
    code = sf.create_map([sf.lit(part) for item in codes.items() for part in item])[name]
    return sf.when(sf.col("stage").isin(*WHOLE_STAGES), sf.lit(WHOLE_SLOT)).otherwise(sf.coalesce(code, sf.lit(0)))


def seen_together(grouped: DataFrame) -> DataFrame:
    """Adds what the other slots of an offset say of one: `whole`, `moved`, `belongs`, and whether there is a record.

    Takes out slots of which there is nothing to say.

    whole: the offset has a dead letter of the record as a whole; lone: one beside which no row may be. moved: a replay
    has put that one into a table. belongs: code of the slot's table, or of one that takes the record where the slot's
    does not.
    """
    offset = Window.partitionBy(*PARTITION, "offset")
    slot, rows, expected = sf.col("slot"), sf.col("rows"), sf.col("expected")
    first = sf.max(sf.when(slot == WHOLE_SLOT, expected)).over(offset)
    found = grouped.withColumns(
        {
            "record_there": sf.max("in_topic").over(offset),
            "whole": sf.max((slot == WHOLE_SLOT) & (rows > 0) & ~nowhere()).over(offset),
            "lone": sf.max((slot == WHOLE_SLOT) & (rows > 0) & ~sf.coalesce("condemned", sf.lit(False))).over(offset),
            "moved": sf.max((slot != WHOLE_SLOT) & (rows > 0) & sf.col("again_table")).over(offset),
            "of_all": sf.when(first.isin(EARLIER, EITHER, UNKNOWN), first).otherwise(sf.lit(NOT_HERE)),
        }
    )
    theirs = sf.max(sf.greatest(expected, sf.lit(LETTERS))).over(offset)
    belongs = sf.when(expected >= LETTERS, expected).otherwise(theirs)
    found = found.withColumn("belongs", belongs)
    stray = expected.isNull() & (sf.col("record_there") == 1)
    found = found.withColumn("expected", sf.when(stray, sf.col("of_all")).otherwise(expected))
    found = found.withColumn("in_topic", sf.col("record_there"))
    found = found.withColumn("twin", sf.col("twin") | ((slot == WHOLE_SLOT) & (rows > 0) & sf.col("moved")))
    return found.filter((rows > 0) | ~expected.isin(WHOLE, NOT_HERE))


def kind_of(kind: Column) -> Column:
    """The verdict on a slot. kind: on it alone."""
    slot, rows = sf.col("slot"), sf.col("rows")
    elsewhere = (slot != WHOLE_SLOT) & (sf.col("in_topic") == 1)
    return (
        sf.when((slot == WHOLE_SLOT) & sf.col("moved"), DONE)
        .when(elsewhere & sf.col("whole") & (rows == 0), DONE)
        .when(elsewhere & sf.col("lone") & ~sf.col("again_table"), "twice")
        .otherwise(kind)
    )
