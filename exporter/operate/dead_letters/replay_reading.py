"""What a replay of dead letters goes by: one snapshot of each table, and which of the chosen rows can be fed.

Only rows at or below the position of every table are fed, and only where the configuration is in force: the export
itself never goes there again (MONOTONE). Reads only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.errors import ConfigError
from exporter.executor.dead_letters import TYPE_STAGES
from exporter.lake.accidents import AppHistory
from exporter.lake.lake import Lake
from exporter.lake.properties import check_properties
from exporter.lake.rows import rows_at
from exporter.lake.views import views_of
from exporter.operate.dead_letters.listing import GAP, POISON, Chosen, dead_letters_view
from offsets.positions import first_epoch, last_replay
from offsets.ranges import TopicPartition
from offsets.table_log import CLUSTER_PROPERTY, CONFIG_PROPERTY, TOPIC_PROPERTY, TableView

COORDINATES = ["topic", "partition", "offset"]
NO_HEADERS = "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
"""What a record without headers carries; Kafka itself has no empty list of them."""


@dataclass(frozen=True)
class DeadLetterSpan:
    """Chosen rows of one partition and epoch: first and last offset, inclusive."""

    tp: TopicPartition
    epoch: int
    first: int
    last: int


def spans_of(chosen: DataFrame) -> list[DeadLetterSpan]:
    """Where the chosen rows lie, recorded gaps left out."""
    kafka = sf.col("_kafka")
    by = [kafka[name].alias(name) for name in ("topic", "partition", "epoch")]
    rows = chosen.where(kafka["offset"].isNotNull()).groupBy(*by)
    found = rows.agg(sf.min("_kafka.offset").alias("first"), sf.max("_kafka.offset").alias("last")).collect()
    return [
        DeadLetterSpan(TopicPartition(one.topic, one.partition), one.epoch, one["first"], one["last"]) for one in found
    ]


@dataclass(frozen=True)
class ReplayReading:
    """One snapshot of each table, the dead letters' first and not last as elsewhere (protocol 5.1).

    So a row that they hold, and its table, read later, does not, was never fed.

    views: all other tables of the app. targets: those that the configuration fills.
    """

    lake: Lake
    routing: Routing
    dead_letters: TableView
    rows: DataFrame
    views: Mapping[str, TableView]
    targets: tuple[str, ...]

    @classmethod
    def of(cls, lake: Lake, routing: Routing) -> ReplayReading:
        """Reads every table of the app. Raises what `check_properties` and an accident's history raise."""
        dead_letters = dead_letters_view(lake)
        rows = rows_at(lake, DEAD_LETTERS, dead_letters)
        tables = dict(views_of(lake, but=(DEAD_LETTERS,)))
        for name, view in {DEAD_LETTERS: dead_letters, **tables}.items():
            check_properties(name, view, lake.app)
            history = AppHistory(lake.table(name), lake.app, view)
            if history.accidents:
                raise history.broken()
        targets = tuple(name for name in tables if name in routing.schemas or routing.is_new(name))
        return cls(lake, routing, dead_letters, rows, tables, targets)

    def chosen(self, chosen: Chosen) -> DataFrame:
        """The dead letters that somebody has chosen."""
        if not chosen.of_some:
            return self.rows
        rows = self.rows if chosen.day is None else self.rows.where(sf.col("day") == sf.lit(chosen.day))
        return rows.mapInArrow(lambda batches: map(chosen.of, batches), rows.schema)

    @cached_property
    def fanned(self) -> bool:
        """Whether a record may belong to several tables, by this configuration or one that was recorded."""
        recorded = (text for name, text in self.dead_letters.properties.items() if name.startswith(CONFIG_PROPERTY))
        return self.routing.fans_out or any(json.loads(text).get("matches") for text in recorded)

    def last(self, name: str, tp: TopicPartition) -> int:
        """The number of the last replay that a table has of a partition; 0 without any."""
        return last_replay(self.views[name].transactions, self.lake.app, tp)

    def footer(self, tp: TopicPartition) -> dict[str, str]:
        """What the footers of the partition's files say beside their ranges."""
        recorded = self.dead_letters.properties
        known = {"cluster_id": recorded.get(CLUSTER_PROPERTY), "topic_id": recorded.get(f"{TOPIC_PROPERTY}{tp.topic}")}
        return {**{k: v for k, v in known.items() if v is not None}, "routing": self.routing.fingerprint()}

    def feedable(
        self, chosen: DataFrame, spans: Sequence[DeadLetterSpan], asked: bool
    ) -> tuple[DataFrame, list[tuple[str, int]]]:
        """The rows that can be looked at again, and why the others are left. Raises ConfigError.

        asked: poison records are asked for by name; else they are left.
        """
        kafka = sf.col("_kafka")
        bounds = self._bounds(spans)
        through = sf.lit(None).cast("bigint")
        since = sf.lit(0)
        for tp, (bound, first) in bounds.items():
            here = (kafka["topic"] == tp.topic) & (kafka["partition"] == tp.partition)
            through, since = (
                sf.when(here, sf.lit(bound)).otherwise(through),
                sf.when(here, sf.lit(first)).otherwise(since),
            )
        why = (
            sf.when((sf.col("stage") == GAP) | kafka["offset"].isNull(), "a recorded gap: Kafka lost these records")
            .when((sf.col("stage") == POISON) & sf.lit(not asked), f"condemned: only with --reason {POISON}")
            .when(kafka["timestamp"].isNull(), "without a Kafka timestamp that a table can hold")
            .when(sf.coalesce(kafka["epoch"], sf.lit(0)) < since, "of a topic that was created again since")
            .when(kafka["offset"] > through, "not passed by all tables yet: later")
        )
        marked = chosen.withColumn("why", why)
        counted = marked.where("why IS NOT NULL").groupBy("why").agg(sf.count("*").alias("n")).collect()
        records = marked.where("why IS NULL").select(
            "key", "value", "_kafka.topic", "_kafka.partition", "_kafka.offset", "_kafka.timestamp",
            sf.coalesce("headers", sf.expr(NO_HEADERS)).alias("headers"), "_kafka.epoch",
            self._of_type().alias("of_type"),
        )  # fmt: skip
        return records, sorted((row.why, row.n) for row in counted)

    def _of_type(self) -> Column:
        """The type that a dead letter is of; null where it is of a whole record, as each is without fan-out."""
        of_type = sf.when(sf.col("stage").isin(*TYPE_STAGES), sf.col("event_type"))
        return of_type if self.fanned else sf.lit(None).cast("string")

    def dead_letters_of_types(self) -> DataFrame:
        """The coordinates of all dead letters of one type each, and as `target` its name."""
        dead_letters = self.rows.where(sf.col("stage").isin(*TYPE_STAGES))
        named = dead_letters.select(*(f"_kafka.{part}" for part in COORDINATES), sf.col("event_type").alias("target"))
        return named.distinct()

    def _bounds(self, spans: Sequence[DeadLetterSpan]) -> dict[TopicPartition, tuple[int, int]]:
        """Partition -> the offset that all tables have passed, and the epoch in which the topic of today began.

        Raises ConfigError for a partition on which the configuration is not in force, or not yet everywhere.
        """
        app, own = self.lake.app, self.routing.fingerprint()
        found: dict[TopicPartition, tuple[int, int]] = {}
        for tp in sorted({span.tp for span in spans}):
            at = self.dead_letters.position(app, tp)
            if at is None or self.dead_letters.routing_history(tp).get(at.epoch) != own:
                raise ConfigError(
                    f"{tp}: these settings are not in force there",
                    "start `exporter run` with them once (with --until-caught-up, if none is to stay), then replay",
                )
            positions = [self.views[name].position(app, tp) for name in self.targets]
            if any(one is not None and one.epoch != at.epoch for one in positions):
                raise ConfigError(
                    f"{tp}: a change of settings or a repair is not finished", "finish it: start it, or the exporter"
                )
            passed = min([at.offset, *(one.offset for one in positions if one is not None)])
            found[tp] = passed, first_epoch(self.dead_letters.transactions, app, tp)
        return found

    def standing(self, spans: Sequence[DeadLetterSpan]) -> DataFrame | None:
        """Coordinates of rows of tables within the spans, and as `table` where they stand; None if there can be none.

        Of all tables that had a replay; of those that the configuration fills, where a record may be in several.
        """
        kafka, by_table = sf.col("_kafka"), dict[str, Column]()
        for span in spans:
            since = first_epoch(self.dead_letters.transactions, self.lake.app, span.tp)
            here = (kafka["topic"] == span.tp.topic) & (kafka["partition"] == span.tp.partition)
            here = (
                here
                & kafka["offset"].between(span.first, span.last)
                & (sf.coalesce(kafka["epoch"], sf.lit(0)) >= since)
            )
            for name in self.targets if self.fanned else [name for name in self.views if self.last(name, span.tp)]:
                by_table[name] = by_table.get(name, sf.lit(False)) | here
        found: DataFrame | None = None
        for name, condition in by_table.items():
            rows = rows_at(self.lake, name, self.views[name]).where(condition)
            there = rows.select(*(f"_kafka.{part}" for part in COORDINATES)).withColumn("table", sf.lit(name))
            found = there if found is None else found.unionByName(there)
        return found
