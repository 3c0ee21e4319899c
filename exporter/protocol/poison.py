"""A poison record, which no decoder survives, becomes a dead letter of its own (protocol 3.7).

    a single record fails again and again, however it is read (core/bisection.py), while others can be read
      it is spared: every later plan skips its offset, for all types ── the tables pass it
      once all have, it is looked for in each: the one that has it holds it, else it gets its row

Any table may have passed the record before, or still get it of a task that has it staged: a look tells nothing before
it is past it. The rule, and why it keeps ONCE, is in offsets/poison.py. Whoever owns the partition by then settles
it. A repair spares a record again whose row it takes away, and withdraws any that was held.

Poison decides when a record is spared; spare() and settle() are the effects.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from exporter import threads
from exporter.arrow.kafka_time import held as held_times
from exporter.arrow.keys import dead_letter_keys
from exporter.clock import monotonic
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.user_metadata import user_metadata
from exporter.core.writers import PartitionPlan
from exporter.errors import InvariantBroken
from exporter.executor.dead_letters import TYPE_STAGES, dead_letter_rows
from exporter.lake.change import Change, add_action
from exporter.lake.lake import Lake
from exporter.lake.settling import Expect, Moved, Unseen, settled
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.judging import recorded
from exporter.protocol.origin import origin
from exporter.stores.parquet import FileOrigin, GrowingFile
from exporter.text import first_line
from offsets import Invariant
from offsets.names import AppId, poison_file
from offsets.partitions import DAY
from offsets.poison import is_behind, may_hold, settled_transactions, spared_transactions
from offsets.positions import Position, first_epoch, poison_offsets, spared_offsets
from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY, TableView

if TYPE_CHECKING:
    from exporter.rounds.rounds import Rounds

log = get_logger(__name__)

LOOK_THREADS = 4
IN_A_ROW_MAX = 3
"""After this many poison records in a row the fault is ours, not the data's: stop."""
STORED = "condemned"
"""What is stored calls a poison record so for ever: its stage, its reason, the tag of its file."""
SETTLES = "condemn"
"""And so the commit that settles one."""
EARLIER = "it ended the rounds of an earlier task; the commit that spared it says how"
"""Reason of a record that this process did not spare itself."""
ReadAlone = Callable[[TopicPartition, int], Any]
"""A record as an Arrow table of one row, by its coordinates alone if it is not there any more; raises whatever keeps
it from being read."""


@dataclass(frozen=True)
class Poisoned:
    """A plan for one record on which its rounds end.

    dead_letters: their position as the task knows it. checked_through: the newest version of the dead letters
    whose operations were looked at.
    """

    plan: PartitionPlan
    dead_letters: Position
    checked_through: int


@dataclass(frozen=True)
class Spared:
    """A record that every table is past, as far as its task knows. footer: of its file. checked_through: as above.
    routing: the task's."""

    tp: TopicPartition
    offset: int
    footer: Mapping[str, str]
    checked_through: int
    routing: Routing


