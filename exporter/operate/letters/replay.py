"""`exporter dead-letters replay`: what the present configuration can decode moves from the dead letters to its table.

    snapshot of the dead letters ── chosen rows ─┬─ in a table already: an interrupted replay ── DELETE
    then one of each table                       └─ route, decode ─┬─ still bad: they stay
                                                                   └─ stage ── commit ────────── DELETE

Rows keep topic, partition, epoch, offset and timestamp; the value stands in the row, so no broker is asked. Their
files bear `replay-<number>-<uuid>`, outside the ranges of NAMES, and move no position.

Once, whatever happens. Per (table, partition) the replays are numbered, and replay n is a compare-and-set: its commit
writes `<app>/replay/<topic>/<partition>/<n>`, which must not be there, so of two the second reads everything again.
Only rows at or below the table's position are fed: the export itself never goes there again (MONOTONE), but for a
rewind or a switch, which close the epoch; the commit depends on that too. A row that is in the dead letters and in the
table counts as the table's; whoever replays next takes it out of the dead letters. Deletes no file (TEMP).
"""

from __future__ import annotations

import json
import os
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.core.order import StagingOrder
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.writers import PartitionPlan, StagedFile
from exporter.errors import ConfigError, DependencyUnreachable, Fenced, TableUnreadable
from exporter.executor.headers import NO_HEADERS
from exporter.executor.judge_letters import JUDGED_DDL, RECORD_COLUMNS, judge
from exporter.faults import Fault, point
from exporter.lake.accidents import History
from exporter.lake.change import Change, add_action
from exporter.lake.lake import Lake
from exporter.lake.properties import check_properties
from exporter.lake.rows import rows_at
from exporter.lake.schema import untimed
from exporter.lake.table import not_synced
from exporter.log import get_logger
from exporter.operate.letters.letters import CONDEMNED, GAP, Chosen, open_letters
from exporter.protocol.anchor import Failed, Moved, Patience
from exporter.rounds.read import run_order
from exporter.stores.parquet import FileOrigin
from exporter.text import first_line
from offsets.names import AppId, DataFile
from offsets.positions import first_epoch, last_replay
from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY, CLUSTER_PROPERTY, TOPIC_PROPERTY, TableView

log = get_logger(__name__)

ATTEMPTS_MAX = 10
"""Full readings before giving up."""
OFFERS_MAX = 20
"""Offers of the same files while the exporter commits beside it."""
COORDINATES = ["topic", "partition", "offset"]


@dataclass(frozen=True)
class ReplayRow:
    """outcome: fed (or would be), finished (an interrupted replay had fed them), still bad, left.

    name: of the table, the reason's code, or why. rows: how many.
    """

    outcome: str
    name: str
    rows: int


@dataclass(frozen=True)
class _Reading:
    """Snapshots, the dead letters' first: a row that they hold and its table, read later, does not was never fed.

    views: all other tables of the app. targets: those that the configuration fills.
    """

    letters: TableView
    rows: DataFrame
    views: Mapping[str, TableView]
    targets: tuple[str, ...]

    def last(self, app: str, name: str, tp: TopicPartition) -> int:
        return last_replay(self.views[name].transactions, app, tp)


@dataclass(frozen=True)
class _Span:
    """Chosen rows of one partition and epoch: first and last offset, inclusive."""

    tp: TopicPartition
    epoch: int
    first: int
    last: int


