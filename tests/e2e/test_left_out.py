"""A member of a group that owned nothing for minutes on an overloaded machine, although it was the only one.

Found by `exporter drill`: its leader knew nothing of the topic when it gave out the partitions, or the client forgot
a join that one poll had begun and the next one saw no reason for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata

from exporter.kafka.assignment import Assigned
from exporter.kafka.group import Membership, _Assignor
from exporter.kafka.topics import TopicReader
from offsets.selection import Topics
from tests.support.lakes import wait_until
from tests.support.services import fresh_name

pytestmark = pytest.mark.broker


def test_partitions_that_a_leader_left_out_are_assigned_once_it_knows_the_topic(
    kafka: str, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata are gone for the moment of the assignment only, so that no change of them is ever noticed."""
    real_assign, real_partitions, blind, blinded = _Assignor.assign, ClusterMetadata.partitions_for_topic, [True], [0]

    def assign(self: _Assignor, cluster: Any, members: Any) -> Any:
        if not blind[0]:
            return real_assign(self, cluster, members)
        blinded[0] += 1
        with monkeypatch.context() as none:
            none.setattr(ClusterMetadata, "partitions_for_topic", lambda self, name: None)
            return real_assign(self, cluster, members)

    monkeypatch.setattr(_Assignor, "assign", assign)
    name, options = topic(2), {"bootstrap_servers": [kafka], "security_protocol": "PLAINTEXT"}
    reader = TopicReader(options, Topics(names=(name,)), "read_committed")
    member = Membership(options, fresh_name("group"), reader, 6000, 30.0, threading.Event().set)
    try:
        assert real_partitions is ClusterMetadata.partitions_for_topic
        wait_until(lambda: blinded[0] >= 2, 30, "it is asked again, and again in vain")
        assert member.changes() == []
        blind[0] = False
        found: list[Any] = []
        wait_until(lambda: found.extend(member.changes()) or len(found) == 2, 10, "both partitions")
        assert all(isinstance(one, Assigned) for one in found)
    finally:
        member.close()
        reader.close()


def test_a_join_that_a_poll_left_unfinished_is_finished(
    kafka: str, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls are shorter than a join here; where nobody looks after it, one member in eight never owns anything."""
    monkeypatch.setattr("exporter.kafka.group.POLL_MS", 5)
    options = {"bootstrap_servers": [kafka], "security_protocol": "PLAINTEXT"}
    for _ in range(15):
        reader = TopicReader(options, Topics(names=(topic(2),)), "read_committed")
        member = Membership(options, fresh_name("group"), reader, 6000, 30.0, threading.Event().set)
        try:
            found: list[Any] = []
            wait_until(lambda m=member, f=found: f.extend(m.changes()) or len(f) == 2, 15, "both partitions")
        finally:
            member.close()
            reader.close()
