"""What a person is to look at, and which command helps: said alike by the pages and the verbs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exporter.display.units import things

WELL = "all well"
DEAD_SHARE = 0.01
"""Of all records; so many dead letters are trouble, fewer are a note. As the alert rule has it."""


@dataclass(frozen=True)
class Concern:
    """helps: the command, empty if none does. bad: it needs a hand; else it is a note beside the verdict."""

    what: str
    helps: str = ""
    bad: bool = True


def headline(concerns: Sequence[Concern], under_way: str = "") -> str:
    """The verdict in a line. under_way: what the export is at; counts only while nothing needs a hand."""
    bad = sum(one.bad for one in concerns)
    return f"look at {bad} things:" if bad > 1 else "look at:" if bad else under_way or WELL


def verdict_lines(concerns: Sequence[Concern], under_way: str = "") -> Iterator[str]:
    """The verdict as text, what needs a hand first."""
    yield headline(concerns, under_way)
    for one in sorted(concerns, key=lambda one: not one.bad):
        yield f"  {one.what}: {one.helps}" if one.helps else f"  {one.what}"


def dead_letters(count: int, share: float | None) -> Iterator[Concern]:
    """share: of all records; None if it is not known. Nothing where there is no dead letter."""
    if count:
        of_all = "" if share is None else f", {share:.2%} of the records"
        bad = share is not None and share >= DEAD_SHARE
        yield Concern(things(count, "dead letter") + of_all, "exporter dead-letters list", bad)
