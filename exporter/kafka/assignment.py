"""How a task comes to its partitions: what changes, and who tells."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class Assigned:
    """The partition is ours from now on, under a new ownership epoch."""

    tp: TopicPartition
    ownership: int


@dataclass(frozen=True)
class Revoked:
    """The partition is no longer ours. lost: it had been taken away some time ago already."""

    tp: TopicPartition
    lost: bool


@dataclass(frozen=True)
class Leaving:
    """The partitions will be revoked as soon as `rolled` is set, or when the time for it is over."""

    tps: frozenset[TopicPartition]
    rolled: threading.Event


AssignmentChange = Assigned | Revoked | Leaving


class Assignment(Protocol):
    """How a task comes to its partitions: by the consumer group (Membership) or fixed (StaticAssignment)."""

    @property
    def failure(self) -> BaseException | None:
        """What ended it early."""

    @property
    def trouble(self) -> str:
        """Why the group does not take this task in, or empty."""

    def changes(self) -> list[AssignmentChange]:
        """What has happened since the last call, in order."""

    def is_spare(self) -> bool:
        """True if nothing is this task's and, as things stand, nothing will be. Raises BrokerSilent."""

    def waits(self) -> bool:
        """True while some of what is to be this task's is held back by another one."""

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> str:
        """Best effort, for lag tools only (traps 5); what went wrong, or empty."""

    def close(self) -> None:
        """Give the partitions up, for other tasks to take."""
