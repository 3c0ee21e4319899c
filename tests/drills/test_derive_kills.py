"""Jobs of each kind that are struck at each step, killed at random, and run twice at once: their audit is clean."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from exporter import faults
from exporter.derive.job import Job
from exporter.derive.jobs import jobs_of
from exporter.errors import Fenced
from exporter.faults import Fault, InjectedFault
from exporter.lake.lake import Lake
from tests.support.lakes import NOON, Export, event, running, seldom, wait_until, writing
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

COMMIT = (Fault.BEFORE_DERIVE_COMMIT, Fault.AFTER_DERIVE_COMMIT)
STEPS: Mapping[str, tuple[Fault, ...]] = {
    "sql": COMMIT,
    "mirror": COMMIT,
    "bundles": COMMIT,
    "to_kafka": (Fault.AFTER_DERIVE_FENCE, Fault.AFTER_DERIVE_SEND, *COMMIT),
}
"""Kind -> the points that its jobs pass."""
KINDS: Mapping[str, str] = {
    "sql": """
source = "order"
query = "SELECT id, amount, _kafka FROM source WHERE id % 2 = 0"
""",
    "bundles": """
complete = 3
[derive.bundles.inputs.orders]
source = "order"
transaction = "id"
[derive.bundles.inputs.clicks]
source = "click"
transaction = "id"
[derive.bundles.outputs]
sums = "SELECT _transaction, sum(amount) AS total FROM orders GROUP BY _transaction"
""",
    "mirror": """
source = "order"
keys = ["id"]
order = ["_event_time"]
""",
    "to_kafka": """
source = "order"
topic = "{topic}"
key = "id"
rows_max = 10
""",
}
"""Kind -> the settings of a job called as its kind is; {topic} is one that nobody else has."""
IN_CI = [seldom(kind) if kind in ("to_kafka", "bundles") else kind for kind in KINDS]
"""Senders are struck by test_to_kafka_kills.py, bundles by the histories of tests/spark/test_derive_bundles.py."""
KEYS, RECORDS, KILLS = 40, 60, 10
SLEEPS = {kind: f"{steps[-2].value}:stop:1" for kind, steps in STEPS.items()}
"""Where a zombie falls asleep: the last step before its commit."""


@pytest.fixture
def export(kafka: str, topic: Callable[..., str], tmp_path: Path) -> Export:
    return Export(kafka, topic(2), tmp_path, fresh_name("app"))


def with_job(export: Export, kind: str) -> Export:
    text = KINDS[kind].replace("{topic}", fresh_name("derived"))
    return replace(export, more=f'[derive.{kind}]\nkind = "{kind}"{text}')


def changes(first: int) -> list[Record]:
    """Orders and clicks of a few ids over and over, some of the orders late."""
    made = []
    for number in range(first, first + RECORDS):
        kind = "click" if number % 3 == 0 else "order"
        made.append(event(kind, number, NOON - timedelta(hours=number * 7 % 50), id=number // 3 % KEYS))
    return made


def exported(e: Export, spark: Any, number: int) -> None:
    """More records for both partitions, in their tables."""
    produce(e.kafka, e.topic, {partition: changes(1_000 * (2 * number + partition)) for partition in range(2)})
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


def armed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(faults, "_passed", Counter())
    monkeypatch.setenv(faults.VARIABLE, text)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", IN_CI)
def test_a_job_that_is_struck_at_any_step_is_made_good_by_the_next_one(
    kind: str, export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE: its run ends at each point, or has no answer to its commit and looks; nothing is lost or doubled."""
    e = with_job(export, kind)
    for number, fault in enumerate(STEPS[kind]):
        exported(e, spark, number)
        armed(monkeypatch, f"{fault.value}@{kind}:raise:1")
        with suppress(InjectedFault):
            caught_up(opened(e, spark))
        assert faults._passed.total() > 0
        monkeypatch.delenv(faults.VARIABLE)
    assert_clean(e, spark)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [seldom(kind) if kind != "mirror" else kind for kind in KINDS])
def test_of_two_that_run_a_job_at_once_one_is_refused(
    kind: str, export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FENCE: another one runs the job between a run's last step and its commit: 75, and all is taken once."""
    e = with_job(export, kind)
    for number in range(2):
        exported(e, spark, number)
        armed(monkeypatch, f"{SLEEPS[kind].partition(':')[0]}@{kind}:raise:1")
        other = opened(e, spark)
        monkeypatch.setattr(faults, "_strike", lambda _, job=other: caught_up(job))
        with pytest.raises(Fenced):
            caught_up(opened(e, spark))
        monkeypatch.delenv(faults.VARIABLE)
    assert_clean(e, spark)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_is_killed_at_any_moment_is_made_good_by_the_next_one(
    kind: str, export: Export, spark: Any
) -> None:
    """ONCE: kill -9 at each named step and ten times at random, while its source grows and is exported."""
    seed = int(os.environ.get("DRILL_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"DRILL_SEED={seed}")
    rng, e = random.Random(seed), with_job(export, kind)
    exported(e, spark, 0)
    with writing(e.kafka, e.topic):
        for fault in STEPS[kind]:
            with running(e, kind, faults=f"{fault.value}@{kind}:kill:1", verb="derive run") as task:
                wait_until(lambda: _more(e, spark, task.popen.poll), 120, f"{fault} strikes\n{task.text[-2000:]}")
                assert task.wait() == -signal.SIGKILL, task.text
        for _ in range(KILLS):
            e.run(spark)
            with running(e, kind, verb="derive run") as task:
                time.sleep(rng.uniform(0, 15))  # the random moment
                os.kill(task.pid, signal.SIGKILL)
                assert task.wait(10) == -signal.SIGKILL, task.text
    e.run(spark)
    assert_clean(e, spark)


def _more(e: Export, spark: Any, ended: Callable[[], int | None]) -> bool:
    """Whether the task has ended; what was written meanwhile is exported."""
    e.run(spark)
    return ended() is not None


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_wakes_up_is_refused(kind: str, export: Export, spark: Any) -> None:
    """FENCE: a process sleeps before its commit (SIGSTOP), another one runs the job, the first wakes up: exit 75."""
    e = with_job(export, kind)
    for number in range(2):
        exported(e, spark, number)
        with running(e, kind, "--until-caught-up", faults=SLEEPS[kind], verb="derive run") as sleeper:
            wait_until(sleeper.stopped, 120, "the process sleeps")
            with running(e, kind, "--until-caught-up", verb="derive run") as other:
                assert other.wait() == 0, other.text
            sleeper.signal_group(signal.SIGCONT)
            assert sleeper.wait() == 75, sleeper.text
            assert str(other.pid) in sleeper.text or kind == "to_kafka"
    assert_clean(e, spark)
