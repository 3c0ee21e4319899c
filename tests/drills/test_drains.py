"""What a drain meets: the broker killed, the JVM killed, each in the middle of it (protocol 5.3)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.faults import Fault
from exporter.local.broker import Broker, create_topic
from tests.support.lakes import DDL, Export, mixed, wrong_places
from tests.support.processes import Process, running
from tests.support.services import fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill, pytest.mark.long]

NEW = {**DDL, "click": DDL["click"] + ", ref BIGINT"}
SLOW = f"{Fault.BEFORE_STAGED_FILE.value}:delay=8:2"
"""Within the first round of the drain there is time for what happens to it."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """One that may be killed."""
    with Broker(tmp_path / "broker") as made:
        yield made


@pytest.fixture
def export(broker: Broker, tmp_path: Path) -> Export:
    """Killed after the first commit of 200 records: one table is ahead, and new settings have to drain the others."""
    topic = fresh_name()
    create_topic(broker.bootstrap, topic, 1)
    small = {"round_records_max": 50, "carried_bytes_max": 0, "session_timeout_secs": 6}
    e = Export(broker.bootstrap, topic, tmp_path, fresh_name("app"), scalars=small)
    produce(e.kafka, e.topic, {0: mixed(200)})
    with running(e, "--until-caught-up", faults=f"{Fault.AFTER_DELTA_COMMIT.value}:kill:1") as task:
        assert task.wait() == -signal.SIGKILL, task.text
    assert len({offset for _, offset in e.positions().values()}) > 1
    return e.with_(NEW, group=fresh_name("group"))


def draining(task: Process) -> None:
    task.wait_for('"drain_started"')
    assert '"configuration_switched"' not in task.text


def is_switched(e: Export, task: Process) -> None:
    """All tables are in the next epoch, each record is once where the old settings sent it."""
    assert task.wait() == 0, task.text
    assert set(e.positions().values()) == {(1, 199)} and {*e.positions()} == {*DDL, DEAD_LETTERS}
    assert wrong_places(e) == {}


def test_a_drain_waits_for_a_broker_that_is_killed(broker: Broker, export: Export) -> None:
    """Its round is tried again when the broker is back; the task does not end."""
    with running(export, "--until-caught-up", faults=SLOW) as task:
        draining(task)
        broker.kill()
        broker.start()
        is_switched(export, task)


def test_a_drain_whose_jvm_is_killed_ends_with_69_and_the_next_one_goes_on(export: Export) -> None:
    """Not with 1, which says that a problem was found; what was drained is not drained again."""
    with running(export, "--until-caught-up", faults=SLOW) as task:
        draining(task)
        (java,) = task.java()
        os.kill(java, signal.SIGKILL)
        assert task.wait() == 69, task.text
    again = export.with_(group=fresh_name("group"))
    with running(again, "--until-caught-up") as task:
        is_switched(again, task)
