"""Who is spare in a group: only a member that has nothing while all partitions are with others."""

from __future__ import annotations

import pytest

from offsets.ranges import TopicPartition
from offsets.selection import Topics, is_spare

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.mark.parametrize(
    ("assignments", "spare"),
    [
        ({"me": [], "other": [A0, A1, B0]}, True),
        ({"me": [], "one": [A0], "two": [A1, B0]}, True),
        ({"me": [A0], "other": [A1, B0]}, False),
        ({"me": [], "other": [A0, A1]}, False),
        ({"other": [A0, A1, B0]}, False),
        ({}, False),
    ],
)
def test_a_member_is_spare_if_all_partitions_are_with_others(assignments, spare):
    """While a cooperative rebalance moves a partition nobody has it, and it may become this member's."""
    assert is_spare("me", assignments, [A0, A1, B0]) is spare


def test_a_member_is_spare_if_there_is_no_partition_at_all():
    """A pattern that matches no topic yet."""
    assert is_spare("me", {"me": []}, [])
    assert not is_spare("me", {}, [])


@pytest.mark.parametrize(("names", "pattern"), [((), ""), (("a",), "b")])
def test_topics_are_either_named_or_patterned(names, pattern):
    """Neither or both cannot be meant."""
    with pytest.raises(ValueError, match="either"):
        Topics(names, pattern)
