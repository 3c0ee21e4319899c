"""The jobs of [derive] beside the export, in a thread of their own; nothing that becomes of them ends the export.

    the first commit ──> the thread: pass after pass      a commit of a source wakes it
    the task stops   ──> its Spark jobs are cancelled     it is waited for as long as the task has to stop, at most
    a run with an end, and the export is at it ──> it catches up and ends; what ended a job is an error then

Without commits, as on a topic that stands still, the thread begins a moment after the partitions are recovered. Belongs
to the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from exporter.aside import aside
from exporter.core.job_state import JobState
from exporter.errors import ExporterError, FoundProblem
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.watch import Watch
from exporter.text import first_line

log = get_logger(__name__)

QUIET_SECS = 5.0
"""Since the partitions were recovered, without a commit."""


class Jobs(Protocol):
    """derive/beside.py; work() is called in the thread, all else by the loop."""

    @property
    def sources(self) -> Collection[str]:
        """Event types."""

    @property
    def states(self) -> Mapping[str, JobState]:
        """How they fare."""

    def work(self) -> ExporterError | None:
        """Until stopped or finished; what ended a job."""

    def wake(self) -> None:
        """Look at once: there is something new."""

    def finish(self) -> None:
        """Catch up with the sources, then end."""

    def stop(self) -> None:
        """End soon, in the middle of a job too."""


class Deriving:
    """The derived jobs that run inside a task, in a thread of their own."""

    def __init__(self, *, jobs: Jobs | None, watch: Watch, waking: Callable[[Future[Any]], Future[Any]]) -> None:
        """jobs: None where the settings have none, or another process runs them."""
        self._jobs = jobs
        self._watch = watch
        self._waking = waking
        self._running: Future[ExporterError | None] | None = None
        self._recovered_at: float | None = None
        self._landed = 0
        self._told = False

    @property
    def is_at_rest(self) -> bool:
        """Whether the thread is not there, or not any more."""
        return self._running is None or self._running.done()

    def tick(self, now: float, is_recovered: bool) -> None:
        """is_recovered: of all partitions the positions are known."""
        if self._jobs is None:
            return
        outcomes = self._watch.totals.outcomes
        landed = sum(outcomes[name, "landed"] for name in self._jobs.sources)
        if self._running is None:
            self._recovered_at = (self._recovered_at or now) if is_recovered else None
            is_quiet = self._recovered_at is not None and now - self._recovered_at >= QUIET_SECS
            if self._watch.totals.commits or is_quiet:
                self._start()
        elif landed > self._landed:
            self._jobs.wake()
        self._landed = landed
        self._look()

    def caught_up(self) -> bool:
        """Whether the jobs have taken all that the export has, of a run that is at its end.

        Raises FoundProblem for what ended a job.
        """
        if self._jobs is None:
            return True
        self._jobs.finish()
        if self._running is None:
            self._start()
        if not self.is_at_rest:
            return False
        self._look()
        error = self._error()
        if error is not None:
            raise FoundProblem(f"everything was exported; {error.message}", error.hint)
        return True

    def stop(self) -> None:
        """End the jobs; every thread may call it."""
        if self._jobs is not None:
            self._jobs.stop()

    def _start(self) -> None:
        if self._jobs is not None:
            self._running = self._waking(aside("derive", self._jobs.work))

    def _look(self) -> None:
        """Take over how they fare; a thread that has ended too soon is told, once."""
        if self._jobs is not None:
            self._watch.jobs = self._jobs.states
        if not self._told and (error := self._error()) is not None:
            self._told = True
            log.error(Event.DERIVE_STOPPED, error=error.message, hint=error.hint)

    def _error(self) -> ExporterError | None:
        if self._running is None or not self._running.done():
            return None
        failure = self._running.exception()
        if failure is None:
            return self._running.result()
        return failure if isinstance(failure, ExporterError) else ExporterError(f"derive: {first_line(failure)}")