class Poison:
    """Spares what rounds end on again and again, and settles what is spared. One per task, whatever its rounds are for.
    """

    def __init__(self, lake: Lake, read_alone: ReadAlone) -> None:
        self._lake = lake
        self._read_alone = read_alone
        self._in_a_row = 0
        self._known: dict[tuple[TopicPartition, int], tuple[Any, str]] = {}
        """Of records that this process has spared: what was read of each, and what its rounds ended on."""

    @staticmethod
    def is_next(rounds: Rounds, plan: PartitionPlan) -> bool:
        """Whether the plan is for the one record that has ended its round often enough."""
        return rounds.trouble.poison().get(plan.tp) == plan.start

    def passed(self) -> None:
        """A round has decoded records: the poison records before were single ones."""
        self._in_a_row = 0

    def spare(self, rounds: Rounds, poisoned: Poisoned) -> bool:
        """Spare the one record of the plan; False if that could not be done now.

        Raises Moved, and InvariantBroken where that has been done too often.
        """
        plan, offset = poisoned.plan, poisoned.plan.start
        raw, why = rounds.raw[plan.tp], rounds.trouble.ailing[plan.tp].error
        if self._in_a_row >= IN_A_ROW_MAX:
            raise InvariantBroken(
                Invariant.ROUTE,
                f"{plan.tp}: {IN_A_ROW_MAX} records in a row up to {offset} end their task: {why}",
                "this is no bad record but a fault of the exporter or its machine; please report it",
            )
        try:
            if raw.num_rows:  # else it is not there any more: compacted away
                spare(self._lake, poisoned, why)
        except (InvariantBroken, Moved):
            raise
        except Exception as error:  # noqa: BLE001 - the next try sees in the tables whether this one landed
            log.warning(Event.CONDEMNING_FAILED, partition=str(plan.tp), offset=offset, error=first_line(error))
            rounds.pause(monotonic())
            return False
        self._known[plan.tp, offset] = raw, why
        rounds.trouble = rounds.trouble.passed([plan])
        self._in_a_row += 1
        log.error(Event.RECORD_CONDEMNED, partition=str(plan.tp), offset=offset, error=why)
        return True

    def settle(self, spared: Spared) -> None:
        """Say where the record is, with its row if no table has it. Raises Moved, or whatever Delta or Kafka raised."""
        at = spared.tp, spared.offset
        raw, reason = self._known.get(at) or (self._read_alone(*at), EARLIER)
        held = settle(self._lake, spared, raw, reason)
        self._known.pop(at, None)
        if held is not None:
            log.warning(Event.RECORD_SETTLED, partition=str(spared.tp), offset=spared.offset, held_by=held)


def spare(lake: Lake, poisoned: Poisoned, reason: str) -> None:
    """Commit that no plan may hand a record to a task again. Nothing is done if it was committed already.

    Raises Moved if the dead letters are not where the task thought, InvariantBroken, or whatever Delta raised.
    """
    tp, offset, position = poisoned.plan.tp, poisoned.plan.start, poisoned.dead_letters
    dead_letters = lake.table(DEAD_LETTERS).view()
    if dead_letters is None or offset in poison_offsets(dead_letters.transactions, lake.app, tp):
        return
    versions = spared_transactions(lake.app, tp, offset, position)
    metadata = _metadata(lake, "spare", tp, offset, position, poisoned.checked_through, {"reason": reason})
    _commit(lake, dead_letters, tp, position, Change(tuple(versions), versions, metadata), lambda _: None)


def settle(lake: Lake, spared: Spared, raw: Any, reason: str) -> str | None:
    """Commit where a spared record is: with its row, or without if a table holds it, whose name is given back.

    None if that was done already. raw: the record as an Arrow table.

    Raises Moved if a table is behind the record, or the dead letters were moved; InvariantBroken, or whatever Delta
    raised.
    """
    app, tp, offset = lake.app, spared.tp, spared.offset
    dead_letters = lake.table(DEAD_LETTERS).view()
    position = dead_letters.position(app, tp) if dead_letters is not None else None
    if dead_letters is None or position is None or offset not in spared_offsets(dead_letters.transactions, app, tp):
        return None
    held = _holder(lake, dead_letters, spared)
    versions = settled_transactions(app, tp, offset, position, bool(held))

    def check(now: TableView) -> None:
        if offset not in spared_offsets(now.transactions, app, tp):
            raise Moved(f"table {DEAD_LETTERS}, {tp}: another task was faster")

    says = {"reason": reason, **({"held_by": held} if held else {})}
    metadata = _metadata(lake, SETTLES, tp, offset, position, spared.checked_through, says, rows=0 if held else 1)
    whose = origin(lake, DEAD_LETTERS, dead_letters.fingerprint, tp, position.epoch, spared.footer)
    adds = () if held else dead_letter_adds(whose, raw, [reason])
    _commit(lake, dead_letters, tp, position, Change(tuple(versions), versions, metadata, adds), check)
    return held


