"""What the tasks of one round are told, and how much they may hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.core.evolve import Evolutions
from exporter.core.routing import Routing
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas
from exporter.core.table_options import TableOptions
from exporter.core.valid_through import Basis
from exporter.core.writers import PartitionPlan
from offsets.partitions import DAY, Spec
from offsets.ranges import TopicPartition

NO_OFFSETS = frozenset[int]()


@dataclass(frozen=True)
class StagingBudget:
    """What may be held of files that are not finished. bytes: Arrow rows and encoded ones. files: their number.

    If they take more, the largest part of the rows not yet split is split, of those split encoded, of those encoded
    finished as a file; so is the largest file of too many.
    """

    bytes: int = 512 << 20
    files: int = 10_000

    def share(self, tasks: int) -> StagingBudget:
        """This budget divided among tasks that run at the same time."""
        return StagingBudget(max(1, self.bytes // tasks), max(1, self.files // tasks))

    @property
    def unsplit_bytes(self) -> int:
        return self.bytes // 8

    @property
    def pending_bytes(self) -> int:
        return self.bytes * 3 // 8

    @property
    def encoded_bytes(self) -> int:
        return self.bytes // 2


@dataclass(frozen=True)
class TableTarget:
    """The table of one event type, as rows are staged for it.

    fingerprint: of its metadata; empty of a table that is not made yet. spec: how it is cut. decoded: Spark schema JSON
    of what is decoded of the type, None where that is what is declared. has_event_time: False of a table with a column
    `_event_time` of its own, which is left as it is. kept: names of the columns with something of the record that it
    has; None: all of them, or it gets them. plain: its fingerprint as it is, where that is just as a new one is made.
    """

    fingerprint: str = ""
    spec: Spec = DAY
    decoded: str | None = None
    has_event_time: bool = True
    kept: frozenset[str] | None = None
    plain: str = ""


@dataclass(frozen=True)
class Destination:
    """All tables of an app. root: as open_store() takes it, with store_options.

    sync: whether a task brings each file that it writes to disk, because nobody else can (stores/file.py).
    """

    root: str
    app: str
    options: TableOptions = field(default_factory=TableOptions)
    store_options: Mapping[str, str] = field(default_factory=dict)
    sync: bool = False


@dataclass(frozen=True)
class StagingOrder:
    """What the tasks of one round are told.

    tables: event type -> its table, of all that there are. footers: key-values for every file.
    poison_offsets: of poison records, which are dead letters by now and skipped for all types (protocol 3.7).
    erased: offsets of erased records, of each plan's range, which belong to no type any more (protocol 4.16).
    new_types_max: how many event types without a table a task stages; the driver stops if there are more.
    replays: (event type, topic partition) -> number of the replay that stages these records; empty for a round.
    room: of each task. carried_bytes: of all small files whose rows a task may give to the driver unwritten.
    committed_next: all that is staged is committed right after the round, and nothing together with it.
    evolutions: of which types it is told what was seen beside their columns.
    schemas: what is decided of schema ids (protocol 3.8).
    times: of which times the tasks tell the greatest (protocol 4.12).
    """

    to: Destination
    routing: Routing
    plans: Mapping[TopicPartition, PartitionPlan]
    tables: Mapping[str, TableTarget]
    footers: Mapping[TopicPartition, Mapping[str, str]]
    poison_offsets: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    erased: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    new_types_max: int = 0
    replays: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    room: StagingBudget = field(default_factory=StagingBudget)
    carried_bytes: int = 0
    committed_next: bool = False
    evolutions: Evolutions = field(default_factory=Evolutions)
    schemas: KnownSchemas = NO_SCHEMAS
    times: Basis = ""

    def left_out(self, tp: TopicPartition) -> frozenset[int]:
        """The offsets of a partition whose records are handed to no type."""
        return self.poison_offsets.get(tp, NO_OFFSETS) | self.erased.get(tp, NO_OFFSETS)

    def target(self, event_type: str) -> TableTarget:
        """The table of a type, or as it would be made."""
        found = self.tables.get(event_type)
        return TableTarget(spec=self.to.options.specs.of(event_type)) if found is None else found
