"""Proves from the topics and the tables alone that each offset is where it must be exactly once.

    pin the tables ── then ask the topics' ends ── parts of the offsets, each with the rows that may be of it
      positions, live files, configurations in force        compare.py ── verdicts ── report

PinnedTables first (pin.py), so that an exporter may run meanwhile: a table says itself through which offset it
must be complete. What lies beyond is pending, never a finding. Reads only: no table, topic or consumer group is
written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Any, Protocol

from exporter.core.routing import Routing
from exporter.errors import BrokerSilent, DependencyUnreachable
from exporter.kafka.topics import partitions_of
from exporter.lake.lake import Lake
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.operate.audit.files import FILE_THREADS, LiveFiles, live_files
from exporter.operate.audit.job import AuditJob, PartitionLog
from exporter.operate.audit.parts import Tell, Work, compared, untold
from exporter.operate.audit.pin import PinnedTables, pin, pin_gaps, pin_schemas
from exporter.operate.audit.records import AuditedTopic
from exporter.operate.audit.report import EXAMPLES_MAX, AuditReport
from exporter.operate.audit.rows import AuditedTable
from exporter.proof.codes import DEAD_LETTER
from exporter.proof.readers.formats import check
from exporter.proof.rules import expressions
from exporter.text import first_line
from offsets.ranges import TopicIdentity, TopicPartition

log = get_logger(__name__)

ATTEMPTS_MAX = 3


class AuditTopics(Protocol):
    """What is asked of the topics; kafka.topics.TopicReader. client: keywords of kafka-python's clients."""

    client: Mapping[str, Any]

    def identities(self) -> dict[str, TopicIdentity]: ...

    def first_offsets(self, tps: Any) -> dict[TopicPartition, int]: ...

    def end_offsets(self, tps: Any) -> dict[TopicPartition, int]: ...

    def high_watermarks(self, tps: Any) -> dict[TopicPartition, int]: ...

    def configuration(self, topic: str) -> dict[str, str]: ...


def audit(
    lake: Lake,
    topics: AuditTopics,
    routing: Routing,
    day: date | None = None,
    from_offsets: Mapping[TopicPartition, int] | None = None,
    tell: Tell = untold,
) -> AuditReport:
    """Compare the topics with the tables of lake.app. Writes nothing.

    routing: the present settings; they are used where the dead letters record no other configuration. day: only
    findings of this day are reported: that of the rows, and of records without a row that of their event time (of their
    Kafka timestamp where the event time cannot be read). from_offsets: topic partition -> first offset to look at;
    other partitions are looked at from their beginning. What is left out is told. tell: is told of how far it is.

    Raises BrokerSilent, TableUnreadable, ConfigError for a format or SQL that cannot be audited here, InvariantBroken
    if a topic is not the one that was exported, and DependencyUnreachable if the comparison itself cannot be run.
    """
    started = time.monotonic()
    identities = topics.identities()
    pinned = pin(lake, identities, routing)
    check(form for one in pinned.routings for form in one.formats)
    expressions.check(pinned.routings)
    pinned.schemas = pin_schemas(lake, pinned.routings)
    compacted, note = _compacted(topics, tuple(identities))
    pinned.notes += [note] if note else []
    job = AuditJob(tuple(identities), routing, day, dict(from_offsets or {}), compacted, lake.record_columns)
    return replace(
        _audited(lake, topics, pinned, job, partitions_of(identities), tell), secs=time.monotonic() - started
    )


