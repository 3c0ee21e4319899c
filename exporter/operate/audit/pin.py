"""What an audit compares the topics with: the tables at one moment, and what they say of themselves.

Positions, the spans that a table covers, the configurations in force, recorded gaps. Reads only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from exporter.arrow.own_columns import PLACES
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.schemas import KnownSchemas
from exporter.kafka.topics import partitions_of
from exporter.lake.lake import Lake
from exporter.lake.properties import check_identity
from exporter.lake.rows import table_rows
from exporter.lake.views import views_of
from exporter.operate.audit.files import LiveFiles
from exporter.proof.codes import DEAD_LETTER
from exporter.registry.pins import Pins
from offsets.aged import aged_before
from offsets.erased import erased as erased_through
from offsets.erased import erased_app_id, erasures_known
from offsets.gaps import recorded_gaps
from offsets.names import table_folder
from offsets.positions import (
    KINDS_WITH_ROW,
    first_epoch,
    intervals,
    live_position,
    our_transactions,
    poison_offsets,
    replayed_through,
    spared_offsets,
)
from offsets.ranges import OffsetRange, TopicIdentity, TopicPartition, first_overlap
from offsets.table_log import CONFIG_PROPERTY, TABLE_PROPERTY, TableView

FOREVER = 2**63 - 1
FINISHES = "`exporter maintain --apply` takes them out"
_GAP = pa.schema([
    ("stage", pa.string()), ("event_type", pa.string()), ("first_offset", pa.int64()), ("last_offset", pa.int64()),
    ("_kafka", pa.struct([
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("epoch", pa.int32()),
    ])),
])  # fmt: skip
"""What a row says of a gap."""


@dataclass(frozen=True)
class Region:
    """Offsets (after, through] of a partition for which one routing configuration was in force."""

    after: int
    through: int
    routing: int


@dataclass
class PinnedTables:
    """The tables at one moment; keys are (event type, topic partition), or topic partition.

    views: event type -> snapshot, the dead letters' read last. spans: offsets (after, through] that a table says it
    covers. regions: they name their configuration by its index in `routings`. poison_offsets: those whose
    record was given up (its dead letter may be committed before any position passes it). spared: those of which it is
    not known yet whether a table has them: they may be in one, or in none. gaps: offsets
    (after, through] that retention took from a type, as its gap rows say; nothing is expected there. since: the
    epoch in which the topic of today began; rows of earlier ones are another topic's (`repair --rebase`). replayed:
    the greatest offset that a replay of dead letters has added to a type's table. schemas: what is decided of the ids
    of each registry, by its name. aged: event type -> microseconds since 1970; rows before that may be gone.
    erased: records that are in no table any more.
    """

    views: dict[str, TableView]
    routings: list[Routing] = field(default_factory=list)
    regions: dict[TopicPartition, list[Region]] = field(default_factory=dict)
    spans: dict[tuple[str, TopicPartition], list[tuple[int, int]]] = field(default_factory=dict)
    positions: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    poison_offsets: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    spared: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    gaps: dict[tuple[str, TopicPartition], list[tuple[int, int]]] = field(default_factory=dict)
    since: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    replayed: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    aged: Mapping[str, int] = field(default_factory=dict)
    erased: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)
    schemas: Mapping[str, KnownSchemas] = field(default_factory=dict)

    @cached_property
    def greatest(self) -> Mapping[TopicPartition, int]:
        """The greatest position of each partition over all tables. To be asked for once the tables are pinned."""
        found: dict[TopicPartition, int] = {}
        for (_, tp), at in self.positions.items():
            found[tp] = max(at, found.get(tp, at))
        return found

    @cached_property
    def replayed_through(self) -> Mapping[TopicPartition, int]:
        """The greatest offset that a replay has added to any table. To be asked for once the tables are pinned."""
        found: dict[TopicPartition, int] = {}
        for (_, tp), at in self.replayed.items():
            found[tp] = max(at, found.get(tp, at))
        return found

    @cached_property
    def least_anchor(self) -> Mapping[TopicPartition, int]:
        """What the first epoch of any table begins after. To be asked for once the tables are pinned."""
        found: dict[TopicPartition, int] = {}
        for (_, tp), spans in self.spans.items():
            after = min(after for after, _ in spans)
            found[tp] = min(after, found.get(tp, after))
        return found

    def complete_through(self, tp: TopicPartition) -> int:
        """The offset through which everything can be said by now, -1 for none: all tables are complete that the
        configuration of now fills, it can be read, and it is known of each record where it is."""
        regions = self.regions.get(tp)
        if not regions:
            return -1
        now = self.routings[regions[-1].routing]
        filled = {DEAD_LETTERS, *(self.views if now.new_type == "table" else ()), *(name for name, _ in now.types)}
        ends = [at for name, at in self._by_partition[tp].items() if name in filled]
        return min([regions[-1].through, *ends, *(spared - 1 for spared in self.spared.get(tp, ()))])

    @cached_property
    def _by_partition(self) -> Mapping[TopicPartition, Mapping[str, int]]:
        """The positions of each table. To be asked for once the tables are pinned."""
        found: dict[TopicPartition, dict[str, int]] = defaultdict(dict)
        for (name, tp), at in self.positions.items():
            found[tp][name] = at
        return found


def pin(lake: Lake, identities: Mapping[str, TopicIdentity], routing: Routing) -> PinnedTables:
    """One snapshot of each table of the app, the dead letters' last; then those that appeared meanwhile.

    A type's table is made before the dead letters say that its configuration is in force, so the second look
    finds every table that the dead letters' snapshot speaks of.
    """
    found = dict(views_of(lake))
    found |= dict(views_of(lake, but=found))
    pinned = PinnedTables(found)
    bounds = {name: aged_before(view.transactions, lake.app) for name, view in found.items()}
    pinned.aged = {name: bound for name, bound in bounds.items() if bound is not None}
    dead_letters = found.get(DEAD_LETTERS)
    if dead_letters is not None and erasures_known(found.values()):
        _pin_erased(pinned, lake, dead_letters)
    for name, view in found.items():
        pinned.replayed |= {(name, tp): at for tp, at in replayed_through(view.transactions, lake.app).items()}
    seen = {tp for view in found.values() for tp in _partitions(view, lake.app) if tp.topic in identities}
    for tp in sorted({*partitions_of(identities), *seen}):
        for name, view in found.items():
            spans = [(i.after, i.through) for i in intervals(view.transactions, lake.app, tp)]
            position = live_position(view.transactions, lake.app, tp)
            if spans and position is not None:
                pinned.spans[name, tp], pinned.positions[name, tp] = spans, position.offset
                pinned.since[name, tp] = first_epoch(view.transactions, lake.app, tp)
        if dead_letters is not None:
            pinned.poison_offsets[tp] = poison_offsets(dead_letters.transactions, lake.app, tp, KINDS_WITH_ROW)
            if spared := spared_offsets(dead_letters.transactions, lake.app, tp):
                pinned.spared[tp] = spared
                says = "end their tasks: each is a dead letter, unless a table has it, once all tables are past it"
                pinned.notes.append(f"{tp}: offsets {', '.join(map(str, sorted(spared)))} {says}")
    if any(pinned.since.values()):
        pinned.notes.append("rows of the epochs before `repair --rebase` are another topic's: they are not compared")
    _check_tables(pinned, identities)
    _pin_routings(pinned, lake.app, routing)
    names = {*found, *(name for one in pinned.routings for name, _ in one.types)} - {DEAD_LETTERS}
    pinned.codes = {DEAD_LETTERS: DEAD_LETTER, **{name: code for code, name in enumerate(sorted(names), 1)}}
    return pinned


def _pin_erased(pinned: PinnedTables, lake: Lake, dead_letters: TableView) -> None:
    """The erased records of the topics of today (protocol 4.16); a problem if their table has fewer than it must."""
    table, known, since = lake.erased(), erasures_known(pinned.views.values()), dict[TopicPartition, int]()
    view = table.view()
    number = 0 if view is None else view.transactions.get(erased_app_id(lake.app), 0)
    if view is None or number < known:
        pinned.problems.append(f"tables know of {known} erasures, and {table.uri} has {number} of them")
        return
    found: dict[TopicPartition, set[int]] = defaultdict(set)
    for rows in table_rows(lake, table, view, PLACES):
        for row in rows.to_pylist():
            tp = TopicPartition(row["topic"], row["partition"])
            if tp not in since:
                since[tp] = first_epoch(dead_letters.transactions, lake.app, tp)
            if row["epoch"] >= since[tp]:
                found[tp].add(row["offset"])
    pinned.erased = {tp: frozenset(some) for tp, some in found.items()}
    late = [name for name, one in pinned.views.items() if erased_through(one) < number]
    pinned.notes += [f"table {name} may still have rows of erased records: {FINISHES}" for name in sorted(late)]


def _partitions(view: TableView, app: str) -> Iterator[TopicPartition]:
    for app_id, _ in our_transactions(view.transactions, app):
        yield app_id.tp


def _check_tables(pinned: PinnedTables, identities: Mapping[str, TopicIdentity]) -> None:
    """Tables that the dead letters list must be there. Raises InvariantBroken if a topic is another one."""
    dead_letters = pinned.views.get(DEAD_LETTERS)
    if dead_letters is None:
        if pinned.views:
            pinned.problems.append(f"table {DEAD_LETTERS} is gone: nothing can be said of what is missing")
        else:
            pinned.notes.append("there is no table yet: everything is pending")
        return
    positions = {tp: at for (name, tp), at in pinned.positions.items() if name == DEAD_LETTERS}
    check_identity(dead_letters.properties, identities, positions)
    ids = {table_folder(name): view.table_id for name, view in pinned.views.items()}
    for prop, table_id in dead_letters.properties.items():
        folder = prop.removeprefix(TABLE_PROPERTY)
        if prop.startswith(TABLE_PROPERTY) and ids.get(folder) != table_id:
            pinned.problems.append(f"table {folder} {'was replaced' if folder in ids else 'is gone'}")


def _pin_routings(pinned: PinnedTables, app: str, routing: Routing) -> None:
    """Which configuration was in force for which offsets; the last region of a partition is open."""
    dead_letters = pinned.views.get(DEAD_LETTERS)
    index: dict[str, int | None] = {}
    for name, tp in pinned.spans:
        if name != DEAD_LETTERS or dead_letters is None:
            continue
        history, found = dead_letters.routing_history(tp), intervals(dead_letters.transactions, app, tp)
        regions = []
        for number, one in enumerate(found):
            fingerprint = history.get(one.epoch, "")
            if fingerprint not in index:
                index[fingerprint] = _add_routing(pinned, dead_letters, fingerprint, routing)
            which = index[fingerprint]
            through = FOREVER if number == len(found) - 1 else one.through
            if which is not None:
                regions.append(Region(one.after, through, which))
        pinned.regions[tp] = regions


def _add_routing(pinned: PinnedTables, dead_letters: TableView, fingerprint: str, routing: Routing) -> int | None:
    """Index of a recorded configuration, None with a note if it cannot be read."""
    found: Routing | None = routing if fingerprint == routing.fingerprint() else None
    if found is None:
        try:
            found = Routing.from_json(dead_letters.properties[f"{CONFIG_PROPERTY}{fingerprint}"])
        except (ValueError, TypeError, KeyError) as error:
            shown = fingerprint or "without a record"
            pinned.notes.append(f"configuration {shown} cannot be read, its offsets are not checked: {error!r}")
            return None
    pinned.routings.append(found)
    return len(pinned.routings) - 1


def pin_gaps(pinned: PinnedTables, app: str, topics: Sequence[str], files: Mapping[str, LiveFiles]) -> None:
    """The gap rows of the dead letters (protocol 5.5). Of one epoch they never overlap: one lost twice is a problem."""
    dead_letters = pinned.views.get(DEAD_LETTERS)
    if dead_letters is None or not recorded_gaps(dead_letters.transactions, app):
        return
    rows = files[DEAD_LETTERS].all(_GAP).to_pylist()
    found = [(row, row["_kafka"] or {}) for row in rows if row["stage"] == "gap"]
    found = [(row, at) for row, at in found if at.get("topic") in topics and at["offset"] is None]
    by_epoch: dict[tuple[str, TopicPartition, int], list[OffsetRange]] = {}
    for row, at in sorted(found, key=lambda one: _place(*one)):
        lost, tp = OffsetRange(row["first_offset"], row["last_offset"]), TopicPartition(at["topic"], at["partition"])
        name, epoch = row["event_type"], at["epoch"]
        if epoch < first_epoch(dead_letters.transactions, app, tp):
            continue
        by_epoch.setdefault((name, tp, epoch), []).append(lost)
        pinned.gaps.setdefault((name, tp), []).append((lost.first_offset - 1, lost.last_offset))
        pinned.notes.append(f"table {name}, {tp}: offsets {lost} are a recorded gap")
    for (name, tp, _), ranges in by_epoch.items():
        if twice := first_overlap(ranges):
            pinned.problems.append(f"the gap {twice[0]} of table {name}, {tp} is recorded twice")


def _place(row: Mapping[str, Any], at: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["event_type"], at["topic"], at["partition"], row["first_offset"]


def pin_schemas(lake: Lake, routings: Sequence[Routing]) -> dict[str, KnownSchemas]:
    """What is recorded of the ids of each registry whose schemas some values name, by the registry's name.

    Read behind the tables: what they cover was decided before any position passed it. Raises RegistryUnreachable where
    the records cannot be read.
    """
    asked = {one.registry for one in routings if any(form.has_ids for form in one.formats)}
    books = {name: Pins(lake.store, name) for name in sorted(asked)}
    return {name: KnownSchemas({one: pins.read(one).decisions for one in pins.ids()}) for name, pins in books.items()}
