"""The control topic as a Channel: messages written as JSON; what is none of this app's is counted and passed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from exporter.coordinate.messages import Unreadable, decode, encode
from exporter.core.coordination import Message
from exporter.log import get_logger
from exporter.log_events import Event

log = get_logger(__name__)


class Wire(Protocol):
    """A topic of bytes, as lossy as a Channel (kafka/control.py). Raises nothing."""

    def send(self, values: Sequence[bytes]) -> None: ...

    def receive(self, timeout_secs: float) -> list[bytes]: ...

    @property
    def trouble(self) -> str: ...

    def close(self) -> None: ...


class TopicChannel:
    """A Channel over a topic. ignored: how many values were no message of this version and app."""

    def __init__(self, wire: Wire, app: str) -> None:
        self._wire = wire
        self._app = app
        self.ignored = 0

    def say(self, messages: Sequence[Message]) -> None:
        """Send, in order; returns at once. Callable from every thread."""
        self._wire.send([encode(message) for message in messages])

    def hear(self, timeout_secs: float) -> list[Message]:
        """What has come since the last call, this task's own messages too. For one thread."""
        heard: list[Message] = []
        for value in self._wire.receive(timeout_secs):
            try:
                heard.append(decode(value, self._app))
            except Unreadable as error:
                if not self.ignored:  # one line of them is enough; the rest is counted
                    log.warning(Event.CONTROL_MESSAGE_IGNORED, reason=str(error))
                self.ignored += 1
        return heard

    @property
    def trouble(self) -> str:
        """Why nothing can be said or heard right now, or empty."""
        return self._wire.trouble

    def close(self) -> None:
        """Send what is left, for a moment, and let go."""
        self._wire.close()
