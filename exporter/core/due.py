"""Which writers are committed in this iteration: what has rolled, and the empty markers beside it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from exporter.core import heartbeat
from exporter.core.roll import RollLimits, RollReason, rolls
from exporter.core.writers import WriterKey, Writers


@dataclass(frozen=True)
class Occasion:
    """Why the loop looks. flushing: everything that is staged has to be committed. asked: for a round of a leader.

    grace_secs: how much longer a marker waits for a round to ride in; 0: there are no rounds. If there are, one passes
    by a type of which something is offered already: all of it goes with what leaves. is_lively: whether markers of an
    event type are worth their place in a round.
    """

    flushing: bool = False
    asked: bool = False
    grace_secs: float = 0.0
    is_lively: Callable[[str], bool] = lambda event_type: False


def due_writers(
    staying: Writers,
    leaving: Writers,
    limits: RollLimits,
    heartbeat_secs: float,
    now: float,
    occasion: Occasion,
) -> dict[str, list[WriterKey]]:
    """Event type -> its writers that are due. leaving: of partitions on their way out, which wait for nothing."""
    fresh: dict[str, list[WriterKey]] = defaultdict(list)
    idle_secs = heartbeat_secs + (0.0 if occasion.asked else occasion.grace_secs)
    going = {key.event_type for key in leaving} if occasion.grace_secs else set[str]()
    along = {key: writer for key, writer in staying.items() if key.event_type in going}
    rest = {key: writer for key, writer in staying.items() if key not in along} if along else staying
    for writers, flushing in ((along, True), (rest, occasion.flushing), (leaving, True)):
        rolled = rolls(writers, limits, now, flushing or occasion.asked)
        for name, due in rolled.items():
            fresh[name] += due
        if (occasion.asked or limits.together) and not flushing:
            soon = _in_company(writers, fresh, occasion)
        else:
            soon = frozenset(name for name, due in rolled.items() if RollReason.AGE in due.values())
        for name, idle in heartbeat.markers_due(writers, 0.0 if flushing else idle_secs, now, soon).items():
            fresh[name] += idle
    return fresh


def _in_company(writers: Writers, fresh: dict[str, list[WriterKey]], occasion: Occasion) -> frozenset[str]:
    """The event types whose markers ride along in a round: a commit of the type is made anyway."""
    names = {key.event_type for key in writers}
    return frozenset(name for name in names if name in fresh or occasion.is_lively(name))
