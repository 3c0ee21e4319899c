"""What the tasks of one round are told, and how much they may hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.core.columns import JsonText
from exporter.core.evolve import Evolutions
from exporter.core.record_columns import RecordColumns
from exporter.core.routing import Routing
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas
from exporter.core.specs import Specs
from exporter.core.valid_through import Basis
from exporter.core.writers import PartitionPlan
from offsets.ranges import TopicPartition


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
class StagingOrder:
    """What the tasks of one round are told.

    root: of all tables, as open_store() takes it, with store_options.
    fingerprints: event type -> fingerprint of its table's metadata. footers: key-values for every file.
    condemned: offsets that are dead letters already and are skipped for all types (protocol 3.7).
    new_types_max: how many event types without a fingerprint a task stages; the driver stops if there are more.
    untimed: event types whose table has a column `_event_time` of its own; it is left as it is.
    specs: how the tables are cut, those too that are not made yet.
    replays: (event type, topic partition) -> number of the replay that stages these records; empty for a round.
    room: of each task. carried_bytes: of all small files whose rows a task may give to the driver unwritten.
    committed_next: all that is staged is committed right after the round, and nothing together with it.
    columns: event type -> what is decoded of it, where that is more than what is declared (core/evolved.py).
    evolutions: of which types it is told what was seen beside that.
    sync: whether a task brings each file that it writes to disk, because nobody else can (stores/file.py).
    json_text, rescue_empty: as TableOptions has them. schemas: what is decided of schema ids (protocol 3.8).
    record_columns: what tables have of the record itself, beside what envelopes say. kept: event type -> which of these
    columns its table has; None: all have them, or get them. compression: codec of the files, as FileOrigin has it.
    times: of which times the tasks tell the greatest (protocol 4.12).
    """

    root: str
    app: str
    routing: Routing
    plans: Mapping[TopicPartition, PartitionPlan]
    fingerprints: Mapping[str, str]
    footers: Mapping[TopicPartition, Mapping[str, str]]
    condemned: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    new_types_max: int = 0
    replays: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    room: StagingBudget = field(default_factory=StagingBudget)
    carried_bytes: int = 0
    committed_next: bool = False
    sync: bool = False
    untimed: frozenset[str] = frozenset()
    columns: Mapping[str, str] = field(default_factory=dict)
    evolutions: Evolutions = field(default_factory=Evolutions)
    json_text: JsonText = "as_sent"
    rescue_empty: bool = False
    specs: Specs = field(default_factory=Specs)
    schemas: KnownSchemas = NO_SCHEMAS
    record_columns: RecordColumns = field(default_factory=RecordColumns)
    kept: Mapping[str, frozenset[str]] | None = None
    store_options: Mapping[str, str] = field(default_factory=dict)
    compression: str = ""
    times: Basis = ""
