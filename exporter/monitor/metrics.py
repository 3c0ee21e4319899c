"""What a task tells Prometheus: one table of metrics, filled from the loop's snapshot whenever somebody asks.

Nothing is kept here: a partition that was revoked has no series from the next snapshot on, and what is not known yet
has none either, so no gauge is 0 only because the task has just started. A counter is 0 from the start, with each value
of its labels that can be known then: else a rate misses its first burst. Labels are bounded by the owned partitions and
by the tables (at most the declared types, `new_types_max` and the dead letters), never by both at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from exporter import __version__
from exporter.core.coordination import CoordinationState
from exporter.core.job_state import JobState
from exporter.core.manifest import REASON, STEPS, TOMBSTONES
from exporter.core.outcome import Held, Landed, Refused, Stale, Unknown, Unwritten
from exporter.core.reasons import CODES
from exporter.core.routing import DEAD_LETTERS
from exporter.monitor.processes import CPU, FILES, FILES_MAX, MEMORY, used
from exporter.monitor.snapshot import PartitionStatus, Snapshot
from exporter.monitor.totals import Spread
from exporter.text import encodable

Sample = tuple[tuple[str, ...], Any]
"""Label values and a number (a histogram's: a Spread)."""
OUTCOMES = tuple(kind.__name__.lower() for kind in (Held, Landed, Refused, Stale, Unknown, Unwritten))
"""Of commits, as the totals count them."""


@dataclass(frozen=True)
class Described:
    """One metric. name: as it is scraped, a counter's with _total. samples: from a snapshot; without any, no series.

    Each series has a label `app` before its own.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    samples: Callable[[Snapshot], Iterable[Sample]]

    def family(self, snapshot: Snapshot) -> Metric:
        """The metric with its samples, as it is scraped."""
        labels = ("app", *self.labels)
        samples = (([*map(encodable, (snapshot.app, *of))], number) for of, number in self.samples(snapshot))
        if self.kind == "histogram":
            family = HistogramMetricFamily(self.name, self.help, labels=labels)
            for of, spread in samples:
                family.add_metric(of, _buckets(spread), spread.sum)
            return family
        of_kind = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        plain: CounterMetricFamily | GaugeMetricFamily = of_kind(self.name, self.help, labels=labels)
        for of, number in samples:
            plain.add_metric(of, number)
        return plain


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    bounds = [*(repr(bound) for bound in spread.bounds), "+Inf"]
    return list(zip(bounds, accumulate(spread.counts), strict=True))


def _one(number: float | None) -> list[Sample]:
    return [] if number is None else [((), number)]


def _of_partitions(field: str) -> Callable[[Snapshot], Iterator[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for one in snapshot.partitions:
            number = getattr(one, field)
            if number is not None:
                yield (one.tp.topic, str(one.tp.partition)), number

    if field not in PartitionStatus.__dataclass_fields__:
        raise AttributeError(field)
    return samples


def _of_tables(number: Callable[[Snapshot, str], float | None]) -> Callable[[Snapshot], Iterator[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for table in snapshot.tables:
            if (found := number(snapshot, table)) is not None:
                yield (table,), found

    return samples


def _complete_secs(snapshot: Snapshot, table: str) -> float | None:
    through = snapshot.complete_through_ms(table)
    return None if through is None else through / 1000


def _from_zero(known: Iterable[str], counts: Mapping[str, Any], zero: Any = 0) -> list[Sample]:
    """A series of each value of a label that is known beforehand: a rate has no first sample to count from else."""
    return [((value,), number) for value, number in sorted((dict.fromkeys(known, zero) | dict(counts)).items())]


def _reasons(snapshot: Snapshot) -> list[Sample]:
    found = {name.removeprefix(REASON): n for name, n in snapshot.totals.counts.items() if name.startswith(REASON)}
    return _from_zero(CODES, found)


def _commits(snapshot: Snapshot) -> list[Sample]:
    counts = dict.fromkeys(product(snapshot.tables, OUTCOMES), 0) | snapshot.totals.outcomes
    return sorted(counts.items())


def _count(name: str) -> Callable[[Snapshot], list[Sample]]:
    return lambda snapshot: _one(snapshot.totals.counts[name])


def _of_jobs(number: Callable[[Snapshot, JobState], float]) -> Callable[[Snapshot], Iterator[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for name, job in snapshot.jobs.items():
            yield (name,), number(snapshot, job)

    return samples


def _runs(snapshot: Snapshot) -> Iterator[Sample]:
    for name, job in snapshot.jobs.items():
        yield (name, "committed"), job.runs
        yield (name, "failed"), job.failures


def _left_out(snapshot: Snapshot) -> Iterator[Sample]:
    for name, job in snapshot.jobs.items():
        yield from (((name, why), count) for why, count in sorted(job.left_out.items()))


def _coordinated(samples: Callable[[CoordinationState], Iterable[Sample]]) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: () if snapshot.coordination is None else samples(snapshot.coordination)


def _of_processes(what: str) -> Callable[[Snapshot], Iterator[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for name, pid in sorted(snapshot.processes.items()):
            if (number := used(pid).get(what)) is not None:
                yield (name,), number

    return samples


_TP = ("topic", "partition")
_TABLE = ("event_type",)
_JOB = ("derive",)
"""Prometheus has a label `job` of its own."""

METRICS: tuple[Described, ...] = (
    Described("exporter_build_info", "gauge", "Always 1: version of the exporter, and the task's name.",
              ("version", "owner"), lambda s: [((__version__, s.owner), 1)]),
    Described("exporter_up_seconds", "gauge", "How long the task has been running.", (),
              lambda s: _one(s.at - s.started)),
    Described("exporter_ready", "gauge", "1 if the task is at work with all that it owns, else 0 (as /readyz).", (),
              lambda s: _one(0 if s.not_ready else 1)),
    Described("exporter_outage_seconds", "gauge", "For how long a dependency has not answered; none = all answer.",
              ("dependency",), lambda s: [((name,), s.at - one.since) for name, one in sorted(s.troubles.items())]),
    Described("exporter_owned_partitions", "gauge", "Topic partitions that this task owns.", (),
              lambda s: _one(len(s.owned))),
    Described("exporter_waiting_partitions", "gauge", "Owned partitions that are not recovered from the tables yet.",
              (), lambda s: _one(len(s.waiting))),
    Described("exporter_stuck_partitions", "gauge", "Owned partitions whose rounds fail again and again, whose "
              "schemas are not to be had, or whose poison records cannot be settled; the log and /readyz say why.",
              (), lambda s: _one(len(s.stuck))),
    Described("exporter_schema_ids_missing", "gauge", "Schema ids of records that cannot be read before something is "
              "decided of them.", (), lambda s: _one(s.schema_ids)),
    Described("exporter_tables_unregistered", "gauge", "Tables of this task that the catalog does not have; what it "
              "does have under such a name is another table.", (), lambda s: _one(s.unregistered)),
    Described("exporter_schema_lookups_total", "counter", "Look-ups of missing schema ids: text, unknown (decided to "
              "be), undecided (asked again) or unreachable (no answer).", ("outcome",),
              lambda s: _from_zero(("text", "unknown", "undecided", "unreachable"), s.totals.lookups)),
    Described("exporter_rebalances_total", "counter", "Partitions that were assigned, revoked (handed over) or lost "
              "(taken away while this task was cut off).", ("kind",),
              lambda s: [((kind,), s.totals.rebalances[kind]) for kind in ("assigned", "revoked", "lost")]),
    Described("exporter_leases", "gauge", "Partitions by lease: held, or waited_for because another task holds it.",
              ("state",), lambda s: [((state,), count) for state, count in sorted(s.leases.items())]),
    Described("exporter_verdicts", "gauge", "Positions (event type and partition) by the latest cross-check's verdict.",
              ("verdict",), lambda s: [((said,), count) for said, count in sorted(s.verdict_counts().items())]),
    Described("exporter_wal_calls_total", "counter", "Calls to the write-ahead log: answered, refused (also a "
              "condition that was not met) or unreachable.", ("call", "outcome"),
              lambda s: sorted(s.wal_calls.items())),
    Described("exporter_wal_owed", "gauge", "Commits whose completion the write-ahead log does not have yet.", (),
              lambda s: _one(s.owed)),
    Described("exporter_end_offset", "gauge", "Offset after the last record of the partition, also if a transaction "
              "keeps it from being read.", _TP, _of_partitions("end")),
    Described("exporter_committed_offset", "gauge", "Least offset through which all tables hold the partition.", _TP,
              _of_partitions("committed")),
    Described("exporter_lag_records", "gauge", "Offsets that are not committed in all tables yet, those of open "
              "transactions among them.", _TP, _of_partitions("lag")),
    Described("exporter_lag_seconds", "gauge", "Age of the oldest record that is not committed in all tables yet, at "
              "most.", _TP, _of_partitions("lag_secs")),
    Described("exporter_open_transaction_seconds", "gauge", "For how long a transaction has been open at the first "
              "offset that cannot be read; 0 = all can be read.", _TP, _of_partitions("open_secs")),
    Described("exporter_committable_delay_records", "gauge", "Offsets between the greatest one that is read and staged "
              "and the end of the log.", _TP, _of_partitions("committable_delay")),
    Described("exporter_position_discrepancy_records", "gauge", "Offsets between the most and the least advanced of "
              "those tables that are behind the end of the partition.", _TP, _of_partitions("discrepancy")),
    Described("exporter_staged_bytes", "gauge", "Bytes of files that are staged and not committed yet.", _TABLE,
              _of_tables(Snapshot.staged_bytes)),
    Described("exporter_staged_oldest_seconds", "gauge", "Age of the oldest staged file.", _TABLE,
              _of_tables(Snapshot.oldest_secs)),
    Described("exporter_table_parked", "gauge", "1 while a table cannot be written; the other tables go on.", _TABLE,
              _of_tables(lambda s, table: 1 if s.parked(table) else 0)),
    Described("exporter_complete_through_timestamp_seconds", "gauge", "Completeness mark, in seconds since 1970: this "
              "task's partitions are committed past it by more than event_time_late_max_secs. Of all tasks the least "
              "one counts.", _TABLE, _of_tables(_complete_secs)),
    Described("exporter_valid_through_timestamp_seconds", "gauge", "valid_through of the table, in seconds since 1970, "
              "as the newest commit says it that this task knows of. Of all tasks the greatest one counts.", _TABLE,
              lambda s: [((name,), at / 1000) for name, at in sorted(s.valid_through.items()) if at]),
    Described("exporter_records_read_total", "counter", "Records read from Kafka; one that is read again counts again.",
              (), lambda s: _one(s.totals.records)),
    Described("exporter_read_bytes_total", "counter", "Bytes of the keys, values and headers of the records read.", (),
              lambda s: _one(s.totals.bytes)),
    Described("exporter_records_skipped_total", "counter", "Records read that their table had already.", (),
              lambda s: _one(s.totals.skipped)),
    Described("exporter_records_dead_lettered_total", "counter", "Records staged as dead letters, by the code of their "
              "reason; what is committed is in exporter_records_committed_total.", ("reason",), _reasons),
    Described("exporter_records_rescued_total", "counter", "Records staged with fields in _rescued.", (),
              _count("rescued")),
    Described("exporter_records_stripped_total", "counter", "Records staged without fields that the schema does not "
              "know (unknown_fields = ignore).", (), _count("ignored")),
    Described("exporter_tombstones_total", "counter", "Records without a value that are in no table (tombstones = "
              "count).", (), _count(TOMBSTONES)),
    Described("exporter_records_filtered_total", "counter", "Records that the filter of a type leaves out (where), "
              "by the commits.", _TABLE, lambda s: _from_zero(set(s.tables) - {DEAD_LETTERS}, s.filtered)),
    Described("exporter_records_unrouted_total", "counter", "Records whose event type no table takes, counted "
              "(unrouted = count), by the commits.", (), lambda s: _one(s.totals.filtered[DEAD_LETTERS])),
    Described("exporter_timestamps_cut_total", "counter", "Timestamps whose digits beyond microseconds were cut.", (),
              _count("truncated")),
    Described("exporter_records_committed_total", "counter", "Rows committed, by table; dead letters are in "
              "dead_letters.", _TABLE,
              lambda s: _from_zero(s.tables, s.totals.committed)),
    Described("exporter_derive_rows_total", "counter", "Rows of the runs of a job of [derive] in this task.", _JOB,
              _of_jobs(lambda s, job: job.rows)),
    Described("exporter_derive_left_out_rows_total", "counter", "Rows that the runs of a job of [derive] in this task "
              "took and that its table leaves out, by why.", ("derive", "why"), _left_out),
    Described("exporter_derive_runs_total", "counter", "Runs of a job of [derive] in this task: committed (there was "
              "something new) or failed.", ("derive", "outcome"), _runs),
    Described("exporter_derive_behind_seconds", "gauge", "Seconds since a job of [derive] in this task last had all "
              "that its sources held.", _JOB, _of_jobs(lambda s, job: job.behind_secs(s.at, s.started))),
    Described("exporter_derive_failing", "gauge", "1 while the runs of a job of [derive] fail, or none is made any "
              "more because of what no second try mends.", _JOB,
              _of_jobs(lambda s, job: 1 if job.in_a_row or job.ended else 0)),
    Described("exporter_events_total", "counter", "Messages of versions that a sink has acknowledged, by this task.",
              ("sink",), lambda s: [((name,), one.announced) for name, one in sorted(s.sinks.items())]),
    Described("exporter_events_skipped_total", "counter", "Of these, those that say that a log had lost versions "
              "before they were announced.", ("sink",),
              lambda s: [((name,), one.skipped) for name, one in sorted(s.sinks.items())]),
    Described("exporter_events_failing", "gauge", "1 while versions cannot be announced; the export goes on.",
              ("sink",), lambda s: [((name,), 1 if one.error else 0) for name, one in sorted(s.sinks.items())]),
    Described("exporter_commits_total", "counter", "Commits offered, empty markers included: landed, refused (another "
              "task was first), unknown (offered again), stale (staged again), held (the log or a lease is missing), "
              "unwritten (a file cannot be made or stored).",
              ("event_type", "outcome"), _commits),
    Described("exporter_failed_writes_ratio", "gauge", "Share of the commits offered since the start that were refused "
              "or of unknown outcome.", (), lambda s: _one(s.totals.failed_share)),
    Described("exporter_leads", "gauge", "1 if this task commits what all tasks offer, else 0 "
              "(control_topic).", (), _coordinated(lambda c: _one(int(c.leads)))),
    Described("exporter_control_silent", "gauge", "1 while nothing can be said on the control topic: tasks commit by "
              "themselves.", (), _coordinated(lambda c: _one(int(bool(c.trouble))))),
    Described("exporter_offers_open", "gauge", "Offers of this task whose outcome it waits for.", (),
              _coordinated(lambda c: _one(c.open_offers))),
    Described("exporter_offers_total", "counter", "Offers of this task, by what ended the waiting: answered, "
              "unanswered in time, hurried (the task ends) or silent (it could not be said); those that are in no "
              "commit then are committed by the task itself.", ("ended",),
              _coordinated(lambda c: _from_zero(("answered", "unanswered", "hurried", "silent"), c.ended))),
    Described("exporter_commit_rounds_total", "counter", "Rounds that this task has closed as the leader: ready (all "
              "partitions were) or late.", ("closed",),
              _coordinated(lambda c: _from_zero(("ready", "late"), c.rounds))),
    Described("exporter_merged_offers_total", "counter", "Offers that this task was to commit as the leader: landed, "
              "left_out.", ("outcome",),
              _coordinated(lambda c: [(("landed",), c.merged), (("left_out",), c.left_out)])),
    Described("exporter_merged_commits_total", "counter", "Commits that this task has made as the leader: landed, or "
              "failed with nothing known.", ("outcome",),
              _coordinated(lambda c: [(("landed",), c.commits), (("failed",), c.failed)])),
    Described("exporter_rounds_total", "counter", "Rounds of reading, by outcome: read or failed.", ("outcome",),
              lambda s: [(("read",), s.totals.rounds), (("failed",), s.totals.rounds_failed)]),
    Described("exporter_round_records", "histogram", "Records per round.", (),
              lambda s: [((), s.totals.round_records)]),
    Described("exporter_stage_seconds", "histogram", "Seconds that a stage took, each time: recover (positions "
              "from the tables), read (a round), commit.", ("stage",),
              lambda s: _from_zero(("recover", "read", "commit"), s.totals.stages, Spread())),
    Described("exporter_read_step_seconds_total", "counter", "Seconds that the tasks of all rounds were at a step: "
              "fetch (wait for records), route, decode, split (by partition), encode (and write files).", ("step",),
              lambda s: _from_zero(STEPS, s.totals.steps())),
    Described("exporter_process_cpu_seconds_total", "counter", "CPU seconds of a process of this task: python (the "
              "loop) or jvm (Spark's driver); its workers are processes of their own.", ("process",),
              _of_processes(CPU)),
    Described("exporter_process_resident_memory_bytes", "gauge", "Memory of a process of this task that is in RAM.",
              ("process",), _of_processes(MEMORY)),
    Described("exporter_process_open_fds", "gauge", "Files and sockets that a process of this task has open.",
              ("process",), _of_processes(FILES)),
    Described("exporter_process_max_fds", "gauge", "The most that it may have open.", ("process",),
              _of_processes(FILES_MAX)),
)  # fmt: skip
"""Every metric that exists, in the order of the handbook."""


class Collector:
    """All metrics of one task, from what `snapshot` returns at the moment of asking; nothing before the first one."""

    def __init__(self, snapshot: Callable[[], Snapshot | None]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot()
        if snapshot is not None:
            yield from (metric.family(snapshot) for metric in METRICS)


def registry(snapshot: Callable[[], Snapshot | None]) -> CollectorRegistry:
    """A registry of one task's own; the library's global one is not used."""
    made = CollectorRegistry(auto_describe=False)
    made.register(Collector(snapshot))
    return made


def metric_rows() -> Iterator[tuple[str, str, str, str]]:
    """(name, kind, labels, help) of every metric, for the handbook."""
    for metric in METRICS:
        yield metric.name, metric.kind, ", ".join(metric.labels), metric.help
