"""Puts replayed dead letters into their tables: staged like records, one commit per table.

Their files bear `replay-<number>-<uuid>`, outside the ranges of NAMES, and move no position. Per (table, partition)
the replays are numbered, and replay n is a compare-and-set: its commit writes `<app>/replay/<topic>/<partition>/<n>`,
which must not be there, so of two the second reads everything again. The commit depends on the positions too: a
rewind or a switch closes the epoch. Deletes no file (TEMP).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.arrow.own_columns import RECORD_FIELDS
from exporter.core.evolve import Evolutions
from exporter.core.evolved import fitting
from exporter.core.order import StagingOrder, TableTarget
from exporter.core.routing import DEAD_LETTERS
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas, SchemaColumns, called
from exporter.core.seen import Seen
from exporter.core.user_metadata import user_metadata
from exporter.core.writers import Fragment, PartitionPlan, StagedFile
from exporter.errors import DependencyUnreachable
from exporter.faults import Fault, point
from exporter.lake.change import Change, add_action
from exporter.lake.record_fields import kept, record_fields
from exporter.lake.settling import Expect, Failed, Moved, Unseen, settled
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.operate.dead_letters.replay_reading import COORDINATES, DeadLetterSpan, ReplayReading
from exporter.protocol.foreseen import Foreseeing
from exporter.protocol.planned import PlannedColumns
from exporter.rounds.read import run_order
from exporter.stores.parquet import FileOrigin
from exporter.text import first_line
from offsets.names import AppId, DataFile
from offsets.positions import last_replay
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)

OFFERS_MAX = 20
"""Offers of the same files while the exporter commits beside it."""

AGAIN_MAX = 3
"""Times that dead letters are staged: each may bring columns more."""
NO_GROWTH = Evolutions()

RECORD_NAMES = [field.name for field in RECORD_FIELDS]

Staged = Mapping[TopicPartition, Sequence[StagedFile]]
"""The files of one table."""


class Feed:
    """Of one reading of the tables."""

    def __init__(
        self,
        reading: ReplayReading,
        schemas: KnownSchemas = NO_SCHEMAS,
        evolutions: Evolutions = NO_GROWTH,
        columns: SchemaColumns | None = None,
    ) -> None:
        """schemas: the texts that the rows were judged by. evolutions, columns: which tables grow, and by what."""
        self._reading = reading
        self._schemas = schemas
        self._lake = reading.lake
        self._routing = reading.routing
        self._planned = PlannedColumns(self._routing, evolutions, self._lake.specs, columns=columns, of_record=False)
        self._foreseeing = Foreseeing(self._routing, self._planned, columns)
        self._fields = record_fields(self._lake.record_columns, self._routing)
        views = reading.views.items()
        self._tables = {name: self._target(view, self._planned.accept(name, view)) for name, view in views}

    def rows(self, good: DataFrame, spans: Sequence[DeadLetterSpan], names: Sequence[str]) -> None:
        """Stage rows with their `target` and commit them, one commit per table. names: the targets. Raises Moved.

        Where a record may be of several types, one after the other: not each has all that are of them.
        """
        groups = [[name] for name in names] if self._reading.fanned else [names]
        staged: dict[str, dict[TopicPartition, list[StagedFile]]] = defaultdict(lambda: defaultdict(list))
        for epoch, group in product(sorted({span.epoch for span in spans}), groups):
            records = good.where((sf.col("epoch") == epoch) & sf.col("target").isin(*group))
            ordered = records.select(*RECORD_NAMES).repartition("topic", "partition").sortWithinPartitions(*COORDINATES)
            here = [span for span in spans if span.epoch == epoch]
            for fragment in self._staged(ordered, here, epoch, group):
                if fragment.missing:
                    raise Moved(f"schema ids without a text: {[called(one) for one in sorted(fragment.missing)]}")
                for name, files in fragment.files.items():
                    made = [(one, self._planned.schema_of(name, one.fingerprint)) for one in files]
                    staged[name][fragment.plan.tp] += [replace(one, columns=schema) for one, schema in made]
        point(Fault.AFTER_REPLAY_STAGE)
        for name in sorted(staged):
            self._commit(name, staged[name])
            point(Fault.AFTER_REPLAY_COMMIT)

    def _staged(
        self, records: DataFrame, spans: Sequence[DeadLetterSpan], epoch: int, names: Sequence[str]
    ) -> Sequence[Fragment]:
        """What was staged of the records; again with the columns that follow from it, as an export does (4.10)."""
        for _ in range(AGAIN_MAX):
            order = self._order(spans, epoch, names)
            try:
                fragments = run_order(records, order).whole().fragments
            except Exception as error:
                raise DependencyUnreachable(
                    f"the dead letters could not be decoded: {first_line(error)}",
                    "start it again; if it fails again, leave rows out by --offsets, --type, --reason or --day",
                ) from error
            if not self._grown(fragments):
                break
        return fragments

    def _grown(self, fragments: Sequence[Fragment]) -> bool:
        """Plan the columns that follow from what was staged; whether there are any."""
        seen: dict[str, Seen] = defaultdict(Seen)
        for fragment in fragments:
            topic = fragment.plan.tp.topic
            for name in fragment.files:
                self._foreseeing.topic(name, topic)
                for key in sorted(fragment.met.get(name, ())):
                    self._foreseeing.schema(name, key, topic, self._schemas)
                if name in fragment.seen:
                    seen[name].merge(fragment.seen[name])
        staged = {name for fragment in fragments for name in fragment.files}
        views = {name: self._reading.views[name] for name in staged}
        planned = {name: self._target(view, self._planned.grow(name, view, seen[name])) for name, view in views.items()}
        grown = any(self._tables[name].fingerprint != one.fingerprint for name, one in planned.items())
        self._tables |= planned
        return grown

    def _target(self, view: TableView, planned: TableTarget) -> TableTarget:
        """The columns of the record are those that the table has: a replay adds none."""
        return replace(planned, kept=kept(view, self._fields))

    def _order(self, spans: Sequence[DeadLetterSpan], epoch: int, names: Sequence[str]) -> StagingOrder:
        """What the tasks are told: all offsets are wanted, for these types and no other."""
        plans = dict[TopicPartition, PartitionPlan]()
        replays: dict[tuple[str, TopicPartition], int] = {}
        for span in spans:
            tp = span.tp
            others = tuple(name for name in self._reading.targets if name not in names)
            bounds, unlisted = dict.fromkeys(names, -1), (DEAD_LETTERS, *others)
            plans[tp] = PartitionPlan(tp, 0, epoch, 0, span.last + 1, bounds, unlisted=unlisted)
            replays |= {(name, tp): self._reading.last(name, tp) + 1 for name in self._reading.targets}
        footers = {tp: self._reading.footer(tp) for tp in plans}
        return StagingOrder(
            self._lake.destination(), self._routing, plans, dict(self._tables), footers, replays=replays,
            evolutions=self._planned.evolutions, schemas=self._schemas,
        )  # fmt: skip

    def _commit(self, name: str, staged: Staged) -> None:
        """Add the files of one table. Raises Moved if another replay, a switch or a repair was there first."""
        app, table, view = self._lake.app, self._lake.table(name), self._reading.views[name]
        numbers = {tp: str(AppId(app, tp, self._reading.last(name, tp) + 1, "replay")) for tp in staged}
        positions = {tp: view.position(app, tp) for tp in staged}
        through = {tp: max(file.offsets.last_offset for file in files) for tp, files in staged.items()}
        files = [file for some in staged.values() for file in some]

        def check(now: TableView) -> str | None:
            if any(logged.rewinds for logged in table.commits(view.version, now.version)):
                raise Moved(f"table {name} was taken back meanwhile")
            for tp, was in positions.items():
                at = now.position(app, tp)
                if was is None or at is None or at.epoch != was.epoch or at.offset < through[tp]:
                    raise Moved(f"table {name}, {tp}: position {at}, it was {was}")
                if last_replay(now.transactions, app, tp) != self._reading.last(name, tp):
                    raise Moved(f"table {name}, {tp}: another replay was faster")
            try:
                for file in files:
                    table.require(file.path, file.size_bytes)
            except ValueError as error:
                raise Moved("a staged file was damaged") from error
            if (schema := fitting(now, files)) is None:
                raise Moved(f"table {name} was changed meanwhile")
            return None if schema == now.schema_json else schema

        commit_id = uuid.uuid4().hex
        change = Change(
            expected=(*numbers.values(), *(str(AppId(app, tp, at.epoch)) for tp, at in positions.items() if at)),
            positions={numbers[tp]: through[tp] for tp in staged},
            user_metadata=self._metadata(name, commit_id, staged),
            adds=tuple(self._add(name, file, commit_id) for file in files),
        )
        check_all = Expect(view, app, columns=True, ours=True).check(name, check)
        for _ in range(OFFERS_MAX):
            try:
                ended = settled(table, change, check_all, view)
            except FileNotFoundError as error:
                raise Moved(str(error)) from error
            if not isinstance(ended, Unseen):
                break
            unseen = ended
            log.info(Event.COMMIT_REFUSED, table=name, reason=first_line(unseen.error))
            if table.not_synced(unseen.error):  # such files are not offered again (protocol/commit.py)
                raise Failed(table, unseen.error) from unseen.error
        else:
            unchanged = unseen.view is not None and unseen.view.version == view.version
            raise Failed(table, unseen.error) if unchanged else Moved(f"table {name} was written again and again")
        rows = sum(file.rows for file in files)
        log.info(Event.DEAD_LETTERS_REPLAYED, table=name, rows=rows, files=len(files), version=ended)

    def _metadata(self, name: str, commit_id: str, staged: Staged) -> dict[str, Any]:
        """userMetadata. No `partitions`: those are positions, and this commit moves none."""
        view = self._reading.views[name]
        replayed = {
            str(tp): {
                "replay": self._reading.last(name, tp) + 1,
                "rows": sum(file.rows for file in files),
                "first": min(file.offsets.first_offset for file in files),
                "last": max(file.offsets.last_offset for file in files),
            }
            for tp, files in staged.items()
        }
        return user_metadata(
            commit_id,
            action="replay",
            app=self._lake.app,
            checked_through=view.version,
            more={"routing": self._routing.fingerprint(), "table_id": view.table_id, "replayed": replayed},
        )

    def _add(self, name: str, file: StagedFile, commit_id: str) -> dict[str, Any]:
        at = DataFile.parse(file.path)
        store, footer = self._lake.store, self._reading.footer(at.tp)
        origin = FileOrigin(store, at.app, at.tp, at.epoch, name, "", footer, at.replay or 0)
        return add_action(file, {**origin.tags(file.offsets), "commit_id": commit_id})
