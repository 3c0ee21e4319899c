"""The two sides that an audit compares: a slim row for each record of the topics, and for each row of the tables.

Where a record belongs comes from sql.py, for each offset by the configuration that the dead letters record for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.arrow.kafka_time import NO_DAY
from exporter.core.columns import EVENT_TIME
from exporter.core.record_columns import RecordColumns
from exporter.core.routing import DEAD_LETTERS
from exporter.operate.audit import sql as audit_sql
from exporter.operate.audit.codes import EARLIER, LETTERS, UNKNOWN
from exporter.operate.audit.columns import COVER_DDL, INFO_DDL, PARTITION, RECORDS, ROWS_DDL, SLOT_DDL, in_spans
from exporter.operate.audit.expected.json_values import wholes
from exporter.operate.audit.files import LiveFiles
from exporter.operate.audit.job import Job, Log
from exporter.operate.audit.pin import FOREVER, Pinned
from exporter.operate.audit.readers.telling import TOLD_DDL, telling
from exporter.operate.audit.replays import NoReplays
from exporter.operate.audit.rules.plain import plain_columns
from exporter.operate.audit.rules.rules import Rules
from exporter.operate.audit.rules.slots import slot_of_letter
from exporter.operate.audit.source import careful_records, topic_records
from exporter.operate.audit.sql import Judge
from offsets.ranges import TopicPartition

Fields = Mapping[int, Sequence[Mapping[str, Any]]]
"""Code -> the columns whose values are compared, as fields of a Spark schema."""


@dataclass(frozen=True)
class Sides:
    """Of one comparison. fields: from compared_fields. replays: the optional stage."""

    job: Job
    pinned: Pinned
    logs: Mapping[TopicPartition, Log]
    fields: Fields
    replays: NoReplays

    @cached_property
    def info(self) -> DataFrame:
        """INFO_DDL."""
        rows = _info_rows(self.job, self.pinned, self.logs)
        return sf.broadcast(self.job.session.createDataFrame(rows, INFO_DDL))

    @cached_property
    def cover(self) -> DataFrame:
        """COVER_DDL."""
        return sf.broadcast(self.job.session.createDataFrame(_cover_rows(self.pinned), COVER_DDL))

    @cached_property
    def judges(self) -> tuple[Judge, ...]:
        """The configurations, by their index."""
        return judges_of(self.pinned, self.job.topics)

    @cached_property
    def rules(self) -> Rules:
        """Those of the configurations."""
        return Rules(self.judges, self.pinned.codes, self.pinned.schemas, self.pinned.replayed_through)

    def told_records(self) -> DataFrame:
        """Those records, and what workers tell of each of which Spark reads no value."""
        frame = self.raw_records()
        if all(one.by_spark for one in self.judges):
            return frame
        through = self.pinned.replayed_through
        run = telling(tuple(self.pinned.routings), self.pinned.schemas, audit_sql.COMPARED_BYTES_MAX, through)
        kinds = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)
        told: DataFrame = frame.mapInArrow(run, f"{kinds}, told {TOLD_DDL}")
        return told

    def raw_records(self) -> DataFrame:
        """The records to look at, as the topics have them."""
        if self.job.careful:
            return careful_records(self.job, self.pinned, self.logs)
        return topic_records(self.job, self.logs)

    def records(self) -> DataFrame:
        """One slim row per record: expected table, whether it must have a row, checksums, day."""
        codes, fields, rules = self.pinned.codes, self.fields, self.rules
        frame = self.told_records().withColumn("timestamp", audit_sql.sane_timestamp()).join(self.info, PARTITION)
        frame = (
            _region(frame)
            .withColumn("text", sf.col("value").cast("string"))
            .withColumn("kafka_day", sf.coalesce(sf.col("timestamp").cast("date"), sf.lit(NO_DAY)))
            .withColumns(wholes())
            .withColumn("event_type", self._by_region("string", audit_sql.event_type))
        )
        frame = self.replays.named(frame)
        if rules.there:
            asked, later = self.replays.asked(), self.replays.later_takers(rules)
            frame = rules.taken(frame, asked, later, self._by_region)
        told = self._by_region("int", lambda one: rules.expected(one, sf.col("event_type")))
        frame = self.replays.judged(frame.withColumn("expected", sf.coalesce(told, sf.lit(UNKNOWN))), rules)
        frame = frame.join(self.cover.withColumnRenamed("code", "expected"), ["expected", *PARTITION], "left")
        expected = sf.col("expected")
        columns = {
            "must": _must(),
            "typed_hash": self._by_format("bigint", lambda one: audit_sql.record_checksum(one, fields, expected)),
            "letter_hash": audit_sql.letter_checksum(),
            "key_hash": audit_sql.key_checksum(sf.col("key")),
            "headers_hash": audit_sql.headers_checksum(sf.col("headers")),
            "event_day": self._by_region("date", audit_sql.event_day),
            "event_time": self._by_region("bigint", lambda one: audit_sql.kept_time(one, codes, expected)),
        }
        slots = ["slot", "leads"] if rules.in_slots else []
        return frame.withColumns(columns).select(*PARTITION, "offset", *slots, *RECORDS, *self.replays.columns)

    def _by_region(self, kind: str, column: Callable[[Judge], Column]) -> Column:
        """column(judge) of the configuration that holds for the row; null, of type `kind`, where none is known."""
        number = sf.col("region.routing")
        return audit_sql.one_of([(number == one.number, column(one)) for one in self.judges], kind)

    def _by_format(self, kind: str, column: Callable[[Judge], Column]) -> Column:
        """The same, once for all configurations whose values Spark reads: what depends on a format alone."""
        groups: dict[int, list[Judge]] = {}
        for one in self.judges:
            groups.setdefault(-1 if one.by_spark else one.number, []).append(one)
        number = sf.col("region.routing")
        cases = [(number.isin([one.number for one in some]), column(some[0])) for some in groups.values()]
        return audit_sql.one_of(cases, kind)

    def rows(self, files: Mapping[str, LiveFiles]) -> DataFrame:
        """One slim row per row of these topics in any table, and per row without coordinates."""
        frame: DataFrame | None = None
        for name, found in files.items():
            cut_by = self.pinned.views[name].partition_columns
            code = self.pinned.codes[name]
            slot = slot_of_letter(self.pinned.codes) if code == LETTERS else sf.lit(code)
            slots = [slot.alias("slot")] if self.rules.in_slots else []
            one = _table_rows(found.frame, code, self.job, self.fields, cut_by, slots)
            frame = one if frame is None else frame.unionByName(one)
        if frame is None:
            empty: DataFrame = self.job.session.createDataFrame([], ROWS_DDL + SLOT_DDL * self.rules.in_slots)
            return empty
        frame = self._located(frame)
        readable = (sf.col("offset") >= sf.col("first")) & (sf.col("offset") < sf.col("next"))
        checkable = sf.coalesce(readable & sf.col("region.visible") & ~sf.col("condemned"), sf.lit(False))
        outside = ~in_spans("spans")
        hashed = ["row_hash", "row_day", "row_time", "row_key", "row_headers", "faulty"]
        hashed += ["slot", "condemned"] if self.rules.in_slots else []
        return frame.filter(_wanted()).select(
            "code", *PARTITION, "offset", *hashed, "unread", outside.alias("outside"), checkable.alias("checkable"),
            _replayed().alias("replayed"),
        )  # fmt: skip

    def judged_by(self, rows: DataFrame) -> DataFrame:
        """Those of a table's rows that are looked at, with `routings`: the configurations that may have written each.

        That is the one of its offset, and of a row that a replay may have added each one since as well.
        """
        since = sf.filter("regions", lambda region: region["through"] >= sf.col("offset"))
        own = sf.array(sf.col("region.routing"))
        may = sf.when(_replayed(), sf.transform(since, lambda region: region["routing"])).otherwise(own)
        return self._located(rows).filter(_wanted() & sf.col("region").isNotNull()).withColumn("routings", may)

    def _located(self, rows: DataFrame) -> DataFrame:
        """Adds what is known of the partition of each row, and of its table there."""
        return _region(rows.join(self.info, PARTITION, "left").join(self.cover, ["code", *PARTITION], "left"))


def _wanted() -> Column:
    """Whether a row is looked at: of an offset that was asked for, and of the topic of today."""
    wanted = sf.col("offset").isNull() | (sf.col("offset") >= sf.coalesce("wanted", sf.lit(0)))
    return wanted & (sf.coalesce("epoch", sf.lit(0)) >= sf.coalesce("since", sf.lit(0)))


def _replayed() -> Column:
    """Whether a replay of dead letters may have added a row."""
    return sf.coalesce(sf.col("offset") <= sf.col("replayed"), sf.lit(False))


def _must() -> Column:
    """Whether a record must have a row: where all that could hold it says that it is complete there.

    A bad record is covered by the dead letters, a good one by its type: only where both are is it certain. Of one that
    an earlier version may have taken it is where its configuration is closed, and so no table was left behind.
    """
    in_letters, in_type = in_spans("letters"), in_spans("spans")
    beyond = sf.coalesce(sf.col("offset") > sf.col("position"), sf.lit(False))
    expected, is_closed = sf.col("expected"), sf.col("region.through") < FOREVER
    return sf.when((expected < LETTERS) & ~((expected == EARLIER) & is_closed), sf.lit(False)).otherwise(
        in_letters & sf.col("region.complete") & (in_type | ~beyond) & ~in_spans("gaps") & ~in_spans("letters_gaps")
    )


def _info_rows(job: Job, pinned: Pinned, logs: Mapping[TopicPartition, Log]) -> list[Any]:
    """Per partition: what is looked at, what the dead letters cover, which configuration holds where."""
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
        lost = [*lost, *((offset - 1, offset) for offset in pinned.spared.get(tp, ()))]  # not known yet where they are
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


def judges_of(pinned: Pinned, topics: tuple[str, ...]) -> tuple[Judge, ...]:
    """The configurations in force, by their index. Raises ConfigError for a format that cannot be audited."""
    return tuple(Judge(one, number, topics) for number, one in enumerate(pinned.routings))


def compared_fields(pinned: Pinned, judges: Sequence[Judge]) -> dict[int, tuple[dict[str, Any], ...]]:
    """Code -> the columns whose values are compared."""
    opinions = [values for judge in judges for _, values, _ in judge.opinions]
    return {
        code: audit_sql.compared_columns(
            opinions,
            [
                plain_columns(one, name)  # nothing is compared of a type that was once filled undeclared
                for one in pinned.routings
                if name in one.schemas or one.new_type == "table"
            ],
            pinned.views[name].schema_json,
            pinned.views[name].partition_columns,
        )
        for name, code in pinned.codes.items()
        if code != LETTERS and name in pinned.views
    }


def _region(frame: DataFrame) -> DataFrame:
    """Adds `region`: the one that holds the row's offset."""
    inside = sf.filter("regions", lambda r: (sf.col("offset") > r["after"]) & (sf.col("offset") <= r["through"]))
    return frame.withColumn("region", sf.try_element_at(inside, sf.lit(1)))


