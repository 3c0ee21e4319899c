"""`exporter dead-letters replay`: what the present configuration can decode moves from the dead letters to its table.

    snapshot of the dead letters ── chosen rows ─┬─ in a table already: an interrupted replay ── DELETE
    then one of each table (replay_reading.py)   └─ route, decode ─┬─ still bad: they stay
                                                                   └─ stage ── commit (feed.py) ── DELETE

Rows keep topic, partition, epoch, offset and timestamp; the value stands in the row, so no broker is asked.

Once, whatever happens. Of two replays the second reads everything again, and only rows at or below the tables'
positions are fed. A row that is in the dead letters and in the table counts as the table's; whoever replays next takes
it out of the dead letters. Deletes no file (TEMP).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.core.evolve import Evolutions
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas, SchemaColumns, SchemaSource
from exporter.errors import DependencyUnreachable, Fenced, RegistryUnreachable
from exporter.executor.dead_letters import TYPE_STAGES
from exporter.executor.judge_dead_letters import IDS_DDL, JUDGED_DDL, RECORD, STAYS, judge, missing_ids
from exporter.faults import Fault, point
from exporter.lake.lake import Lake
from exporter.lake.settling import Moved
from exporter.operate.dead_letters.feed import NO_GROWTH, Feed
from exporter.operate.dead_letters.listing import GAP, POISON, Chosen
from exporter.operate.dead_letters.replay_reading import COORDINATES, ReplayReading, spans_of
from exporter.protocol.anchor import Patience
from exporter.protocol.deciding import looked_up
from exporter.sql_text import json_setting, literals
from exporter.text import first_line

ATTEMPTS_MAX = 10
"""Full readings before giving up."""
IDS_MAX = 1_000
"""Schema ids without a text that the registry is asked for: garbage may have one in each record."""


@dataclass(frozen=True)
class ReplayRow:
    """outcome: fed (or would be), finished (an interrupted replay had fed them), still bad, left.

    name: of the table, the reason's code, or why. rows: how many.
    """

    outcome: str
    name: str
    rows: int


@dataclass
class Replay:
    """One lake, one configuration, some dead letters. schemas: None where values have no ids.

    evolutions, columns: which tables grow, and which columns follow from schemas.
    """

    lake: Lake
    routing: Routing
    chosen: Chosen = field(default_factory=Chosen)
    schemas: SchemaSource | None = None
    evolutions: Evolutions = NO_GROWTH
    columns: SchemaColumns | None = None

    def run(self, apply: bool) -> list[ReplayRow]:
        """What was done, or without `apply` would be done.

        Raises ConfigError if the configuration is not in force, Fenced if the tables do not come to rest,
        RegistryUnreachable.
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
        reading = ReplayReading.of(self.lake, self.routing)
        chosen = reading.chosen(self.chosen)
        spans = spans_of(chosen)
        records, left = reading.feedable(chosen, spans, asked=POISON in self.chosen.reasons)
        standing = reading.standing(spans)
        if standing is not None and not reading.fanned:
            records = self._without_twins(reading, records, standing, apply, finished)
        schemas = self._texts(records)
        with _kept(self._judged(records, schemas)) as judged:
            bad = _bad(judged, left)
            good = judged.where(sf.col("verdict").isNull())
            for name in _sums(good.select(sf.explode("targets").alias("target")), "target"):
                if name not in reading.targets:
                    lacking = good.where(sf.array_contains("targets", name))
                    left.append((f"no table yet for type {name}", lacking.count()))
            known = sf.array(*map(sf.lit, reading.targets)).cast("array<string>")
            good = good.where(sf.size(sf.array_except("targets", known)) == 0)
            rows, there = _to_feed(reading, good.withColumn("target", sf.explode("targets")), standing)
            fed = _sums(rows, "target")
            if apply and (fed or there):
                Feed(reading, schemas, self.evolutions, self.columns).rows(rows, spans, sorted(fed))
                self._delete(reading, good)
                point(Fault.AFTER_REPLAY_DELETE)
        for name, count in there.items():
            finished[name] = finished.get(name, 0) + count
        return [
            *(ReplayRow("fed" if apply else "would be fed", name, rows) for name, rows in sorted(fed.items())),
            *(ReplayRow("finished" if apply else "would be finished", *item) for item in sorted(finished.items())),
            *(ReplayRow("still bad", name, rows) for name, rows in sorted(bad.items())),
            *(ReplayRow("left", why, rows) for why, rows in left),
        ]

    def _without_twins(
        self, reading: ReplayReading, records: DataFrame, standing: DataFrame, apply: bool, finished: dict[str, int]
    ) -> DataFrame:
        """The dead letters without those whose record a table has, whatever table it is: these are taken out."""
        found = records.join(standing, COORDINATES)
        with _kept(found) as twins:
            there = _sums(twins, "table")
            if apply and there:
                self._delete(reading, twins)
                point(Fault.AFTER_REPLAY_DELETE)
        for name, rows in there.items():
            finished[name] = finished.get(name, 0) + rows
        return records.join(found.select(*COORDINATES), COORDINATES, "left_anti")

    def _judged(self, records: DataFrame, schemas: KnownSchemas) -> DataFrame:
        routing = self.routing
        return records.select(*RECORD.names).mapInArrow(lambda batches: judge(routing, schemas, batches), JUDGED_DDL)

    def _texts(self, records: DataFrame) -> KnownSchemas:
        """The schemas that there are by now for the dead letters, those ids first that many of them have.

        A text that the registry has meanwhile is recorded; an id of which it has none stays as it is decided.
        """
        if self.schemas is None or not self.routing.has_ids:
            return NO_SCHEMAS
        routing, registry = self.routing, self.routing.registry
        known = self.schemas.known(registry).texts
        named = records.select("topic", "value", "headers")
        lacking = named.mapInArrow(lambda some: missing_ids(routing, known, some), IDS_DDL)
        most = lacking.groupBy("id").count().orderBy(sf.desc("count"), "id").limit(IDS_MAX).collect()
        answers = looked_up(self.schemas, registry, ((int(row["id"]), {}) for row in most))
        if answers.trouble:
            raise RegistryUnreachable(answers.trouble, "leave these out (--reason, --offsets), or try later")
        return self.schemas.known(registry).texts

    def _delete(self, reading: ReplayReading, rows: DataFrame) -> None:
        """Take rows out of the dead letters that stand in their table. Raises Moved if somebody else rewrote them."""
        session, dead_letters = self.lake.session, self.lake.table(DEAD_LETTERS)
        gone = rows.select(*COORDINATES, "epoch", "of_type")
        of = ["topic", "partition", "offset", "epoch"]
        same = " AND ".join(f"l._kafka.{part} <=> s.{part}" for part in of) + f" AND l.stage <> '{GAP}'"
        if reading.fanned:
            same += f" AND CASE WHEN l.stage IN ({literals(TYPE_STAGES)}) THEN l.event_type END <=> s.of_type"
        told = json_setting({"action": "replayed", "app": self.lake.app, "routing": self.routing.fingerprint()})
        session.conf.set("spark.databricks.delta.commitInfo.userMetadata", told)
        try:
            dead_letters.commands().alias("l").merge(gone.alias("s"), same).whenMatchedDelete().execute()
        except Exception as error:
            now = dead_letters.view()
            if now is None or now.version == reading.dead_letters.version:
                raise DependencyUnreachable(
                    f"replayed rows could not be taken out of the dead letters: {first_line(error)}",
                    "they are in their tables; the next replay takes them out",
                ) from error
            raise Moved(f"the dead letters were written meanwhile: {first_line(error)}") from error
        finally:
            session.conf.unset("spark.databricks.delta.commitInfo.userMetadata")


