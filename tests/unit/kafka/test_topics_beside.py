"""The topics for threads beside the loop."""

from __future__ import annotations

from typing import Any

from exporter.kafka.topics_beside import TopicsBeside
from offsets.ranges import TopicIdentity, TopicPartition

P = [TopicPartition("events", 0), TopicPartition("events", 1)]


class Reader:
    """As a TopicReader; closed: whether it was."""

    closed = False

    def identities(self) -> dict[str, TopicIdentity]:
        return {"events": TopicIdentity("cluster", "topic", (0, 1))}

    def high_watermarks(self, tps: Any) -> dict[TopicPartition, int]:
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
