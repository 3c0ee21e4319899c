"""Who may work on a topic partition in static assignment, by everybody's own clock. Pure.

    owner       renews: the counter rises     began ---- holds for lease_secs ----|
    challenger  sees a token and a counter           since ---- unchanged for lease_secs ----| may take

`began` is read before a renewal is sent and `since` after an answer has come, so a challenger's wait never ends before
the owner's own. Times are of the reader's monotonic clock, in seconds; wall clocks are never compared. A lease only
avoids useless work: the compare-and-set of the commits decides (protocol, section 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class Lease:
    """What the log says of one topic partition.

    owner: unique for a process's life. token: rises with each taking. counter: rises with each renewal.
    routing: the owner's routing fingerprint. released: given back; whoever comes may take it at once.
    """

    tp: TopicPartition
    owner: str
    token: int
    counter: int
    routing: str = ""
    released: bool = False


@dataclass(frozen=True)
class Watched:
    """Another's lease, and since when a challenger has seen it so."""

    lease: Lease
    since: float

    def seen_again(self, lease: Lease, now: float) -> Watched:
        """now: read after the answer has come."""
        same = (lease.owner, lease.token, lease.counter) == (self.lease.owner, self.lease.token, self.lease.counter)
        return Watched(lease, self.since if same else now)

    def may_take(self, now: float, lease_secs: float) -> bool:
        return self.lease.released or now - self.since >= lease_secs


@dataclass(frozen=True)
class HeldLease:
    """One's own lease. began: read before its last successful taking or renewal was sent."""

    lease: Lease
    began: float

    def holds(self, now: float, lease_secs: float) -> bool:
        return now - self.began < lease_secs


class LeaseTaken(Exception):
    """Another process has the lease, or nobody (None) although it was ours. lease: as it is now."""

    def __init__(self, tp: TopicPartition, lease: Lease | None) -> None:
        super().__init__(f"{tp} is leased by {lease.owner if lease else 'nobody'}")
        self.lease = lease


class Leases(Protocol):
    """Where leases stand. Any call may raise WalUnreachable, and then may have been done all the same.

    Every method may be called again after that with the same arguments, and from several threads.
    """

    def acquire(self, tp: TopicPartition, owner: str, watched: Lease | None = None, routing: str = "") -> Lease:
        """Take a lease that is not there, released, one's own, or still as `watched`; raises LeaseTaken.

        The token rises with each taking.
        """
        ...

    def renew(self, lease: Lease) -> Lease:
        """The lease with its counter raised by a write of this call; LeaseTaken if it is not this one any more.

        What an earlier call wrote, whose answer was lost, may have been seen by a challenger long ago: it counts for
        nothing, and the counter is raised once more.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Let whoever comes take it at once; nothing happens if it is not ours any more."""
        ...

    def lease(self, tp: TopicPartition) -> Lease | None:
        """What the log says of the lease now."""
        ...
