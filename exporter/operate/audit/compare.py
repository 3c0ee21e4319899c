"""The comparison of an audit: all records of the topics against all rows of the tables, as one Spark job.

    records: where each belongs, its checksum ─┐
                                               ├─ group by (topic partition, offset) ── verdicts ── report
    rows: where each stands, its checksum ─────┘

Where a record belongs comes from sql.py, for each offset by the configuration that the dead letters record for
it. Reads only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any, cast

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.arrow.kafka_time import NO_DAY
from exporter.core.columns import EVENT_TIME
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.kafka import careful
from exporter.lake.schema import NO_COLUMNS
from exporter.operate.audit import sql as audit_sql
from exporter.operate.audit.files import LiveFiles
from exporter.operate.audit.pin import Pinned
from exporter.operate.audit.report import EXAMPLES_MAX, FINDINGS, AuditReport, BadOffset, Missing, examples
from exporter.operate.audit.sql import EITHER, LETTERS, UNKNOWN
from offsets.ranges import TopicPartition

FETCH_OPTIONS = {
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "50000",
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.fetch.max.wait.ms": "10",
    "kafka.allow.auto.create.topics": "false",
}
"""At the end of a partition a client has asked for more already, and waits for what does not come: by default half a
second for each of them, which was most of an audit of many partitions."""
SLICE_RECORDS_MIN = 20_000
TASKS_PER_CORE = 16
"""More partitions than so many for each core share tasks, so that these do not cost more than the records."""
OPEN_BYTES = 256 << 10
"""What it takes to open a file, in bytes that could be read meanwhile: small files share tasks by it."""
SHUFFLE_ROWS = 500_000
"""Rows of the comparison that one shuffle partition gets, about."""
BAD_OFFSETS_MAX = 1_000
"""Offsets of each kind of finding that are fetched for the examples; all are counted."""

COVER_DDL = (
    "code int, topic string, partition int, spans array<struct<after: bigint, through: bigint>>, position bigint, "
    "gaps array<struct<after: bigint, through: bigint>>, since int, replayed bigint"
)
INFO_DDL = (
    "topic string, partition int, wanted bigint, first bigint, next bigint, "
    "letters array<struct<after: bigint, through: bigint>>, "
    "letters_gaps array<struct<after: bigint, through: bigint>>, "
    "regions array<struct<after: bigint, through: bigint, routing: int, complete: boolean, visible: boolean>>"
)
ROWS_DDL = (
    "code int, topic string, partition int, epoch int, offset bigint, row_hash bigint, row_day date, row_time bigint, "
    "faulty boolean, unread boolean, outside boolean, checkable boolean, replayed boolean"
)
AGAIN_DDL = "array<struct<routing: int, code: int, hash: bigint, day: date, time: bigint>>"

PARTITION = ["topic", "partition"]
"""The columns that name a topic partition, in every frame."""


@dataclass(frozen=True)
class Log:
    """One topic partition: log start, readable end and high watermark; what is read of it: [first, next)."""

    start: int
    end: int
    high_watermark: int
    first: int
    next: int


@dataclass(frozen=True)
class Job:
    """What all steps of one audit need. compacted: the topics from which records may vanish.

    client: keywords of kafka-python's clients. careful: what Spark's source may not survive is read by
    kafka/careful.py.
    """

    session: Any
    topics: tuple[str, ...]
    routing: Routing
    kafka_options: Mapping[str, str]
    day: date | None
    from_offsets: Mapping[TopicPartition, int]
    compacted: frozenset[str]
    client: Mapping[str, Any] = field(default_factory=dict)
    careful: bool = False


def was_cut(files: Mapping[str, LiveFiles]) -> bool:
    """Whether a dead letter has just the beginning of a value: one that the JVM may not survive."""
    if DEAD_LETTERS not in files:
        return False
    reason = sf.col("reason")
    cut = reason.startswith("too_long:") & reason.endswith("are kept")
    return bool(files[DEAD_LETTERS].frame.filter(cut).limit(1).count())


def compare(
    job: Job, pinned: Pinned, files: Mapping[str, LiveFiles], logs: Mapping[TopicPartition, Log]
) -> AuditReport:
    """One pass over the topic's range and all rows; a second, over its stored result, for examples."""
    total = sum(one.next - one.first for one in logs.values()) + sum(f.count.rows for f in files.values())
    cores = int(job.session.sparkContext.defaultParallelism)
    shuffle = str(min(400, max(cores, total // SHUFFLE_ROWS + 1)))
    options = {
        "spark.sql.shuffle.partitions": shuffle,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.openCostInBytes": str(OPEN_BYTES),
    }
    if total <= SHUFFLE_ROWS:  # planning stage by stage then takes longer than the stages
        options["spark.sql.adaptive.enabled"] = "false"
    with _conf(job.session, options):
        info = sf.broadcast(job.session.createDataFrame(_info_rows(job, pinned, logs), INFO_DDL))
        cover = sf.broadcast(job.session.createDataFrame(_cover_rows(pinned), COVER_DDL))
        fields = _compared_fields(pinned)
        records = _records(job, pinned, logs, info, cover, fields)
        rows = _rows(job, pinned, files, info, cover, fields)
        verdicts = _verdicts(records, rows, job.day, bool(pinned.replayed)).persist(StorageLevel.DISK_ONLY)
        try:
            return _report(verdicts, pinned, job.topics, fields)
        finally:
            verdicts.unpersist()


@contextmanager
def _conf(session: Any, options: Mapping[str, str]) -> Iterator[None]:
    before = {name: session.conf.get(name) for name in options}
    for name, value in options.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


def _info_rows(job: Job, pinned: Pinned, logs: Mapping[TopicPartition, Log]) -> list[Any]:
    """Per partition: what is looked at, what the dead letters cover, which configuration holds where.

    complete: each record of the region can be expected to have a row; visible: each row to have a record. Either
    fails where the region's isolation is not that of this reading.
    """
    rows: list[Any] = []
    for tp, one in logs.items():
        regions = []
        for region in pinned.regions.get(tp, []):
            isolation = pinned.routings[region.routing].isolation
            complete = isolation == "read_uncommitted" or job.routing.isolation == "read_committed"
            visible = isolation == job.routing.isolation and tp.topic not in job.compacted
            regions.append((region.after, region.through, region.routing, complete, visible))
        wanted = job.from_offsets.get(tp, 0)
        letters, lost = pinned.spans.get((DEAD_LETTERS, tp), []), pinned.gaps.get((DEAD_LETTERS, tp), [])
        rows.append((tp.topic, tp.partition, wanted, one.first, one.next, letters, lost, regions))
    return rows


def _cover_rows(pinned: Pinned) -> list[Any]:
    """Per table and partition: where it may hold rows. A condemned record's row may come before the position does."""
    rows: list[Any] = []
    for (name, tp), spans in pinned.spans.items():
        position = pinned.positions[name, tp]
        condemned = max(pinned.condemned.get(tp, ()), default=-1) if name == DEAD_LETTERS else -1
        early = [(position, condemned)] if condemned > position else []
        lost, since, replayed = pinned.gaps.get((name, tp), []), pinned.since[name, tp], pinned.replayed.get((name, tp))
        again = [(-1, replayed)] if replayed is not None else []
        code = pinned.codes[name]
        rows.append((code, tp.topic, tp.partition, [*spans, *early, *again], position, lost, since, replayed))
    return rows


def _compared_fields(pinned: Pinned) -> dict[int, tuple[dict[str, Any], ...]]:
    """Code -> the columns whose values are compared."""
    return {
        code: audit_sql.compared_columns(
            [
                one.schemas.get(name, NO_COLUMNS)  # nothing is compared of a type that was once filled undeclared
                for one in pinned.routings
                if name in one.schemas or one.new_type == "table"
            ],
            pinned.views[name].schema_json,
        )
        for name, code in pinned.codes.items()
        if code != LETTERS and name in pinned.views
    }


def _in_spans(spans: str) -> Column:
    """True if the row's offset lies in one of the (after, through] of a column; false where it is null."""
    found = sf.exists(spans, lambda s: (sf.col("offset") > s["after"]) & (sf.col("offset") <= s["through"]))
    return sf.coalesce(found, sf.lit(False))


def _region(frame: DataFrame) -> DataFrame:
    """Adds `region`: the one that holds the row's offset."""
    inside = sf.filter("regions", lambda r: (sf.col("offset") > r["after"]) & (sf.col("offset") <= r["through"]))
    return frame.withColumn("region", sf.try_element_at(inside, sf.lit(1))).drop("regions")


def _records(
    job: Job,
    pinned: Pinned,
    logs: Mapping[TopicPartition, Log],
    info: DataFrame,
    cover: DataFrame,
    fields: Mapping[int, Sequence[Mapping[str, Any]]],
) -> DataFrame:
    """One slim row per record: expected table, whether it must have a row, checksums, day."""
    frame = _careful_records(job, pinned, logs) if job.careful else _topic_records(job, logs)
    frame = frame.withColumn("timestamp", audit_sql.sane_timestamp()).join(info, PARTITION)
    if pinned.replayed:
        since = sf.filter("regions", lambda region: region["through"] >= sf.col("offset"))
        frame = frame.withColumn("later", sf.transform(since, lambda region: region["routing"]))
    frame = (
        _region(frame)
        .withColumn("text", sf.col("value").cast("string"))
        .withColumn("kafka_day", sf.coalesce(sf.col("timestamp").cast("date"), sf.lit(NO_DAY)))
        .withColumn("is_object", audit_sql.is_object())
        .withColumn("event_type", _by_region(pinned, "string", lambda one: audit_sql.event_type(one.type_from)))
        .withColumn("expected", _by_region(pinned, "int", lambda one: _expected(pinned, one)))
        .withColumn("expected", sf.coalesce("expected", sf.lit(UNKNOWN)))
    )
    frame = _again(frame, pinned, fields) if pinned.replayed else frame
    frame = frame.join(cover.withColumnRenamed("code", "expected"), ["expected", *PARTITION], "left")
    in_letters, in_type = _in_spans("letters"), _in_spans("spans")
    beyond = sf.coalesce(sf.col("offset") > sf.col("position"), sf.lit(False))
    # A bad record is covered by the dead letters, a good one by its type: only where both are is it certain.
    must = sf.when(sf.col("expected").isin(EITHER, UNKNOWN), sf.lit(False)).otherwise(
        in_letters & sf.col("region.complete") & (in_type | ~beyond) & ~_in_spans("gaps") & ~_in_spans("letters_gaps")
    )
    return frame.select(
        *PARTITION,
        "offset",
        "expected",
        must.alias("must"),
        audit_sql.record_checksum(fields, sf.col("expected")).alias("typed_hash"),
        audit_sql.letter_checksum().alias("letter_hash"),
        _by_region(pinned, "date", _event_day).alias("event_day"),
        _by_region(pinned, "bigint", lambda one: _kept_time(pinned, one, "expected")).alias("event_time"),
        "kafka_day",
        *(["again"] if pinned.replayed else []),
    )


def _expected(pinned: Pinned, routing: Routing) -> Column:
    return audit_sql.expected(routing, pinned.codes, sf.col("event_type"))


def _event_day(routing: Routing) -> Column:
    return audit_sql.event_time(routing.event_time).cast("date")


def _kept_time(pinned: Pinned, routing: Routing, code: str) -> Column:
    return audit_sql.kept_time(routing, pinned.codes, sf.col(code))


def _again(frame: DataFrame, pinned: Pinned, fields: Mapping[int, Sequence[Mapping[str, Any]]]) -> DataFrame:
    """Adds `again`: where a record belongs by each configuration that has been in force since it was exported.

    One of these has judged it if a replay has put it into a table. `later` are their numbers.
    """
    verdicts = []
    for number, one in enumerate(pinned.routings):
        name, code = f"event_type_{number}", f"expected_{number}"
        frame = frame.withColumn(name, audit_sql.event_type(one.type_from))
        frame = frame.withColumn(code, audit_sql.expected(one, pinned.codes, sf.col(name)))
        verdicts.append(
            sf.struct(
                sf.lit(number).alias("routing"),
                sf.col(code).alias("code"),
                audit_sql.record_checksum(fields, sf.col(code)).alias("hash"),
                _event_day(one).alias("day"),
                _kept_time(pinned, one, code).alias("time"),
            )
        )
    known = sf.array(*verdicts) if verdicts else sf.array().cast(AGAIN_DDL)
    return frame.withColumn("again", sf.filter(known, lambda one: sf.array_contains("later", one["routing"])))


def _by_region(pinned: Pinned, kind: str, column: Callable[[Routing], Column]) -> Column:
    """column(routing) of the configuration that holds for the row; null, of type `kind`, where none is known."""
    number = sf.col("region.routing")
    return audit_sql.one_of([(number == at, column(one)) for at, one in enumerate(pinned.routings)], kind)


def _topic_records(job: Job, logs: Mapping[TopicPartition, Log]) -> DataFrame:
    """The raw records of the ranges to read, with headers."""
    read = {tp: one for tp, one in logs.items() if one.next > one.first}
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
    if not read:
        kinds = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
        ddl = f"{kinds}, headers array<struct<key: string, value: binary>>"
        empty: DataFrame = job.session.createDataFrame([], ddl)
        return empty.select(columns)
    records = sum(one.next - one.first for one in read.values())
    topics = sorted({tp.topic for tp in read})
    slices = max(len(read), min(job.session.sparkContext.defaultParallelism, records // SLICE_RECORDS_MIN))
    options = {
        **FETCH_OPTIONS,
        **job.kafka_options,
        "kafka.isolation.level": job.routing.isolation,
        "failOnDataLoss": "true",
        "assign": json.dumps({t: sorted(tp.partition for tp in read if tp.topic == t) for t in topics}),
        "startingOffsets": _offsets_json(topics, {tp: one.first for tp, one in read.items()}),
        "endingOffsets": _offsets_json(topics, {tp: one.next for tp, one in read.items()}),
        "minPartitions": str(slices),
        "includeHeaders": "true",
    }
    frame: DataFrame = job.session.read.format("kafka").options(**options).load()
    return frame.select(columns).coalesce(_tasks_max(job))


def _tasks_max(job: Job) -> int:
    return TASKS_PER_CORE * int(job.session.sparkContext.defaultParallelism)


def _careful_records(job: Job, pinned: Pinned, logs: Mapping[TopicPartition, Log]) -> DataFrame:
    """The same by kafka/careful.py, but for records that were condemned: these may be what cannot be read at all."""
    wanted = [
        careful.Wanted(job.client, tp, start, end, job.routing.isolation, job.routing.record_bytes_max)
        for tp, one in logs.items()
        for start, end in _around(one.first, one.next, pinned.condemned.get(tp, frozenset()))
    ]

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from careful.records(wanted[number])

    tasks = max(1, min(len(wanted), _tasks_max(job)))
    frame = job.session.range(0, len(wanted), 1, tasks).mapInArrow(run, careful.DDL)
    return cast("DataFrame", frame.select("key", "value", *PARTITION, "offset", "timestamp", "headers"))


def _around(first: int, following: int, left_out: frozenset[int]) -> Iterator[tuple[int, int]]:
    """The ranges of first..following-1 between offsets that are left out."""
    for offset in sorted(offset for offset in left_out if first <= offset < following):
        if first < offset:
            yield first, offset
        first = offset + 1
    if first < following:
        yield first, following


def _offsets_json(topics: Sequence[str], offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps({t: {str(tp.partition): at for tp, at in offsets.items() if tp.topic == t} for t in topics})


def _rows(
    job: Job,
    pinned: Pinned,
    files: Mapping[str, LiveFiles],
    info: DataFrame,
    cover: DataFrame,
    fields: Mapping[int, Sequence[Mapping[str, Any]]],
) -> DataFrame:
    """One slim row per row of these topics in any table, and per row without coordinates."""
    frame: DataFrame | None = None
    for name, found in files.items():
        one = _table_rows(found.frame, pinned.codes[name], job.topics, fields)
        frame = one if frame is None else frame.unionByName(one)
    if frame is None:
        empty: DataFrame = job.session.createDataFrame([], ROWS_DDL)
        return empty
    frame = _region(frame.join(info, PARTITION, "left").join(cover, ["code", *PARTITION], "left"))
    readable = (sf.col("offset") >= sf.col("first")) & (sf.col("offset") < sf.col("next"))
    checkable = sf.coalesce(readable & sf.col("region.visible") & ~sf.col("condemned"), sf.lit(False))
    wanted = sf.col("offset").isNull() | (sf.col("offset") >= sf.coalesce("wanted", sf.lit(0)))
    wanted = wanted & (sf.coalesce("epoch", sf.lit(0)) >= sf.coalesce("since", sf.lit(0)))
    outside, hashed = ~_in_spans("spans"), ["row_hash", "row_day", "row_time", "faulty"]
    replayed = sf.coalesce(sf.col("offset") <= sf.col("replayed"), sf.lit(False))
    return frame.filter(wanted).select(
        "code", *PARTITION, "offset", *hashed, "unread", outside.alias("outside"), checkable.alias("checkable"),
        replayed.alias("replayed"),
    )  # fmt: skip


def _table_rows(
    frame: DataFrame, code: int, topics: Sequence[str], fields: Mapping[int, Sequence[Mapping[str, Any]]]
) -> DataFrame:
    """Coordinates, checksum and day of a table's rows. A gap row of the dead letters has a topic but no offset."""
    kafka = frame["_kafka"]
    nowhere = kafka["topic"].isNull() | kafka["partition"].isNull() | kafka["offset"].isNull()
    if code == LETTERS:
        chosen = kafka["topic"].isin(*topics) & ~nowhere
        said = (sf.length("stage") > 0) & (sf.length("reason") > 0)
        faulty = ~sf.coalesce(said, sf.lit(False))
        timed = frame.filter(chosen).withColumn("timestamp", kafka["timestamp"])
        hashed, condemned = audit_sql.letter_checksum(), sf.coalesce(sf.col("stage") == "condemned", sf.lit(False))
        unread = condemned & sf.coalesce("key", "value").isNull() & kafka["timestamp"].isNull()
    else:
        timed = frame.filter(kafka["topic"].isin(*topics) | nowhere)
        faulty = condemned = unread = sf.lit(False)
        quoted = lambda name: sf.col("`" + name.replace("`", "``") + "`")  # noqa: E731
        hashed = audit_sql.checksum(sf.col("_kafka.timestamp"), fields.get(code, ()), quoted)
    return timed.select(
        sf.lit(code).alias("code"),
        sf.col("_kafka.topic").alias("topic"),
        sf.col("_kafka.partition").alias("partition"),
        sf.col("_kafka.epoch").alias("epoch"),
        sf.col("_kafka.offset").alias("offset"),
        hashed.alias("row_hash"),
        sf.col("day").alias("row_day"),
        _row_time(frame).alias("row_time"),
        faulty.alias("faulty"),
        condemned.alias("condemned"),
        unread.alias("unread"),
    )


def _row_time(frame: DataFrame) -> Column:
    """What the rows say of their event time: null in those of versions that did not keep it, and in other tables."""
    kept = (EVENT_TIME, "timestamp") in frame.dtypes
    return sf.unix_micros(EVENT_TIME) if kept else sf.lit(None).cast("bigint")


def _verdicts(records: DataFrame, rows: DataFrame, day: date | None, replays: bool) -> DataFrame:
    """One row per (topic, partition, offset): kind, table (code), other (code), in_topic, amount, twin."""
    both = records.withColumn("in_topic", sf.lit(1)).unionByName(
        rows.withColumn("in_topic", sf.lit(0)), allowMissingColumns=True
    )
    grouped = both.groupBy(*PARTITION, "offset").agg(
        sf.sum("in_topic").alias("in_topic"),
        sf.count("code").alias("rows"),
        sf.min("code").alias("code"),
        sf.max("code").alias("code_max"),
        *(sf.max(name).alias(name) for name in ("expected", "must", "typed_hash", "letter_hash")),
        *(sf.max(name).alias(name) for name in ("event_day", "event_time")),
        *(sf.max(name).alias(name) for name in ("kafka_day", "faulty", "unread", "outside", "checkable")),
        *_of_the_row(replays),
        sf.min("row_day").alias("row_day_min"),
    )
    grouped = _settled(grouped, replays)
    if day is not None:
        wanted = sf.lit(day)
        of_rows = (sf.col("row_day") == wanted) | (sf.col("row_day_min") == wanted)
        of_record = sf.coalesce("event_day", "kafka_day") == wanted
        grouped = grouped.filter(sf.when(sf.col("rows") > 0, of_rows).otherwise(of_record))
    expected, code = sf.col("expected"), sf.col("code")
    other = sf.when(sf.col("kind") == "twice", sf.col("code_max")).otherwise(sf.greatest(expected, sf.lit(LETTERS)))
    return grouped.withColumn("kind", _kind()).select(
        "kind",
        *PARTITION,
        "offset",
        "in_topic",
        sf.when(sf.col("rows") > 0, code).otherwise(sf.greatest(expected, sf.lit(LETTERS))).alias("code"),
        sf.coalesce(other, sf.lit(LETTERS)).alias("other"),
        sf.when(_nowhere(), sf.col("rows")).otherwise(sf.lit(1)).alias("amount"),
        "twin",
    )


def _of_the_row(replays: bool) -> list[Column]:
    """What is taken from an offset's row; of several, where there are replays, from the one that is no dead letter."""
    if not replays:
        return [sf.max(name).alias(name) for name in ("row_hash", "row_day", "row_time")]
    names = ("row_hash", "row_day", "row_time", "replayed")
    return [*(sf.max_by(name, "code").alias(name) for name in names), sf.first("again", True).alias("again")]


def _settled(grouped: DataFrame, replays: bool) -> DataFrame:
    """Adds twin, again_table, again_fits: what replays of dead letters make of an offset; all false without any.

    twin: one row in the dead letters, one in a table that had a replay of that offset or a later one; the table's
    counts, because the replay was interrupted before its DELETE. Two rows in a table are never a twin.
    again_table, again_fits: a configuration since then accounts for the row's table; for all of the row.
    """
    if not replays:
        return grouped.withColumns(dict.fromkeys(("twin", "again_table", "again_fits"), sf.lit(False)))
    code, replayed = sf.col("code"), sf.coalesce("replayed", sf.lit(False))
    twin = (sf.col("rows") == 2) & (code == LETTERS) & (sf.col("code_max") != LETTERS) & replayed
    grouped = grouped.withColumn("twin", sf.coalesce(twin, sf.lit(False)))
    grouped = grouped.withColumn("code", sf.when(sf.col("twin"), sf.col("code_max")).otherwise(code))
    grouped = grouped.withColumn("rows", sf.when(sf.col("twin"), sf.lit(1)).otherwise(sf.col("rows")))

    def here(one: Column) -> Column:
        return (one["code"] == sf.col("code")) | (one["code"] == EITHER)

    def fits(one: Column) -> Column:
        same = one["hash"].isNull() | one["hash"].eqNullSafe(sf.col("row_hash"))
        same = same & (one["day"].isNull() | one["day"].eqNullSafe(sf.col("row_day")))
        same = same & ~sf.coalesce(one["time"] != sf.col("row_time"), sf.lit(False))
        return (one["code"] == EITHER) | ((one["code"] == sf.col("code")) & same)

    found = {"again_table": sf.exists("again", here), "again_fits": sf.exists("again", fits)}
    return grouped.withColumns({name: sf.coalesce(replayed & one, sf.lit(False)) for name, one in found.items()})


def _nowhere() -> Column:
    """True of rows without full coordinates; those that lack the same ones are one group."""
    return sf.col("topic").isNull() | sf.col("partition").isNull() | sf.col("offset").isNull()


def _kind() -> Column:
    """The verdict on one offset; the first that holds."""
    code, expected, rows = sf.col("code"), sf.col("expected"), sf.col("rows")
    in_letters = code == LETTERS
    accounted = in_letters | (code == expected) | (expected == EITHER)
    right_hash = sf.when(in_letters, sf.col("letter_hash")).otherwise(sf.col("typed_hash"))
    right_day = sf.when(in_letters, sf.col("kafka_day")).otherwise(sf.col("event_day"))
    differs = sf.coalesce(sf.col("row_hash") != right_hash, sf.lit(False)) & (expected != EITHER)
    differs = differs | (right_day.isNotNull() & ~sf.col("row_day").eqNullSafe(right_day)) | ~accounted
    differs = differs | sf.coalesce(sf.col("row_time") != sf.col("event_time"), sf.lit(False))
    differs = sf.col("faulty") | (differs & ~sf.col("again_fits") & ~sf.col("unread"))
    return (
        sf.when(_nowhere(), "foreign")
        .when(rows > 1, "twice")
        .when((rows == 1) & sf.col("outside"), "outside")
        .when((rows == 1) & (sf.col("in_topic") == 0), sf.when(sf.col("checkable"), "foreign").otherwise("gone"))
        .when(expected == UNKNOWN, "unchecked")
        .when((rows == 1) & ~accounted & ~sf.col("again_table"), "wrong_table")
        .when((rows == 1) & differs, "different")
        .when(rows == 1, "once")
        .when(sf.col("must"), "missing")
        .otherwise("pending")
    )


def _report(
    verdicts: DataFrame, pinned: Pinned, topics: tuple[str, ...], fields: Mapping[int, Sequence[Mapping[str, Any]]]
) -> AuditReport:
    names = {code: name for name, code in pinned.codes.items()}
    kinds: Counter[str] = Counter()
    checked = letters = 0
    counted = verdicts.groupBy("kind", "code").agg(
        sf.sum("amount").alias("amount"),
        sf.sum("in_topic").alias("in_topic"),
        sf.sum(sf.col("twin").cast("int")).alias("twins"),
    )
    twins = 0
    for row in counted.collect():
        kinds[row.kind] += row.amount
        twins += row.twins
        checked += row.in_topic if row.kind != "unchecked" else 0
        letters += row.amount if row.kind == "once" and row.code == LETTERS else 0
    bad = [found for kind in FINDINGS if kinds[kind] for found in _bad_offsets(verdicts, kind, names)]
    wanted: dict[str, Any] = {name: int(kinds[name]) for name in (*FINDINGS, "once", "pending", "gone", "unchecked")}
    return AuditReport(
        topics,
        checked=checked,
        dead_letters=letters,
        replaying=twins,
        examples=examples(bad, EXAMPLES_MAX),
        missing_by_table=_missing(verdicts, names) if kinds["missing"] else (),
        checked_columns={names[code]: tuple(f["name"] for f in some) for code, some in fields.items()},
        **wanted,
    )


def _bad_offsets(verdicts: DataFrame, kind: str, names: Mapping[int, str]) -> list[BadOffset]:
    found = verdicts.filter(sf.col("kind") == kind).orderBy("code", *PARTITION, "offset").limit(BAD_OFFSETS_MAX)
    return [BadOffset(kind, names[r.code], r.topic, r.partition, r.offset, names[r.other]) for r in found.collect()]


def _missing(verdicts: DataFrame, names: Mapping[int, str]) -> tuple[Missing, ...]:
    grouped = verdicts.filter(sf.col("kind") == "missing").groupBy("code", *PARTITION)
    found = grouped.agg(sf.count("offset").alias("n"), sf.min("offset").alias("a"), sf.max("offset").alias("b"))
    rows = [Missing(names[r.code], r.topic, r.partition, r.n, r.a, r.b) for r in found.collect()]
    return tuple(sorted(rows, key=lambda one: (one.table, one.topic, one.partition)))
