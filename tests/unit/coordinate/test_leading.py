"""Who leads, by which partitions are whose."""

from __future__ import annotations

from exporter.coordinate.leading import AllPartitions, OwnsLeast
from exporter.errors import BrokerSilent
from offsets.ranges import TopicPartition
from tests.support.coordinated import Inline

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_the_owner_of_the_least_partition_leads() -> None:
    """Of all topics; nobody while nobody owns it, and nobody while the partitions are not known."""
    everything = frozenset({B0, A1, A0})
    assert OwnsLeast(lambda: {A0, B0}, lambda: everything).is_mine()
    assert not OwnsLeast(lambda: {A1, B0}, lambda: everything).is_mine()
    assert not OwnsLeast(lambda: set(), lambda: everything).is_mine()
    assert not OwnsLeast(lambda: {A0}, lambda: frozenset()).is_mine()


def test_a_topic_that_comes_later_may_have_the_least_partition() -> None:
    """Whoever led until then leads no more; and what one owns is looked at each time."""
    known, owned = [frozenset({B0})], {B0}
    leads = OwnsLeast(lambda: owned, lambda: known[0])
    assert leads.is_mine()
    known[0] = frozenset({B0, A0})
    assert not leads.is_mine()
    owned.add(A0)
    assert leads.is_mine()


def test_partitions_are_looked_at_every_so_often_and_a_silent_broker_changes_nothing() -> None:
    """It is asked again soon."""
    now, there, asked = [0.0], [{A0}], [0]

    def look() -> set[TopicPartition]:
        asked[0] += 1
        if not there[0]:
            raise BrokerSilent("no answer")
        return there[0]

    known = AllPartitions(look, Inline(), 60.0, lambda: now[0])
    assert known() == frozenset() and known() == {A0} and asked[0] == 1
    there[0] = set()
    now[0] = 60.0
    assert known() == {A0} and known() == {A0} and asked[0] == 2
    there[0] = {A0, A1}
    now[0] = 61.0
    assert known() == {A0} and known() == {A0, A1} and asked[0] == 3
