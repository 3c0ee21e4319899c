"""Retention gaps: offsets that Kafka deleted before a type had them (protocol 5.4, 5.5). Pure.

    position p     log start s     recorded r     what is to be done for the type
       s <= p + 1                  r <= p         nothing: it has them, or they are behind it
       s >  p + 1                  r <= p         record p + 1 .. s - 1, then move to s - 1
           any                     r >  p         move to r: the row is there, its task ended in between

r is the version of the type's gap appId in the dead letters. The row comes first: a task that ends between the two
leaves a row without its move, which the next one makes, and never a move without its row. Every step is a
compare-and-set on what it was decided from, so of two tasks only one writes the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsets.names import AppId
from offsets.positions import TOMBSTONE, Position, our_transactions
from offsets.ranges import OffsetRange, TopicPartition

Recorded = Mapping[tuple[str, TopicPartition, int], int]
"""(event type, topic partition, epoch) -> last offset of the gap that was recorded last."""


@dataclass(frozen=True)
class Gap:
    """Offsets that are lost for one type; its position is to move to the last one. recorded: its row is there."""

    event_type: str
    tp: TopicPartition
    epoch: int
    offsets: OffsetRange
    recorded: bool = False

    def app_id(self, app: str) -> AppId:
        """The appId under which the dead letters remember the row."""
        return AppId(app, self.tp, self.epoch, "gap", self.event_type)


def recorded_gaps(transactions: Mapping[str, int], app: str) -> Recorded:
    """What the dead letters' transactions say of gaps."""
    return {
        (app_id.event_type, app_id.tp, app_id.epoch): version
        for app_id, version in our_transactions(transactions, app)
        if app_id.kind == "gap" and version != TOMBSTONE
    }


def find_gaps(
    positions: Mapping[TopicPartition, Mapping[str, Position]], starts: Mapping[TopicPartition, int], recorded: Recorded
) -> tuple[Gap, ...]:
    """What is lost, in order of partition and type. positions: event type -> position. starts: first offset kept."""
    found = []
    for tp, types in sorted(positions.items()):
        for name, position in sorted(types.items()):
            known = recorded.get((name, tp, position.epoch), -1)
            last = known if known > position.offset else starts[tp] - 1
            if last > position.offset:
                offsets = OffsetRange(position.offset + 1, last)
                found.append(Gap(name, tp, position.epoch, offsets, recorded=known > position.offset))
    return tuple(found)