def _audited(
    lake: Lake, topics: AuditTopics, pinned: PinnedTables, job: AuditJob, tps: Sequence[TopicPartition], tell: Tell
) -> AuditReport:
    """What the comparison of what was pinned says; made again if it fails and may not fail again.

    Then records that were given up are not read: they may be what it failed on.
    """
    with ThreadPoolExecutor(FILE_THREADS, thread_name_prefix="audit-files") as pool:
        found = pool.map(lambda item: live_files(lake, *item), pinned.views.items())
        files = dict(zip(pinned.views, found, strict=True))
    pin_gaps(pinned, lake.app, job.topics, files)
    bytes_max = max([job.routing.record_bytes_max, *(one.record_bytes_max for one in pinned.routings)])
    source = AuditedTopic(topics.client, job.routing.isolation, bytes_max)
    tables = [_table(pinned, name, job) for name in files]
    careful = False
    for attempt in range(1, ATTEMPTS_MAX + 1):
        logs = _logs(topics, tps, pinned, job.from_offsets)
        left_out = pinned.poison_offsets if careful else {}
        try:
            tally = compared(Work(job, pinned, logs, source, files, tables, left_out), tell, lake.later)
            break
        except Exception as error:
            now = topics.first_offsets(logs.keys())
            expired = any(now[tp] > one.start for tp, one in logs.items())
            if (careful and not expired) or attempt == ATTEMPTS_MAX:
                raise DependencyUnreachable(f"the audit did not finish: {first_line(error)}", "run it again") from error
            careful = careful or not expired
            log.info(Event.AUDIT_RESTARTED, reason="retention moved the log's start" if expired else first_line(error))
    columns = {one.name: tuple(one.columns) for one in tables if one.code != DEAD_LETTER}
    report = tally.report(job.topics, columns)
    return _finish(report, pinned, files, logs)


def _table(pinned: PinnedTables, name: str, job: AuditJob) -> AuditedTable:
    view = pinned.views[name]
    declared = [one.columns_of(name) for one in pinned.routings]
    unit = view.properties.get("exporter.partition_by", "")
    return AuditedTable(
        name, pinned.codes[name], view.schema_json, declared, view.partition_columns, job.record_columns, unit
    )


def _logs(
    topics: AuditTopics, tps: Sequence[TopicPartition], pinned: PinnedTables, from_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, PartitionLog]:
    """What to read of each partition: from the least anchor or the log's start through the greatest position."""
    starts, ends, marks = topics.first_offsets(tps), topics.end_offsets(tps), topics.high_watermarks(tps)
    logs = {}
    for tp in tps:
        anchor, greatest = pinned.least_anchor.get(tp, -1), pinned.greatest.get(tp)
        first = max(starts[tp], anchor + 1, from_offsets.get(tp, 0))
        following = first if greatest is None else max(first, min(ends[tp], greatest + 1))
        logs[tp] = PartitionLog(starts[tp], ends[tp], marks[tp], first, following)
    return logs


def _compacted(topics: AuditTopics, names: Iterable[str]) -> tuple[frozenset[str], str]:
    """The topics where records may vanish from the middle of the log; in doubt all, and a note says so."""
    try:
        policies = {name: topics.configuration(name).get("cleanup.policy") for name in names}
        why = "this user may not see it" if None in policies.values() else ""
    except BrokerSilent as error:
        policies, why = {}, first_line(error)
    if why:
        return frozenset(names), f"cleanup.policy is unknown, so rows without a record are no findings: {why}"
    return frozenset(name for name, policy in policies.items() if "compact" in str(policy)), ""


def _finish(
    report: AuditReport,
    pinned: PinnedTables,
    files: Mapping[str, LiveFiles],
    logs: Mapping[TopicPartition, PartitionLog],
) -> AuditReport:
    """Adds what needs no comparison: files, partitions, whole tables."""
    absent = tuple(file for found in files.values() for file in found.absent)
    problems = list(pinned.problems)
    pending = before = left_out = 0
    following = []
    for tp, one in logs.items():
        greatest, anchor = pinned.greatest.get(tp), pinned.least_anchor.get(tp, -1)
        pending += max(0, one.end - one.next)
        before += max(0, min(one.end, anchor + 1) - one.start)
        left_out += max(0, min(one.end, one.first) - max(one.start, anchor + 1))
        following.append(f"{tp.topic}:{tp.partition}:{min(one.next, pinned.complete_through(tp) + 1)}")
        if greatest is not None and greatest >= one.high_watermark:
            problems.append(
                f"{tp}: the tables are at {greatest}, the log ends at {one.high_watermark}: it was truncated"
            )
    return replace(
        report,
        pending=report.pending + pending,
        before_first=before,
        left_out=left_out,
        next_since=",".join(following),
        absent_files=len(absent),
        absent=absent[:EXAMPLES_MAX],
        problems=tuple(problems),
        notes=tuple(pinned.notes),
        tables=tuple(found.count for _, found in sorted(files.items())),
    )
