"""Stopping a task that is at work: signals to the whole process group, as a terminal or a scheduler sends them."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.ending import LEAVE_SECS
from exporter.local.server import free_ports
from exporter.operate.status import fetch
from tests.support.lakes import Export, Exports, expected_places, mixed, seldom, wait_until, writing, wrong_places
from tests.support.processes import Process, descendants, living, running
from tests.support.services import administered
from tests.unit.test_deploy import NOMAD, nomad

pytestmark = [pytest.mark.broker, pytest.mark.drill]

PARTITIONS = 2
STOP_BUDGET_SECS = 20.0
AT_ONCE_SECS = 2.0


@pytest.fixture
def export(exports: Exports) -> Export:
    """Rolls by age only after a minute: what is staged when the signal comes is committed because of the stop."""
    return exports(PARTITIONS, roll_age_max_secs=60, heartbeat_secs=60, stop_budget_secs=STOP_BUDGET_SECS)


def at_work(task: Process, e: Export) -> None:
    """It has read records and goes on doing so."""
    task.wait_for("round_read")
    seen = task.text.count("round_read")
    wait_until(lambda: task.text.count("round_read") > seen, 60, "another round")


def look_at(url: str) -> None:
    """As the scheduler and Prometheus do."""
    for path in ("/healthz", "/readyz"):
        with urllib.request.urlopen(url + path, timeout=10) as answer:
            assert answer.status == 200
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        names = {family.name for family in text_string_to_metric_families(answer.read().decode())}
    assert {"exporter_lag_records", "exporter_commits"} <= names
    assert fetch(url)["ready"] is True


def members_of(kafka: str, group: str) -> int:
    with administered(kafka) as admin:
        described: Any = admin.describe_groups([group])
        groups = described.values() if isinstance(described, dict) else described
        return sum(len(found["members"]) for found in groups)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, seldom(signal.SIGINT)], ids=["SIGTERM", "SIGINT"]
)
def test_a_signal_to_the_group_stops_the_task_with_all_it_has_read(export: Export, number: int) -> None:
    """Exit 0 within the budget, group left, positions of a partition equal, what is below them there exactly once.

    Started with the environment that Nomad gives it, and ready and scraped before it ends. Its ordinary life, and that
    of the task after it, is told in events alone: no other line on its standard error, no warning, no trace.
    """
    e = export
    (port,) = free_ports(1)
    words, nomad_env, kill_secs = nomad(NOMAD)
    assert words[:3] == ["exporter", "run", "--config"], "else this is not Nomad's command line"
    assert kill_secs > STOP_BUDGET_SECS
    env = {**nomad_env, "EXPORTER_HTTP_HOST": "127.0.0.1", "EXPORTER_HTTP_PORT": str(port)}
    e.send({partition: mixed(500, 1000 * partition) for partition in range(PARTITIONS)})
    with writing(e.kafka, e.topic), running(e, env=env) as task:
        at_work(task, e)
        look_at(f"http://127.0.0.1:{port}")
        family = set(descendants(task.pid))
        assert members_of(e.kafka, e.app) == 1
        task.signal_group(number)
        signalled_at = time.monotonic()
        assert task.wait(STOP_BUDGET_SECS) == 0, task.text
        print(f"stopped after {time.monotonic() - signalled_at:.1f} s")
        assert members_of(e.kafka, e.app) == 0
        wait_until(lambda: not living(family), 10, "the end of its JVM and workers")
        assert task.quiet_events()[-1]["event"] == "task_ended"
    wanted = expected_places(e.kafka, e.topic)
    for partition in range(PARTITIONS):
        positions = set(e.positions(partition).values())
        assert len(positions) == 1, e.positions(partition)
        through = positions.pop()[1]
        assert through >= 499
        placed = {at: names for at, names in e.placed().items() if at[0] == partition}
        assert placed == {at: names for at, names in wanted.items() if at[0] == partition and at[1] <= through}
    with running(e, "--until-caught-up") as task:
        assert task.wait() == 0, task.text
        assert task.quiet_events()[-1]["event"] == "task_ended"
    assert wrong_places(e) == {}


def freeze_java(task: Process) -> None:
    """From now on its JVM does not answer."""
    frozen = task.java()
    assert frozen
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)


@pytest.mark.long
def test_a_stop_that_waits_for_a_jvm_that_does_not_answer_ends_all_the_same(export: Export) -> None:
    """In time, with 69, and it says so: whoever waits longer before he kills it learns what was the matter."""
    e = export.with_(stop_budget_secs=1)
    e.send({0: mixed(100)})
    with running(e) as task:
        task.wait_for("round_read")
        freeze_java(task)
        task.signal(signal.SIGTERM)
        assert task.wait(1 + LEAVE_SECS + AT_ONCE_SECS) == 69, task.text
        assert task.quiet_events("end_overdue")[-1]["event"] == "end_overdue"


def test_a_second_signal_ends_the_task_at_once(export: Export) -> None:
    """Whoever is in a hurry sends it twice: exit 128 + 15, although a commit hangs."""
    e = export
    e.send({0: mixed(100)})
    with running(e) as task:
        task.wait_for("round_read")
        freeze_java(task)
        task.signal(signal.SIGTERM)
        with pytest.raises(AssertionError, match="still running"):
            task.wait(1.0)
        task.signal(signal.SIGTERM)
        assert task.wait(AT_ONCE_SECS) == 128 + signal.SIGTERM
