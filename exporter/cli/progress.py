"""How far a run or an audit is: a bar on a terminal, else an event every ten seconds, if something has changed."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn
from rich.table import Column
from rich.text import Text

from exporter.log import get_logger
from exporter.log_events import Event
from exporter.task.progress import Progress as Moment

log = get_logger(__name__)

TELL_SECS = 10.0
RATE_SECS = 10.0
"""The time over which records/s is told."""
BAR_WIDTH_MIN = 9
"""Characters for the bar itself and its per cent."""


def _grouped(number: float) -> str:
    """To the unit below a million."""
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return f"{number:,.0f}"


def _short(number: float) -> str:
    """Three digits, cut, and a unit."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.4f}"[:4].rstrip(".") + unit
    return f"{number:.0f}"


def elapsed(secs: float) -> str:
    """Hours, minutes, seconds; from a day on without these."""
    days, left = divmod(int(secs), 86_400)
    hours, minutes = left // 3600, left // 60 % 60
    return f"{days}d {hours:02}:{minutes:02}" if days else f"{hours}:{minutes:02}:{left % 60:02}"


def line_of(moment: Moment, per_sec: float, time_told: str, width_max: int) -> str:
    """What stands beside the bar, in as many characters at most: numbers become short, then the lesser ones go."""
    for number in (_grouped, _short):
        lag = "unknown" if moment.lag is None else number(moment.lag)
        read, committed, dead = (number(count) for count in (moment.records, moment.committed, moment.dead_letters))
        line = f"{read} read {number(per_sec)}/s, {committed} committed, {dead} dead, lag {lag} {time_told}"
        if len(line) <= width_max:
            return line
    return f"{read} read, lag {lag} {time_told}"


D = TypeVar("D", bound="_Display")


class _Display(ABC):
    """A context manager: a bar for as long as it lasts, where there is a terminal."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(file=sys.stderr)
        self._clock = clock
        self._began = self._told_at = clock()
        self._bar = Progress(
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            _Line(self.line),
            console=self._console,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("", total=None)

    @abstractmethod
    def line(self) -> str:
        """What stands beside the bar now; asked each time that it is drawn, so that time goes on in a long step."""

    def __enter__(self: D) -> D:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()


class ProgressDisplay(_Display):
    """A context manager whose `update` is the service's on_progress."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock)
        self._moment: Moment | None = None
        self._told: Moment | None = None
        self._seen: deque[tuple[float, int]] = deque([(self._began, 0)])

    def update(self, progress: Moment) -> None:
        """Show a moment of the loop; cheap enough for every iteration."""
        now = self._clock()
        if self._console.is_terminal:
            self._note(progress, now)
            total = progress.backlog_at_start or None
            self._bar.update(self._task, total=total, completed=None if total is None else _done(progress, total))
        elif now - self._told_at >= TELL_SECS:
            if progress != self._told:
                self._tell(progress, now - self._told_at)
            self._told_at, self._told = now, progress

    def _note(self, progress: Moment, now: float) -> None:
        """Keep the moment, and what was read RATE_SECS before it."""
        self._moment = progress
        self._seen.append((now, progress.records))
        while len(self._seen) > 2 and now - self._seen[1][0] >= RATE_SECS:
            self._seen.popleft()

    def line(self) -> str:
        """What stands beside the bar now; asked each time that it is drawn, so that time goes on in a long step."""
        now, moment = self._clock(), self._moment
        if moment is None:
            return f"starting {elapsed(now - self._began)}"
        since, before = self._seen[0]
        per_sec = max(0.0, (moment.records - before) / max(now - since, 1.0))
        return line_of(moment, per_sec, elapsed(now - self._began), self._console.width - BAR_WIDTH_MIN)

    def _tell(self, progress: Moment, secs: float) -> None:
        read = progress.records - (self._told.records if self._told is not None else 0)
        log.info(
            Event.PROGRESS, read=progress.records, committed=progress.committed, behind=progress.lag,
            commits=progress.commits, records_per_sec=round(read / secs),
        )  # fmt: skip


class AuditDisplay(_Display):
    """A context manager whose `update` is the `tell` of an audit."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock)
        self._done = self._of = 0

    def update(self, done: int, of: int) -> None:
        """So many offsets are compared, of so many."""
        self._done, self._of = done, of
        now = self._clock()
        if self._console.is_terminal:
            self._bar.update(self._task, total=of or None, completed=done)
        elif now - self._told_at >= TELL_SECS:
            log.info(Event.AUDIT_PROGRESS, offsets=done, of=of, secs_left=self._secs_left())
            self._told_at = now

    def line(self) -> str:
        """What stands beside the bar."""
        if not self._of:
            return f"looking at the tables {elapsed(self._clock() - self._began)}"
        left = self._secs_left()
        return f"{self._done:,} of {self._of:,} offsets" + ("" if left is None else f", {elapsed(left)} left")

    def _secs_left(self) -> int | None:
        """If it goes on as it did so far."""
        if not self._done:
            return None
        return round((self._clock() - self._began) * (self._of - self._done) / self._done)


class _Line(ProgressColumn):
    """A column that asks for its text."""

    def __init__(self, ask: Callable[[], str]) -> None:
        super().__init__(Column(no_wrap=True))
        self._ask = ask

    def render(self, task: Task) -> Text:
        """What the line says at this moment."""
        return Text(self._ask())


def _done(progress: Moment, total: int) -> float | None:
    """Of the backlog at the start; not all of it as long as anything is behind, however little."""
    if progress.lag is None:
        return None
    return total if not progress.lag else min(max(0, total - progress.lag), total * 0.99)
