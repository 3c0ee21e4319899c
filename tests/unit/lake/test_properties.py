"""What tables record of cluster and topics against what these are now."""

from __future__ import annotations

import pytest

from exporter.errors import InvariantBroken
from exporter.lake.properties import check_identity
from offsets import Invariant
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import identity_properties

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOW = {"a": TopicIdentity("c1", "id-a", (0, 1)), "b": TopicIdentity("c1", "id-b", (0,))}
POSITIONS = {A0: 41, A1: 7, B0: 3}


def test_topics_that_are_as_recorded_or_new_are_let_through():
    """A topic that the tables do not know yet has no identity that could differ."""
    check_identity(identity_properties(NOW), NOW, POSITIONS)
    check_identity({}, NOW, {})
    check_identity(identity_properties({"a": NOW["a"]}), NOW, POSITIONS)


def test_a_recreated_topic_is_named_with_partitions_offsets_and_the_command_that_helps():
    """MONOTONE: the message says what the tables hold of the former topic, and of no other."""
    recorded = {**identity_properties(NOW), "exporter.topic_id.a": "id-old"}
    with pytest.raises(InvariantBroken) as stopped:
        check_identity(recorded, NOW, POSITIONS)
    assert stopped.value.invariant is Invariant.MONOTONE
    assert "topic id of a was id-old and is id-a" in stopped.value.message
    assert "the tables hold a-0 through offset 41, a-1 through offset 7 of" in stopped.value.message
    assert "`exporter repair --rebase`" in stopped.value.hint


def test_another_cluster_is_named_as_such():
    """The same names elsewhere: the hint looks at `brokers` first."""
    recorded = {**identity_properties(NOW), "exporter.cluster_id": "c0"}
    with pytest.raises(InvariantBroken, match="cluster id of a was c0 and is c1") as stopped:
        check_identity(recorded, NOW, POSITIONS)
    assert "`brokers` leads to another cluster" in stopped.value.hint
    assert "repair --rebase" in stopped.value.hint
