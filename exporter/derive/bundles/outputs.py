"""The rows that a run's transactions come to, in one order, and the frame that its commit writes (protocol 9.6)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from exporter.column.spark_json import as_json, struct_of, text_of
from exporter.column.types import all_nullable
from exporter.derive.bundles.judged import DONE, LATE, JudgedTransactions
from exporter.derive.bundles.ledger import KEPT_LATE, LEDGER, OWN
from exporter.derive.bundles.members import PLACE, of_rule, place_of, time_of, union
from exporter.derive.bundles.rules import KEY, TIME, BundleRule, Input, pairs
from exporter.derive.source import PinnedSource
from exporter.errors import ConfigError
from exporter.sql_text import column
from exporter.text import first_line

RESERVED = frozenset({field.split()[0] for field in OWN.split(", ")} | {"_at", "_rule", "_index", "_nth"})
"""What no column of an output may be called, but for the transaction's."""


def views(
    rows: Mapping[str, DataFrame], rules: Sequence[BundleRule], members: DataFrame, lookups: Mapping[str, PinnedSource]
) -> None:
    """Make each input's view of the rows that `members` names, and each lookup's of all rows.

    rows: source -> rows. members: transaction, input and the columns of PLACE.
    """
    for _, one in pairs(rules):
        chosen = members.where(sf.col("input") == one.name).select("transaction", *PLACE)
        _view(rows[one.source], one, chosen).createOrReplaceTempView(one.name)
    for name, lookup in lookups.items():
        lookup.frame().createOrReplaceTempView(name)


def _view(rows: DataFrame, one: Input, chosen: DataFrame) -> DataFrame:
    keyed = chosen.select(sf.col("transaction").alias(KEY), sf.struct(*PLACE).alias("_chosen"))
    placed = rows.withColumn("_chosen", sf.struct(*place_of())).withColumn(TIME, time_of(one))
    return placed.join(keyed, "_chosen").drop("_chosen")


def queried(session: Any, job: str, rules: Sequence[BundleRule]) -> Iterator[tuple[int, int, str, DataFrame]]:
    """(number of the rule, of the output in it, its name, rows) over the views as they are. Raises ConfigError."""
    for number, rule in enumerate(rules):
        for index, (name, sql) in enumerate(rule.outputs):
            try:
                made: DataFrame = session.sql(sql)
            except AnalysisException as error:
                raise _refused(job, name, first_line(error)) from error
            if KEY not in made.columns:
                raise _refused(job, name, f"it has no column {KEY}, the transaction that a row is of")
            if taken := [column for column in made.columns if column != KEY and column.lower() in RESERVED]:
                raise _refused(job, name, f"column {taken[0]} is the job's own")
            if void := [field.name for field in made.schema.fields if field.dataType.typeName() == "void"]:
                raise _refused(job, name, f"column {void[0]} has no type; cast it to one")
            yield number, index, name, made


def _refused(job: str, output: str, why: str) -> ConfigError:
    return ConfigError(f"[derive.{job}] output {output}: {why}", "`exporter derive plan` shows the SQL")


def output_rows(
    session: Any, job: str, rules: Sequence[BundleRule], judged: JudgedTransactions, base: int
) -> DataFrame:
    """The rows of all outputs, numbered from base + 1: by where their transactions were completed, then rule by rule.

    One task sorts and numbers them, through its disk if they are many.
    """
    made = [_ordered(*one) for one in queried(session, job, rules)]
    _require_one_type(job, made)
    done = judged.members.where(sf.col("state") == DONE).select("rule", "transaction", "at").distinct()
    numbers = of_rule({rule.name: sf.lit(n) for n, rule in enumerate(rules)})
    keyed = done.select(numbers.alias("_rule"), sf.col("transaction").alias(KEY), sf.col("at").alias("_at"))
    order = Window.orderBy("_at", "_rule", KEY, "_index", "_nth")
    seq = (sf.row_number().over(order) + sf.lit(base)).cast("bigint")
    return union(made).join(keyed, ["_rule", KEY], "left").withColumn("_seq", seq).drop("_rule", "_index", "_nth")


