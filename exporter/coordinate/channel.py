"""The control topic as a Channel: messages written as JSON; what is none of this app's is counted and passed over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from exporter.coordinate.messages import Unreadable, decode, encode, is_offer
from exporter.coordinate.signature import Signature
from exporter.core.coordination import Message, Offer
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.text import first_line

log = get_logger(__name__)


class Wire(Protocol):
    """A topic of bytes, as lossy as a Channel (kafka/control.py). Raises nothing."""

    def send(self, values: Sequence[bytes]) -> None: ...

    def receive(self, timeout_secs: float) -> list[bytes]: ...

    @property
    def trouble(self) -> str: ...

    def close(self) -> None: ...


class TopicChannel:
    """A Channel over a topic. ignored: how many values were no message of this version and app, or an offer without
    the app's signature."""

    def __init__(
        self, wire: Wire, app: str, signature: Signature, takes_offers: Callable[[], bool] = lambda: True
    ) -> None:
        """takes_offers: whether this task has to do with offers now; else they are passed over unread."""
        self._wire = wire
        self._app = app
        self._signature = signature
        self._takes_offers = takes_offers
        self.ignored = 0

    def say(self, messages: Sequence[Message]) -> None:
        """Send, in order; returns at once, but where the key is looked for first. Callable from every thread."""
        self._wire.send([value for message in messages for value in self._signed(message)])

    def hear(self, timeout_secs: float) -> list[Message]:
        """What has come since the last call, this task's own messages too. For one thread."""
        heard: list[Message] = []
        values = self._wire.receive(timeout_secs)
        takes_offers = self._takes_offers()
        for value in values:
            if not takes_offers and is_offer(value):
                continue
            try:
                heard.append(self._read(value))
            except Unreadable as error:
                if not self.ignored:  # one line of them is enough; the rest is counted
                    log.warning(Event.CONTROL_MESSAGE_IGNORED, reason=str(error))
                self.ignored += 1
        return heard

    def _signed(self, message: Message) -> list[bytes]:
        """The value of a message; none for an offer that cannot be signed: its task finds out that nobody answers."""
        value = encode(message)
        if not isinstance(message, Offer):
            return [value]
        try:
            return [self._signature.put_on(value)]
        except (OSError, ValueError) as error:
            log.warning(Event.OFFER_NOT_SAID, table=message.table, error=first_line(error))
            return []

    def _read(self, value: bytes) -> Message:
        """A message; an offer only with its signature. Raises Unreadable."""
        message = decode(value, self._app)
        if isinstance(message, Offer) and not self._signature.is_on(value):
            raise Unreadable(f"an offer of {message.owner[:100]} on {message.table[:100]}, not signed as its app")
        return message

    @property
    def trouble(self) -> str:
        """Why nothing can be said or heard right now, or empty."""
        return self._wire.trouble

    def close(self) -> None:
        """Send what is left, for a moment, and let go."""
        self._wire.close()
