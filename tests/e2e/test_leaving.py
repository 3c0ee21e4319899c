"""A partition that is on its way out when its commits are refused: found by `exporter drill --scenario zombie-steps`.

A sleeper that woke up had committed first; the healthy owner offered the refused files again and again, until it ended.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from exporter.kafka.assignment import Leaving
from offsets.ranges import TopicPartition
from tests.support.lakes import Exports, mixed, wait_until, wrong_places
from tests.support.services import fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_what_is_refused_on_the_way_out_is_let_go_and_never_offered_again(exports: Exports, spark: Any) -> None:
    """Four tables are refused at once, which is one refusal, not three in a row: the task does not end."""
    e = exports(roll_age_max_secs=60, heartbeat_secs=60)
    e.send({0: mixed(60)})
    with e.going(spark) as task:
        service = task.service
        wait_until(lambda: sum(one.staged_rows for one in service._writers.values()) == 60, 60, "all is staged")
        e.with_(group=fresh_name("other")).run(spark)
        rolled = threading.Event()
        service._membership._queue.put(Leaving(frozenset({TopicPartition(e.topic, 0)}), rolled))
        wait_until(rolled.is_set, 30, "the partition is let go")
        ticks = service._watch.snapshot
        wait_until(lambda: service._watch.snapshot is not ticks, 10, "the next iteration")
        assert task.error is None
        assert service.totals.refused >= 1
    assert wrong_places(e) == {}
