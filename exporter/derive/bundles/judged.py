"""What becomes of each transaction of which a run has members: done, expired, late, or open still (protocol 9.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from exporter.derive.bundles.ledger import Ledger
from exporter.derive.bundles.members import MEMBER, PLACE, MembersReading, MembersSpan, all_members, of_rule, past
from exporter.derive.bundles.rules import BundleRule, pairs
from offsets.cursors import Cursor
from offsets.positions import Position
from offsets.ranges import TopicPartition

KEYS = ["rule", "transaction"]
DONE, EXPIRED, LATE = "done", "expired", "late"


@dataclass(frozen=True)
class JudgedTransactions:
    """members: of all transactions that a run has to do with.

    With columns `state` (null: open), `at` (where the transaction was completed, by which outputs are ordered) and
    `is_new`: not in the ledger yet. rows: source -> rows of all members. newest: event time seen, microseconds; None if
    none was.
    transactions: state -> how many; "open" too. oldest: of the open ones' members, microseconds.
    """

    members: DataFrame
    rows: Mapping[str, DataFrame]
    readings: Mapping[str, MembersReading]
    newest: int | None
    transactions: Mapping[str, int]
    open: int
    oldest: int | None
    firsts: Mapping[tuple[str, TopicPartition], Position]

    @property
    def any_done(self) -> bool:
        return bool(self.transactions.get(DONE))

    def open_of(self, source: str) -> Cursor:
        """Until before the first member that is open."""
        until = self.readings[source].until.positions
        firsts = {tp: at for (of, tp), at in self.firsts.items() if of == source}
        return Cursor({tp: _before(firsts.get(tp)) or at for tp, at in until.items()})


def _before(first: Position | None) -> Position | None:
    return None if first is None else Position(first.epoch, first.offset - 1)


class KeptFrames:
    """Frames that Spark makes once and keeps, in memory and on disk, until the block ends."""

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def __enter__(self) -> KeptFrames:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in reversed(self._frames):  # Spark plans anew what is kept of one that goes before it
            frame.unpersist()

    def __call__(self, frame: DataFrame) -> DataFrame:
        self._frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame


@dataclass(frozen=True)
class Before:
    """What is known when a run begins. newest: event time that was seen, microseconds; None if none was.

    expires: whether a transaction may expire in this run.
    """

    ledger: Ledger
    newest: int | None
    expires: bool


def judge(
    readings: Mapping[str, MembersReading],
    rows: Mapping[str, DataFrame],
    rules: Sequence[BundleRule],
    before: Before,
    keep: KeptFrames,
) -> JudgedTransactions:
    """rows: source -> those of its reading."""
    ledger = before.ledger
    closed_before = ledger.members(past(readings, rules))
    new = keep(all_members(rows, rules).join(closed_before, [*MEMBER], "left_anti"))
    told: Any = new.agg(sf.max(sf.unix_micros("time")), sf.min("transaction"), sf.max("transaction")).first()
    newest = max((one for one in (before.newest, told[0]) if one is not None), default=None)
    closed = ledger.transactions(told[1], told[2])
    late = [name for rule in rules if rule.late != "again" for name in (one.name for one in rule.inputs)]
    closed = closed.where(sf.col("input").isin(late)).select("transaction").distinct()
    members = new.withColumn("is_new", sf.lit(True))
    if any(rule.late == "redo" for rule in rules):
        former = keep(ledger.of(new.select("transaction").distinct().join(closed, "transaction", "left_semi")))
        rows = _with_former(rows, readings, rules, former)
        again = all_members(rows, rules).join(former, [*MEMBER], "left_semi")
        members = members.unionByName(again.withColumn("is_new", sf.lit(False)))
    judged = _grouped(members, rules).join(closed.withColumn("closed", sf.lit(True)), "transaction", "left")
    judged = judged.select(*KEYS, _state(rules, newest, before.expires).alias("state"), "at")
    members = keep(members.select(*KEYS, *MEMBER[:1], *PLACE, "time", "is_new").join(judged, KEYS))
    return JudgedTransactions(members, rows, readings, newest, *_counts(members, rules))


def _with_former(
    rows: Mapping[str, DataFrame],
    readings: Mapping[str, MembersReading],
    rules: Sequence[BundleRule],
    former: DataFrame,
) -> dict[str, DataFrame]:
    """With the rows of former members, of sources that have any."""
    spans: dict[str, MembersSpan] = {}
    sources = {one.name: one.source for _, one in pairs(rules)}
    for row in former.groupBy("input").agg(sf.min("offset").alias("least"), sf.max("offset").alias("most")).collect():
        source = sources.get(row.input)
        if source is not None:
            known = spans.get(source, MembersSpan(row.least, row.most))
            spans[source] = MembersSpan(min(known.least, row.least), max(known.most, row.most))
    wider = {name: rows[name].unionByName(readings[name].former(span)) for name, span in spans.items()}
    twice = {name: frame.dropDuplicates(["_kafka"]) for name, frame in wider.items() if readings[name].replays}
    return {**rows, **wider, **twice}


def _grouped(members: DataFrame, rules: Sequence[BundleRule]) -> DataFrame:
    """A row per transaction: complete, rescued, since when, and `at`, the place of its last member.

    A member's time counts as not before that of those before it in its partition: rows made of one partition come in
    the order of its offsets.
    """
    before = Window.partitionBy("topic", "partition").orderBy("epoch", "offset")
    is_new = sf.col("is_new")
    placed = members.withColumn("until", sf.max(sf.when(is_new, sf.col("time"))).over(before))
    at = sf.max(sf.when(is_new, sf.struct("until", *PLACE)))
    return placed.groupBy(*KEYS).agg(
        sf.coalesce(_of_rule(rules, lambda rule: f"({rule.complete})"), sf.lit(False)).alias("complete"),
        sf.coalesce(_of_rule(rules, lambda rule: f"({rule.rescue})"), sf.lit(False)).alias("rescued"),
        sf.unix_micros(sf.min("time")).alias("since"),
        at.alias("at"),
    )


def _of_rule(rules: Sequence[BundleRule], sql: Callable[[BundleRule], str]) -> Column:
    """What is said of a rule's transactions, by their rule."""
    return of_rule({rule.name: sf.expr(sql(rule)) for rule in rules})


