"""When the ends are looked at, what a run with an end keeps of them, and when the topic itself is checked."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from structlog.testing import capture_logs

from exporter.errors import BrokerSilent, InvariantBroken
from exporter.monitor.outages import KAFKA
from exporter.monitor.watch import Watch
from exporter.task.ends import CHECK_SECS, Bounds, Ends
from offsets import Invariant
from offsets.ranges import TopicPartition
from tests.support.snapshots import P0, P1

LOOK_SECS = 1.0


class Topic:
    """Two partitions. ends: readable. held: records of open transactions behind them. A silent one answers nothing."""

    def __init__(self) -> None:
        self.ends = {P0: 10, P1: 20}
        self.held = {P0: 0, P1: 0}
        self.silent = False
        self.asked: list[set[TopicPartition]] = []

    def high_watermarks(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if self.silent:
            raise BrokerSilent("nothing", "wait")
        self.asked.append(set(tps))
        return {tp: self.ends[tp] + self.held[tp] for tp in tps}

    def end_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in tps}


class Looking:
    """A topic, and the machine that looks at it for a task that owns P0, whose tables are at `positions`."""

    def __init__(self, with_an_end: bool = False) -> None:
        self.topic = Topic()
        self.watch = Watch()
        self.positions: Bounds = {P0: (4, 9)}
        self.checked: list[Bounds] = []
        self.wrong: Exception | None = None
        self.owned = {P0}
        self.ends = Ends(
            topics=self.topic,  # type: ignore[arg-type]
            watch=self.watch,
            others=lambda: {P0, P1},
            check=self.check,
            look_secs=LOOK_SECS,
            with_an_end=with_an_end,
        )

    def check(self, bounds: Bounds) -> None:
        self.checked.append(bounds)
        if self.wrong is not None:
            raise self.wrong

    def tick(self, now: float) -> bool:
        return self.ends.tick(now, self.owned, lambda: self.positions)


def test_the_ends_are_looked_at_now_and_then_or_when_told_to() -> None:
    """Not by a task that owns nothing."""
    one = Looking()
    assert [one.tick(now) for now in (0.0, 0.5, 1.0)] == [True, False, True]
    one.ends.look_again()
    assert one.tick(1.1)
    one.owned.clear()
    assert not one.tick(9.0)
    assert one.topic.asked == [{P0}] * 3


def test_lag_counts_to_what_is_there_and_rounds_read_to_what_may_be_read() -> None:
    """Records of an open transaction are there."""
    one = Looking()
    one.topic.held[P0] = 5
    one.tick(0.0)
    assert (one.ends.readable, one.ends.goals, one.ends.frozen) == ({P0: 10}, {P0: 15}, None)


def test_a_run_with_an_end_keeps_the_first_ends_of_all_partitions() -> None:
    """Also of one that becomes its own later; what is behind an open transaction is left to the next run, and told."""
    one = Looking(with_an_end=True)
    one.topic.held[P1] = 3
    with capture_logs() as logs:
        one.tick(0.0)
    assert [(line["event"], line["partition"], line["reads_to"], line["last_offset"]) for line in logs] == [
        ("transaction_open", str(P1), 19, 22)
    ]
    one.topic.ends, one.topic.held = {P0: 100, P1: 200}, {P0: 0, P1: 0}
    one.owned = {P0, P1}
    one.tick(LOOK_SECS)
    assert one.ends.frozen == one.ends.readable == one.ends.goals == {P0: 10, P1: 20}
    assert one.topic.asked == [{P0, P1}, {P0, P1}]


def test_a_run_with_an_end_looks_before_it_owns_anything() -> None:
    """Once: its end must not depend on when the group gives it something."""
    one = Looking(with_an_end=True)
    one.owned.clear()
    assert [one.tick(0.0), one.tick(9.0)] == [True, False]
    assert (one.ends.frozen, one.ends.readable) == ({P0: 10, P1: 20}, {})


def test_the_topic_is_checked_at_first_then_now_and_then_and_where_an_end_went_back() -> None:
    """With the positions of that moment; a check that fails ends the look with what it found."""
    one = Looking()
    for now in (0.0, 10.0, CHECK_SECS):
        one.tick(now)
    assert len(one.checked) == 2
    one.topic.ends[P0] = 9
    one.wrong = InvariantBroken(Invariant.MONOTONE, "another topic", "look")
    with pytest.raises(InvariantBroken):
        one.tick(CHECK_SECS + LOOK_SECS)
    assert one.checked[-1] == {P0: (4, 9)}
    one.topic.ends[P0], one.wrong = 10, None
    one.ends.look_again(check=True)
    one.tick(CHECK_SECS + LOOK_SECS)
    assert len(one.checked) == 4


def test_a_silent_broker_is_an_outage_and_what_was_known_stays() -> None:
    """It is asked again after a while; once it answers the outage is over."""
    one = Looking()
    one.tick(0.0)
    one.topic.silent = True
    assert not one.tick(1.0) and not one.tick(1.5)
    assert KAFKA in one.watch.outages.open and one.ends.readable == {P0: 10}
    one.topic.silent = False
    assert one.tick(2.0) and KAFKA not in one.watch.outages.open
