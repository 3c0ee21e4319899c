"""What the loop tells of itself: sums, marks, outages, and one snapshot per iteration for whoever asks.

Belongs to the loop's thread; `snapshot` and `busy_since` are read by others, each replaced as a whole. Nothing here
is ever asked where something is to be read or committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from exporter.clock import monotonic, wall
from exporter.core.coordination import CoordinationState
from exporter.core.job_state import JobState
from exporter.core.sink_state import SinkState
from exporter.core.writers import Fragment, Writer, WriterKey
from exporter.monitor.marks import Marks
from exporter.monitor.outages import KAFKA, STORAGE, WAL, Outages
from exporter.monitor.snapshot import Snapshot
from exporter.monitor.totals import Totals
from offsets.ranges import TopicPartition

if TYPE_CHECKING:
    from exporter.core.manifest import RoundResult
    from exporter.core.outcome import Report

PROBE_SECS = 1.0
WORKERS_SECS = 90.0
"""For how long it is believed that workers could not reach the storage. The next round is read before that."""
BLINKS_MAX, BLINK_SECS = 3, 600.0
"""So many failures of a storage that answers when it is asked are taken for outages that are over, in so long."""


@dataclass(eq=False, repr=False)
class Watch:
    """One task's. `snapshot` is None until the loop has passed once. through: what commits said (ThroughTimes.said).

    hopeless: partitions that have been stuck for give_up_secs, and why; a run with an end does not wait for them.

    late_max_secs: how late a record may be for the completeness mark. wall: seconds since 1970.

    probe: why the storage does not answer, or empty.
    """

    app: str = ""
    owner: str = ""
    late_max_secs: float = 0.0
    give_up_secs: float = float("inf")
    clock: Callable[[], float] = monotonic
    wall: Callable[[], float] = wall
    probe: Callable[[], str] = str

    def __post_init__(self) -> None:
        self._probed_at = float("-inf")
        self._of_workers, self._workers_at = "", float("-inf")
        self._blinks: list[float] = []
        self.totals = Totals()
        self.outages = Outages(self.give_up_secs)
        self.hopeless: Mapping[TopicPartition, str] = {}
        self.snapshot: Snapshot | None = None
        self.busy_since: float | None = None
        self.schema_ids: int | None = None
        self.unregistered: int | None = None
        self.jobs: Mapping[str, JobState] = {}
        self.outgrown: Mapping[str, Sequence[str]] = {}
        self.sinks: Callable[[], Mapping[str, SinkState]] = dict
        self.coordination: Callable[[], CoordinationState | None] = lambda: None
        self.processes: Mapping[str, int] = {}
        self._leases: Callable[[], Mapping[str, int]] = dict
        self._wal_calls: Callable[[], Mapping[tuple[str, str], int]] = dict
        self.through: Callable[[], Mapping[str, int]] = dict
        self.started = self.clock()
        self._marks: dict[TopicPartition, Marks] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._ends_at: float | None = None
        self._readable: dict[TopicPartition, int] = {}
        self._open: dict[TopicPartition, tuple[int, float, float]] = {}
        self._stuck_since: dict[TopicPartition, float] = {}

    def joined(
        self,
        owner: str,
        leases: Callable[[], Mapping[str, int]],
        wal_calls: Callable[[], Mapping[tuple[str, str], int]],
    ) -> None:
        """Take in what is known only once the task is put together, while others already ask how it is.

        owner: its name in the log and the commits. leases: how many it has, by state. wal_calls: made so far.
        """
        self.owner, self._leases, self._wal_calls = owner, leases, wal_calls

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that are this task's; callable from every thread."""
        return frozenset() if self.snapshot is None else self.snapshot.owned

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Mark that partitions are recovered, which may take long; callable from the thread that does it."""
        self.busy_since = self.clock()
        try:
            yield
        finally:
            self.busy_since = None

    def still_busy(self) -> None:
        """Mark that what takes long has gone on by a step."""
        self.busy_since = self.clock()

    def ends_read(
        self, ends: Mapping[TopicPartition, int], now: float, readable: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """The offsets after the last records, just looked at; those after the last ones that can be read, behind them.

        Where records cannot be read although they are there, a transaction is open since that has stood still.
        """
        self._ends, self._readable = dict(ends), dict(ends if readable is None else readable)
        self._ends_at = now
        before, self._open = self._open, {}
        for tp, end in ends.items():
            self._mark(tp, end - 1, int(self.wall() * 1000))
            if (at := self._readable.get(tp, end)) < end:
                stood_at, since, _ = before.get(tp, (at, now, now))
                self._open[tp] = (at, since if stood_at == at else now, now)
        self.outages.over(KAFKA, now)

    def integrated(self, result: RoundResult, secs: float) -> None:
        """Count a round that was read in `secs`."""
        self._of_workers = ""
        totals, records = self.totals, result.counts.get("records", 0)
        totals.rounds += 1
        totals.counts.update(result.counts)
        totals.records += records
        totals.bytes += result.counts.get("bytes", 0)
        totals.round_records.add(records)
        totals.took("read", secs)
        for fragment in result.fragments:
            totals.staged_rows += sum(file.rows for files in fragment.files.values() for file in files)
            if (read_ms := last_kafka_ms(fragment)) is not None:
                self._mark(fragment.plan.tp, fragment.plan.end - 1, min(read_ms, int(self.wall() * 1000)))

    def committed(self, report: Report) -> None:
        """Count a commit, whatever became of it."""
        for outcome in {type(settled.outcome).__name__.lower() for settled in report.settled}:
            self.totals.outcomes[report.event_type, outcome] += 1
        self.totals.took("commit", report.secs)

    def tick(
        self,
        now: float,
        owned: Collection[TopicPartition],
        waiting: Collection[TopicPartition],
        writers: Mapping[WriterKey, Writer],
        verdicts: Mapping[TopicPartition, str],
        log_verdicts: Mapping[tuple[str, TopicPartition], str],
        wal_waits: bool,
        owed: int | None,
        stopping: bool,
        stuck: Mapping[TopicPartition, str] = MappingProxyType({}),
    ) -> None:
        """One iteration of the loop. wal_waits: commits wait for the log. owed: completions that it lacks.

        stuck: why a partition cannot be read on. Raises DependencyUnreachable.
        """
        if wal_waits:
            self.outages.seen(WAL, "commits wait for it", now)
        else:
            self.outages.over(WAL, now)
        if STORAGE in self.outages.open and now - self._probed_at >= PROBE_SECS:
            self.storage_is_out(now)
        mine = frozenset(owned)
        least: dict[TopicPartition, int] = {}
        for key, writer in writers.items():
            least[key.tp] = min(writer.covered, least.get(key.tp, writer.covered))
        self._marks = {tp: marks.since(least.get(tp, -1)) for tp, marks in self._marks.items() if tp in mine}
        self._ends = {tp: end for tp, end in self._ends.items() if tp in mine}
        self._open = {tp: seen for tp, seen in self._open.items() if tp in mine}
        self._stuck_since = {tp: self._stuck_since.get(tp, now) for tp in stuck if tp in mine}
        self.hopeless = {tp: stuck[tp] for tp, since in self._stuck_since.items() if now - since >= self.give_up_secs}
        self.snapshot = Snapshot(
            at=now,
            started=self.started,
            wall_ms=int(self.wall() * 1000),
            app=self.app,
            owner=self.owner,
            owned=mine,
            waiting=frozenset(waiting),
            stuck={tp: error for tp, error in stuck.items() if tp in mine},
            writers=dict(writers),
            ends=dict(self._ends),
            ends_at=self._ends_at,
            readable=dict(self._readable),
            open_secs={tp: looked - since for tp, (_, since, looked) in self._open.items()},
            marks=dict(self._marks),
            verdicts={tp: verdict for tp, verdict in verdicts.items() if tp in mine},
            log_verdicts=dict(log_verdicts),
            troubles=self.outages.open,
            leases=self._leases(),
            wal_calls=self._wal_calls(),
            owed=owed,
            schema_ids=self.schema_ids,
            unregistered=self.unregistered,
            jobs=self.jobs,
            outgrown={name: some for name, some in self.outgrown.items() if some},
            valid_through=self.through(),
            sinks=self.sinks(),
            coordination=self.coordination(),
            processes=self.processes,
            late_max_secs=self.late_max_secs,
            stopping=stopping,
            totals=self.totals.copy(),
        )

    def workers_lack_storage(self, trouble: str, now: float) -> None:
        """Note that it did not answer where files are written, until a round has been written."""
        self._of_workers, self._workers_at = trouble, now

    def storage_is_out(self, now: float) -> bool:
        """Ask the storage itself; an outage of it begins, goes on or ends by that. Raises DependencyUnreachable.

        If it is out it is asked once in an iteration: one that is silent would hold up the loop as often.
        """
        if now == self._probed_at and STORAGE in self.outages.open:
            return True
        self._probed_at = now
        told = self._of_workers if now - self._workers_at < WORKERS_SECS else ""
        if trouble := self.probe() or told:
            self.outages.seen(STORAGE, trouble, now)
            return True
        self.outages.over(STORAGE, now)
        return False

    def blinked(self, error: str, now: float) -> bool:
        """Whether a failure of the storage, which answers by now, passes for an outage; not if there were many of late.

        A table may have a file that is never read, and a person has to look at it then.
        """
        self._blinks = [at for at in self._blinks if now - at < BLINK_SECS]
        if len(self._blinks) == BLINKS_MAX:
            return False
        self._blinks.append(now)
        self.outages.seen(STORAGE, error, now)
        return True

    def _mark(self, tp: TopicPartition, offset: int, time_ms: int) -> None:
        self._marks[tp] = self._marks.get(tp, Marks()).add(offset, time_ms)


def last_kafka_ms(fragment: Fragment) -> int | None:
    """The Kafka time, ms since 1970, that the file with the last record of a round reaches; None without files."""
    files = [file for files in fragment.files.values() for file in files]
    if not files:
        return None
    last = max(files, key=lambda file: file.offsets.last_offset)
    text = json.loads(last.stats).get("maxValues", {}).get("_kafka", {}).get("timestamp")
    return None if text is None else int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
