"""Where the types of a partition stand."""

from __future__ import annotations

from itertools import permutations

from exporter.core.writers import Writer, WriterKey
from exporter.task.progress import position_bounds
from offsets.ranges import TopicPartition

P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)


def test_the_bounds_of_a_partition_are_its_least_and_its_greatest_position() -> None:
    """Whatever the order in which its writers are looked at; without writers it has none."""
    positions = {("a", P0): 5, ("b", P0): 9, ("c", P0): 5, ("d", P0): 2, ("a", P1): 7}
    writers = [Writer(WriterKey(*key), 0, 1, at, at) for key, at in positions.items()]
    for order in permutations(writers):
        assert position_bounds({one.key: one for one in order}) == {P0: (2, 9), P1: (7, 7)}
    assert position_bounds({}) == {}
