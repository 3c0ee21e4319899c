"""The alert rules: each fires on its cause and names it, and all are silent while nothing is wrong.

A task's day is made of snapshots, one a minute, scraped by the code that Prometheus scrapes; Prometheus' own tool
judges the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.core.coordination import CoordinationState
from exporter.core.job_state import JobState
from exporter.core.sink_state import SinkState
from exporter.core.writers import Parked
from exporter.monitor import metrics
from exporter.monitor.marks import Marks
from exporter.monitor.processes import FILES, FILES_MAX
from exporter.monitor.snapshot import Outage, Snapshot
from exporter.monitor.totals import Totals
from tests.support.prometheus import Scrape, fired, judge
from tests.support.snapshots import NOW_MS, P0, P1, collected, file, snapshot, writer

RULES_FILE = Path(__file__).parents[3] / "deploy" / "prometheus" / "alerts.yml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]
}
MINUTES = 120
RATE = 60_000
"""Records per minute and partition."""

Day = Callable[[int], Snapshot | None]


def normal(minute: int) -> Snapshot:
    """A healthy task under load: rolls once a minute, a dead letter now and then, a refused commit once."""
    at, end = 60.0 * (minute + 1), RATE * (minute + 2)
    wall_ms = NOW_MS + 60_000 * minute
    records = 2 * RATE * minute
    totals = Totals(records=records, staged_rows=records, rounds=10 * minute, rounds_failed=minute // 60)
    totals.counts["dead_letters:not_json"] = minute
    totals.outcomes.update({("order", "landed"): minute, ("click", "landed"): minute})
    totals.outcomes["order", "refused"] = minute // 50
    totals.rebalances["assigned"] = 2
    marks = Marks((end - 2 * RATE - 1, end - RATE - 1, end - 1), (wall_ms - 120_000, wall_ms - 60_000, wall_ms))
    staged = {"staged": (file(1, 2),), "oldest_at": at - 50}
    return snapshot(
        writer("order", P0, end - RATE - 1, end - 1, **staged), writer("click", P0, end - 1),
        writer("order", P1, end - RATE - 1, end - 1, **staged), writer("click", P1, end - 1),
        at=at, wall_ms=wall_ms, ends={P0: end, P1: end}, marks={P0: marks, P1: marks}, late_max_secs=3600.0,
        verdicts={P0: "agree", P1: "agree"}, owed=0, totals=totals, jobs=job(minute), unregistered=0,
        processes={"python": 20},
        coordination=CoordinationState(True, 0, {"answered": minute, "unanswered": minute // 60}, {"ready": minute}),
    )  # fmt: skip


def changed(minute: int, **changes: Any) -> Snapshot:
    return replace(normal(minute), **changes)


def behind(minute: int, committed: int, read: int) -> Snapshot:
    """One table that is held at an offset, read up to another; the marks before it are as old as they were."""
    one = normal(minute)
    writers = dict(one.writers)
    key = next(key for key in writers if key.event_type == "order" and key.tp == P0)
    writers[key] = replace(writers[key], covered=committed, frontier=max(committed, read))
    old = Marks((committed, *one.marks[P0].offsets), (NOW_MS, *one.marks[P0].times_ms))
    return replace(one, writers=writers, marks={**one.marks, P0: old})


def with_totals(minute: int, change: Callable[[Totals], None]) -> Snapshot:
    one = normal(minute)
    totals = one.totals.copy()
    change(totals)
    return replace(one, totals=totals)


def parked(minute: int) -> Snapshot:
    one = normal(minute)
    writers = {key: replace(each, parked=Parked("CHECK", 0.0)) if key.event_type == "click" else each
               for key, each in one.writers.items()}  # fmt: skip
    return replace(one, writers=writers)


def old_staged(minute: int) -> Snapshot:
    one = normal(minute)
    return replace(one, writers={key: replace(each, oldest_at=1.0) for key, each in one.writers.items()})


def slow_reading(minute: int) -> Snapshot:
    one = normal(minute)
    writers = {key: replace(each, frontier=each.covered) for key, each in one.writers.items()}
    return replace(one, writers=writers, ends={tp: end + 2_000_000 for tp, end in one.ends.items()})


def nothing(minute: int) -> Snapshot:
    """There is no target any more."""
    raise LookupError(minute)


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has as many files open as its number says."""
    monkeypatch.setattr(metrics, "used", lambda pid: {FILES: pid, FILES_MAX: 100})


