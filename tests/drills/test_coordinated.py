"""Commits in rounds while messages are lost, the topic is gone, members die: once each, and few versions."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from exporter.drill.coordinated import LOSSES, LOSSY
from exporter.local.broker import create_topic
from exporter.local.plain import PlainLake, PlainTopic, problems
from tests.support import naive
from tests.support.lakes import Exports, mixed, wait_until
from tests.support.services import fresh_name, remove_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

COUNT = 60
"""Records of each partition, each time."""
WAIT_SECS = 90.0


def test_two_members_commit_once_whatever_becomes_of_their_messages_and_of_the_topic(
    kafka: str, exports: Exports, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE: a sixth of the messages is lost and a sixth comes twice; the topic is deleted, and made again.

    With the topic, one member commits what both have staged; without, each its own.
    """
    monkeypatch.setenv(LOSSES, LOSSY.format(seed=5))
    control = fresh_name("control")
    settings = {"control_topic": control, "commit_interval_secs": 0.5, "heartbeat_secs": 60}
    e = exports(2, **settings)
    lake, sent, written = PlainLake(tmp_path / "lake"), PlainTopic({"bootstrap_servers": kafka}, e.topic), [0]

    def more() -> None:
        e.send({partition: mixed(COUNT, 1000 * (written[0] + partition)) for partition in range(2)})
        written[0] += 2

    def commit_of_both() -> None:
        lake.look()
        deadline, more_at = time.monotonic() + WAIT_SECS, 0.0
        while not any(len({*one.claimed_by.values()}) > 1 for one in lake.look()):
            assert time.monotonic() < deadline, "no commit has offers of both"
            if time.monotonic() > more_at:  # what was lost brings own commits, and nothing is left to be merged
                more()
                more_at = time.monotonic() + 2.0
            time.sleep(0.05)  # pace of the polling, bounded by the deadline

    def through(offset: int) -> bool:
        positions = [at for partition in range(2) for _, at in e.positions(partition).values()]
        return min(positions, default=-1) >= offset

    create_topic(kafka, control)
    with ExitStack() as members:
        first = members.enter_context(e.going(spark)).service
        wait_until(lambda: len(first._ownership.owned) == 2, WAIT_SECS, "the first one has both partitions")
        members.enter_context(e.going(spark))
        wait_until(lambda: len(first._ownership.owned) == 1, WAIT_SECS, "each has one")
        commit_of_both()
        remove_topic(kafka, control)
        more()
        wait_until(lambda: through(COUNT * written[0] // 2 - 1), WAIT_SECS, "all is committed, without the topic")
        create_topic(kafka, control)
        commit_of_both()
    e.run(spark)
    lake.look()
    assert list(problems(dict(sent.read()), lake, e.app, e.topic, through=True)) == []
    naive.assert_each_once(e)
    e.proven(spark)
