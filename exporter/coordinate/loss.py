"""A channel that loses and doubles messages on purpose, for drills.

EXPORTER_CONTROL_LOSS="lose=0.15,double=0.15,seed=1" arms it: parts of the messages, and the seed of the draws. Both are
decided where messages are heard, so each task loses others than the next one. A doubled message comes again with what
is heard later, as a client's own repetition of it would.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass

from exporter.core.coordination import Channel, Message

VARIABLE = "EXPORTER_CONTROL_LOSS"


@dataclass(frozen=True)
class MessageLoss:
    """Parts of the messages, from 0 to 1. seed: of the draws; a task adds its process id."""

    lose: float = 0.0
    double: float = 0.0
    seed: int = 0

    @staticmethod
    def parse(text: str) -> MessageLoss:
        """Raises ValueError for what cannot be read."""
        given = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        if given.keys() - {"lose", "double", "seed"} or text.count(",") + 1 != len(given):
            raise ValueError(f"{VARIABLE}: cannot read {text!r}")
        loss = MessageLoss(float(given.get("lose", 0)), float(given.get("double", 0)), int(given.get("seed", 0)))
        if not (0 <= loss.lose <= 1 and 0 <= loss.double <= 1):
            raise ValueError(f"{VARIABLE}: lose and double are parts, from 0 to 1: {text!r}")
        return loss


def as_lossy_as_told(channel: Channel) -> Channel:
    """The channel itself, unless the environment arms a loss. Raises ValueError for what cannot be read."""
    text = os.environ.get(VARIABLE)
    return LossyChannel(channel, MessageLoss.parse(text), os.getpid()) if text else channel


class LossyChannel:
    """A Channel that loses and doubles of what it hears as many as it is told."""

    def __init__(self, inner: Channel, loss: MessageLoss, task: int = 0) -> None:
        """task: what makes this task's draws its own."""
        self._inner = inner
        self._loss = loss
        self._draws = random.Random(f"{loss.seed}/{task}")
        self._again: list[Message] = []

    def say(self, messages: Sequence[Message]) -> None:
        self._inner.say(messages)

    def hear(self, timeout_secs: float) -> list[Message]:
        """Doubled messages first: they come late, and beside what was heard meanwhile."""
        heard, self._again = self._again, []
        for message in self._inner.hear(timeout_secs):
            if self._draws.random() >= self._loss.lose:
                heard.append(message)
                if self._draws.random() < self._loss.double:
                    self._again.append(message)
        return heard

    @property
    def trouble(self) -> str:
        return self._inner.trouble

    def close(self) -> None:
        self._inner.close()
