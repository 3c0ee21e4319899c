"""How far a run has come: a bar on a terminal, else an event every ten seconds in which something has changed."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from exporter.log import get_logger
from exporter.log_events import Event
from exporter.task.progress import Progress as Moment

log = get_logger(__name__)

TELL_SECS = 10.0
RATE_SECS = 10.0
"""The time over which records/s is told."""


def _number(number: int | float) -> str:
    """Short: a line of 80 columns has five of them."""
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return f"{number:,.0f}"


def _behind(lag: int | None) -> str:
    """As long as the positions are not known, nobody knows how far it is behind."""
    return "unknown" if lag is None else _number(lag)


class ProgressDisplay:
    """A context manager whose `update` is the service's on_progress."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(file=sys.stderr)
        self._clock = clock
        self._began = self._told_at = clock()
        self._told: Moment | None = None
        self._seen: deque[tuple[float, int]] = deque([(self._began, 0)])
        self._bar = Progress(
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("starting", total=None)

    def update(self, progress: Moment) -> None:
        """Show a moment of the loop; cheap enough for every passing."""
        now = self._clock()
        if self._console.is_terminal:
            total = progress.backlog_at_start or None
            done = None if total is None or progress.lag is None else max(0, total - progress.lag)
            self._bar.update(self._task, description=self._says(progress, now), total=total, completed=done)
        elif now - self._told_at >= TELL_SECS:
            if progress != self._told:
                self._tell(progress, now - self._told_at)
            self._told_at, self._told = now, progress

    def _says(self, progress: Moment, now: float) -> str:
        """What stands beside the bar; it goes on when the bar is full."""
        self._seen.append((now, progress.records))
        while len(self._seen) > 2 and now - self._seen[1][0] >= RATE_SECS:
            self._seen.popleft()
        since, before = self._seen[0]
        per_sec = (progress.records - before) / max(now - since, 1.0)
        elapsed = str(timedelta(seconds=int(now - self._began)))
        return (
            f"{_number(progress.records)} read {_number(per_sec)}/s, {_number(progress.committed)} committed, "
            f"{_number(progress.dead_letters)} dead, {_behind(progress.lag)} behind {elapsed}"
        )

    def _tell(self, progress: Moment, secs: float) -> None:
        read = progress.records - (self._told.records if self._told is not None else 0)
        log.info(
            Event.PROGRESS, read=progress.records, committed=progress.committed, behind=progress.lag,
            commits=progress.commits, records_per_sec=round(read / secs),
        )  # fmt: skip

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()
