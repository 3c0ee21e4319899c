"""Ids of schemas that nothing is decided of are looked up, one after the other (protocol 3.8).

Used by the loop in a thread, by drains and by replays. What is decided is recorded by the source itself, before it is
told here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from exporter.clock import monotonic
from exporter.core.schemas import Decision, SchemaSource, SchemaText
from exporter.core.writers import Fragment
from exporter.errors import RegistryUnreachable
from offsets.ranges import TopicPartition

Ends = Mapping[TopicPartition, int]
"""Partition -> the offset after the last readable record."""


@dataclass(frozen=True)
class Answers:
    """What look-ups came to: id -> decision, None if there is none yet.

    trouble: what ended them, if they were ended. at: the id at which that was.
    """

    decisions: Mapping[int, Decision | None]
    trouble: str = ""
    at: int | None = None

    def decides(self, ids: Iterable[int]) -> bool:
        """Whether anything is decided of any of the ids."""
        return any(self.decisions.get(schema_id) is not None for schema_id in ids)


def looked_up(
    source: SchemaSource,
    registry: str,
    wanted: Iterable[tuple[int, Ends]],
    go_on: Callable[[], None] = lambda: None,
    secs_max: float = float("inf"),
) -> Answers:
    """Look up ids, each with the ends of the partitions that lack it; for so long at most. Raises InvariantBroken.

    go_on: called before each; what it raises ends it.
    """
    began = monotonic()
    decisions: dict[int, Decision | None] = {}
    for schema_id, ends in wanted:
        if decisions and monotonic() - began > secs_max:
            break
        go_on()
        try:
            decisions[schema_id] = source.look_up(registry, schema_id, ends, now=monotonic())
        except RegistryUnreachable as error:
            return Answers(decisions, error.message, schema_id)
    return Answers(decisions)


def by_id(lacking: Mapping[TopicPartition, Iterable[int]], ends: Ends) -> dict[int, dict[TopicPartition, int]]:
    """Missing ids with the ends of the partitions that lack them. lacking: partition -> its ids."""
    wanted: dict[int, dict[TopicPartition, int]] = {}
    for tp, ids in lacking.items():
        for schema_id in ids:
            wanted.setdefault(schema_id, {})[tp] = ends[tp]
    return wanted


def lacking(fragments: Iterable[Fragment]) -> dict[TopicPartition, frozenset[int]]:
    """The partitions that ended before an id without a decision, and the ids that they lack."""
    return {fragment.plan.tp: fragment.missing for fragment in fragments if fragment.missing}


def kind_of(decision: Decision | None) -> str:
    """What a decision says, in a word."""
    if decision is None:
        return "undecided"
    return "text" if isinstance(decision, SchemaText) else "unknown"
