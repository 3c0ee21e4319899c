"""Proves from the topics and the tables alone that each offset is where it must be exactly once.

    pin the tables ── then ask the topics' ends ── records ─┐
      positions, live files, configurations in force        ├─ group by (topic partition, offset) ── verdicts
                                           rows of all tables ┘

Pinned first (pin.py), so that an exporter may run meanwhile: a table says itself through which offset it
must be complete. What lies beyond is pending, never a finding. The comparison is compare.py's. Reads only: no
table, topic or consumer group is written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Any, Protocol

from py4j.protocol import Py4JError

from exporter.core.routing import Routing
from exporter.errors import DependencyUnreachable
from exporter.kafka.topics import partitions_of
from exporter.lake.lake import Lake
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.operate.audit.compare import compare, exact_names, was_cut
from exporter.operate.audit.expected.expected import check
from exporter.operate.audit.files import LiveFiles, live_files
from exporter.operate.audit.job import Job, Log
from exporter.operate.audit.pin import Pinned, pin, pin_gaps, pin_schemas
from exporter.operate.audit.report import EXAMPLES_MAX, AuditReport
from exporter.operate.audit.rules import rules
from exporter.text import first_line
from offsets.ranges import TopicIdentity, TopicPartition

log = get_logger(__name__)

FILE_THREADS = 4
ATTEMPTS_MAX = 3


class Topics(Protocol):
    """What is asked of the topics; kafka.topics.TopicReader. client: keywords of kafka-python's clients."""

    client: Mapping[str, Any]

    def identities(self) -> dict[str, TopicIdentity]: ...

    def first_offsets(self, tps: Any) -> dict[TopicPartition, int]: ...

    def end_offsets(self, tps: Any) -> dict[TopicPartition, int]: ...

    def high_watermarks(self, tps: Any) -> dict[TopicPartition, int]: ...


def audit(
    lake: Lake,
    topics: Topics,
    routing: Routing,
    kafka_options: Mapping[str, str],
    day: date | None = None,
    from_offsets: Mapping[TopicPartition, int] | None = None,
    content_share: float | None = None,
) -> AuditReport:
    """Compare the topics with the tables of lake.app. Writes nothing.

    kafka_options: `kafka.`-prefixed options of Spark's source, bootstrap servers and security included. routing: the
    present settings; they are used where the dead letters record no other configuration. day: only findings of this
    day are reported: that of the rows, and of records without a row that of their event time (of their Kafka
    timestamp where the event time cannot be read). from_offsets: topic partition -> first offset to look at; other
    partitions are looked at from their beginning. content_share: of the records, 0 to 1, whose contents are compared
    whole; None: all of a small topic, so many of a large one that it takes seconds (contents/frames.py).

    Raises BrokerSilent, TableUnreadable, ConfigError for a format or SQL that cannot be audited here, InvariantBroken
    if a topic is not the one that was exported, and DependencyUnreachable if the comparison itself cannot be run.
    """
    started = time.monotonic()
    identities = topics.identities()
    pinned = pin(lake, identities, routing)
    check(form for one in pinned.routings for form in one.formats)
    rules.check(pinned.routings)
    pinned.schemas = pin_schemas(lake, pinned.routings)
    compacted, note = _compacted(lake.session, kafka_options, tuple(identities))
    pinned.notes += [note] if note else []
    wanted = dict(from_offsets or {})
    job = Job(
        lake.session, tuple(identities), routing, kafka_options, day, wanted, compacted, topics.client,
        content_share=content_share, record_columns=lake.record_columns,
    )  # fmt: skip
    with exact_names(lake.session, pinned.views):
        return _audited(lake, topics, pinned, job, partitions_of(identities), started)


