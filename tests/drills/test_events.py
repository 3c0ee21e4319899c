"""kill -9 of random tasks while versions are announced: who counts them misses none; it was asked for as a drill."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.announcing import announced, hook, read, sent, versions_with_rows
from tests.support.lakes import Exports, wait_until, writing, wrong_places
from tests.support.processes import running

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

PARTITIONS, TASKS = 4, 2


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["own", "coordinated"])
def test_a_consumer_that_counts_versions_sees_all_of_them_in_order_over_ten_kills(
    kafka: str, topic: Callable[..., str], exports: Exports, spark: Any, rng: random.Random, mode: str
) -> None:
    """Both sinks, two tasks of one group under load; some kills hit who announces, at any of its steps."""
    events, bodies = topic(3), list[bytes]()
    with hook(bodies) as url:
        quick = {"roll_age_max_secs": 0.4, "heartbeat_secs": 0.4, "events_topic": events, "events_webhook": url}
        if mode == "coordinated":
            quick |= {"control_topic": topic(), "commit_interval_secs": 1}
        e = exports(PARTITIONS, **quick)
        with writing(kafka, e.topic, PARTITIONS), ExitStack() as stack:
            tasks = [stack.enter_context(running(e)) for _ in range(TASKS)]
            for _ in range(int(os.environ.get("DRILL_KILLS", "10"))):
                enough = len(bodies) + rng.randint(1, 30)
                wait_until(lambda enough=enough: len(bodies) >= enough, 180, "versions are told")
                time.sleep(rng.choice([0, rng.uniform(0, 2)]))  # at once: before it is kept; else a random moment
                victim = rng.randrange(TASKS)
                tasks[victim].killed()
                print(f"killed {victim} after {len(bodies)} messages")
                tasks[victim] = stack.enter_context(running(e))
        with announced(e, spark) as service:
            service.run()
        expected = versions_with_rows(e)
        for sink, taken in (("topic", sent(e, events)), ("webhook", bodies)):
            consumer = read(taken)
            versions = sum(map(len, expected.values()))
            print(f"{sink}: {versions} versions, {consumer.doubled} of {len(taken)} messages once more")
            assert (consumer.seen, consumer.missed, consumer.skipped) == (expected, [], {})
    assert wrong_places(e) == {}