CAUSES: dict[str, tuple[Day, dict[str, str]]] = {
    "ExporterDown": (lambda minute: None, {}),
    "ExporterGone": (nothing, {"app": "app"}),
    "ExporterRestarts": (lambda minute: changed(minute, started=60.0 * (minute - minute % 10)), {}),
    "ExporterHangs": (lambda minute: normal(5), {}),
    "ExporterNotReady": (lambda minute: changed(minute, waiting=frozenset({P0})), {}),
    "ExporterOutage": (lambda minute: changed(minute, troubles={"kafka": Outage(0.0, "silent")}),
                       {"dependency": "kafka"}),
    "ExporterLag": (lambda minute: behind(minute, RATE, RATE), {"topic": "events", "partition": "0"}),
    "ExporterStuckPartitions": (lambda minute: changed(minute, stuck={P1: "corrupt batch"}), {}),
    "ExporterOpenTransaction": (lambda m: changed(m, open_secs={P1: 60.0 * (m - 60)}),
                                {"topic": "events", "partition": "1"}),
    "ExporterFallsBehind": (slow_reading, {"partition": "0"}),
    "ExporterFailedWrites": (lambda m: with_totals(m, lambda t: t.outcomes.update({("order", "refused"): m})), {}),
    "ExporterTablesApart": (lambda m: tables_apart(m), {"partition": "0"}),
    "ExporterTableParked": (parked, {"event_type": "click"}),
    "ExporterEventsHeldUp": (lambda m: changed(m, sinks={"topic": SinkState(), "webhook": SinkState(error="HTTP 500")}),
                             {"sink": "webhook"}),
    "ExporterIncomplete": (lambda minute: behind(minute, RATE, RATE), {"event_type": "order"}),
    "ExporterDeadLetters": (
        lambda m: with_totals(m, lambda t: t.counts.update({"dead_letters:not_json": RATE * m // 10})), {}),
    "ExporterRoundsFail": (lambda m: with_totals(m, lambda t: setattr(t, "rounds_failed", m)), {}),
    "ExporterStagedTooLong": (old_staged, {"event_type": "order"}),
    "ExporterLogBehind": (lambda minute: changed(minute, owed=3), {}),
    "ExporterCutOff": (lambda m: with_totals(m, lambda t: t.rebalances.update({"lost": m // 10})), {"kind": "lost"}),
    "ExporterVerdict": (lambda m: changed(m, log_verdicts={("order", P0): "stop: rolled back"}),
                        {"verdict": "stop: rolled back"}),
    "ExporterDeriveFailing": (lambda m: changed(m, jobs=job(m, in_a_row=3)), {"derive": "mirrored"}),
    "ExporterDeriveBehind": (lambda m: changed(m, jobs=job(m, taken_at=0.0)), {"derive": "mirrored"}),
    "ExporterControlSilent": (lambda m: changed(m, coordination=CoordinationState(True, trouble="no topic")), {}),
    "ExporterNobodyLeads": (lambda m: changed(m, coordination=CoordinationState()), {}),
    "ExporterOffersUnanswered": (
        lambda m: changed(m, coordination=CoordinationState(True, ended={"answered": m, "unanswered": 3 * m})), {}),
    "ExporterUnregistered": (lambda m: changed(m, unregistered=2), {"app": "app"}),
    "ExporterFiles": (lambda m: changed(m, processes={"python": 95}), {"process": "python"}),
}  # fmt: skip


def job(minute: int, **changes: Any) -> dict[str, JobState]:
    """A job of [derive]; a healthy one has all that its sources held a minute ago."""
    made = JobState("mirrored", "mirror", runs=minute, taken_at=60.0 * minute)
    return {"mirrored": replace(made, **changes)}


def tables_apart(minute: int) -> Snapshot:
    """Both tables of a partition are behind its end, one of them by far more."""
    one = normal(minute)
    ends = {tp: end + 3_000_000 for tp, end in one.ends.items()}
    writers = {key: replace(each, covered=each.covered + 2_000_000, frontier=each.frontier + 2_500_000)
               if key.event_type == "click" else each for key, each in one.writers.items()}  # fmt: skip
    return replace(one, ends=ends, writers=writers)


def scrapes(day: Day, first: int = 0, last: int = MINUTES) -> list[Scrape | None]:
    """Of one instance, as Prometheus has them; none outside of these minutes."""
    return [scrape_of(day(minute)) if first <= minute <= last else None for minute in range(MINUTES)]


def scrape_of(moment: Snapshot | None) -> Scrape:
    """With the metric that Prometheus adds."""
    return {**collected(moment), "up": {(): 0.0 if moment is None else 1.0}}


@cache
def normal_scrapes() -> list[Scrape | None]:
    return scrapes(normal)


def test_all_are_silent_while_nothing_is_wrong(tmp_path: Path) -> None:
    """Two hours under load, with a restart of one task, a dead letter a minute and a refused commit."""
    day = scrapes(lambda minute: normal(minute) if minute < 60 else changed(minute, started=3600.0))
    judge(RULES_FILE, tmp_path, {"a": day}, {fired(".+"): False})


def test_all_are_silent_at_deployments(tmp_path: Path) -> None:
    """Each task is another instance, of which there is one scrape at first; then none is scraped for twenty minutes."""
    days = {"a": scrapes(normal, 0, 40), "b": scrapes(normal, 41, 80), "c": scrapes(normal, 81, 90)}
    late = [one if minute > 110 else None for minute, one in enumerate(scrapes(normal, 81))]
    days["c"] = [one or other for one, other in zip(days["c"], late, strict=True)]
    judge(RULES_FILE, tmp_path, days, {fired("ExporterGone"): True, fired("Exporter[^G].*"): False})


def first_burst(minute: int) -> Snapshot:
    """A task's first round and first commits are bad."""
    totals = Totals()
    if minute > 60:
        totals.records = totals.staged_rows = 10_000
        totals.counts["dead_letters:not_json"] = 5_000
        totals.outcomes.update({("order", "landed"): 2, ("order", "refused"): 2})
    return changed(minute, totals=totals, started=60.0 * 59)


def test_the_first_burst_of_a_task_is_told(tmp_path: Path) -> None:
    """Its counters were zero before."""
    day = scrapes(first_burst, 60)
    expected = {fired("ExporterDeadLetters"): True, fired("ExporterFailedWrites"): True}
    judge(RULES_FILE, tmp_path, {"a": day}, expected)


@pytest.mark.parametrize("name", RULES)
def test_each_fires_on_its_cause_and_says_where(tmp_path: Path, name: str) -> None:
    """After an hour without it; the labels name the dependency, partition, table or verdict."""
    day, labels = CAUSES[name]
    wanted = set(re.findall(r"\$labels\.(\w+)", str(RULES[name]["annotations"])))
    expected = {fired(name, labels): True} | {fired(name, without=label): False for label in wanted}
    caused = scrapes(day, 60) if day is not nothing else [None] * MINUTES
    judge(RULES_FILE, tmp_path, {"a": [*normal_scrapes()[:60], *caused[60:]]}, expected)


def test_every_rule_says_what_to_do_and_who_is_called() -> None:
    """A summary, an action, a severity of the two; a rule without a cause in this file is not tested."""
    assert set(CAUSES) == set(RULES)
    for name, rule in RULES.items():
        assert set(rule["annotations"]) == {"summary", "action"}, name
        assert rule["labels"]["severity"] in ("page", "ticket"), name
