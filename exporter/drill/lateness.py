"""How late records come into their tables, and how many versions that takes: of what was seen of a run. Pure.

A record is in its table with the commit that moves its partition's position past it; when that was, the commit says.
A partition is handed over from the moment at which its task ends, or has to give it away, until another task has read
what waited there: only then it has anything to roll for a round.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.local.plain import Place, PlainCommit


@dataclass(frozen=True)
class Period:
    """From one moment to another, seconds since 1970."""

    begin: float
    end: float

    def has(self, at: float) -> bool:
        """The end is not in it."""
        return self.begin <= at < self.end


@dataclass(frozen=True)
class Arrival:
    """A record in one of its tables. sent_at: its Kafka timestamp. secs: until its commit, infinite without one."""

    table: str
    place: Place
    sent_at: float
    secs: float


def arrivals(
    commits: Iterable[PlainCommit],
    wanted: Mapping[Place, str],
    sent_at: Mapping[Place, float],
    topic: str,
    span: Period,
) -> list[Arrival]:
    """Of the records that were sent in the span, each in every table that its key names (plain.py), latest last."""
    moves: dict[tuple[str, str], list[tuple[int, int, float]]] = defaultdict(list)
    for commit in commits:
        for tp, (expected, new) in commit.moves.items():
            if new > expected:
                moves[commit.table, tp].append((new, expected, commit.at))
    for one in moves.values():
        one.sort()
    found = []
    for place, names in wanted.items():
        if span.has(sent_at[place]):
            for table in {name for name in names.split("+") if name and name[0] != "-"}:
                at = _committed_at(moves[table, f"{topic}-{place[0]}"], place[1])
                found.append(Arrival(table, place, sent_at[place], at - sent_at[place]))
    return sorted(found, key=lambda arrival: arrival.secs)


def _committed_at(moves: list[tuple[int, int, float]], offset: int) -> float:
    """moves: (new position, position expected, moment), in order of the positions."""
    at = bisect_left(moves, (offset,))
    return moves[at][2] if at < len(moves) and moves[at][1] < offset else float("inf")


@dataclass(frozen=True)
class Turn:
    """What happens to a partition: a task has read of it for the first time (has), or ends, or gives it away."""

    at: float
    partition: str
    has: bool


def handovers(turns: Iterable[Turn], span: Period) -> list[float]:
    """Seconds for which a partition was nobody's, of each that became so in the span and was taken over."""
    lost_at: dict[str, float] = {}
    found = []
    for turn in sorted(turns, key=lambda turn: turn.at):
        if not turn.has:
            lost_at.setdefault(turn.partition, turn.at)
        elif (since := lost_at.pop(turn.partition, None)) is not None and span.has(since):
            found.append(turn.at - since)
    return found


def versions(commits: Iterable[PlainCommit], span: Period) -> Counter[str]:
    """Table -> how many versions it got in the span, whatever for."""
    return Counter(commit.table for commit in commits if span.has(commit.at))