def _metadata(
    lake: Lake,
    action: str,
    tp: TopicPartition,
    offset: int,
    position: Position,
    checked_through: int,
    more: Mapping[str, Any],
    rows: int = 0,
) -> dict[str, Any]:
    said = {tp: {"epoch": position.epoch, "first": offset, "last": offset, "rows": rows}}
    return user_metadata(
        uuid.uuid4().hex, action=action, app=lake.app, checked_through=checked_through, partitions=said, more=more
    )


def _commit(
    lake: Lake,
    dead_letters: TableView,
    tp: TopicPartition,
    position: Position,
    change: Change,
    check: Callable[[TableView], None],
) -> None:
    """To the dead letters, where they are as in the view, at that position, and the check passes.

    Raises Moved, or whatever Delta raised: it is tried again later, and no reading is begun again for it.
    """
    expect = Expect(dead_letters, lake.app, {tp: position}, columns=True, ours=True)
    ended = settled(lake.table(DEAD_LETTERS), change, expect.check(DEAD_LETTERS, check), dead_letters)
    if isinstance(ended, Unseen):
        raise ended.error


def dead_letter_adds(origin: FileOrigin, raw: Any, reasons: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """Write the dead-letter rows of poison records; the `add` actions of their files, one per partition.

    raw: the records as an Arrow table, in the order of their offsets, a reason for each.
    """
    batch, _ = held_times(raw.combine_chunks().to_batches()[0])
    keys = dead_letter_keys(batch.column("timestamp"))
    adds = []
    for key in sorted(set(keys.to_pylist())):
        partition, rows = DAY.of_key(key), pc.indices_nonzero(pc.equal(keys, key))
        dead = [(0, None, STORED, f"{STORED}: {reasons[row]}") for row in rows.to_pylist()]
        part = batch.take(rows)
        offsets = part.column("offset")
        growing = GrowingFile(origin, partition)
        dead_letters = dead_letter_rows(part, dead, origin.tp, origin.epoch)
        growing.add(dead_letters, offsets[0].as_py(), offsets[-1].as_py())
        file = growing.finish(poison_file(partition, origin.app, origin.tp, origin.epoch, uuid.uuid4().hex))
        adds.append(add_action(file, {**origin.tags(file.offsets), STORED: "true"}))
    return tuple(adds)


def _holder(lake: Lake, dead_letters: TableView, spared: Spared) -> str:
    """The table that holds the record, or empty; with fan-out only the dead letters may, for the whole record.

    Raises Moved if a table is behind the record: a task that has it staged may still commit it there. One that the
    configuration does not fill was closed where it is.
    """
    tp, offset, routing = spared.tp, spared.offset, spared.routing
    since, fans_out = first_epoch(dead_letters.transactions, lake.app, tp), _fans_out(dead_letters, lake.app, spared)

    def holds(name: str) -> bool:
        view = dead_letters if name == DEAD_LETTERS else lake.table(name).view()
        if view is None or view.properties.get(APP_PROPERTY) != lake.app:
            return False
        position = view.position(lake.app, tp)
        if is_behind(position, offset) and name in routing.active_with([name]):
            raise Moved(f"table {name}, {tp}: {position} is behind {offset}, which is to be settled")
        may = may_hold(position, offset) and (name == DEAD_LETTERS or not fans_out)
        return may and bool(held_offsets(lake, name, view, tp, [offset], since, fans_out))

    names = lake.event_types()
    with threads.pool(LOOK_THREADS, "look") as pool:
        return next((name for name, found in zip(names, pool.map(holds, names), strict=True) if found), "")


def _fans_out(dead_letters: TableView, app: str, spared: Spared) -> bool:
    """By the configuration that was in force when the record was spared: only by that one a table may have got it."""
    epoch = dead_letters.transactions[str(AppId(app, spared.tp, spared.offset, "spared"))]
    fingerprint = dead_letters.routing_history(spared.tp).get(epoch, spared.routing.fingerprint())
    routing = spared.routing if fingerprint == spared.routing.fingerprint() else recorded(dead_letters, fingerprint)
    return routing.fans_out


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