@dataclass
class Replay:
    """One lake, one configuration, some dead letters."""

    lake: Lake
    routing: Routing
    chosen: Chosen = field(default_factory=Chosen)

    def run(self, apply: bool) -> list[ReplayRow]:
        """What was done, or without `apply` would be done.

        Raises ConfigError if the configuration is not in force, Fenced if the tables do not come to rest.
        """
        finished: dict[str, int] = {}
        patience = Patience()
        for _ in range(ATTEMPTS_MAX):
            try:
                return self._pass(apply, finished)
            except Moved as moved:
                patience.restart(moved)
        raise Fenced("the tables did not come to rest", "stop other replays and repairs, then start this one again")

    def _pass(self, apply: bool, finished: dict[str, int]) -> list[ReplayRow]:
        """One reading and all that follows from it. finished: counted over all passes. Raises Moved."""
        reading = self._read()
        chosen = self.chosen.of(reading.rows)
        spans = _spans(chosen)
        records, left = self._feedable(reading, chosen, spans)
        found = self._twins(reading, records, spans)
        there = dict[str, int]()
        if found is not None:
            with _kept(found) as twins:
                there = {row.table: row.n for row in twins.groupBy("table").agg(sf.count("*").alias("n")).collect()}
                if apply and there:
                    self._delete(reading, twins)
                    point(Fault.AFTER_REPLAY_DELETE)
            records = records.join(found.select(*COORDINATES), COORDINATES, "left_anti")
        for name, rows in there.items():
            finished[name] = finished.get(name, 0) + rows
        fed, bad = dict[str, int](), dict[str, int]()
        with _kept(self._judged(records)) as judged:
            code = sf.substring_index("verdict", ":", 1).alias("code")
            for row in judged.groupBy("target", code).agg(sf.count("*").alias("n")).collect():
                if row.target is None:
                    bad[row.code] = row.n
                elif row.target in reading.targets:
                    fed[row.target] = row.n
                else:
                    left.append((f"no table yet for type {row.target}", row.n))
            if apply and fed:
                good = judged.where(sf.col("target").isin(*fed))
                self._feed(reading, good, spans)
                self._delete(reading, good)
                point(Fault.AFTER_REPLAY_DELETE)
        return [
            *(ReplayRow("fed" if apply else "would be fed", name, rows) for name, rows in sorted(fed.items())),
            *(ReplayRow("finished" if apply else "would be finished", *item) for item in sorted(finished.items())),
            *(ReplayRow("still bad", name, rows) for name, rows in sorted(bad.items())),
            *(ReplayRow("left", why, rows) for why, rows in left),
        ]

    # --- reading --------------------------------------------------------------------------------

    def _read(self) -> _Reading:
        letters, rows = open_letters(self.lake)
        views = {}
        for name in self.lake.event_types():
            view = self.lake.table(name).view() if name != DEAD_LETTERS else letters
            if view is not None and view.properties.get(APP_PROPERTY) == self.lake.app:
                check_properties(name, view, self.lake.app)
                history = History(self.lake.table(name), self.lake.app, view)
                if history.accidents:
                    raise history.broken()
                views[name] = view
        views.pop(DEAD_LETTERS, None)
        targets = tuple(name for name in views if name in self.routing.schemas or self.routing.is_new(name))
        return _Reading(letters, rows, views, targets)

    def _feedable(
        self, reading: _Reading, chosen: DataFrame, spans: Sequence[_Span]
    ) -> tuple[DataFrame, list[tuple[str, int]]]:
        """The rows that can be looked at again, and why the others are left. Raises ConfigError."""
        kafka = sf.col("_kafka")
        bounds = self._bounds(reading, spans)
        through = sf.lit(None).cast("bigint")
        since = sf.lit(0)
        for tp, (bound, first) in bounds.items():
            here = (kafka["topic"] == tp.topic) & (kafka["partition"] == tp.partition)
            through, since = (
                sf.when(here, sf.lit(bound)).otherwise(through),
                sf.when(here, sf.lit(first)).otherwise(since),
            )
        asked = CONDEMNED in self.chosen.reasons
        why = (
            sf.when((sf.col("stage") == GAP) | kafka["offset"].isNull(), "a recorded gap: Kafka lost these records")
            .when((sf.col("stage") == CONDEMNED) & sf.lit(not asked), f"condemned: only with --reason {CONDEMNED}")
            .when(kafka["timestamp"].isNull(), "without a Kafka timestamp that a table can hold")
            .when(sf.coalesce(kafka["epoch"], sf.lit(0)) < since, "of a topic that was created again since")
            .when(kafka["offset"] > through, "not passed by all tables yet: later")
        )
        marked = chosen.withColumn("why", why)
        counted = marked.where("why IS NOT NULL").groupBy("why").agg(sf.count("*").alias("n")).collect()
        records = marked.where("why IS NULL").select(
            "key", "value", "_kafka.topic", "_kafka.partition", "_kafka.offset", "_kafka.timestamp",
            sf.coalesce("headers", sf.expr(NO_HEADERS)).alias("headers"), "_kafka.epoch",
        )  # fmt: skip
        return records, sorted((row.why, row.n) for row in counted)

    def _bounds(self, reading: _Reading, spans: Sequence[_Span]) -> dict[TopicPartition, tuple[int, int]]:
        """Partition -> the offset that all tables have passed, and the epoch in which the topic of today began.

        Raises ConfigError for a partition on which the configuration is not in force, or not yet everywhere.
        """
        app, own = self.lake.app, self.routing.fingerprint()
        found: dict[TopicPartition, tuple[int, int]] = {}
        for tp in sorted({span.tp for span in spans}):
            at = reading.letters.position(app, tp)
            if at is None or reading.letters.routing_history(tp).get(at.epoch) != own:
                raise ConfigError(
                    f"{tp}: these settings are not in force there",
                    "start `exporter run` with them once (with --until-caught-up, if none is to stay), then replay",
                )
            positions = [reading.views[name].position(app, tp) for name in reading.targets]
            if any(one is not None and one.epoch != at.epoch for one in positions):
                raise ConfigError(
                    f"{tp}: a change of settings or a repair is not finished", "finish it: start it, or the exporter"
                )
            passed = min([at.offset, *(one.offset for one in positions if one is not None)])
            found[tp] = passed, first_epoch(reading.letters.transactions, app, tp)
        return found

    def _judged(self, records: DataFrame) -> DataFrame:
        routing = self.routing
        return records.select(*RECORD_COLUMNS).mapInArrow(lambda batches: judge(routing, batches), JUDGED_DDL)

    def _twins(self, reading: _Reading, records: DataFrame, spans: Sequence[_Span]) -> DataFrame | None:
        """The records that stand in a table as well, whatever table it is; None if no table had a replay."""
        kafka, by_table = sf.col("_kafka"), dict[str, Column]()
        for span in spans:
            since = first_epoch(reading.letters.transactions, self.lake.app, span.tp)
            here = (kafka["topic"] == span.tp.topic) & (kafka["partition"] == span.tp.partition)
            here = (
                here
                & kafka["offset"].between(span.first, span.last)
                & (sf.coalesce(kafka["epoch"], sf.lit(0)) >= since)
            )
            for name in (name for name in reading.views if reading.last(self.lake.app, name, span.tp)):
                by_table[name] = by_table.get(name, sf.lit(False)) | here
        found: DataFrame | None = None
        for name, condition in by_table.items():
            rows = rows_at(self.lake, name, reading.views[name]).where(condition)
            there = rows.select(*(f"_kafka.{part}" for part in COORDINATES))
            twins = records.join(there, COORDINATES, "left_semi").withColumn("table", sf.lit(name))
            found = twins if found is None else found.unionByName(twins)
        return found

    # --- effects --------------------------------------------------------------------------------

    def _feed(self, reading: _Reading, good: DataFrame, spans: Sequence[_Span]) -> None:
        """Stage the rows and commit them, one commit per table. Raises Moved."""
        staged: dict[str, dict[TopicPartition, list[StagedFile]]] = defaultdict(lambda: defaultdict(list))
        for epoch in sorted({span.epoch for span in spans}):
            records = good.where(sf.col("epoch") == epoch)
            ordered = records.repartition("topic", "partition").sortWithinPartitions(*COORDINATES)
            order = self._order(reading, [span for span in spans if span.epoch == epoch], epoch)
            try:
                fragments = run_order(ordered.drop("epoch", "target", "verdict"), order).whole().fragments
            except Exception as error:
                raise DependencyUnreachable(
                    f"the dead letters could not be decoded: {first_line(error)}",
                    "start it again; if it fails again, leave rows out by --offsets, --type, --reason or --day",
                ) from error
            for fragment in fragments:
                for name, files in fragment.files.items():
                    staged[name][fragment.plan.tp] += files
        point(Fault.AFTER_REPLAY_STAGE)
        for name in sorted(staged):
            self._commit(reading, name, staged[name])
            point(Fault.AFTER_REPLAY_COMMIT)

    def _order(self, reading: _Reading, spans: Sequence[_Span], epoch: int) -> StagingOrder:
        """What the tasks are told: all offsets are wanted, the dead letters are not."""
        app, plans = self.lake.app, dict[TopicPartition, PartitionPlan]()
        replays: dict[tuple[str, TopicPartition], int] = {}
        for span in spans:
            tp = span.tp
            bounds = dict.fromkeys(reading.targets, -1)
            plans[tp] = PartitionPlan(tp, 0, epoch, 0, span.last + 1, bounds, unlisted=(DEAD_LETTERS,))
            replays |= {(name, tp): reading.last(app, name, tp) + 1 for name in reading.targets}
        fingerprints = {name: view.fingerprint for name, view in reading.views.items()}
        footers = {tp: self._footer(reading, tp) for tp in plans}
        return StagingOrder(
            str(self.lake.root), app, self.routing, plans, fingerprints, footers, replays=replays,
            sync=self.lake.tasks_sync, untimed=untimed(reading.views),
        )  # fmt: skip

    def _footer(self, reading: _Reading, tp: TopicPartition) -> dict[str, str]:
        recorded = reading.letters.properties
        known = {"cluster_id": recorded.get(CLUSTER_PROPERTY), "topic_id": recorded.get(f"{TOPIC_PROPERTY}{tp.topic}")}
        return {**{k: v for k, v in known.items() if v is not None}, "routing": self.routing.fingerprint()}

    def _commit(self, reading: _Reading, name: str, staged: Mapping[TopicPartition, Sequence[StagedFile]]) -> None:
        """Add the files of one table. Raises Moved if another replay, a switch or a repair was there first."""
        app, table, view = self.lake.app, self.lake.table(name), reading.views[name]
        numbers = {tp: str(AppId(app, tp, reading.last(app, name, tp) + 1, "replay")) for tp in staged}
        positions = {tp: view.position(app, tp) for tp in staged}
        through = {tp: max(file.offsets.last_offset for file in files) for tp, files in staged.items()}
        files = [file for some in staged.values() for file in some]

        def check(now: TableView | None) -> None:
            if now is None or (now.table_id, now.fingerprint) != (view.table_id, view.fingerprint):
                raise Moved(f"table {name} was changed meanwhile")
            check_properties(name, now, app)
            if any(logged.rewinds for logged in table.commits(view.version, now.version)):
                raise Moved(f"table {name} was taken back meanwhile")
            for tp, was in positions.items():
                at = now.position(app, tp)
                if was is None or at is None or at.epoch != was.epoch or at.offset < through[tp]:
                    raise Moved(f"table {name}, {tp}: position {at}, it was {was}")
                if last_replay(now.transactions, app, tp) != reading.last(app, name, tp):
                    raise Moved(f"table {name}, {tp}: another replay was faster")
            if any(os.stat(table.folder / file.path).st_size != file.size_bytes for file in files):
                raise Moved("a staged file was damaged")

        commit_id = uuid.uuid4().hex
        change = Change(
            expected=(*numbers.values(), *(str(AppId(app, tp, at.epoch)) for tp, at in positions.items() if at)),
            positions={numbers[tp]: through[tp] for tp in staged},
            user_metadata=self._metadata(reading, name, commit_id, staged),
            adds=tuple(self._add(reading, name, file, commit_id) for file in files),
        )
        for _ in range(OFFERS_MAX):
            try:
                version = table.commit(change, check)
                break
            except (Moved, FileNotFoundError) as moved:
                raise Moved(str(moved)) from moved
            except Exception as error:
                refused, landed = error, self._landed(name, view, commit_id)
                log.info("commit_refused", table=name, reason=first_line(error), landed=landed)
                if landed is not None:
                    version = landed
                    break
                if not_synced(error):  # such files are not offered again (protocol/commit.py)
                    raise Failed(table, error) from error
        else:
            now = table.view()
            unchanged = now is not None and now.version == view.version
            raise Failed(table, refused) if unchanged else Moved(f"table {name} was written again and again")
        rows = sum(file.rows for file in files)
        log.info("dead_letters_replayed", table=name, rows=rows, files=len(files), version=version)

    def _landed(self, name: str, before: TableView, commit_id: str) -> int | None:
        """The version of the commit if it is in the table after all."""
        table = self.lake.table(name)
        now = table.view()
        if now is None:
            raise TableUnreadable(f"table {name} is gone")
        logged = table.commits(before.version, now.version)
        return next((one.version for one in logged if one.commit_id == commit_id), None)

    def _metadata(
        self, reading: _Reading, name: str, commit_id: str, staged: Mapping[TopicPartition, Sequence[StagedFile]]
    ) -> dict[str, Any]:
        """userMetadata. No `partitions`: those are positions, and this commit moves none."""
        view = reading.views[name]
        return {
            "commit_id": commit_id,
            "action": "replay",
            "app": self.lake.app,
            "routing": self.routing.fingerprint(),
            "table_id": view.table_id,
            "checked_through": view.version,
            "replayed": {
                str(tp): {
                    "replay": reading.last(self.lake.app, name, tp) + 1,
                    "rows": sum(file.rows for file in files),
                    "first": min(file.offsets.first_offset for file in files),
                    "last": max(file.offsets.last_offset for file in files),
                }
                for tp, files in staged.items()
            },
        }

    def _add(self, reading: _Reading, name: str, file: StagedFile, commit_id: str) -> dict[str, Any]:
        at = DataFile.parse(file.path)
        origin = FileOrigin("", at.app, at.tp, at.epoch, name, "", self._footer(reading, at.tp), at.replay or 0)
        return add_action(file, {**origin.tags(file.offsets), "commit_id": commit_id})

    def _delete(self, reading: _Reading, rows: DataFrame) -> None:
        """Take rows out of the dead letters that stand in their table. Raises Moved if somebody else rewrote them."""
        session, letters = self.lake.session, self.lake.table(DEAD_LETTERS)
        gone = rows.select(*COORDINATES, "epoch")
        of = ["topic", "partition", "offset", "epoch"]
        same = " AND ".join(f"l._kafka.{part} <=> s.{part}" for part in of) + f" AND l.stage <> '{GAP}'"
        told = json.dumps({"action": "replayed", "app": self.lake.app, "routing": self.routing.fingerprint()})
        quoted = "delta.`" + str(letters.folder).replace("`", "``") + "`"
        self.lake.activate()
        session.conf.set("spark.databricks.delta.commitInfo.userMetadata", told)
        try:
            gone.createOrReplaceTempView(view := f"replayed_{uuid.uuid4().hex}")
            session.sql(f"MERGE INTO {quoted} l USING {view} s ON {same} WHEN MATCHED THEN DELETE")
            session.catalog.dropTempView(view)
        except Exception as error:
            now = letters.view()
            if now is None or now.version == reading.letters.version:
                raise DependencyUnreachable(
                    f"replayed rows could not be taken out of the dead letters: {first_line(error)}",
                    "they are in their tables; the next replay takes them out",
                ) from error
            raise Moved(f"the dead letters were written meanwhile: {first_line(error)}") from error
        finally:
            session.conf.unset("spark.databricks.delta.commitInfo.userMetadata")


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Computed once, on disk."""
    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()


def _spans(chosen: DataFrame) -> list[_Span]:
    """Where the chosen rows lie, recorded gaps left out."""
    kafka = sf.col("_kafka")
    by = [kafka[name].alias(name) for name in ("topic", "partition", "epoch")]
    rows = chosen.where(kafka["offset"].isNotNull()).groupBy(*by)
    found = rows.agg(sf.min("_kafka.offset").alias("first"), sf.max("_kafka.offset").alias("last")).collect()
    return [_Span(TopicPartition(one.topic, one.partition), one.epoch, one["first"], one["last"]) for one in found]
