"""A control topic in memory, for tests: every channel hears all that is said after it was opened, in one order.

What the world does is called by its name: `loses`, `doubles`, `is_deleted`, `is_back`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from exporter.core.coordination import Message


class MemoryTopic:
    """The topic. said: every message that arrived, in order. lost, doubled: which messages the channel is lossy for."""

    def __init__(self) -> None:
        self.said: list[Message] = []
        self.lost: Callable[[Message], bool] = lambda message: False
        self.doubled: Callable[[Message], bool] = lambda message: False
        self.trouble = ""

    def loses(self, *kinds: type[Message]) -> None:
        """From now on no message of these kinds arrives; without any, all do."""
        self.lost = lambda message: isinstance(message, kinds)

    def doubles(self, *kinds: type[Message]) -> None:
        """From now on each message of these kinds comes twice, the second time after what was said by then."""
        self.doubled = lambda message: isinstance(message, kinds)

    def is_deleted(self) -> None:
        """Nothing is said or heard until it is back; what was in it is gone."""
        self.trouble = "the topic is gone"

    def is_back(self) -> None:
        """It was made again, and is empty."""
        self.trouble = ""

    def channel(self) -> MemoryChannel:
        """One that hears what is said from now on."""
        return MemoryChannel(self)


class MemoryChannel:
    """A Channel of the topic."""

    def __init__(self, topic: MemoryTopic) -> None:
        self._topic = topic
        self._heard = len(topic.said)

    def say(self, messages: Sequence[Message]) -> None:
        if self._topic.trouble:
            return
        for message in messages:
            if not self._topic.lost(message):
                self._topic.said += [message] * (2 if self._topic.doubled(message) else 1)

    def hear(self, timeout_secs: float) -> list[Message]:
        end = len(self._topic.said)
        heard, self._heard = self._topic.said[self._heard : end], end
        return heard

    @property
    def trouble(self) -> str:
        return self._topic.trouble

    def close(self) -> None:
        """Does nothing: the channel holds nothing open."""
