"""The rows that may be members: those that are new, and those that are open since earlier runs (protocol 9.6).

                 open          taken          until
    offsets  ─────┼──────────────┼──────────────┼────▶     of each topic partition of a source
      in the ledger │ some of them │    none      │
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.derive.bundles.rules import BundleRule, Input, pairs
from exporter.derive.places import within
from exporter.derive.source import PinnedSource
from offsets.cursors import Cursor, replayed, slices

PLACE = ("topic", "partition", "epoch", "offset")
"""What tells a row of a source from all others; an input's name beside it tells a member."""
MEMBER = ("input", *PLACE)


@dataclass(frozen=True)
class MembersSpan:
    """Offsets of a source between which former members are, both inclusive."""

    least: int
    most: int


@dataclass(frozen=True)
class MembersReading:
    """What a run reads of one source. open: all at or below are in the ledger or no members. taken: all were looked at.

    until: how far this run looks.
    """

    source: PinnedSource
    open: Cursor
    taken: Cursor
    until: Cursor

    @property
    def since(self) -> Cursor:
        """From where rows are read; replays are taken with those that are new."""
        return replace(self.taken, positions=self.open.positions)

    @property
    def least(self) -> int | None:
        """A bound: what is read has greater offsets; None if a replay may have put rows anywhere."""
        if self.replays:
            return None
        return min((one.after for one in slices(self.since, self.until)), default=None)

    @property
    def replays(self) -> bool:
        """Whether a replay put rows below what was taken."""
        return bool(replayed(self.taken, self.until))

    def rows(self) -> DataFrame:
        """The rows that no run has looked at, and all that may be open still."""
        return self.source.rows(self.since, self.until)

    def former(self, span: MembersSpan) -> DataFrame:
        """Rows of a span beside those of rows(), among them members that a transaction made anew needs again.

        What a replay put there is of both.
        """
        offset = sf.col("_kafka.offset")
        there = self.source.frame().where((offset >= span.least) & (offset <= span.most))
        return there.where(~within(slices(self.since, self.until)))


def place_of() -> list[Column]:
    """The columns of PLACE, of a row of a source."""
    epoch = sf.coalesce(sf.col("_kafka.epoch"), sf.lit(0)).cast("int").alias("epoch")
    return [sf.col("_kafka.topic"), sf.col("_kafka.partition"), epoch, sf.col("_kafka.offset")]


def slim(frame: DataFrame, rule: BundleRule, one: Input) -> DataFrame:
    """What decides on the rows of a source: a row per member, without its columns unless a condition names them."""
    own = [sf.struct("*").alias(one.name)] if rule.asks_for(one) else []
    return frame.select(
        sf.lit(rule.name).alias("rule"),
        sf.lit(one.name).alias("input"),
        sf.expr(f"CAST(({one.transaction}) AS STRING)").alias("transaction"),
        sf.coalesce(sf.expr(f"CAST(({one.done}) AS BOOLEAN)"), sf.lit(False)).alias("done"),
        time_of(one).alias("time"),
        *place_of(),
        *own,
    ).where("transaction IS NOT NULL")


def time_of(one: Input) -> Column:
    """A row's event time; the record's where it has none."""
    asked = sf.expr(f"CAST(({one.time}) AS TIMESTAMP)")
    return sf.coalesce(asked, sf.col("_kafka.timestamp"), sf.timestamp_seconds(sf.lit(0)))


def of_rule(values: Mapping[str, Column]) -> Column:
    """What is said of a rule's transactions, in rows that name their rule. values: name of a rule -> what is said."""
    found = sf.lit(None)
    for name, value in values.items():
        found = sf.when(sf.col("rule") == sf.lit(name), value).otherwise(found)
    return found


def all_members(rows: Mapping[str, DataFrame], rules: Sequence[BundleRule]) -> DataFrame:
    """Those of all inputs, in one frame. rows: source -> its rows."""
    return union(slim(rows[one.source], rule, one) for rule, one in pairs(rules))


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """One below the other; a column that one lacks is null there."""
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)


def past(readings: Mapping[str, MembersReading], rules: Sequence[BundleRule]) -> Column:
    """Whether a row of the ledger may be of a member that is read; Delta skips files by it."""
    each = []
    for _, one in pairs(rules):
        least = readings[one.source].least
        here = sf.col("_member.input") == one.name
        each.append(here if least is None else here & (sf.col("_member.offset") > least))
    return reduce(lambda a, b: a | b, each)
