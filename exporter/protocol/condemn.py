"""A single record that no decoder survives becomes a dead letter of its own (protocol 3.7).

    a single record fails again and again, however it is read (core/bisection.py), while others can be read
      its row ── with what can be read of it ── is committed: every later plan skips its offset, for all types

Condemned is what the dead letters list as `<app>/skipped/.../<offset>` or `<app>/held/.../<offset>`. Tables may have
passed the record by then, the dead letters among them, where it ends only the task of a type that was parked, or once
did not end one. So first it is looked for wherever it may be; the rule, and why it keeps ONCE, is in
offsets/condemning.py. A repair withdraws a skipped record whose row it takes away, and any that was held: these are
looked at again.

Poison decides; condemn() is the effect.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from exporter.arrow.kafka_time import held as held_times
from exporter.arrow.keys import letter_keys
from exporter.core.routing import DEAD_LETTERS
from exporter.core.user_metadata import user_metadata
from exporter.core.writers import PartitionPlan
from exporter.errors import InvariantBroken
from exporter.executor import headers
from exporter.executor.letters import TYPE_STAGES, dead_letter_rows
from exporter.lake.change import Change, add_action
from exporter.lake.lake import Lake
from exporter.lake.properties import check_properties
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.anchor import Moved
from exporter.stores.parquet import FileOrigin, GrowingFile
from exporter.text import first_line
from offsets import Invariant
from offsets.condemning import condemned_transactions, is_elsewhere, may_hold
from offsets.names import condemned_file
from offsets.partitions import DAY
from offsets.positions import Position, condemned_offsets, first_epoch
from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY, TableView

if TYPE_CHECKING:
    from exporter.rounds.rounds import Rounds

log = get_logger(__name__)

LOOK_THREADS = 4
IN_A_ROW_MAX = 3
"""After this many condemned records in a row the fault is ours, not the data's: stop."""


@dataclass(frozen=True)
class Poisoned:
    """A plan for one record on which its rounds end, and the tables as the task knows them.

    known: event type -> position of the partition, of all tables. origin: of a file of the dead letters, in the epoch
    of their position. checked_through: the newest version of the dead letters whose operations were looked at.
    fans_out: whether a record may belong to several tables: that one has it says nothing of the others (protocol 3.7).
    """

    plan: PartitionPlan
    known: Mapping[str, Position]
    origin: FileOrigin
    checked_through: int
    fans_out: bool = False


