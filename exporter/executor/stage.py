"""One Spark task of a round: Arrow batches of raw records in, finished files and a manifest out.

    batch -> frames -> route -> decode -> shape -> skip what is covered -> gather -> split by partition -> files

Runs on executors. A record at or below the bound of its destination is dropped here, so is one
of an active type that the plan does not list (protocol 3.1). A type that was unknown when the plan
was made is staged like the others. Only what the manifest of a successful job lists is staged;
everything else is an orphan.

A file that cannot be written is its table's trouble, unless the storage itself does not answer right then: that ends
the task, whose manifest says so and nothing else. Whoever asked later might find the storage well again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import nlargest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import held
from exporter.arrow.keys import dead_letter_keys
from exporter.core.manifest import COPIES, FILTERED, REASON, TOMBSTONES, TYPES_OVER_MAX
from exporter.core.order import StagingOrder
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import PartitionPlan, StagedFile
from exporter.executor.by_partition import Unsplit
from exporter.executor.dead_letters import Dead, coordinates, dead_letter_rows
from exporter.executor.empty import RESCUED, without_empty
from exporter.executor.extras import Extras
from exporter.executor.framing import Framing
from exporter.executor.manifest import MANIFEST_SCHEMA, file_row
from exporter.executor.partitioning import Partitioning
from exporter.executor.readers import TaskReaders
from exporter.executor.rows import by_value, copies, first_and_last, located, record_bytes, wanted
from exporter.executor.shaping import shaped
from exporter.executor.sight import TaskSight
from exporter.executor.steps import Steps
from exporter.executor.times import GreatestTimes
from exporter.faults import Fault, point
from exporter.formats.frames import Framed, RowSchemas, read_values, readable, reframed
from exporter.formats.places import emptied
from exporter.stores.parquet import FileOrigin, GrowingFile
from exporter.stores.stores import open_store
from offsets.names import table_folder
from offsets.ranges import TopicPartition

GROUP_BYTES_MAX = 32 << 20
"""Arrow bytes of one row group."""
SPLIT_BYTES = 4 << 20
"""Arrow bytes of one writer that are worth a split by partition."""
CARRIED_FILE_BYTES = 64 << 10
"""Arrow bytes up to which the rows of a file are carried to the driver: such a file costs more than what is in it, and
would be read and written once more before its commit."""


def stage(order: StagingOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: yields the manifest of this task, one batch."""
    task = _Task(order)
    try:
        for batch in batches:
            task.add(batch)
            del batch  # else it is held while the next one is gathered
        manifest = task.manifest()
    except _StorageOut as out:
        manifest = pa.RecordBatch.from_pylist([{"unwritten": str(out)}], schema=MANIFEST_SCHEMA)
    yield manifest


class _StorageOut(Exception):
    """The storage does not answer, whatever the table; the message says why."""


