"""The proof of a job's table from all rows of its sources and the ledger; shares the rules' SQL with the job, no more.

Each member is once closed or open; each transaction was closed as its members say; the outputs, asked once of all
transactions that are done, give the rows that the table has; their numbers have no hole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType, StructField

from exporter.derive.bundles.ledger import Ledger
from exporter.derive.bundles.members import MEMBER, MembersReading, of_rule, slim, union
from exporter.derive.bundles.outputs import queried, views
from exporter.derive.bundles.rules import KEY, BundleRule, pairs
from exporter.derive.job import AuditLine
from exporter.derive.places import within
from exporter.derive.source import PinnedSource, is_there, pin
from exporter.errors import LogCleaned
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.sql_text import column
from offsets.cursors import NOTHING, slices


@dataclass(frozen=True)
class AuditedBundles:
    """What is to be proven. numbers: that the last commit said. lookups: view -> event type. table: all rows."""

    job: str
    later: Later
    rules: Sequence[BundleRule]
    readings: Mapping[str, MembersReading]
    ledger: Ledger
    numbers: Mapping[str, int]
    lookups: Mapping[str, str]
    table: DataFrame
    lake: Lake


def audit(of: AuditedBundles) -> list[AuditLine]:
    """What holds, and what does not."""
    rows = {name: _rows(one) for name, one in of.readings.items()}
    members = union(slim(rows[one.source], rule, one) for rule, one in pairs(of.rules))
    closed = of.ledger.rows().withColumnRenamed("transaction", "noted")
    both = members.join(closed, [*MEMBER], "full").persist()
    closings = _closings(of, both).persist()
    try:
        lines = [_members(of, both), _open(of, both), _states(of, closings)]
        return [*lines, _outputs(of, rows, both, closings), _numbers(of)]
    finally:
        closings.unpersist()
        both.unpersist()


def _rows(reading: MembersReading) -> DataFrame:
    """All rows of a source through what was looked at."""
    taken = replace(reading.source.now, positions=reading.taken.positions)
    return reading.source.frame().where(within(slices(NOTHING, taken)))


def _before_open(of: AuditedBundles) -> Column:
    """Whether a member is one that must have been closed, for the cursor has passed it."""
    held = sf.lit(False)
    for _, one in pairs(of.rules):
        reading = of.readings[one.source]
        for tp, at in reading.open.positions.items():
            here = (sf.col("input") == one.name) & (sf.col("topic") == tp.topic) & (sf.col("partition") == tp.partition)
            passed = (sf.col("epoch") < at.epoch) | ((sf.col("epoch") == at.epoch) & (sf.col("offset") <= at.offset))
            held = held | (here & passed)
    return held


def _members(of: AuditedBundles, both: DataFrame) -> AuditLine:
    """Of each member: closed once, under the transaction that it is of, or open."""
    replays = any(one.replays for one in of.readings.values())
    twice = both.where("noted IS NOT NULL").groupBy(*MEMBER).count().where("count > 1").count()
    told: Any = both.agg(
        sf.count("*"),
        sf.count_if(sf.col("transaction") != sf.col("noted")),
        sf.count_if(sf.col("transaction").isNull()),
        sf.count_if(sf.col("noted").isNull()),
        sf.count_if(sf.col("noted").isNull() & _before_open(of)),
    ).first()
    count, moved, gone, left, lost = told
    wrong = {
        f"{twice} are closed twice": twice,
        f"{moved} are of another transaction than was noted": moved,
        f"{lost} were passed and never closed": 0 if replays else lost,
        f"{left} are open where the last run says {of.numbers['open']}": 0 if replays else left - of.numbers["open"],
    }
    says = [text for text, number in wrong.items() if number]
    says += [f"the rows of {gone} are gone from the sources"] if gone else []
    says += ["replays are to be taken still"] if replays else []
    return AuditLine(of.job, "members once closed or open", not any(wrong.values()), count, "; ".join(says))


def _case(rules: Sequence[BundleRule], sql: Mapping[str, str]) -> Column:
    return of_rule({rule.name: sf.expr(f"({sql[rule.name]})") for rule in rules})


def _said(of: AuditedBundles) -> list[Column]:
    """Of a group of members: what the conditions say, and since when."""
    complete = _case(of.rules, {rule.name: rule.complete for rule in of.rules})
    rescue = _case(of.rules, {rule.name: rule.rescue for rule in of.rules})
    expire = {rule.name: "CAST(NULL AS BIGINT)" if rule.expire_secs is None else f"{int(rule.expire_secs * 1e6)}L"
              for rule in of.rules}  # fmt: skip
    return [
        sf.coalesce(complete, sf.lit(False)).alias("complete"),
        sf.coalesce(rescue, sf.lit(False)).alias("rescued"),
        (sf.unix_micros(sf.min("time")) + _case(of.rules, expire)).alias("ends"),
        sf.count("*").alias("members"),
        sf.count_if(sf.col("topic").isNull()).alias("gone"),
    ]


def _again(of: AuditedBundles) -> Column:
    """Whether a rule's transactions begin anew with each closing."""
    return _case(of.rules, {rule.name: str(rule.late == "again").lower() for rule in of.rules})


