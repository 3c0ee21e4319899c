"""How far a run has come: a bar on a terminal, else one line every ten seconds. Writes to stderr only."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from exporter import service

LINE_SECS = 10.0


def line(progress: service.Progress, secs: float, records_per_sec: float) -> str:
    """One progress line: what was read and committed, what is left, how fast."""
    return (
        f"{secs:5.0f} s {progress.records:>12,} read {progress.committed:>12,} committed "
        f"{progress.lag:>12,} behind {records_per_sec:>9,.0f} records/s {progress.commits:>6,} commits"
    )


class ProgressDisplay:
    """A context manager whose `update` is the service's on_progress."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stderr)
        self._started = self._line_at = time.monotonic()
        self._line_records = 0
        self._last: service.Progress | None = None
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

    def update(self, progress: service.Progress) -> None:
        """Show a moment of the loop; cheap enough for every passing."""
        self._last = progress
        now = time.monotonic()
        if self._console.is_terminal:
            total = progress.backlog_at_start or None
            done = None if total is None else max(0, total - progress.lag)
            detail = f"{progress.records:,} read, {progress.lag:,} behind"
            self._bar.update(self._task, description="exporting", total=total, completed=done, detail=detail)
        elif now - self._line_at >= LINE_SECS:
            self._print(progress, now)

    def _print(self, progress: service.Progress, now: float) -> None:
        speed = (progress.records - self._line_records) / max(0.001, now - self._line_at)
        self._line_at, self._line_records = now, progress.records
        print(line(progress, now - self._started, speed), file=sys.stderr, flush=True)

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()
        if self._last is not None:
            now = time.monotonic()
            speed = self._last.records / max(0.001, now - self._started)
            print(line(self._last, now - self._started, speed), file=sys.stderr, flush=True)
