"""The comparison of an audit: all records of the topics against all rows of the tables, as one Spark job.

    records: where each belongs, its checksum ─┐
                                               ├─ group by (topic partition, offset) ── verdicts ── report
    rows: where each stands, its checksum ─────┘

The sides are made in sides.py, the verdicts in verdicts.py, and what replays of dead letters make of either in
replays.py; columns.py says what each column is. Reads only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.core.routing import DEAD_LETTERS
from exporter.operate.audit.columns import PARTITION
from exporter.operate.audit.files import LiveFiles
from exporter.operate.audit.job import Job, Log
from exporter.operate.audit.pin import Pinned
from exporter.operate.audit.replays import NoReplays, Replays
from exporter.operate.audit.report import EXAMPLES_MAX, FINDINGS, AuditReport, BadOffset, Missing, examples
from exporter.operate.audit.sides import Fields, Sides, compared_fields
from exporter.operate.audit.sql import LETTERS
from exporter.operate.audit.verdicts import verdicts_of
from offsets.ranges import TopicPartition

OPEN_BYTES = 256 << 10
"""What it takes to open a file, in bytes that could be read meanwhile: small files share tasks by it."""
SHUFFLE_ROWS = 500_000
"""Rows of the comparison that one shuffle partition gets, about."""
BAD_OFFSETS_MAX = 1_000
"""Offsets of each kind of finding that are fetched for the examples; all are counted."""


def was_cut(files: Mapping[str, LiveFiles]) -> bool:
    """Whether a dead letter has just the beginning of a value: one that the JVM may not survive."""
    if DEAD_LETTERS not in files:
        return False
    reason = sf.col("reason")
    cut = reason.startswith("too_long:") & reason.endswith("are kept")
    return bool(files[DEAD_LETTERS].frame.filter(cut).limit(1).count())


def compare(
    job: Job, pinned: Pinned, files: Mapping[str, LiveFiles], logs: Mapping[TopicPartition, Log]
) -> AuditReport:
    """One pass over the topic's range and all rows; a second, over its stored result, for examples."""
    total = sum(one.next - one.first for one in logs.values()) + sum(f.count.rows for f in files.values())
    cores = int(job.session.sparkContext.defaultParallelism)
    shuffle = str(min(400, max(cores, total // SHUFFLE_ROWS + 1)))
    options = {
        "spark.sql.shuffle.partitions": shuffle,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.openCostInBytes": str(OPEN_BYTES),
    }
    if total <= SHUFFLE_ROWS:  # planning stage by stage then takes longer than the stages
        options["spark.sql.adaptive.enabled"] = "false"
    with _conf(job.session, options):
        fields = compared_fields(pinned)
        replays = Replays(pinned, fields) if pinned.replayed else NoReplays()
        sides = Sides(job, pinned, logs, fields, replays)
        verdicts = verdicts_of(sides.records(), sides.rows(files), job.day, replays).persist(StorageLevel.DISK_ONLY)
        try:
            return _report(verdicts, pinned, job.topics, fields)
        finally:
            verdicts.unpersist()


@contextmanager
def _conf(session: Any, options: Mapping[str, str]) -> Iterator[None]:
    before = {name: session.conf.get(name) for name in options}
    for name, value in options.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


def _report(verdicts: DataFrame, pinned: Pinned, topics: tuple[str, ...], fields: Fields) -> AuditReport:
    names = {code: name for name, code in pinned.codes.items()}
    kinds: Counter[str] = Counter()
    checked = letters = 0
    counted = verdicts.groupBy("kind", "code").agg(
        sf.sum("amount").alias("amount"),
        sf.sum("in_topic").alias("in_topic"),
        sf.sum(sf.col("twin").cast("int")).alias("twins"),
    )
    twins = 0
    for row in counted.collect():
        kinds[row.kind] += row.amount
        twins += row.twins
        checked += row.in_topic if row.kind != "unchecked" else 0
        letters += row.amount if row.kind == "once" and row.code == LETTERS else 0
    bad = [found for kind in FINDINGS if kinds[kind] for found in _bad_offsets(verdicts, kind, names)]
    wanted: dict[str, Any] = {name: int(kinds[name]) for name in (*FINDINGS, "once", "pending", "gone", "unchecked")}
    return AuditReport(
        topics,
        checked=checked,
        dead_letters=letters,
        replaying=twins,
        examples=examples(bad, EXAMPLES_MAX),
        missing_by_table=_missing(verdicts, names) if kinds["missing"] else (),
        checked_columns={names[code]: tuple(f["name"] for f in some) for code, some in fields.items()},
        **wanted,
    )


def _bad_offsets(verdicts: DataFrame, kind: str, names: Mapping[int, str]) -> list[BadOffset]:
    found = verdicts.filter(sf.col("kind") == kind).orderBy("code", *PARTITION, "offset").limit(BAD_OFFSETS_MAX)
    return [BadOffset(kind, names[r.code], r.topic, r.partition, r.offset, names[r.other]) for r in found.collect()]


def _missing(verdicts: DataFrame, names: Mapping[int, str]) -> tuple[Missing, ...]:
    grouped = verdicts.filter(sf.col("kind") == "missing").groupBy("code", *PARTITION)
    found = grouped.agg(sf.count("offset").alias("n"), sf.min("offset").alias("a"), sf.max("offset").alias("b"))
    rows = [Missing(names[r.code], r.topic, r.partition, r.n, r.a, r.b) for r in found.collect()]
    return tuple(sorted(rows, key=lambda one: (one.table, one.topic, one.partition)))
