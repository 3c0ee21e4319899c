"""What replays of dead letters make of a comparison: the optional stage of an audit.

A replay judges a dead letter anew, by a later configuration, and moves its row into a type's table. So a row may be
right by any configuration since its record was exported, and while a replay is interrupted it stands in two tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.operate.audit import sql as audit_sql
from exporter.operate.audit.codes import EARLIER, EITHER, LETTERS
from exporter.operate.audit.columns import AGAIN_DDL
from exporter.operate.audit.pin import Pinned
from exporter.operate.audit.rules.rules import Rules
from exporter.operate.audit.sql import Judge

TOLD = ("twin", "again_table", "again_fits")
"""What `settled` adds. twin: one row in the dead letters, one in a table that had a replay of that offset or a later
one; the table's counts, because the replay was interrupted before its DELETE. Two rows in a table are never a twin.
again_table, again_fits: a configuration since then accounts for the row's table; for all of the row."""


HASHED = ("row_hash", "row_day", "row_time", "row_key", "row_headers")
"""What is compared of a row."""


class NoReplays:
    """No table had one: a row is judged by the configuration that was in force, and by that one alone."""

    columns: Sequence[str] = ()
    """What a record's side has of it."""

    def named(self, records: DataFrame) -> DataFrame:
        """Adds to records with their `regions` what they say of their event types by other configurations."""
        return records

    def asked(self) -> Column:
        """By which configurations a record is looked at, and the event type that it has by each (rules/ruling.py)."""
        return sf.array(sf.struct(sf.col("region.routing").alias("routing"), "event_type"))

    def later_takers(self, rules: Rules) -> Column:
        """The codes of the tables that take a record by the configurations that have come since."""
        return sf.array().cast("array<int>")

    def judged(self, records: DataFrame, rules: Rules) -> DataFrame:
        """Adds `columns` to named records."""
        return records

    def of_the_row(self) -> list[Column]:
        """What is taken from an offset's row; of several rows, the greatest of each."""
        return [sf.max(name).alias(name) for name in HASHED]

    def settled(self, grouped: DataFrame) -> DataFrame:
        """Adds TOLD to the offsets."""
        return grouped.withColumns(dict.fromkeys(TOLD, sf.lit(False)))


@dataclass(frozen=True)
class Replays(NoReplays):
    """Some table had one. fields: code -> the columns whose values are compared."""

    pinned: Pinned
    judges: Sequence[Judge]
    fields: Mapping[int, Sequence[Mapping[str, Any]]]
    columns = ("again",)

    def named(self, records: DataFrame) -> DataFrame:
        """Adds `later`, the configurations that have been in force since a record was exported, and its event type by
        each that there is."""
        since = sf.filter("regions", lambda region: region["through"] >= sf.col("offset"))
        frame = records.withColumn("later", sf.transform(since, lambda region: region["routing"]))
        return frame.withColumns({f"event_type_{one.number}": audit_sql.event_type(one) for one in self.judges})

    def asked(self) -> Column:
        """By all since."""
        told = [
            sf.struct(sf.lit(one.number).alias("routing"), sf.col(f"event_type_{one.number}").alias("event_type"))
            for one in self.judges
        ]
        return sf.filter(sf.array(*told), lambda one: sf.array_contains("later", one["routing"]))

    def later_takers(self, rules: Rules) -> Column:
        """Each once."""
        told = [
            sf.when(
                sf.array_contains("later", sf.lit(one.number)),
                rules.codes_of(one, sf.col(f"event_type_{one.number}")),
            )
            for one in self.judges
        ]
        return sf.array_distinct(sf.flatten(sf.filter(sf.array(*told), lambda some: some.isNotNull())))

    def judged(self, records: DataFrame, rules: Rules) -> DataFrame:
        """Adds `again`: where a record belongs by each configuration that has been in force since it was exported.

        One of these has judged it if a replay has put it into a table.
        """
        frame, verdicts = records, []
        for one in self.judges:
            number, code = one.number, f"expected_{one.number}"
            frame = frame.withColumn(code, rules.expected_later(one, sf.col(f"event_type_{number}")))
            verdicts.append(
                sf.struct(
                    sf.lit(number).alias("routing"),
                    sf.col(code).alias("code"),
                    audit_sql.record_checksum(one, self.fields, sf.col(code)).alias("hash"),
                    audit_sql.event_day(one).alias("day"),
                    audit_sql.kept_time(one, self.pinned.codes, sf.col(code)).alias("time"),
                )
            )
        known = sf.array(*verdicts) if verdicts else sf.array().cast(AGAIN_DDL)
        return frame.withColumn("again", sf.filter(known, lambda one: sf.array_contains("later", one["routing"])))

    def of_the_row(self) -> list[Column]:
        """Of several rows, that of the one that is no dead letter."""
        names = (*HASHED, "replayed")
        return [*(sf.max_by(name, "code").alias(name) for name in names), sf.first("again", True).alias("again")]

    def settled(self, grouped: DataFrame) -> DataFrame:
        """Adds TOLD; a twin's offset is that of its table alone."""
        code, replayed = sf.col("code"), sf.coalesce("replayed", sf.lit(False))
        twin = (sf.col("rows") == 2) & (code == LETTERS) & (sf.col("code_max") != LETTERS) & replayed
        grouped = grouped.withColumn("twin", sf.coalesce(twin, sf.lit(False)))
        grouped = grouped.withColumn("code", sf.when(sf.col("twin"), sf.col("code_max")).otherwise(code))
        grouped = grouped.withColumn("rows", sf.when(sf.col("twin"), sf.lit(1)).otherwise(sf.col("rows")))
        found = {"again_table": sf.exists("again", _here), "again_fits": sf.exists("again", _fits)}
        return grouped.withColumns({name: sf.coalesce(replayed & one, sf.lit(False)) for name, one in found.items()})


def _here(one: Column) -> Column:
    return (one["code"] == sf.col("code")) | one["code"].isin(EITHER, EARLIER)


def _fits(one: Column) -> Column:
    same = one["hash"].isNull() | one["hash"].eqNullSafe(sf.col("row_hash"))
    same = same & (one["day"].isNull() | one["day"].eqNullSafe(sf.col("row_day")))
    same = same & ~sf.coalesce(one["time"] != sf.col("row_time"), sf.lit(False))
    return one["code"].isin(EITHER, EARLIER) | ((one["code"] == sf.col("code")) & same)
