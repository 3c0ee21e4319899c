"""The topics for threads beside the loop."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import UnknownTopicOrPartitionError

from exporter.errors import BrokerSilent
from exporter.kafka.topics_beside import TopicsBeside
from offsets.ranges import TopicIdentity, TopicPartition

P = [TopicPartition("events", 0), TopicPartition("events", 1)]


class Reader:
    """As a TopicReader; closed: whether it was."""

    closed = False

    def identities(self) -> dict[str, TopicIdentity]:
        return {"events": TopicIdentity("cluster", "topic", (0, 1))}

    def high_watermarks(self, tps: Any) -> dict[TopicPartition, int]:
        if unknown := {*tps} - {*P}:
            raise BrokerSilent(f"{unknown}") from UnknownTopicOrPartitionError()
        return dict.fromkeys(tps, 7)

    def close(self) -> None:
        self.closed = True


def test_a_connection_is_made_when_somebody_asks_and_once() -> None:
    """Nobody who does not ask pays for it, and closing what was never opened opens nothing."""
    made: list[Reader] = []

    def opened() -> Any:
        made.append(Reader())
        return made[-1]

    beside = TopicsBeside(opened)
    beside.close()
    assert made == []
    assert beside.partitions() == P
    assert beside.high_watermarks(P[:1]) == {P[0]: 7}
    beside.close()
    assert [one.closed for one in made] == [True]


def test_of_a_partition_that_is_gone_no_end_is_told_and_that_of_the_others_is() -> None:
    """A topic that was deleted keeps nobody's offers from being committed."""
    beside = TopicsBeside(lambda: Reader())  # type: ignore[arg-type,return-value]
    gone = TopicPartition("gone", 0)
    assert beside.ends_there([gone, P[1]]) == {P[1]: 7}
    assert beside.ends_there(P) == dict.fromkeys(P, 7)
    with pytest.raises(BrokerSilent):
        beside.high_watermarks([gone])
