"""Snapshots for tests: a task's moment made by hand, and a scrape read back by prometheus-client's own parser."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from exporter.core.coordination import CoordinationState
from exporter.core.job_state import JobState
from exporter.core.sink_state import SinkState
from exporter.core.writers import StagedFile, Writer, WriterKey
from exporter.monitor.marks import Marks
from exporter.monitor.metrics import registry
from exporter.monitor.snapshot import Outage, Snapshot
from exporter.monitor.totals import Totals
from offsets.ranges import OffsetRange, TopicPartition

P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)
NOW_MS = 1_800_000_000_000

Series = dict[tuple[tuple[str, str], ...], float]


def writer(name: str, tp: TopicPartition, covered: int, frontier: int | None = None, **changes: Any) -> Writer:
    return replace(Writer(WriterKey(name, tp), 0, 1, covered, covered if frontier is None else frontier), **changes)


def file(first: int, last: int, size: int = 100) -> StagedFile:
    return StagedFile(f"day=2026-11-01/{first}.parquet", OffsetRange(first, last), 1, size)


def snapshot(*writers: Writer, **changes: Any) -> Snapshot:
    """A task that has been running for 1000 s and owns what the writers are of."""
    by_key = {one.key: one for one in writers}
    made = Snapshot(at=1000.0, started=0.0, wall_ms=NOW_MS, app="app", owner="host:1:a", writers=by_key,
                    owned=frozenset(key.tp for key in by_key))  # fmt: skip
    return replace(made, **changes)


def busy_snapshot() -> Snapshot:
    """One in which every metric has a series."""
    totals = Totals(records=100, bytes=5000, rounds=3, staged_rows=90, commits=2)
    totals.counts.update({"rescued": 4, "ignored": 1, "truncated": 2, "dead_letters": 3, "dead_letters:not_json": 3})
    totals.counts.update({"micros:fetch": 100_000, "micros:decode": 300_000})
    totals.committed["order"] = 80
    totals.filtered.update({"order": 5, "dead_letters": 2})
    totals.outcomes.update({("order", "landed"): 3, ("order", "refused"): 1})
    totals.lookups["text"] = 2
    totals.took("read", 0.3)
    totals.took("commit", 700.0)
    totals.round_records.add(100)
    return snapshot(
        writer("order", P0, 10, 20, staged=(file(11, 20),), oldest_at=970.0),
        writer("click", P0, 15, 20),
        ends={P0: 31},
        marks={P0: Marks((9, 30), (NOW_MS - 60_000, NOW_MS - 1000))},
        verdicts={P0: "agree"},
        troubles={"kafka": Outage(990.0, "silent")},
        coordination=CoordinationState(True, 2, {"answered": 5, "unanswered": 1}, {"ready": 4, "late": 1}, 9, 18, 1, 0),
        leases={"held": 1, "waited_for": 0},
        wal_calls={("put_item", "answered"): 3},
        owed=0,
        schema_ids=1,
        unregistered=2,
        valid_through={"order": NOW_MS - 5_000, "click": 0},
        jobs={"mirrored": JobState("mirrored", "mirror", runs=3, rows=70, failures=2, version=4, taken_at=960.0,
                                  left_out={"null key": 5})},
        sinks={"topic": SinkState(announced=5, skipped=1)},
        processes={"python": os.getpid(), "jvm": 0},
        totals=totals,
    )


def scraped(moment: Snapshot | None) -> dict[str, Series]:
    """Sample name -> labels but the app's, which each has -> number, parsed back from the text that Prometheus gets."""
    text = generate_latest(registry(lambda: moment)).decode()
    return _series(text_string_to_metric_families(text), moment)


def collected(moment: Snapshot | None) -> dict[str, Series]:
    """As scraped(), without the way through the text."""
    return _series(registry(lambda: moment).collect(), moment)


def _series(families: Iterable[Metric], moment: Snapshot | None) -> dict[str, Series]:
    found: dict[str, Series] = {}
    for family in families:
        for sample in family.samples:
            labels = dict(sample.labels)
            assert moment is not None and labels.pop("app") == moment.app
            found.setdefault(sample.name, {})[at(labels)] = sample.value
    return found


def at(labels: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """The key of one series."""
    return tuple(sorted((name, str(value)) for name, value in labels.items()))