def _table_rows(
    frame: DataFrame, code: int, job: Job, fields: Fields, cut_by: Sequence[str], more: Sequence[Column]
) -> DataFrame:
    """Coordinates, checksum and day of a table's rows. A gap row of the dead letters has a topic but no offset.

    more: further columns.
    """
    kafka, topics = frame["_kafka"], job.topics
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
        hashed = audit_sql.checksum(sf.col("_kafka.timestamp"), fields.get(code, ()), _quoted)
    return timed.select(
        sf.lit(code).alias("code"),
        sf.col("_kafka.topic").alias("topic"),
        sf.col("_kafka.partition").alias("partition"),
        sf.col("_kafka.epoch").alias("epoch"),
        sf.col("_kafka.offset").alias("offset"),
        hashed.alias("row_hash"),
        _row_day(frame, cut_by).alias("row_day"),
        _row_time(frame).alias("row_time"),
        *_of_record(frame, code, job.record_columns),
        (faulty | _misplaced(frame, cut_by)).alias("faulty"),
        condemned.alias("condemned"),
        unread.alias("unread"),
        *more,
    )


def _of_record(frame: DataFrame, code: int, names: RecordColumns) -> list[Column]:
    """What the rows say of the key and the headers of their records: null in those of earlier settings.

    A record without headers has null or none.
    """
    types = {} if code == LETTERS else dict(frame.dtypes)
    has_key = types.get(names.key) == "binary"
    key = audit_sql.key_checksum(_quoted(names.key)) if has_key else sf.lit(None).cast("bigint")
    has_headers = types.get(names.headers) == "array<struct<key:string,value:binary>>"
    headers = audit_sql.headers_checksum(_quoted(names.headers)) if has_headers else sf.lit(None).cast("bigint")
    return [key.alias("row_key"), headers.alias("row_headers")]


def _quoted(name: str) -> Column:
    return sf.col("`" + name.replace("`", "``") + "`")


def _row_day(frame: DataFrame, cut_by: Sequence[str]) -> Column:
    """The day that a row is found by: the table's own, or that of its event time where it is not cut by days."""
    return sf.col("day" if "day" in cut_by else EVENT_TIME).cast("date")


def _misplaced(frame: DataFrame, cut_by: Sequence[str]) -> Column:
    """True of a row whose hour or month is not that of its own event time; its day is compared with the record's."""
    time, wrong = sf.col(EVENT_TIME), sf.lit(False)
    if "hour" in cut_by:
        wrong = wrong | ~sf.col("hour").eqNullSafe(sf.hour(time))
    if "month" in cut_by:
        wrong = wrong | ~sf.col("month").eqNullSafe(sf.date_format(time, "yyyy-MM"))
    return wrong


def _row_time(frame: DataFrame) -> Column:
    """What the rows say of their event time: null in those of versions that did not keep it, and in other tables."""
    kept = (EVENT_TIME, "timestamp") in frame.dtypes
    return sf.unix_micros(EVENT_TIME) if kept else sf.lit(None).cast("bigint")