class _Task:
    """The open files of one task, bounded in bytes and number however many types and partitions its range holds."""

    def __init__(self, order: StagingOrder) -> None:
        self._steps = Steps()
        self._at: TopicPartition | None = None
        self._order = order
        self._store = open_store(order.to.root, order.to.store_options)
        self._extras = Extras(order)
        self._readers = TaskReaders(order)
        self._framing = Framing(self._readers.form, order.schemas)
        self._partitionings: dict[str, Partitioning] = {}
        self._met: set[str] = set()
        self._unsplit: dict[tuple[str, TopicPartition], Unsplit] = {}
        self._growing: dict[tuple[str, TopicPartition, int], GrowingFile] = {}
        self._finished: list[tuple[str, TopicPartition, StagedFile]] = []
        self._first: dict[TopicPartition, int] = {}
        self._counts: dict[TopicPartition, Counter[str]] = {}
        self._placed: list[pa.Array] = []
        self._unwritten: dict[tuple[str, TopicPartition], str] = {}
        self._sight = TaskSight(order.evolutions)
        self._times = GreatestTimes(order.times)
        self._carry_left = order.carried_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Route, decode and stage one batch; a batch of several topics or partitions is split first."""
        self._steps.now("route")
        for topic, of_topic in by_value(batch, "topic"):
            for partition, part in by_value(of_topic, "partition"):
                self._add_partition(part, TopicPartition(topic, partition))
        self._bound()
        self._steps.now("fetch")

    def manifest(self) -> pa.RecordBatch:
        """Finish every file; rows for files, counts per partition, types that could not be written, and the steps."""
        self._finish_all()
        rows: list[dict[str, Any]] = [file_row(*finished) for finished in self._finished]
        rows += [
            {"topic": tp.topic, "partition": tp.partition, "counts": json.dumps(counts)}
            for tp, counts in self._counts.items()
        ]
        rows += [
            {"topic": tp.topic, "partition": tp.partition, "event_type": name, "unwritten": error}
            for (name, tp), error in self._unwritten.items()
        ]
        rows += [*self._sight.rows(), *self._framing.rows(), *self._times.rows()]
        rows = [{"first_offset": self._first[TopicPartition(row["topic"], row["partition"])], **row} for row in rows]
        rows.append({"counts": json.dumps(self._steps.counts())})
        return pa.RecordBatch.from_pylist(rows, schema=MANIFEST_SCHEMA)

    def _finish_all(self) -> None:
        for writer in sorted(self._unsplit):
            self._split(writer)
            for key in sorted(key for key in self._growing if key[:2] == writer):
                self._finish(key)
        for key in sorted(self._growing):
            self._finish(key)

    def _add_partition(self, batch: pa.RecordBatch, tp: TopicPartition) -> None:
        """Partitions come one after the other (core/slices.py): with the next the files of the last are complete."""
        if tp != self._at:
            self._finish_all()
            self._partitionings.clear()
            self._at = tp
            self._steps.now("route")
        plan = self._order.plans[tp]
        if left_out := self._order.left_out(tp):
            handed = pc.invert(pc.is_in(batch.column("offset"), pa.array(sorted(left_out), pa.int64())))
            batch = batch.filter(handed)
            if not batch.num_rows:
                return
        self._first.setdefault(tp, batch.column("offset")[0].as_py())
        for part, framed in self._framing.cut(batch, tp):
            if part.num_rows:
                self._add_read(part, tp, plan, framed)

    def _add_read(self, batch: pa.RecordBatch, tp: TopicPartition, plan: PartitionPlan, framed: Framed | None) -> None:
        """Route, decode and stage what can be read of one partition."""
        counts = self._counts.setdefault(tp, Counter())
        counts["records"] += batch.num_rows
        counts["bytes"] += record_bytes(batch)
        dead_letters_bound = plan.bounds.get(DEAD_LETTERS)
        self._placed.clear()
        # Before routing: a timestamp that Arrow cannot hold would end whatever touches it.
        batch, untimely = held(batch)
        self._times.read(tp, batch.column("timestamp"))
        barred = {**untimely, **framed.unknown} if framed is not None else untimely
        sent = emptied(reframed(batch, framed), self._readers.form(tp.topic), self._order.schemas)
        routed = self._readers.router(tp.topic).route(readable(sent, framed)).without(barred)
        schemas = self._framing.schemas(batch, tp, framed)
        dead: list[Dead] = []
        for name, indices in routed.groups.items():
            rows = wanted(batch, indices, plan.bound(name), dead_letters_bound)
            if len(rows) and not self._has_room(name):
                counts[TYPES_OVER_MAX] += len(rows)
            elif len(rows):
                values = read_values(batch, framed).take(rows)
                dead += self._add_type(batch, tp, plan, name, rows, values, schemas)
        dead += [(row["index"], row["event_type"], row["stage"], row["reason"]) for row in routed.dead.to_pylist()]
        if self._readers.form(tp.topic).tombstones == "count" and (nulls := sent.column("value").null_count):
            counts[TOMBSTONES] += nulls
            empty = set(pc.indices_nonzero(sent.column("value").is_null()).to_pylist())
            dead = [row for row in dead if row[0] not in empty]
        if dead_letters_bound is not None:
            self._count_filtered(DEAD_LETTERS, tp, batch, routed.counted, dead_letters_bound)
            if dead:
                self._add_dead(batch, tp, plan, sorted(dead, key=lambda row: row[0]))
        if self._order.routing.fans_out:
            counts[COPIES] += copies(self._placed)

    def _add_type(
        self,
        batch: pa.RecordBatch,
        tp: TopicPartition,
        plan: PartitionPlan,
        name: str,
        rows: pa.Array,
        values: pa.BinaryArray,
        schemas: RowSchemas | None,
    ) -> list[Dead]:
        """Decode the values of one type's rows, shape and stage the good ones; the bad ones are returned."""
        timestamps = batch.column("timestamp").take(rows)
        self._steps.now("decode")
        decoded = self._readers.decoder(name, tp.topic).decode(values, timestamps)
        found = shaped(name, decoded, self._readers.shaper(name), batch, rows, tp.topic)
        self._steps.now("route")
        self._counts[tp].update(ignored=decoded.ignored, truncated=decoded.truncated)
        bound, taken = plan.bound(name), found.rows
        if bound is None:
            return found.bad
        self._count_filtered(name, tp, batch, found.filtered, bound)
        if not found.table.num_rows:
            return found.bad
        offsets = batch.column("offset").take(taken)
        times = timestamps if len(taken) == len(rows) else batch.column("timestamp").take(taken)
        keys, cut = self._partitioning(name).cut(found.table)
        self._times.staged(name, tp, cut.column(cut.num_columns - 1))
        table = located(cut, coordinates(tp, plan.epoch, offsets, times), self._order.target(name).has_event_time)
        table = self._extras.added(name, table, batch, taken, found.cdc)
        # Offsets rise, so a first one beyond the bound spares the filter for nearly all batches.
        if offsets[0].as_py() <= bound:
            fresh = pc.greater(offsets, bound)
            table, keys, taken = table.filter(fresh), keys.filter(fresh), taken.filter(fresh)
        if table.num_rows:
            self._sight.look(name, tp, table)
            if schemas is not None:
                self._framing.met(name, tp, schemas, taken)
            if self._readers.form(tp.topic).carries_schemas and self._order.evolutions.of(name) is not None:
                beyond = taken.filter(table[RESCUED].is_valid())
                self._framing.met_carried(name, tp, batch.column("value").take(beyond))
            if not self._order.to.options.rescue_empty:  # behind what adds to `_rescued`, and what columns follow from
                table = without_empty(table)
            self._counts[tp]["rescued"] += table.num_rows - table[RESCUED].null_count
            self._placed.append(taken)
            self._add_rows(name, tp, table, keys)
        return found.bad

    def _count_filtered(
        self, name: str, tp: TopicPartition, batch: pa.RecordBatch, rows: pa.Array, bound: int
    ) -> None:
        """Rows that are in no table by a named filter are counted where they would be staged (protocol 3.9)."""
        if not len(rows):
            return
        fresh = rows.filter(pc.greater(batch.column("offset").take(rows), bound))
        self._counts[tp][FILTERED + name] += len(fresh)
        self._placed.append(fresh)

    def _add_dead(self, batch: pa.RecordBatch, tp: TopicPartition, plan: PartitionPlan, dead: list[Dead]) -> None:
        """One dead-letter row per bad record, whole value and headers kept, by the same machinery as any table."""
        bound = plan.bounds[DEAD_LETTERS]
        all_offsets = batch.column("offset")
        dead = [row for row in dead if all_offsets[row[0]].as_py() > bound]
        if not dead:
            return
        rows = pa.array([row[0] for row in dead], pa.int32())
        self._placed.append(rows)
        part = batch.take(rows)
        self._counts[tp]["dead_letters"] += len(dead)
        self._counts[tp].update(REASON + reason.partition(":")[0] for _, _, _, reason in dead)
        table = dead_letter_rows(part, dead, tp, plan.epoch)
        self._times.staged(DEAD_LETTERS, tp, part.column("timestamp"))
        self._add_rows(DEAD_LETTERS, tp, table, dead_letter_keys(part.column("timestamp")))

    def _add_rows(self, name: str, tp: TopicPartition, table: pa.Table, keys: pa.Array) -> None:
        """Rows beyond all that this writer had, and the numbers of their partitions."""
        if (name, tp) in self._unwritten:
            return
        unsplit = self._unsplit.setdefault((name, tp), Unsplit())
        unsplit.add(table, keys)
        if unsplit.bytes >= SPLIT_BYTES:
            self._split((name, tp))

    def _split(self, writer: tuple[str, TopicPartition]) -> None:
        """Hand each partition's rows to its file."""
        name, tp = writer
        self._steps.now("split")
        with self._trouble_of(name, tp):
            for number, part in self._unsplit.pop(writer).split():
                key = (name, tp, number)
                if key not in self._growing:
                    partition = self._partitioning(name).partition(number)
                    self._growing[key] = GrowingFile(self._origin(name, self._order.plans[tp]), partition)
                growing = self._growing[key]
                growing.add(part, *first_and_last(part))
                if growing.pending_bytes >= GROUP_BYTES_MAX:
                    self._encode(growing)
                if len(self._growing) > 2 * self._order.room.files:  # one split may bring as many partitions as rows
                    self._bound_files()
                    self._steps.now("split")
        self._steps.now("route")

    @contextmanager
    def _trouble_of(self, name: str, tp: TopicPartition) -> Iterator[None]:
        """Whatever goes wrong with the files of one writer is its table's trouble: the others go on without it."""
        try:
            yield
        except (MemoryError, _StorageOut):  # the whole task's
            raise
        except Exception as error:
            if isinstance(error, OSError) and (trouble := self._store.trouble()):
                raise _StorageOut(trouble) from error
            why = f"a file cannot be written: {type(error).__name__}: {error}"
            self._unwritten.setdefault((name, tp), why)
            self._unsplit.pop((name, tp), None)
            for key in [key for key in self._growing if key[:2] == (name, tp)]:
                del self._growing[key]

    def _encode(self, growing: GrowingFile) -> None:
        self._steps.now("encode")
        growing.encode()
        self._steps.now("split")

    def _origin(self, name: str, plan: PartitionPlan) -> FileOrigin:
        return FileOrigin(
            store=self._store.below(table_folder(name)),
            app=self._order.to.app,
            tp=plan.tp,
            epoch=plan.epoch,
            event_type=name,
            fingerprint=self._order.target(name).fingerprint,
            footer=self._order.footers.get(plan.tp, {}),
            replay=self._order.replays.get((name, plan.tp), 0),
            compression=self._order.to.options.compression,
        )

    def _partitioning(self, name: str) -> Partitioning:
        if name not in self._partitionings:
            self._partitionings[name] = Partitioning(self._order.target(name).spec)
        return self._partitionings[name]

    def _has_room(self, name: str) -> bool:
        """False for a type that nobody knows once there are too many of them."""
        if name in self._order.tables or name in self._order.routing.schemas or name in self._met:
            return True
        if len(self._met) >= self._order.new_types_max:
            return False
        self._met.add(name)
        return True

    def _bound(self) -> None:
        room, growing = self._order.room, self._growing
        while sum(unsplit.bytes for unsplit in self._unsplit.values()) > room.unsplit_bytes:
            self._split(max(self._unsplit, key=lambda writer: self._unsplit[writer].bytes))
        while sum(file.pending_bytes for file in growing.values()) > room.pending_bytes:
            name, tp, _ = largest = max(growing, key=lambda key: growing[key].pending_bytes)
            with self._trouble_of(name, tp):
                self._encode(growing[largest])
        while sum(file.encoded_bytes for file in growing.values()) > room.encoded_bytes:
            self._finish(max(growing, key=lambda key: growing[key].encoded_bytes))
        self._bound_files()

    def _bound_files(self) -> None:
        growing = self._growing
        too_many = len(growing) - self._order.room.files
        for key in nlargest(too_many, growing, lambda key: growing[key].encoded_bytes + growing[key].pending_bytes):
            self._finish(key)

    def _finish(self, key: tuple[str, TopicPartition, int]) -> None:
        """Write a file, or carry its rows; nothing if its writer had trouble meanwhile."""
        name, tp, _ = key
        growing = self._growing.pop(key, None)
        if growing is None:
            return
        self._steps.now("encode")
        with self._trouble_of(name, tp):
            point(Fault.BEFORE_STAGED_FILE, name)
            carried = growing.carried(min(CARRIED_FILE_BYTES, self._carry_left))
            file = carried or growing.finish()
            if self._order.to.sync and not carried:
                self._store.sync(f"{table_folder(name)}/{file.path}")
            self._finished.append((name, tp, file))
            self._carry_left -= carried.size_bytes if carried else 0
