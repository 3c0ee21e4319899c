"""The alert rules: each fires on its cause and names it, and all are silent while nothing is wrong.

A task's day is made of snapshots, one a minute, scraped by the code that Prometheus scrapes.
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

from exporter.core.sink_state import SinkState
from exporter.core.writers import Parked
from exporter.monitor.marks import Marks
from exporter.monitor.metrics import METRICS
from exporter.monitor.snapshot import Outage, Snapshot
from exporter.monitor.totals import Totals
from tests.support.promql import History, Scrape
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
        verdicts={P0: "agree", P1: "agree"}, owed=0, totals=totals,
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


CAUSES: dict[str, tuple[Day, dict[str, str]]] = {
    "ExporterDown": (lambda minute: None, {}),
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
}  # fmt: skip


def tables_apart(minute: int) -> Snapshot:
    """Both tables of a partition are behind its end, one of them by far more."""
    one = normal(minute)
    ends = {tp: end + 3_000_000 for tp, end in one.ends.items()}
    writers = {key: replace(each, covered=each.covered + 2_000_000, frontier=each.frontier + 2_500_000)
               if key.event_type == "click" else each for key, each in one.writers.items()}  # fmt: skip
    return replace(one, ends=ends, writers=writers)


def history(day: Day, from_minute: int = 0) -> History:
    """Scrapes of two hours, normal ones until a minute."""
    made = History()
    for minute in range(MINUTES):
        scrape = scrape_of(day(minute)) if minute >= from_minute else normal_scrape(minute)
        made.add((NOW_MS / 1000) + 60.0 * minute, scrape)
    return made


def scrape_of(moment: Snapshot | None) -> Scrape:
    """With the label and the metric that Prometheus adds."""
    job = ("job", "exporter")
    scrape = {name: {(*labels, job): number for labels, number in series.items()}
              for name, series in collected(moment).items()}  # fmt: skip
    return {**scrape, "up": {(job,): 0.0 if moment is None else 1.0}}


@cache
def normal_scrape(minute: int) -> Scrape:
    return scrape_of(normal(minute))


def firing(made: History, rule: dict[str, Any]) -> list[dict[str, str]]:
    """The labels of every series for which the rule fires at some time of the day: it has held for its `for`."""
    needed = float(rule.get("for", "0m").removesuffix("m")) * 60
    since: dict[Any, float] = {}
    fired = []
    for time in made.times:
        holds = made.value(rule["expr"], time)
        since = {labels: since.get(labels, time) for labels in holds}
        fired += [dict(labels) for labels, began in since.items() if time - began >= needed]
    return fired


def test_all_are_silent_while_nothing_is_wrong() -> None:
    """Two hours under load, with a restart of one task, a dead letter a minute and a refused commit."""
    made = history(lambda minute: normal(minute) if minute < 60 else changed(minute, started=3600.0))
    assert {name: fired for name, rule in RULES.items() if (fired := firing(made, rule))} == {}


@pytest.mark.parametrize("name", RULES)
def test_each_fires_on_its_cause_and_says_where(name: str) -> None:
    """After an hour without it; the labels name the dependency, partition, table or verdict."""
    day, labels = CAUSES[name]
    fired = firing(history(day, 60), RULES[name])
    assert fired, f"{name} is silent"
    assert any(labels.items() <= one.items() for one in fired), fired
    wanted = set(re.findall(r"\$labels\.(\w+)", str(RULES[name]["annotations"])))
    assert wanted <= set.intersection(*(set(one) for one in fired)), "the summary shows labels that are not there"


def test_every_rule_says_what_to_do_and_who_is_called() -> None:
    """A summary, an action, a severity of the two; a rule without a cause in this file is not tested."""
    assert set(CAUSES) == set(RULES)
    for name, rule in RULES.items():
        assert set(rule["annotations"]) == {"summary", "action"}, name
        assert rule["labels"]["severity"] in ("page", "ticket"), name


def test_the_rules_ask_for_metrics_that_exist_with_labels_that_they_have() -> None:
    """A renamed metric or label would make a rule silent for ever."""
    known = {metric.name: {*metric.labels, "job", "instance"} for metric in METRICS} | {"up": {"job", "instance"}}
    made = history(normal, MINUTES)
    for name, rule in RULES.items():
        made.asked.clear()
        made.value(rule["expr"], made.times[-1])
        assert made.asked and made.asked <= set(known), name
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", rule["expr"]))
        labels |= {label for by in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in by.split(", ")}
        assert labels <= set.union(*(known[one] for one in made.asked)), name
