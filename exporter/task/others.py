"""Who else is in the consumer group, and whether what is theirs is exported as well, for a run with an end.

Tasks of one export share a group: each does its part, and a run with an end has come to it when all parts are done, by
whoever. A member that is no exporter is assigned partitions too, and nobody exports those.

    not mine, at its end     done
    not mine, moving         waited for: if its owner goes, it becomes mine
    not mine, standing       an exporter's: waited for as long as give_up_secs; anybody else's: a problem at once
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from exporter.core.routing import Routing
from exporter.errors import BrokerSilent, FoundProblem
from exporter.kafka.topics import GroupMember
from exporter.lake.lake import Lake
from exporter.log import get_logger
from exporter.log_events import Event
from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY

log = get_logger(__name__)

LOOK_SECS = 2.0
TELL_SECS = 30.0
SHOWN_MAX = 10
FOREIGN_LOOKS = 3
"""Looks in a row at which a partition is a foreign member's and stands: one may be on its way to us meanwhile."""

Positions = Mapping[TopicPartition, int]


@dataclass(eq=False, repr=False)
class Others:
    """Who else is in the group. Asked by the loop only.

    members: of the group. partitions: of all topics. positions: through which offset all tables hold them.

    The first two raise BrokerSilent, the last one TableUnreadable.
    """

    members: Callable[[], Collection[GroupMember]]
    partitions: Callable[[], Collection[TopicPartition]]
    positions: Callable[[Collection[TopicPartition]], Positions]
    give_up_secs: float

    def __post_init__(self) -> None:
        self._look_at = self._tell_at = float("-inf")
        self._told: frozenset[str] = frozenset()
        self._left: Positions = {}
        self._moved_at = 0.0
        self._foreign_looks = 0

    def tell(self, now: float) -> None:
        """Say every now and then who is in the group and no exporter, if that has changed."""
        if now < self._tell_at + TELL_SECS:
            return
        self._tell_at = now
        try:
            foreign = [member for member in self.members() if not member.is_exporter]
        except BrokerSilent:  # whoever asks it for more than this tells that
            return
        before, self._told = self._told, frozenset(map(str, foreign))
        if self._told - before:
            taken = sorted(tp for member in foreign for tp in member.partitions)
            log.warning(
                Event.FOREIGN_MEMBERS, members=sorted(self._told), partitions=[str(tp) for tp in taken[:SHOWN_MAX]],
                advice="what they are assigned is not exported: give them another group",
            )  # fmt: skip

    @property
    def who(self) -> str:
        """The members that are no exporters, as an error tells it; empty if there are none."""
        return f"; in the group and no exporter: {', '.join(sorted(self._told))}" if self._told else ""

    def finished(self, mine: Collection[TopicPartition], ends: Mapping[TopicPartition, int], now: float) -> bool:
        """Whether all partitions are exported up to these ends, those that are not mine by others.

        Raises FoundProblem, BrokerSilent, TableUnreadable.
        """
        theirs = ends.keys() - set(mine)
        if not theirs:
            return True
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_SECS
        left = {tp: at for tp, at in self.positions(theirs).items() if at < ends[tp] - 1}
        if not left:
            return True
        members = self.members()
        foreign = any(not member.is_exporter and member.partitions & left.keys() for member in members)
        self._foreign_looks = self._foreign_looks + 1 if foreign and left == self._left else 0
        if left != self._left:
            self._left, self._moved_at = left, now
        if self._foreign_looks >= FOREIGN_LOOKS or now - self._moved_at >= self.give_up_secs:
            raise FoundProblem(
                f"partitions that are not this task's are not exported to their ends: {_places(left, ends)}"
                f"; they are with {_owners(left, members)}",
                "members that are no exporters need a group of their own; an exporter that does not go on says why",
            )
        return False


def nobody() -> Others:
    """Where what is this task's is fixed, it is all that a run with an end is for."""
    return Others(tuple, tuple, lambda tps: {}, 0.0)


def _places(left: Positions, ends: Mapping[TopicPartition, int]) -> str:
    told = [f"{tp} through {at} of {ends[tp] - 1}" for tp, at in sorted(left.items())]
    return ", ".join(told[:SHOWN_MAX]) + (", ..." if len(told) > SHOWN_MAX else "")


def _owners(left: Positions, members: Collection[GroupMember]) -> str:
    owners = [member for member in members if member.partitions & left.keys()]
    told = sorted({f"{member}{'' if member.is_exporter else ' (no exporter)'}" for member in owners})
    return ", ".join(told) or "nobody"


def exported(lake: Lake, routing: Routing, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Through which offset every table of the configuration holds each partition; -1 for not at all.

    A type that was met at run time has a position only where it was met. Raises TableUnreadable.
    """
    least: dict[TopicPartition, int] = {}
    for name in {*routing.active_types, *filter(routing.is_new, lake.event_types())}:
        view = lake.table(name).view()
        if routing.is_new(name) and (view is None or view.properties.get(APP_PROPERTY) != lake.app):
            continue
        for tp in tps:
            position = None if view is None else view.position(lake.app, tp)
            if position is not None or not routing.is_new(name):
                at = -1 if position is None else position.offset
                least[tp] = min(at, least.get(tp, at))
    return least
