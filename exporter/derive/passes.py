"""When jobs run: whenever there is something new, at their times, or until all that was there is taken.

    pass ──> each job that is due, one after the other ──> nothing new · a commit · it waits · it failed · it ended
     ^                                                                                    │
     └── a little later; at once if a job has more to do; a failed job after a pause ──┘

What fails in one job leaves the others alone. What may go the next time (storage or brokers that do not answer, a
Spark job that failed, another's OPTIMIZE in the way) is tried again, for give_up_secs; what no second try mends ends
that job: another process runs it too (75), its sources took back what it has taken (70), its settings are wrong (2).
Belongs to one thread, and to the Spark job group of that thread.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from pyspark.errors import AnalysisException

from exporter.core.job_state import JobState
from exporter.derive.job import Job, Ran
from exporter.derive.source import NoSource
from exporter.errors import (
    ConfigError,
    DependencyUnreachable,
    ExporterError,
    Fenced,
    InvariantBroken,
    JvmEnded,
    LogCleaned,
    StorageSilent,
)
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.text import first_line

log = get_logger(__name__)

ENDS = (ConfigError, Fenced, InvariantBroken, LogCleaned)
"""What no second try mends."""
OUTAGES = (DependencyUnreachable, StorageSilent)
REST_SECS = 0.2
"""Between two passes at the least, if a job waits for its next try."""


class PassStop(Protocol):
    """Says when to stop, and waits for work; stopping.py has the real one."""

    def asked(self) -> bool:
        """Whether somebody has asked to stop."""

    def rest(self, secs: float) -> object:
        """Wait for so many seconds, or until there is something to do."""

    def pause(self, secs: float) -> object:
        """Wait for so many seconds, or until it is to stop."""


class Passes:
    """The jobs of a process, each in its turn."""

    def __init__(
        self,
        jobs: Sequence[Job],
        told: Callable[[Ran], None],
        stopping: PassStop,
        give_up_secs: float,
        *,
        made_of: Mapping[str, Collection[str]] | None = None,
        jvm_ended: Callable[[BaseException], bool] = lambda error: False,
        pace: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """jobs: those of which others are made before these. told: each run that did something.

        made_of: job -> jobs whose tables are its sources. jvm_ended:
        whether an error is that of a JVM that is gone. pace: rest after a pass that follow() makes, as a share of what
        it took.
        """
        self._jobs = {job.name: job for job in jobs}
        self._told = told
        self._stopping = stopping
        self._give_up_secs = give_up_secs
        self._made_of = made_of or {}
        self._jvm_ended = jvm_ended
        self._pace = pace
        self._clock = clock
        self._error: ExporterError | None = None
        self.states: Mapping[str, JobState] = {job.name: JobState(job.name, job.kind) for job in jobs}
        """Replaced as a whole, so that other threads may look."""

    def follow(self, every_secs: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Pass after pass, until stopped, it is enough, or no job is left."""
        while self._is_left() and not self._stopping.asked() and not enough():
            began = self._clock()
            more = [self._turn(name, job.run) for name, job in self._jobs.items()]
            if self._pace:
                self._stopping.pause(self._pace * (self._clock() - began))
            if not any(more) and not self._stopping.asked():
                self._stopping.rest(min(every_secs, self._next_try_secs()))

    def catch_up(self) -> None:
        """Until each job has taken all that its sources held at the beginning of this, or has ended.

        A job of which others are made comes to its end before these do. One whose source is not there has all.
        """
        self._through({name: job.run for name, job in self._jobs.items()})

    def rebuild(self) -> None:
        """Begin each job anew, and catch up."""
        self._through({name: job.rebuild for name, job in self._jobs.items()})

    @property
    def error(self) -> ExporterError | None:
        """The first one that ended a job; it says what ended the others, too."""
        return self._error

    def require_well(self) -> None:
        """Raises the first error that ended a job, with what ended others."""
        if self.error is not None:
            raise self.error

    def require_a_job(self) -> None:
        """Raises what require_well() does if all have ended."""
        if not self._is_left():
            self.require_well()

    def _is_left(self) -> bool:
        return not all(state.ended for state in self.states.values())

    def _through(self, calls: dict[str, Callable[[], Ran]]) -> None:
        """calls: of each job what it does first; then it runs until there is no more to do."""
        while calls and not self._stopping.asked():
            more = {name: self._turn(name, call) for name, call in calls.items()}
            for name in more:
                state = self.states[name]
                if not state.in_a_row:
                    calls[name] = self._jobs[name].run
                of_open = calls.keys() & {*self._made_of.get(name, ())}
                if state.ended or not (more[name] or state.in_a_row or of_open):
                    del calls[name]
            if calls and not any(more.values()) and not self._stopping.asked():
                self._stopping.rest(self._next_try_secs())

    def _next_try_secs(self) -> float:
        now = self._clock()
        tries = (state.next_at - now for state in self.states.values() if state.in_a_row and not state.ended)
        return max(REST_SECS, min(tries, default=float("inf")))

    def _turn(self, name: str, call: Callable[[], Ran]) -> bool:
        """Run a job if it is due; whether there is more to do at once. Raises JvmEnded."""
        began, state = self._clock(), self.states[name]
        if self._stopping.asked() or not state.due(began):
            return False
        try:
            ran = call()
        except NoSource as error:
            self._set(self._waits(state, error))
            return False
        except Exception as error:  # whatever it is, it is this job's
            if isinstance(error, JvmEnded) or self._jvm_ended(error):
                raise JvmEnded from error
            self._set(self._failed(state, error))
            return False
        self._set(state.ran(ran.version, ran.rows, ran.more, began, ran.left_out))
        if not ran.idle:
            gc.collect()  # its queries: small and in cycles here, of megabytes in the JVM
            says = {"says": ran.says} if ran.says else {}
            secs = round(self._clock() - began, 2)
            log.info(Event.DERIVE_RAN, job=name, version=ran.version, rows=ran.rows, secs=secs, **says)
            self._told(ran)
        return ran.more

    def _set(self, state: JobState) -> None:
        self.states = {**self.states, state.name: state}

    def _waits(self, state: JobState, error: NoSource) -> JobState:
        """The state of a job whose source is not there; logged once."""
        if not state.waits:
            log.warning(Event.DERIVE_WAITS, job=state.name, why=error.message)
        return state.waiting(error.message)

    def _failed(self, state: JobState, failure: Exception) -> JobState:
        now = self._clock()
        if self._stopping.asked() and not isinstance(failure, ENDS):
            return state  # it was cut short: the next process goes on
        error = told_of(state.name, failure)
        failed = state.failed(error.message, now)
        if not isinstance(error, ENDS) and failed.fails_for(now) < self._give_up_secs:
            pause_secs = round(failed.next_at - now, 1)
            log.warning(Event.DERIVE_FAILED, job=state.name, error=error.message, again_in_secs=pause_secs)
            return failed
        if not isinstance(error, ENDS):
            error = _given_up(state.name, error, failed.fails_for(now))
        log.error(Event.DERIVE_ENDED, job=state.name, error=error.message, hint=error.hint)
        self._error = error if self._error is None else _with(self._error, error)
        return state.ends(error.message)


def told_of(job: str, error: Exception) -> ExporterError:
    """What a run raised, as it is told: it names the job. Spark's own refusals of a query are the settings' fault."""
    if isinstance(error, AnalysisException):
        return ConfigError(f"derive {job}: {first_line(error)}", f"correct [derive.{job}]")
    if isinstance(error, ExporterError):
        if f"derive {job}" not in error.message and f"[derive.{job}]" not in error.message:
            error.message = f"derive {job}: {error.message}"
        return error
    return ExporterError(f"derive {job}: {first_line(error)}", "the lines before say more")


def _with(first: ExporterError, later: ExporterError) -> ExporterError:
    """The first error, with what a later one says: of two jobs that end both are named."""
    first.message = f"{first.message}; {later.message}"
    if later.hint not in first.hint:
        first.hint = "; ".join(filter(None, (first.hint, later.hint)))
    return first


def _given_up(job: str, error: ExporterError, secs: float) -> ExporterError:
    kind = DependencyUnreachable if isinstance(error, OUTAGES) else ExporterError
    return kind(
        f"{error.message}; its runs have failed for {secs:.0f} s",
        f"start it again when that is mended: `exporter derive status {job}` says where it stands; `give_up_secs` says "
        "how long a failing job is tried again",
    )
