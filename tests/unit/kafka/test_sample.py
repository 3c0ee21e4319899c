"""Which offsets of a topic a sample is of."""

from __future__ import annotations

import random

import pytest

from exporter.kafka.sample import quotas, spread, stretches
from offsets.ranges import TopicPartition

P = [TopicPartition("t", number) for number in range(4)]


@pytest.mark.parametrize("seed", range(50))
def test_a_sample_is_of_disjoint_stretches_that_hold_what_was_asked_for(seed: int) -> None:
    """As many offsets as the quota says, or all; the first and the last offset among them where there is room."""
    made = random.Random(seed)
    first = made.randrange(1000)
    end, quota = first + made.randrange(5000), made.randrange(600)
    found = stretches(first, end, quota)
    offsets = [offset for one in found for offset in one]
    assert len(offsets) == len(set(offsets)) == min(quota, end - first)
    assert all(first <= offset < end for offset in offsets)
    if quota >= 2 and end > first:
        assert {first, end - 1} <= {*offsets}


def test_the_beginning_and_the_end_come_before_what_lies_between() -> None:
    """A sample that has to end early has seen both."""
    assert stretches(0, 1000, 8) == [range(0, 2), range(998, 1000), range(332, 334), range(665, 667)]
    assert stretches(5, 9, 8) == [range(5, 9)]
    assert stretches(5, 5, 8) == stretches(0, 9, 0) == []


def test_every_partition_gives_the_same_as_far_as_it_has_so_much() -> None:
    """What small ones lack comes from the others."""
    assert quotas({P[0]: 0, P[1]: 5, P[2]: 1000, P[3]: 1000}, 105) == {P[0]: 0, P[1]: 5, P[2]: 50, P[3]: 50}
    assert sum(quotas(dict.fromkeys(P, 10**6), 10_001).values()) == 10_001
    assert sum(quotas(dict.fromkeys(P, 10), 10_001).values()) == 40


def test_all_beginnings_are_read_before_all_ends() -> None:
    """In the order of partitions."""
    found = spread(dict.fromkeys(P[:2], 0), dict.fromkeys(P[:2], 100), 8)
    assert [(one.tp.partition, one.offsets.start) for one in found[:4]] == [(0, 0), (1, 0), (0, 99), (1, 99)]
