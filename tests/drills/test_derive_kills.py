"""Jobs of each kind that are struck at each step, and run twice at once: their audit is clean.

In one process; `exporter drill --scenario derived` kills and holds real ones.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from exporter.derive.job import Job
from exporter.derive.jobs import jobs_of
from exporter.drill.derived import JOBS, STEPS, TOPIC
from exporter.drill.settings_file import settings_text
from exporter.errors import Fenced
from exporter.faults import InjectedFault
from exporter.lake.lake import Lake
from tests.support.lakes import NOON, Export, Exports, armed, event, seldom
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

IN_CI = [seldom(kind) if kind in ("to_kafka", "bundles") else kind for kind in JOBS]
"""Senders are struck by test_to_kafka_kills.py, bundles by the histories of tests/spark/test_derive_bundles.py."""
KEYS, RECORDS = 40, 60


@pytest.fixture
def export(exports: Exports) -> Export:
    return exports(2)


def with_job(export: Export, kind: str) -> Export:
    return replace(export, more=settings_text({}, JOBS[kind]).replace(TOPIC, fresh_name("derived")))


def changes(first: int) -> list[Record]:
    """Orders and clicks of a few ids over and over, some of the orders late."""
    made = []
    for number in range(first, first + RECORDS):
        kind = "click" if number % 3 == 0 else "order"
        made.append(event(kind, number, NOON - timedelta(hours=number * 7 % 50), id=number // 3 % KEYS))
    return made


def exported(e: Export, spark: Any, number: int) -> None:
    """More records for both partitions, in their tables."""
    e.send({partition: changes(1_000 * (2 * number + partition)) for partition in range(2)})
    e.run(spark)


def opened(e: Export, spark: Any) -> Job:
    """The job as a process of its own would have it."""
    settings = e.settings()
    (job,) = jobs_of(settings, Lake(spark, settings.store, settings.app))
    return job


def caught_up(job: Job) -> None:
    while job.run().more:
        pass


def assert_clean(e: Export, spark: Any) -> None:
    """All is taken, and the job's audit finds nothing."""
    job = opened(e, spark)
    caught_up(job)
    lines = job.audit()
    assert lines and all(one.clean for one in lines), lines
    assert sum(one.rows for one in lines) > 0
    assert opened(e, spark).run().idle


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", IN_CI)
def test_a_job_that_is_struck_at_any_step_is_made_good_by_the_next_one(kind: str, export: Export, spark: Any) -> None:
    """ONCE: its run ends at each point, or has no answer to its commit and looks; nothing is lost or doubled."""
    e = with_job(export, kind)
    for number, fault in enumerate(STEPS[kind]):
        exported(e, spark, number)
        with armed(f"{fault.value}@{kind}:raise:1"), suppress(InjectedFault):
            caught_up(opened(e, spark))
    assert_clean(e, spark)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [seldom(kind) if kind != "mirror" else kind for kind in JOBS])
def test_of_two_that_run_a_job_at_once_one_is_refused(kind: str, export: Export, spark: Any) -> None:
    """FENCE: another one runs the job between a run's last step and its commit: 75, and all is taken once."""
    e = with_job(export, kind)
    for number in range(2):
        exported(e, spark, number)
        other = opened(e, spark)
        at_work = f"{STEPS[kind][-2].value}@{kind}:raise:1"
        with armed(at_work, lambda _, job=other: caught_up(job)), pytest.raises(Fenced):
            caught_up(opened(e, spark))
    assert_clean(e, spark)
