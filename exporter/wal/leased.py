"""A fixed assignment whose partitions are leased: of two tasks with the same share, one waits (protocol, section 8).

    share ── wanted ── lease taken ── Assigned ── lease lost ── Revoked(lost) ── taken again ── Assigned anew

The lease only avoids useless work: the compare-and-set of the commits decides. So while the log is out of reach no
lease counts as lost: what is given stays (commits wait for the log, if it is required), and with best_effort all that
is wanted is worked on. Leases are renewed in a thread of the keeper's own; this class asks in the loop's, and never
waits for the network.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from exporter.kafka.assignment import Assigned, Assignment, AssignmentChange, Revoked
from exporter.wal.leading import HoldsLease
from exporter.wal.lease_keeper import LeaseKeeper
from offsets.ranges import TopicPartition


class LeasedAssignment:
    """An Assignment: what the inner one assigns and the keeper holds."""

    def __init__(self, inner: Assignment, leases: LeaseKeeper, best_effort: bool = False) -> None:
        """best_effort: go on without leases while the log is out of reach."""
        self._best_effort = best_effort
        self._inner = inner
        self._leases = leases
        self._ownership = itertools.count(1)
        self._wanted: set[TopicPartition] = set()
        self._given: set[TopicPartition] = set()

    @property
    def failure(self) -> BaseException | None:
        return self._inner.failure

    @property
    def trouble(self) -> str:
        return self._inner.trouble

    def changes(self) -> list[AssignmentChange]:
        """What has been leased or lost since the last call."""
        for change in self._inner.changes():
            if isinstance(change, Assigned):
                self._wanted.add(change.tp)
                self._leases.take([change.tp])
            elif isinstance(change, Revoked):
                self._wanted.discard(change.tp)
                self._leases.give_back([change.tp])
        held = set(self._leases.held())
        if self._leases.trouble:
            held |= self._wanted if self._best_effort else self._given
        held &= self._wanted
        lost, new = sorted(self._given - held), sorted(held - self._given)
        self._given = held
        return [*(Revoked(tp, lost=True) for tp in lost), *(Assigned(tp, next(self._ownership)) for tp in new)]

    def token(self, tp: TopicPartition) -> int | None:
        """The fencing token of a lease that is held now, else None; callable from every thread.

        The last one, or 0, where nobody's lease can be asked for and the log need not be.
        """
        known = self._leases.check(tp) or (self._best_effort and self._leases.trouble)
        return self._leases.token(tp) if known else None

    def leadership(self, name: str) -> HoldsLease:
        """Who leads, by a lease beside those of the partitions. name: of what is led, the same for all tasks."""
        return HoldsLease(self._leases, name)

    def is_spare(self) -> bool:
        return self._inner.is_spare()

    def waits(self) -> bool:
        """True while another task holds some of what the share names."""
        return self._given != self._wanted

    def states(self) -> dict[str, int]:
        """How many partitions are leased by this task, and for how many it waits."""
        return {"held": len(self._given), "waited_for": len(self._wanted - self._given)}

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> str:
        """Best effort, for lag tools only (traps 5); what went wrong, or empty."""
        return self._inner.commit(next_offsets)

    def close(self) -> None:
        """Release what is held, so that another task need not wait."""
        self._leases.close()
        self._inner.close()
