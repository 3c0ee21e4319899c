"""Who leads where assignment is static: the task that holds a lease of its own in the log. A hint (protocol 4.11)."""

from __future__ import annotations

from exporter.wal.lease_keeper import LeaseKeeper
from offsets.ranges import TopicPartition


class HoldsLease:
    """A Leadership: this task's, while it holds the lease of something that is no partition of the topics.

    Static tasks share no partition that could say who leads, and one that is stopped would keep what it owns. While the
    log is out of reach nobody leads: tasks commit by themselves then, as far as the log lets them.
    """

    def __init__(self, leases: LeaseKeeper, name: str) -> None:
        """leases: the task's. name: the same for all tasks of the app."""
        self._leases = leases
        self._of = TopicPartition(name, 0)
        leases.take([self._of])

    def is_mine(self) -> bool:
        return self._leases.check(self._of)

    def close(self) -> None:
        """The next beat of the keeper, or its end, lets another one have it at once."""
        self._leases.give_back([self._of])