def _audited(
    lake: Lake, topics: Topics, pinned: Pinned, job: Job, tps: Sequence[TopicPartition], started: float
) -> AuditReport:
    """What the comparison of what was pinned says; made again if it fails and may not fail again."""
    with ThreadPoolExecutor(FILE_THREADS, thread_name_prefix="audit-files") as pool:
        found = pool.map(lambda item: live_files(lake, *item), pinned.views.items())
        files = dict(zip(pinned.views, found, strict=True))
    pin_gaps(pinned, lake.app, job.topics, files)
    job = replace(job, careful=was_cut(files))
    report = AuditReport(job.topics)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        logs = _logs(topics, tps, pinned, job.from_offsets)
        try:
            report = compare(job, pinned, files, logs)
            break
        except Exception as error:
            now = topics.first_offsets(logs.keys())
            expired = any(now[tp] > one.start for tp, one in logs.items())
            if (job.careful and not expired) or attempt == ATTEMPTS_MAX:
                raise DependencyUnreachable(f"the audit did not finish: {first_line(error)}", "run it again") from error
            job = replace(job, careful=job.careful or not expired)
            log.info(Event.AUDIT_RESTARTED, reason="retention moved the log's start" if expired else first_line(error))
    return _finish(report, pinned, files, logs, time.monotonic() - started)


def _logs(
    topics: Topics, tps: Sequence[TopicPartition], pinned: Pinned, from_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Log]:
    """What to read of each partition: from the least anchor or the log's start through the greatest position."""
    starts, ends, marks = topics.first_offsets(tps), topics.end_offsets(tps), topics.high_watermarks(tps)
    logs = {}
    for tp in tps:
        anchor, greatest = pinned.least_anchor.get(tp, -1), pinned.greatest.get(tp)
        first = max(starts[tp], anchor + 1, from_offsets.get(tp, 0))
        following = first if greatest is None else max(first, min(ends[tp], greatest + 1))
        logs[tp] = Log(starts[tp], ends[tp], marks[tp], first, following)
    return logs


def _compacted(session: Any, kafka_options: Mapping[str, str], topics: Sequence[str]) -> tuple[frozenset[str], str]:
    """The topics where records may vanish from the middle of the log; in doubt all, and a note says so."""
    jvm = session._jvm
    properties = jvm.java.util.Properties()
    for name, value in kafka_options.items():
        properties.setProperty(name.removeprefix("kafka."), value)
    try:
        config = jvm.org.apache.kafka.common.config
        kind = getattr(config, "ConfigResource$Type").TOPIC
        resources = {topic: config.ConfigResource(kind, topic) for topic in topics}
        asked_for = jvm.java.util.ArrayList()
        for resource in resources.values():
            asked_for.add(resource)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            configs = admin.describeConfigs(asked_for).all().get()
            policies = {t: configs.get(one).get("cleanup.policy").value() for t, one in resources.items()}
        finally:
            admin.close()
    except Py4JError as error:
        note = f"cleanup.policy is unknown, so rows without a record are no findings: {first_line(error)}"
        return frozenset(topics), note
    return frozenset(topic for topic, policy in policies.items() if "compact" in str(policy)), ""


def _finish(
    report: AuditReport, pinned: Pinned, files: Mapping[str, LiveFiles], logs: Mapping[TopicPartition, Log], secs: float
) -> AuditReport:
    """Adds what needs no comparison: files, partitions, whole tables."""
    absent = tuple(file for found in files.values() for file in found.absent)
    problems = list(pinned.problems)
    pending = before = 0
    for tp, one in logs.items():
        greatest, anchor = pinned.greatest.get(tp), pinned.least_anchor.get(tp, -1)
        pending += max(0, one.end - one.next)
        before += max(0, min(one.end, anchor + 1) - one.start)
        if greatest is not None and greatest >= one.high_watermark:
            problems.append(
                f"{tp}: the tables are at {greatest}, the log ends at {one.high_watermark}: it was truncated"
            )
    return replace(
        report,
        pending=report.pending + pending,
        before_first=before,
        absent_files=len(absent),
        absent=absent[:EXAMPLES_MAX],
        problems=tuple(problems),
        notes=tuple(pinned.notes),
        tables=tuple(found.count for _, found in sorted(files.items())),
        secs=secs,
    )