def _ordered(number: int, index: int, name: str, made: DataFrame) -> DataFrame:
    """With `_nth`, a number by which a transaction's rows of an output are in the order of their columns."""
    by = [sf.to_json(sf.struct(f.name)) if _has_map(f.dataType) else sf.col(column(f.name)) for f in made.schema.fields]
    nth = sf.row_number().over(Window.partitionBy(KEY).orderBy(*by))
    told = {"_output": sf.lit(name), "_rule": sf.lit(number), "_index": sf.lit(index), "_nth": nth}
    return made.withColumns(told)


def _has_map(kind: DataType) -> bool:
    """Whether values have no order."""
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType) or kind.typeName() == "variant"


def _require_one_type(job: str, made: Sequence[DataFrame]) -> None:
    known: dict[str, tuple[str, DataType]] = {}
    for frame in made:
        for field in frame.schema.fields:
            name, kind = known.setdefault(field.name.lower(), (field.name, field.dataType))
            if (name, kind) != (field.name, field.dataType):
                what = f"column {field.name} is {kind.simpleString()} here and {field.dataType.simpleString()} there"
                raise ConfigError(f"[derive.{job}] outputs: {what}", "a column has one name and type in all outputs")


def ledger_rows(judged: JudgedTransactions) -> DataFrame:
    """A row per member that this run closes."""
    closed = judged.members.where("is_new AND state IS NOT NULL")
    member = sf.struct("input", *PLACE).alias("_member")
    key, state = sf.col("transaction").alias(KEY), sf.col("state").alias("_state")
    told = closed.select(sf.lit(LEDGER).alias("_output"), key, state, member)
    return told.repartition(1).sortWithinPartitions("_member")


def late_rows(judged: JudgedTransactions, rules: Sequence[BundleRule]) -> Iterator[DataFrame]:
    """The late members' rows as JSON, of the rules that keep them."""
    for rule, one in pairs(rules):
        if rule.late == "dead_letter":
            late = judged.members.where((sf.col("state") == LATE) & (sf.col("input") == one.name))
            late = late.select("transaction", *PLACE)
            rows = judged.rows[one.source]
            columns = [sf.col(column(name)) for name in rows.columns]
            row = sf.to_json(sf.struct(*columns)).alias("_row")
            member = sf.struct(sf.lit(one.name).alias("input"), *place_of()).alias("_member")
            yield _view(rows, one, late).select(sf.lit(KEPT_LATE).alias("_output"), KEY, member, row)


def as_written(rows: DataFrame, run: int, lookups: Mapping[str, int]) -> DataFrame:
    """The frame of a commit: the job's own columns first, of their types, then those of the outputs."""
    rows = rows.withColumn("_run", sf.lit(run).cast("bigint"))
    pinned = sf.when(sf.col("_output") == LEDGER, sf.lit(json.dumps(dict(lookups), sort_keys=True)))
    rows = rows.withColumn("_lookups", pinned)
    own = StructType.fromDDL(OWN)
    there = {name.lower() for name in rows.columns}
    first = [
        (sf.col(field.name) if field.name in there else sf.lit(None)).cast(field.dataType).alias(field.name)
        for field in own.fields
    ]
    others = [sf.col(column(name)) for name in rows.columns if name not in (*own.names, "_at")]
    return rows.select(*first, *others)


def schema_of(job: str, rows: DataFrame, there: str | None, anew: bool) -> str | None:
    """The schema that the table gets, as Spark's JSON: all of it nullable; None if it has all of the columns.

    there: that it has, None if there is no table. anew: whether none of its rows stays. Raises ConfigError if a column
    is of another type by now.
    """
    wanted = struct_of(text_of(all_nullable(struct_of(rows.schema.json()))))
    if there is None:
        return json.dumps(as_json(wanted))
    schema = struct_of(there)
    if anew:
        return None if schema == wanted else json.dumps(as_json(wanted))
    known = {one.name.lower(): one for one in schema.fields}
    for one in wanted.fields:
        old = known.get(one.name.lower(), one)
        if (old.name, all_nullable(old.type)) != (one.name, one.type):
            raise ConfigError(
                f"[derive.{job}] outputs: column {one.name} is of another type than in the job's table",
                f"cast it, or begin anew: `exporter derive run {job} --rebuild`",
            )
    added = [one for one in wanted.fields if one.name.lower() not in known]
    return json.dumps(as_json(replace(schema, fields=(*schema.fields, *added)))) if added else None