def _open(of: AuditedBundles, both: DataFrame) -> AuditLine:
    """What is open is not complete, not expired, and of no transaction that was closed."""
    left = both.where("noted IS NULL").groupBy("rule", "transaction").agg(*_said(of))
    closed = both.where("noted IS NOT NULL").select(sf.col("noted").alias("transaction"), sf.lit(True).alias("closed"))
    left = left.join(closed.distinct(), "transaction", "left")
    judged = sf.lit(of.numbers["judged"] or None).cast("bigint")
    over = sf.coalesce(sf.col("ends") < judged, sf.lit(False))
    wrong = sf.col("complete") | over | (sf.col("closed").isNotNull() & ~_again(of))
    told: Any = left.agg(sf.count("*"), sf.count_if(wrong)).first()
    says = f"{told[1]} are to be closed" if told[1] else ""
    return AuditLine(of.job, "open transactions", not told[1], told[0], says)


def _closings(of: AuditedBundles, both: DataFrame) -> DataFrame:
    """A row per transaction and run that closed it: state, lookups, what the conditions say, and which time it was."""
    noted = _noted(of, both)
    heads = noted.groupBy("rule", "noted", "run").agg(
        sf.min("state").alias("state"), sf.max("state").alias("other"), sf.first("lookups").alias("lookups")
    )
    grouped = _of_closings(of, heads, noted).groupBy("rule", "noted", "run").agg(*_said(of))
    nth = sf.row_number().over(Window.partitionBy("rule", "noted", "state").orderBy("run"))
    first = sf.min("run").over(Window.partitionBy("rule", "noted"))
    closings = heads.join(grouped, ["rule", "noted", "run"]).withColumn("nth", nth).withColumn("first", first)
    return closings.withColumnRenamed("noted", "transaction")


def _noted(of: AuditedBundles, both: DataFrame) -> DataFrame:
    """The members of the ledger, with their rules also where their rows are gone."""
    rules = sf.create_map(*(sf.lit(text) for rule, one in pairs(of.rules) for text in (one.name, rule.name)))
    return both.where("noted IS NOT NULL").withColumn("rule", rules[sf.col("input")])


def _of_closings(of: AuditedBundles, heads: DataFrame, noted: DataFrame) -> DataFrame:
    """The members of each closing: those of its run, and where a transaction is made anew those of earlier runs."""
    runs = heads.select("rule", "noted", sf.col("run").alias("closed"))
    members = noted.withColumn("again", _again(of)).join(runs, ["rule", "noted"])
    return members.where("run = closed OR (NOT again AND run < closed)").drop("run").withColumnRenamed("closed", "run")


def _states(of: AuditedBundles, closings: DataFrame) -> AuditLine:
    """done is complete, or was rescued when it expired; expired is not; late was closed before."""
    newest = sf.lit(of.numbers["newest"])
    right = (
        sf.when(sf.col("state") != sf.col("other"), False)
        .when(sf.col("state") == "done", sf.col("complete") | (sf.col("rescued") & (sf.col("ends") < newest)))
        .when(sf.col("state") == "expired", ~sf.col("complete") & ~sf.col("rescued") & (sf.col("ends") < newest))
        .otherwise(sf.col("run") > sf.col("first"))
    )
    wrong = ~sf.coalesce(right, sf.lit(False)) & (sf.col("gone") == 0)
    told = closings.groupBy("state").agg(sf.count("*").alias("closed"), sf.count_if(wrong).alias("wrong")).collect()
    closed, wrongly = (sum(row[name] for row in told) for name in ("closed", "wrong"))
    says = ", ".join(f"{row.closed} {row.state}" for row in sorted(told))
    says = f"{wrongly} were closed wrongly" if wrongly else says
    return AuditLine(of.job, "closed transactions", not wrongly, closed, says)


