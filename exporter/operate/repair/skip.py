"""`exporter repair --skip`: records that no task gets past are given up by hand, one by one or in a row.

The last way out, also for a batch that is damaged on the broker: its offsets are never asked for again. A task may hold
such a record staged all the same, for nobody says that it cannot be read. So every table of the partition goes to the
next epoch first, at the position that it has: what was staged before can be committed by nobody any more (protocol 7).
Then no table gets the record any more, what they hold is looked at, and the dead letters follow, with the rows. So is
settled what was spared, too, and can be read by nobody any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from exporter.core.routing import DEAD_LETTERS, dead_letters_last
from exporter.errors import CannotRepair, ConfigError
from exporter.fetch import ranges
from exporter.fetch.reader import EXACT
from exporter.kafka.topics import TopicReader
from exporter.lake.lake import Lake
from exporter.operate.chosen import parse_ranges
from exporter.operate.repair.reading import RepairReading
from exporter.operate.repair.steps import RepairRow, TableRepair, dead_letters_properties
from exporter.protocol.origin import origin
from exporter.protocol.poison import dead_letter_adds, held_offsets
from exporter.text import first_line
from offsets.names import AppId
from offsets.poison import may_hold, poison_transactions, settled_transactions
from offsets.positions import Position, first_epoch, poison_offsets, spared_offsets
from offsets.ranges import TopicPartition
from offsets.rewind import Move, move_transactions, next_epoch
from offsets.table_log import CLUSTER_PROPERTY, TOPIC_PROPERTY

SKIPPED_MAX = 10_000
"""So many offsets at once: each is asked for by itself."""
BY_HAND = "skipped by `exporter repair --skip`"


def skipped_offsets(text: str, topics: Sequence[str]) -> dict[TopicPartition, list[int]]:
    """What the flag names: partition -> offsets. Raises ConfigError."""
    found: dict[TopicPartition, set[int]] = {}
    for tp, offsets in parse_ranges(text, topics):
        if len(found.setdefault(tp, set())) + offsets.next_offset - offsets.first_offset > SKIPPED_MAX:
            raise ConfigError(f"more than {SKIPPED_MAX:,} offsets of {tp} are too many at once", "name those that fail")
        found[tp] |= {*range(offsets.first_offset, offsets.next_offset)}
    return {tp: sorted(offsets) for tp, offsets in found.items()}


@dataclass(frozen=True)
class Skip:
    """What is to be skipped of one lake. Plans read the tables and the topic, and write nothing.

    isolation: of who reads the records once more. wanted: partition -> offsets in their order.
    """

    lake: Lake
    topics: TopicReader
    isolation: str
    wanted: Mapping[TopicPartition, Sequence[int]]

    def plan(self) -> list[TableRepair]:
        """A step for each table of the partitions, the dead letters last. Raises CannotRepair, ConfigError."""
        reading = RepairReading(self.lake, self.lake.app)
        reading.refuse_accidents("moved on")
        moves: dict[str, dict[TopicPartition, Move]] = {}
        for tp, offsets in self._new(reading).items():
            self._check(reading, tp, offsets)
            for name, move in _moves(reading, tp).items():
                moves.setdefault(name, {})[tp] = move
        steps = []
        for name in dead_letters_last(moves):
            if name == DEAD_LETTERS:
                steps.append(self._dead_letters(reading, moves[name]))
                continue
            rows = (
                RepairRow(name, tp, move.old, move.new, 0, "goes on in the next epoch")
                for tp, move in moves[name].items()
            )
            versions = self._versions(reading, name, moves[name])
            steps.append(TableRepair(name, reading.views[name], versions, tuple(rows), routing=reading.fingerprint()))
        return steps

    def _new(self, reading: RepairReading) -> dict[TopicPartition, list[int]]:
        """The wanted offsets of no known poison record, or of one of which it is not known yet where it is."""
        found = {}
        for tp, offsets in self.wanted.items():
            known = poison_offsets(reading.dead_letters.transactions, self.lake.app, tp) - self._spared(reading, tp)
            if new := [offset for offset in offsets if offset not in known]:
                found[tp] = new
        return found

    def _spared(self, reading: RepairReading, tp: TopicPartition) -> frozenset[int]:
        return spared_offsets(reading.dead_letters.transactions, self.lake.app, tp)

    def _check(self, reading: RepairReading, tp: TopicPartition, offsets: Sequence[int]) -> None:
        """Raises ConfigError for offsets that are not in the log, CannotRepair where every table has passed them."""
        if tp not in reading.partitions():
            raise ConfigError(f"{tp} is not exported by app {self.lake.app}", "see `exporter offsets`")
        first, end = self.topics.first_offsets([tp])[tp], self.topics.high_watermarks([tp])[tp]
        if not first <= offsets[0] <= offsets[-1] < end:
            raise ConfigError(f"{tp}: its log holds offsets {first}..{end - 1}", "skip what is there")
        positions = reading.positions(tp)
        active = [positions[name] for name in reading.in_force(tp)[1].active_with(reading.views) if name in positions]
        waiting = [offset for offset in offsets if offset not in self._spared(reading, tp)]
        if waiting and all(may_hold(position, waiting[0]) for position in active):
            raise CannotRepair(
                f"{tp}: every table has passed offset {waiting[0]}", "nothing waits for it: it is where it belongs"
            )

    def _versions(self, reading: RepairReading, name: str, moved: Mapping[TopicPartition, Move]) -> dict[str, int]:
        """Nothing is taken away, so that what some table holds stays a poison record."""
        versions: dict[str, int] = {}
        for tp, move in moved.items():
            versions |= move_transactions(reading.views[name].transactions, self.lake.app, tp, move)
        return {app_id: version for app_id, version in versions.items() if AppId.parse(app_id).kind != "held"}

    def _dead_letters(self, reading: RepairReading, moved: Mapping[TopicPartition, Move]) -> TableRepair:
        """The dead letters' step: the offsets, and the rows of those that no table holds."""
        versions = self._versions(reading, DEAD_LETTERS, moved)
        rows, lacking = [], dict[TopicPartition, list[int]]()
        new = self._new(reading)
        for tp, move in moved.items():
            held = self._held(reading, tp, new[tp])
            lacking[tp] = [offset for offset in new[tp] if offset not in held]
            spared = self._spared(reading, tp)
            for offset in new[tp]:
                says_where = settled_transactions if offset in spared else poison_transactions
                versions |= says_where(self.lake.app, tp, offset, move.new, offset in held)
            says = f"{_shown(lacking[tp])} are dead letters" if lacking[tp] else ""
            says += f"{'; ' if says and held else ''}{_shown(sorted(held))} stay where they are" if held else ""
            rows.append(RepairRow(DEAD_LETTERS, tp, move.old, move.new, 0, says))

        def adds() -> tuple[Mapping[str, Any], ...]:
            some = {tp: offsets for tp, offsets in lacking.items() if offsets}
            return tuple(add for tp, at in some.items() for add in self._adds(reading, tp, moved[tp], at))

        return TableRepair(
            DEAD_LETTERS, reading.dead_letters, versions, tuple(rows),
            dead_letters_properties(reading.dead_letters_properties, reading, moved), routing=reading.fingerprint(),
            adds=adds,
            says={"skipped": {str(tp): offsets for tp, offsets in new.items()}},
        )  # fmt: skip

    def _held(self, reading: RepairReading, tp: TopicPartition, offsets: Sequence[int]) -> set[int]:
        """The offsets that some table holds already; with fan-out only dead letters of whole records do (3.7)."""
        fans_out = reading.in_force(tp)[1].fans_out
        since = first_epoch(reading.dead_letters.transactions, self.lake.app, tp)
        found: set[int] = set()
        for name, view in reading.views.items():
            may = may_hold(view.position(self.lake.app, tp), offsets[0])
            if may and (name == DEAD_LETTERS or not fans_out):
                found |= held_offsets(self.lake, name, view, tp, offsets, since, fans_out)
        return found

    def _adds(
        self, reading: RepairReading, tp: TopicPartition, move: Move, offsets: Sequence[int]
    ) -> tuple[Mapping[str, Any], ...]:
        """Write the rows of some records, each with what can be read of it."""
        recorded = reading.dead_letters.properties
        footer = {"routing": reading.in_force(tp)[0]}
        footer |= {name: text for name, text in _identity(recorded, tp).items() if text is not None}
        fingerprint = reading.dead_letters.fingerprint
        whose = origin(self.lake, DEAD_LETTERS, fingerprint, tp, move.new.epoch, footer)
        read = [self._read(tp, offset) for offset in offsets]
        return dead_letter_adds(whose, pa.concat_tables(table for table, _ in read), [reason for _, reason in read])

    def _read(self, tp: TopicPartition, offset: int) -> tuple[pa.Table, str]:
        """One record, by its coordinates alone if it cannot be read, and what is to be said of it."""
        wanted = ranges.RangeWanted(self.topics.client, tp, offset, offset + 1, self.isolation, 0)
        try:
            found = pa.Table.from_batches(ranges.exactly(wanted), schema=EXACT)
        except Exception as error:  # noqa: BLE001 - that is what it is skipped for
            return ranges.by_coordinates(wanted), f"{BY_HAND}; it cannot be read: {first_line(error)}"
        if not found.num_rows:
            return ranges.by_coordinates(wanted), f"{BY_HAND}; there is no record"
        return found, BY_HAND


def _moves(reading: RepairReading, tp: TopicPartition) -> dict[str, Move]:
    """Every active table of the partition into the next epoch, where it is."""
    positions = reading.positions(tp)
    epoch = next_epoch(positions[DEAD_LETTERS], positions, ())
    active = reading.in_force(tp)[1].active_with(reading.views)
    return {
        name: Move(position, Position(epoch, position.offset))
        for name, position in sorted(positions.items())
        if name in active and position.epoch < epoch
    }


def _identity(properties: Mapping[str, str], tp: TopicPartition) -> dict[str, str | None]:
    return {
        "cluster_id": properties.get(CLUSTER_PROPERTY),
        "topic_id": properties.get(f"{TOPIC_PROPERTY}{tp.topic}"),
    }


def _shown(offsets: Sequence[int]) -> str:
    few = ", ".join(map(str, offsets[:3]))
    return f"offsets {few}" + (f" and {len(offsets) - 3} more" if len(offsets) > 3 else "")