def _sums(rows: DataFrame, by: str) -> dict[str, int]:
    """How many rows there are of each value of a column."""
    return {row[by]: row["n"] for row in rows.groupBy(by).agg(sf.count("*").alias("n")).collect()}


def _bad(judged: DataFrame, left: list[tuple[str, int]]) -> dict[str, int]:
    """Those that stay bad, by the code of the reason; those that stay for another one are added to `left`."""
    found = judged.where(sf.col("verdict").isNotNull())
    bad = _sums(found.select(sf.substring_index("verdict", ":", 1).alias("code")), "code")
    left += [(why, bad.pop(code)) for code, why in STAYS.items() if code in bad]
    return bad


def _to_feed(
    reading: ReplayReading, pairs: DataFrame, standing: DataFrame | None
) -> tuple[DataFrame, dict[str, int]]:
    """Dead letters and `target`s that have to be fed, and how many have been, by table.

    A type of a record that has a dead letter of its own is that one's to feed, and not that of the whole record.
    """
    if standing is None or not reading.fanned:
        return pairs, {}
    by = [*COORDINATES, "target"]
    there = standing.withColumnRenamed("table", "target")
    done = _sums(pairs.join(there, by, "left_semi"), "target")
    rows = pairs.join(there, by, "left_anti")
    own = reading.dead_letters_of_types().withColumn("own", sf.lit(True))
    rows = rows.join(own, by, "left").where(sf.col("of_type").isNotNull() | sf.col("own").isNull())
    return rows.drop("own"), done


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """The rows of a frame, computed once and kept on disk meanwhile."""
    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()