def _outputs(of: AuditedBundles, rows: Mapping[str, DataFrame], both: DataFrame, closings: DataFrame) -> AuditLine:
    """The outputs once over all transactions: apart only by the lookups' versions, and by how often they were done."""
    table = of.table.where(sf.col("_seq").isNotNull())
    done = closings.where("state = 'done'")
    keys = done.select(sf.col("transaction").alias(KEY), sf.col("run").alias("_run"))
    wrong = table.join(keys, [KEY, "_run"], "left_anti").count()
    unread = 0
    for lookups, nth in done.select("lookups", "nth").distinct().collect():
        part = done.where((sf.col("lookups") == lookups) & (sf.col("nth") == nth) & (sf.col("gone") == 0))
        pinned: dict[str, PinnedSource] | None
        try:
            pinned = {view: pin(of.lake, of.later, of.lookups[view], version)
                      for view, version in json.loads(lookups).items() if view in of.lookups}  # fmt: skip
        except LogCleaned:
            pinned = None
        if pinned is None or not all(is_there(one) for one in pinned.values()):
            unread += part.count()
            continue
        heads = part.select("rule", sf.col("transaction").alias("noted"), "run")
        chosen = _of_closings(of, heads, _noted(of, both)).withColumnRenamed("noted", KEY)
        views(rows, of.rules, chosen.withColumn("transaction", sf.col(KEY)), pinned)
        runs = part.select(sf.col("transaction").alias(KEY), sf.col("run").alias("_run"))
        wrong += _differ(of, table.join(runs, [KEY, "_run"], "left_semi"))
    says = [f"{wrong} rows differ"] if wrong else []
    says += [f"{unread} transactions' lookups can no longer be read"] if unread else []
    return AuditLine(of.job, "rows reproduced", not wrong, table.count(), "; ".join(says))


def _differ(of: AuditedBundles, there: DataFrame) -> int:
    """How many rows are only in one of the two: those that the views come to now, and those of the table."""
    by_output: dict[str, list[DataFrame]] = {}
    for _, _, name, made in queried(of.later.session, of.job, of.rules):
        by_output.setdefault(name, []).append(made)
    wrong = there.where(~sf.col("_output").isin(*by_output)).count()
    for name, frames in by_output.items():
        now, then = union(frames), there.where(sf.col("_output") == name)
        columns = [field for field in now.schema.fields if field.name != KEY]
        if {field.name for field in columns} - {*then.columns}:
            wrong += now.count() + then.count()
            continue
        texts = _texts(now, columns, 1).unionAll(_texts(then, columns, -1))
        left = texts.groupBy(KEY, "text").agg(sf.abs(sf.sum("number")).alias("left"))
        wrong += (left.agg(sf.sum("left")).first() or [0])[0] or 0
    return int(wrong)


def _texts(rows: DataFrame, columns: Sequence[StructField], number: int) -> DataFrame:
    """Transaction, the columns as one text, and a number to add up. A float's last digits are the order of a sum."""
    shown = [
        sf.format_string("%.10e", sf.col(column(field.name)).cast("double")).alias(field.name)
        if isinstance(field.dataType, DoubleType | FloatType)
        else sf.col(column(field.name))
        for field in columns
    ]
    return rows.select(KEY, sf.to_json(sf.struct(*shown)).alias("text"), sf.lit(number).alias("number"))


def _numbers(of: AuditedBundles) -> AuditLine:
    """1, 2, 3 ... over all output rows, a later run's behind an earlier one's."""
    rows = of.table.where(sf.col("_seq").isNotNull())
    told: Any = rows.agg(sf.count("*"), sf.count_distinct("_seq"), sf.min("_seq"), sf.max("_seq")).first()
    count, different, least, most = told
    runs = rows.groupBy("_run").agg(sf.min("_seq").alias("least"), sf.max("_seq").alias("most"))
    behind = runs.withColumn("former", sf.lag("most").over(Window.orderBy("_run")))
    mixed = behind.where("least <= former").count()
    clean = (count, count) == (different, most or 0) and (least or 1) == 1 and most in (None, of.numbers["seq"])
    says = "" if clean and not mixed else f"{different} numbers from {least} to {most} for {count} rows"
    return AuditLine(of.job, "numbers without a hole", clean and not mixed, count, says)
