"""Who leads by a lease: one task at a time as each one's own clock sees it, and the next one when it is gone."""

from __future__ import annotations

from exporter.wal.leading import HoldsLease
from exporter.wal.lease_keeper import LeaseKeeper
from exporter.wal.memory import Memory, MemoryLog
from offsets.ranges import TopicPartition

SECS = 10.0


class Task:
    """One task's keeper, which beats when told, and what it leads by."""

    def __init__(self, memory: Memory, name: str, now: list[float]) -> None:
        self.keeper = LeaseKeeper(
            MemoryLog("app", memory), name, SECS, lambda tp: None, clock=lambda: now[0], threaded=False
        )
        self.leads = HoldsLease(self.keeper, "rounds")


def test_one_leads_and_the_next_one_does_when_it_stands_still() -> None:
    """Never two by their own clocks; one that wakes up has lost it before it asks."""
    memory, now = Memory(), [0.0]
    one, other = Task(memory, "one", now), Task(memory, "other", now)
    assert not one.leads.is_mine()
    for now[0] in range(30):
        one.keeper.beat()
        other.keeper.beat()
        assert one.leads.is_mine() and not other.leads.is_mine()
    for now[0] in range(30, 45):
        other.keeper.beat()
        assert not (one.leads.is_mine() and other.leads.is_mine())
    assert other.leads.is_mine()
    one.keeper.beat()
    assert not one.leads.is_mine()


def test_who_ends_lets_another_one_lead_at_once() -> None:
    """Its leases of partitions stay for as long as it needs them."""
    memory, now, tp = Memory(), [0.0], TopicPartition("events", 0)
    one, other = Task(memory, "one", now), Task(memory, "other", now)
    one.keeper.take([tp])
    one.keeper.beat()
    one.leads.close()
    assert not one.leads.is_mine()
    one.keeper.beat()
    other.keeper.beat()
    assert other.leads.is_mine() and one.keeper.held() == {tp}