def _state(rules: Sequence[BundleRule], newest: int | None, expires: bool) -> Column:
    end = _of_rule(rules, lambda rule: "NULL" if rule.expire_secs is None else f"{int(rule.expire_secs * 1e6)}L")
    expired = (sf.col("since") + end.cast("bigint") < sf.lit(newest).cast("bigint")) & sf.lit(expires)
    redo = sf.coalesce(_of_rule(rules, lambda rule: "true" if rule.late == "redo" else "false"), sf.lit(False))
    closed, complete = sf.coalesce(sf.col("closed"), sf.lit(False)), sf.col("complete")
    return (
        sf.when(closed, sf.when(redo & complete, DONE).otherwise(LATE))
        .when(complete, DONE)
        .when(expired, sf.when(sf.col("rescued"), DONE).otherwise(EXPIRED))
    )


def _counts(
    members: DataFrame, rules: Sequence[BundleRule]
) -> tuple[dict[str, int], int, int | None, dict[tuple[str, TopicPartition], Position]]:
    """Transactions by state; of the open members: how many, the oldest one's time, the first one of each partition."""
    by_state = members.groupBy("state").agg(sf.count_distinct(*KEYS).alias("number")).collect()
    states = {row.state or "open": row.number for row in by_state}
    if "open" not in states:
        return states, 0, None, {}
    sources = {one.name: one.source for _, one in pairs(rules)}
    first = sf.min(sf.struct("epoch", "offset")).alias("first")
    oldest = sf.unix_micros(sf.min("time")).alias("oldest")
    grouped = members.where("state IS NULL").groupBy("input", "topic", "partition")
    firsts: dict[tuple[str, TopicPartition], Position] = {}
    rows = grouped.agg(sf.count("*").alias("number"), oldest, first).collect()
    for row in rows:
        at = sources[row.input], TopicPartition(row.topic, row.partition)
        found = Position(row["first"].epoch, row["first"].offset)
        firsts[at] = min(found, firsts.get(at, found))
    return states, sum(row.number for row in rows), min(row.oldest for row in rows), firsts
