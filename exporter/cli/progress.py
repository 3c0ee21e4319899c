"""How far a run has come: a bar on a terminal, else an event every ten seconds in which something has changed."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from exporter.log import get_logger
from exporter.log_events import Event
from exporter.task.progress import Progress as Moment

log = get_logger(__name__)

TELL_SECS = 10.0


def _number(lag: int | None) -> str:
    """As long as the positions are not known, nobody knows how far it is behind."""
    return "unknown" if lag is None else f"{lag:,}"


class ProgressDisplay:
    """A context manager whose `update` is the service's on_progress."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stderr)
        self._told_at = time.monotonic()
        self._told: Moment | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, detail="")

    def update(self, progress: Moment) -> None:
        """Show a moment of the loop; cheap enough for every passing."""
        now = time.monotonic()
        if self._console.is_terminal:
            total = progress.backlog_at_start or None
            done = None if total is None or progress.lag is None else max(0, total - progress.lag)
            detail = f"{progress.records:,} read, {_number(progress.lag)} behind"
            self._bar.update(self._task, description="exporting", total=total, completed=done, detail=detail)
        elif now - self._told_at >= TELL_SECS:
            if progress != self._told:
                self._tell(progress, now - self._told_at)
            self._told_at, self._told = now, progress

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