class Poison:
    """Condemns what rounds end on again and again. One per task, whatever its rounds are for."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._in_a_row = 0

    @staticmethod
    def is_next(rounds: Rounds, plan: PartitionPlan) -> bool:
        """Whether the plan is for the one record that has ended its round often enough."""
        return rounds.trouble.poison() == plan.tp

    def passed(self) -> None:
        """A round has decoded records: what was condemned before were single ones."""
        self._in_a_row = 0

    def condemn(self, rounds: Rounds, poisoned: Poisoned) -> bool:
        """Condemn the one record of the plan; False if that could not be done now.

        Raises Moved, and InvariantBroken where that has been done too often.
        """
        plan, offset = poisoned.plan, poisoned.plan.start
        if self._in_a_row >= IN_A_ROW_MAX:
            raise InvariantBroken(
                Invariant.ROUTE,
                f"{plan.tp}: {IN_A_ROW_MAX} records in a row up to {offset} end their task: {rounds.error}",
                "this is no bad record but a fault of the exporter or its machine; please report it",
            )
        try:
            held = condemn(self._lake, poisoned, rounds.raw, rounds.error)
        except (InvariantBroken, Moved):
            raise
        except Exception as error:  # noqa: BLE001 - the next try sees in the tables whether this one landed
            log.warning(Event.CONDEMNING_FAILED, partition=str(plan.tp), offset=offset, error=first_line(error))
            rounds.pause(time.monotonic())
            return False
        rounds.trouble = rounds.trouble.passed([plan])
        self._in_a_row += 1
        log.error(Event.RECORD_CONDEMNED, partition=str(plan.tp), offset=offset, error=rounds.error, held_by=held)
        return True


def condemn(lake: Lake, poisoned: Poisoned, raw: Any, reason: str) -> str:
    """Commit that a record is condemned, with its row unless a table holds it: then the table's name is given back.

    Nothing is done if it was committed already. raw: the record as an Arrow table; without rows if it is not there
    any more (compacted away).

    Raises Moved if a table is not where the task thought, InvariantBroken, or whatever Delta raised.
    """
    app, tp, offset, known = lake.app, poisoned.plan.tp, poisoned.plan.start, poisoned.known
    letters = lake.table(DEAD_LETTERS).view()
    if letters is None or raw.num_rows == 0:
        return ""
    if offset in condemned_offsets(letters.transactions, app, tp):
        return ""
    held = _holder(lake, letters, poisoned)
    position = known[DEAD_LETTERS]
    versions = condemned_transactions(app, tp, offset, position, bool(held))

    def check(now: TableView | None) -> None:
        if now is None or (now.table_id, now.fingerprint) != (letters.table_id, letters.fingerprint):
            raise Moved(f"table {DEAD_LETTERS} was changed meanwhile")
        check_properties(DEAD_LETTERS, now, app)
        if now.position(app, tp) != position or offset in condemned_offsets(now.transactions, app, tp):
            raise Moved(f"table {DEAD_LETTERS}, {tp}: another task was faster")

    metadata = user_metadata(
        uuid.uuid4().hex,
        action="condemn",
        app=app,
        checked_through=poisoned.checked_through,
        partitions={tp: {"epoch": position.epoch, "first": offset, "last": offset, "rows": 0 if held else 1}},
        more={"reason": reason, **({"held_by": held} if held else {})},
    )
    change = Change(
        tuple(versions),
        versions,
        metadata,
        () if held else letter_adds(poisoned.origin, raw, [reason]),
    )
    lake.table(DEAD_LETTERS).commit(change, check)
    return held


def letter_adds(origin: FileOrigin, raw: Any, reasons: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """Write the dead-letter rows of condemned records; the `add` actions of their files, one per partition.

    raw: the records as an Arrow table, in the order of their offsets, a reason for each.
    """
    batch, _ = held_times(headers.joined(raw.combine_chunks().to_batches()[0]))
    keys = letter_keys(batch.column("timestamp"))
    adds = []
    for key in sorted(set(keys.to_pylist())):
        partition, rows = DAY.of_key(key), pc.indices_nonzero(pc.equal(keys, key))
        dead = [(0, None, "condemned", f"condemned: {reasons[row]}") for row in rows.to_pylist()]
        part = batch.take(rows)
        offsets = part.column("offset")
        growing = GrowingFile(origin, partition)
        letters = dead_letter_rows(part, dead, origin.tp, origin.epoch)
        growing.add(letters, offsets[0].as_py(), offsets[-1].as_py())
        file = growing.finish(condemned_file(partition, origin.app, origin.tp, origin.epoch, uuid.uuid4().hex))
        adds.append(add_action(file, {**origin.tags(file.offsets), "condemned": "true"}))
    return tuple(adds)


def _holder(lake: Lake, letters: TableView, poisoned: Poisoned) -> str:
    """The table that holds the record, or empty; with fan-out only the dead letters may, for the whole record.

    Raises Moved if a table is not where the task thought.
    """
    tp, offset, known, fans_out = poisoned.plan.tp, poisoned.plan.start, poisoned.known, poisoned.fans_out
    since = first_epoch(letters.transactions, lake.app, tp)

    def holds(name: str) -> bool:
        view = letters if name == DEAD_LETTERS else lake.table(name).view()
        if view is None or view.properties.get(APP_PROPERTY) != lake.app:
            return False
        position = view.position(lake.app, tp)
        if is_elsewhere(known, name, position):
            raise Moved(f"table {name}, {tp}: {position} instead of {known[name]}")
        may = may_hold(position, offset) and (name == DEAD_LETTERS or not fans_out)
        return may and bool(held_offsets(lake, name, view, tp, [offset], since, fans_out))

    names = lake.event_types()
    with ThreadPoolExecutor(LOOK_THREADS, thread_name_prefix="look") as pool:
        return next((name for name, found in zip(names, pool.map(holds, names), strict=True) if found), "")


def held_offsets(
    lake: Lake, name: str, view: TableView, tp: TopicPartition, offsets: Sequence[int], since: int, whole: bool = False
) -> set[int]:
    """The offsets, of those given, of which the table has a row. since: the epoch in which the topic of today began.

    whole: dead letters of one type of their record do not count.
    """
    from pyspark.sql import functions as sf  # a start does not wait for these imports

    from exporter.lake.rows import rows_at

    kafka = sf.col("_kafka")
    of_partition = (kafka["topic"] == tp.topic) & (kafka["partition"] == tp.partition)
    there = of_partition & kafka["offset"].between(min(offsets), max(offsets))
    of_topic = sf.coalesce(kafka["epoch"], sf.lit(0)) >= since
    stands = ~sf.col("stage").isin(*TYPE_STAGES) if whole and name == DEAD_LETTERS else sf.lit(True)
    rows = rows_at(lake, name, view).where(there & of_topic & stands).select(kafka["offset"].alias("offset")).distinct()
    return {row["offset"] for row in rows.collect()} & set(offsets)
