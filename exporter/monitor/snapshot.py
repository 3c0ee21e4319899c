"""One moment of a task, as the loop leaves it behind once per iteration, and what follows from it. Pure.

The loop hands over values that nobody changes any more; what they mean is computed by whoever asks: the health server
and the metrics, in threads of their own, without any lock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from exporter.core.coordination import CoordinationState
from exporter.core.job_state import JobState
from exporter.core.manifest import TOMBSTONES
from exporter.core.routing import DEAD_LETTERS
from exporter.core.sink_state import SinkState
from exporter.core.standing import TableStanding
from exporter.core.valid_through import as_text
from exporter.core.writers import Writer, WriterKey
from exporter.monitor.marks import Marks
from exporter.monitor.totals import Totals
from offsets.positions import Position
from offsets.ranges import TopicPartition

STANDBY_SECS = 60.0
"""A task that owns nothing for so long counts as a spare one."""


@dataclass(frozen=True)
class Outage:
    """A dependency that does not answer. since: monotonic seconds."""

    since: float
    error: str


@dataclass(frozen=True)
class PartitionStatus:
    """One owned partition. committed: least position of its tables; None as long as they have not been read.

    end: after the last record, readable or not. committable: greatest offset that is read and staged. discrepancy:
    between the positions of the tables that are behind what can be read; those that are not behind do not count.
    lag: offsets; lag_secs: age of what is not committed yet. open_secs: for how long a transaction has been open.
    """

    tp: TopicPartition
    end: int | None
    committed: int | None
    committable: int | None
    lag: int | None
    lag_secs: float | None
    committable_delay: int | None
    discrepancy: int | None
    verdict: str
    open_secs: float | None = None


@dataclass(frozen=True)
class Snapshot:
    """at, started: monotonic seconds. wall_ms: the clock's time at `at`. waiting: owned, but not recovered yet.
    stuck: which cannot be read on, and why.

    ends: offset after the last record, as read at ends_at; readable: after the last one before an open transaction,
    which has been open for open_secs. marks: through which time offsets reach. verdicts: of start-up, per partition;
    log_verdicts: of the cross-check with the write-ahead log, per event type and partition.
    leases: state -> partitions. wal_calls: (call, outcome) -> count. owed: completions that the log lacks.
    schema_ids: of which nothing is decided yet; None where values have none. unregistered: tables that the catalog
    does not have; None where there is none. jobs: of [derive], that run in this task. outgrown: event type -> its
    columns of which a schema says a wider type, and both. valid_through: event type -> the
    greatest that commits of its table are known to have said, ms since 1970. sinks: who is told of versions, by what it
    is called. coordination: None where each task commits by itself. processes: of this task, name -> pid.
    """

    at: float
    started: float
    wall_ms: int
    app: str = ""
    owner: str = ""
    owned: frozenset[TopicPartition] = frozenset()
    waiting: frozenset[TopicPartition] = frozenset()
    stuck: Mapping[TopicPartition, str] = field(default_factory=dict)
    writers: Mapping[WriterKey, Writer] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends_at: float | None = None
    readable: Mapping[TopicPartition, int] = field(default_factory=dict)
    open_secs: Mapping[TopicPartition, float] = field(default_factory=dict)
    marks: Mapping[TopicPartition, Marks] = field(default_factory=dict)
    verdicts: Mapping[TopicPartition, str] = field(default_factory=dict)
    log_verdicts: Mapping[tuple[str, TopicPartition], str] = field(default_factory=dict)
    troubles: Mapping[str, Outage] = field(default_factory=dict)
    leases: Mapping[str, int] = field(default_factory=dict)
    wal_calls: Mapping[tuple[str, str], int] = field(default_factory=dict)
    owed: int | None = None
    schema_ids: int | None = None
    unregistered: int | None = None
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    outgrown: Mapping[str, Sequence[str]] = field(default_factory=dict)
    valid_through: Mapping[str, int] = field(default_factory=dict)
    sinks: Mapping[str, SinkState] = field(default_factory=dict)
    coordination: CoordinationState | None = None
    processes: Mapping[str, int] = field(default_factory=dict)
    late_max_secs: float = 0.0
    stopping: bool = False
    totals: Totals = field(default_factory=Totals)

    @property
    def not_ready(self) -> str:
        """Why the task is not at work with all that it owns; empty if it is."""
        if self.stopping:
            return "it is stopping"
        for name, trouble in sorted(self.troubles.items()):
            return f"{name} does not answer: {trouble.error}"
        for tp, error in self.stuck.items():
            return f"{tp}: {error}"
        if self.waiting:
            return f"{len(self.waiting)} of {len(self.owned)} partitions are not recovered yet"
        if not self.owned and self.at - self.started < STANDBY_SECS:
            return "no partition was assigned yet"
        return ""

    @cached_property
    def partitions(self) -> tuple[PartitionStatus, ...]:
        """The owned partitions, in order."""
        by_tp: dict[TopicPartition, list[Writer]] = defaultdict(list)
        for key, writer in self.writers.items():
            by_tp[key.tp].append(writer)
        return tuple(self._partition(tp, by_tp.get(tp, [])) for tp in sorted(self.owned))

    def _partition(self, tp: TopicPartition, writers: list[Writer]) -> PartitionStatus:
        end, verdict = self.ends.get(tp), self.verdicts.get(tp, "")
        if not writers:
            return PartitionStatus(tp, end, None, None, None, None, None, None, verdict)
        committed = min(writer.covered for writer in writers)
        committable = max(writer.frontier for writer in writers)
        if end is None:
            return PartitionStatus(tp, end, committed, committable, None, None, None, None, verdict)
        behind = [writer.covered for writer in writers if writer.covered < self.readable.get(tp, end) - 1]
        return PartitionStatus(
            tp, end, committed, committable, max(0, end - 1 - committed), self.lag_secs(tp, committed),
            max(0, end - 1 - committable), max(behind) - min(behind) if behind else 0, verdict,
            self.open_secs.get(tp, 0.0),
        )  # fmt: skip

    def lag_secs(self, tp: TopicPartition, committed: int) -> float | None:
        """How old what is not committed yet is at most; None if that is not known (yet)."""
        if tp in self.ends and committed >= self.ends[tp] - 1:
            return 0.0
        through = self._through_ms(tp, committed)
        return None if through is None else max(0.0, (self.wall_ms - through) / 1000)

    def _through_ms(self, tp: TopicPartition, committed: int) -> int | None:
        return self.marks[tp].time_ms(committed) if tp in self.marks else None

    @property
    def filtered(self) -> Mapping[str, int]:
        """Event type -> records that its filter leaves out, of which a commit has told."""
        return {name: count for name, count in sorted(self.totals.filtered.items()) if name != DEAD_LETTERS}

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The event types that have writers."""
        return tuple(sorted({key.event_type for key in self.writers}))

    @cached_property
    def _by_table(self) -> Mapping[str, list[Writer]]:
        found: dict[str, list[Writer]] = defaultdict(list)
        for key, writer in self.writers.items():
            found[key.event_type].append(writer)
        return found

    def staged_bytes(self, table: str) -> int:
        return sum(writer.staged_bytes for writer in self._by_table[table])

    def oldest_secs(self, table: str) -> float:
        """Age of the oldest staged file; 0 if nothing is staged."""
        ages = [self.at - writer.oldest_at for writer in self._by_table[table] if writer.staged]
        return max(0.0, *ages) if ages else 0.0

    def parked(self, table: str) -> str:
        """Why the table cannot be written for now; empty if it can."""
        return next((writer.parked.reason for writer in self._by_table[table] if writer.parked is not None), "")

    def complete_through_ms(self, table: str) -> int | None:
        """The completeness mark of this task's partitions: ms since 1970.

        The greatest T such that each of them is committed past T by more than the lateness allowed; a partition that
        is read to its end counts as read until it was last looked at. None if it is not known of one of them, so also
        while one of them is not recovered.
        """
        through: list[int] = []
        for writer in self._by_table[table]:
            at = self._through_ms(writer.key.tp, writer.covered)
            if at is None:
                return None
            through.append(at)
        if not through or self.waiting:
            return None
        return min(through) - int(self.late_max_secs * 1000)

    def verdict(self, key: WriterKey) -> str:
        """What the last cross-check said: of the three views where there is a log, else of start-up."""
        return self.log_verdicts.get((key.event_type, key.tp)) or self.verdicts.get(key.tp, "")

    def verdict_counts(self) -> Counter[str]:
        """How many of this task's positions got which verdict when they were last looked at."""
        return Counter(verdict for key in self.writers if (verdict := self.verdict(key)))

    def as_dict(self) -> dict[str, Any]:
        """What /status answers, ready for JSON."""
        return {
            "app": self.app,
            "owner": self.owner,
            "at_ms": self.wall_ms,
            "up_secs": round(self.at - self.started, 1),
            "ready": not self.not_ready,
            "not_ready": self.not_ready,
            "stopping": self.stopping,
            "outages": {
                name: {"secs": round(self.at - trouble.since, 1), "error": trouble.error}
                for name, trouble in sorted(self.troubles.items())
            },
            "stuck": {str(tp): error for tp, error in sorted(self.stuck.items())},
            "leases": dict(self.leases),
            "records_read": self.totals.records,
            "rows_committed": sum(self.totals.committed.values()),
            "dead_letters": self.totals.dead_letters,
            "tombstones": self.totals.counts[TOMBSTONES],
            "filtered": dict(self.filtered),
            "unrouted": self.totals.filtered[DEAD_LETTERS],
            "failed_writes_ratio": self.totals.failed_share,
            "secs": self.totals.secs(),
            "partitions": [
                {
                    "topic": one.tp.topic, "partition": one.tp.partition, "committed": one.committed,
                    "read": one.committable, "end": one.end, "lag": one.lag, "lag_secs": one.lag_secs,
                    "committable_delay": one.committable_delay, "discrepancy": one.discrepancy,
                    "verdict": one.verdict, "open_transaction_secs": one.open_secs,
                }
                for one in self.partitions
            ],
            "tables": [
                {
                    "event_type": table, "staged_bytes": self.staged_bytes(table),
                    "complete_through_ms": self.complete_through_ms(table), "parked": self.parked(table),
                    "outgrown": [*self.outgrown.get(table, ())],
                    "valid_through": as_text(at) if (at := self.valid_through.get(table)) else None,
                }
                for table in self.tables
            ],
            "coordination": None if self.coordination is None else asdict(self.coordination),
            "derive": [self._job(state) for state in self.jobs.values()],
            "events": [{"sink": name, **vars(state)} for name, state in sorted(self.sinks.items())],
            "positions": [self._position(key, self.writers[key]) for key in sorted(self.writers)],
        }  # fmt: skip

    def _job(self, job: JobState) -> dict[str, Any]:
        return {
            "job": job.name, "kind": job.kind, "version": job.version, "runs": job.runs, "rows": job.rows,
            "failures": job.failures, "behind_secs": round(job.behind_secs(self.at, self.started), 1),
            "error": job.error, "ended": job.ended, "waits": job.waits, "left_out": dict(job.left_out),
        }  # fmt: skip

    def _position(self, key: WriterKey, writer: Writer) -> dict[str, Any]:
        position = Position(writer.epoch, writer.covered)
        return TableStanding(key.event_type, key.tp, position, self.ends.get(key.tp)).as_status(
            self.verdict(key),
            read=writer.frontier,
            staged_rows=writer.staged_rows,
            staged_bytes=writer.staged_bytes,
            owner=self.owner,
        )
