"""What a report says is to be looked at, and which command helps. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.core.routing import DEAD_LETTERS
from exporter.display.concerns import Concern, dead_letters
from exporter.display.units import secs_span, size
from exporter.operate.report.model import Facts

SMALL_BYTES = 32 << 20
"""A mean below that makes readers open files more than read them."""
DUE_FILES = 100
"""So many small ones are worth a hand; fewer wait for the maintenance's next time."""


def report_concerns(facts: Facts) -> list[Concern]:
    """What needs a hand, and what is worth a note."""
    return [*facts.notes, *_of_lag(facts), *_of_files(facts), *_of_dead_letters(facts)]


def _of_lag(facts: Facts) -> Iterator[Concern]:
    """Records that nobody commits, and tables that have not begun."""
    behind = max((place.behind for place in facts.places if place.behind is not None), default=0)
    newest = max((one.at_ms for one in facts.happened), default=None)
    silent_secs = 0.0 if newest is None else facts.made_at.timestamp() - newest / 1000
    if behind and (newest is None or silent_secs > facts.late_secs):
        since = "ever" if newest is None else f"for {secs_span(silent_secs)}"
        yield Concern(f"nothing was committed {since}, and the consumer lag is {behind:,} offsets", "exporter status")
    if waiting := sorted({place.event_type for place in facts.places if place.position is None}):
        yield Concern(f"partitions that have not begun, of: {', '.join(waiting)}", "exporter plan", bad=False)


def _of_files(facts: Facts) -> Iterator[Concern]:
    """Small files of closed partitions, which maintenance joins."""
    files, volume = sum(files for files, _ in facts.due), sum(volume for _, volume in facts.due)
    if files:
        bad = files >= DUE_FILES and volume / files < SMALL_BYTES
        yield Concern(f"{files:,} files of {size(volume / files)} in the mean", "exporter maintain --apply", bad)


def _of_dead_letters(facts: Facts) -> Iterator[Concern]:
    """Those that are there now; their share is of what the commits that are shown have brought."""
    rows = sum(one.rows for one in facts.happened)
    brought = sum(one.rows for one in facts.happened if one.event_type == DEAD_LETTERS)
    yield from dead_letters(sum(one.rows for one in facts.dead_letters), brought / rows if rows else None)
