"""The comparison of an audit: all records of the topics against all rows of the tables, as one Spark job.

    records: where each belongs, its checksum ─┐
                                               ├─ group by (topic partition, offset) ── verdicts ── report
    rows: where each stands, its checksum ─────┘

Then, for a share of the offsets, the whole contents (contents/): what differs there and nowhere else is a finding of
the same kind. The sides are made in sides.py, the verdicts in verdicts.py, and what replays of dead letters make of
either in replays.py; columns.py says what each column is. Reads only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.core.routing import DEAD_LETTERS
from exporter.operate.audit.codes import FILTERED, LETTERS, sifted_from
from exporter.operate.audit.columns import PARTITION
from exporter.operate.audit.contents.frames import Contents, share_of
from exporter.operate.audit.files import LiveFiles
from exporter.operate.audit.job import Job, Log
from exporter.operate.audit.pin import Pinned
from exporter.operate.audit.replays import NoReplays, Replays
from exporter.operate.audit.report import (
    EXAMPLES_MAX,
    FINDINGS,
    AuditReport,
    BadOffset,
    Differing,
    Missing,
    examples,
)
from exporter.operate.audit.rules.values import alike
from exporter.operate.audit.sides import Fields, Sides, compared_fields, judges_of
from exporter.operate.audit.verdicts import verdicts_of
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

OPEN_BYTES = 256 << 10
"""What it takes to open a file, in bytes that could be read meanwhile: small files share tasks by it."""
SHUFFLE_ROWS = 500_000
"""Rows of the comparison that one shuffle partition gets, about."""
WHOLE_SHUFFLE_ROWS = 50_000
"""The same of whole contents, which are wide."""
BAD_OFFSETS_MAX = 1_000
"""Offsets of each kind of finding that are fetched for the examples; all are counted."""


@dataclass(frozen=True)
class Found:
    """What a comparison of contents found. alone: offsets that nothing else speaks against; bad: the first of them."""

    share: float = 0.0
    compared: int = 0
    skipped: int = 0
    alone: int = 0
    bad: tuple[BadOffset, ...] = ()
    differing: tuple[Differing, ...] = ()


NO_CONTENTS = Found()
TOMBSTONES = "/tombstones"
NO_TABLE = "/no table"
"""What is counted and belongs to no table; no event type's name."""


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
    """One pass over the topic's range and all rows, and one for their contents; others, over their stored results,
    for examples."""
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
        judges = judges_of(pinned, job.topics)
        fields = compared_fields(pinned, judges)
        replays = Replays(pinned, judges, fields) if pinned.replayed else NoReplays()
        sides = Sides(job, pinned, logs, fields, replays)
        found = verdicts_of(sides.records(), sides.rows(files), job.day, replays, sides.rules.in_slots)
        verdicts = found.persist(StorageLevel.DISK_ONLY)
        try:
            share = share_of(sum(one.next - one.first for one in logs.values()), job.content_share)
            parts = str(min(2_000, max(cores, int(total * share) // WHOLE_SHUFFLE_ROWS + 1)))
            with _conf(job.session, {"spark.sql.shuffle.partitions": parts}):
                contents = _contents(Contents(sides, files, share), verdicts) if share else NO_CONTENTS
            return _report(verdicts, pinned, job.topics, fields, contents)
        finally:
            verdicts.unpersist()


def _contents(contents: Contents, verdicts: DataFrame) -> Found:
    """What the contents say beside the verdicts: only of rows that stand where they must."""
    names = {code: name for name, code in contents.sides.pinned.codes.items()}
    stored = contents.differing().persist(StorageLevel.DISK_ONLY)
    try:
        (counts,) = stored.agg(*(sf.sum(name).alias(name) for name in ("compared", "skipped", "places"))).collect()
        found = Found(contents.share, counts.compared or 0, counts.skipped or 0)
        if not counts.places:
            return found
        judged = verdicts.filter(sf.col("kind").isin("once", "different")).select("kind", "code", *PARTITION, "offset")
        differing = stored.join(judged, ["code", *PARTITION, "offset"]).orderBy("code", *PARTITION, "offset")
        alone = differing.filter(sf.col("kind") == "once")
        return replace(
            found,
            alone=alone.count(),
            bad=tuple(
                BadOffset("different", names[r.code], r.topic, r.partition, r.offset)
                for r in alone.limit(BAD_OFFSETS_MAX).collect()
            ),
            differing=tuple(
                Differing(names[r.code], r.topic, r.partition, r["offset"], r.path, r.in_topic, r.in_table, r.places)
                for r in differing.limit(EXAMPLES_MAX).collect()
            ),
        )
    finally:
        stored.unpersist()


@contextmanager
def exact_names(session: Any, views: Mapping[str, TableView]) -> Iterator[None]:
    """Spark tells names apart by case, if a table has two that it takes for one: an earlier version made such."""
    twins = any(_has_twins(json.loads(view.schema_json)) for view in views.values())
    with _conf(session, {"spark.sql.caseSensitive": "true"} if twins else {}):
        yield


def _has_twins(kind: Any) -> bool:
    """Whether a struct in a type has two fields that differ by the case of letters beyond ASCII."""
    if not isinstance(kind, dict):
        return False
    fields = kind.get("fields", ())
    names = [one["name"] for one in fields]
    odd = [name for name in names if not name.isascii()]
    if any(one != other and alike(one, other) for one in odd for other in names):
        return True
    inside = [*(one["type"] for one in fields), *(kind.get(part) for part in ("elementType", "valueType"))]
    return any(map(_has_twins, inside))


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


def _report(
    verdicts: DataFrame, pinned: Pinned, topics: tuple[str, ...], fields: Fields, contents: Found
) -> AuditReport:
    names = {code: name for name, code in pinned.codes.items()}
    kinds: Counter[str] = Counter()
    checked = letters = 0
    counted = verdicts.groupBy("kind", "code").agg(
        sf.sum("amount").alias("amount"),
        sf.sum("in_topic").alias("in_topic"),
        sf.sum(sf.col("twin").cast("int")).alias("twins"),
    )
    twins = 0
    taken_out: Counter[str] = Counter()
    for row in counted.collect():
        kinds[row.kind] += row.amount
        if row.kind == "filtered":
            taken_out[_taken_out_of(row.code, names)] += row.amount
        twins += row.twins
        checked += row.in_topic if row.kind != "unchecked" else 0
        letters += row.amount if row.kind == "once" and row.code == LETTERS else 0
    bad = [found for kind in FINDINGS if kinds[kind] for found in _bad_offsets(verdicts, kind, names)]
    bad += contents.bad
    kinds += Counter(different=contents.alone)
    kinds -= Counter(once=contents.alone)
    other = ("once", "pending", "gone", "unchecked")
    wanted: dict[str, Any] = {name: int(kinds[name]) for name in (*FINDINGS, *other)}
    return AuditReport(
        topics,
        checked=checked,
        dead_letters=letters,
        replaying=twins,
        filtered=taken_out.pop(TOMBSTONES, 0),
        unrouted=taken_out.pop(NO_TABLE, 0),
        filtered_by_table=dict(sorted(taken_out.items())),
        examples=examples(bad, EXAMPLES_MAX),
        missing_by_table=_missing(verdicts, names) if kinds["missing"] else (),
        content_share=contents.share,
        contents=contents.compared,
        contents_skipped=contents.skipped,
        differing=contents.differing,
        checked_columns={names[code]: tuple(f["name"] for f in some) for code, some in fields.items()},
        **wanted,
    )


def _taken_out_of(code: int, names: Mapping[int, str]) -> str:
    """The table whose filter takes records out, or what they are that no table gets to see. code: as expected."""
    table = sifted_from(code)
    if table is not None:
        return names[table]
    return TOMBSTONES if code == FILTERED else NO_TABLE


def _bad_offsets(verdicts: DataFrame, kind: str, names: Mapping[int, str]) -> list[BadOffset]:
    found = verdicts.filter(sf.col("kind") == kind).orderBy("code", *PARTITION, "offset").limit(BAD_OFFSETS_MAX)
    return [BadOffset(kind, names[r.code], r.topic, r.partition, r.offset, names[r.other]) for r in found.collect()]


def _missing(verdicts: DataFrame, names: Mapping[int, str]) -> tuple[Missing, ...]:
    grouped = verdicts.filter(sf.col("kind") == "missing").groupBy("code", *PARTITION)
    found = grouped.agg(sf.count("offset").alias("n"), sf.min("offset").alias("a"), sf.max("offset").alias("b"))
    rows = [Missing(names[r.code], r.topic, r.partition, r.n, r.a, r.b) for r in found.collect()]
    return tuple(sorted(rows, key=lambda one: (one.table, one.topic, one.partition)))
