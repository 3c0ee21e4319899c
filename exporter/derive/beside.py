"""The jobs of the settings in one thread, beside something that they must never hold up."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from exporter.core.job_state import JobState
from exporter.derive.jobs import jobs_of, made_of, sources_of
from exporter.derive.passes import Passes
from exporter.derive.stopping import Stopping
from exporter.errors import ConfigError, ExporterError
from exporter.lake.lake import Lake
from exporter.settings.model import Settings
from exporter.spark.session import has_ended

PACE = 1.0
"""For at least half of the time all cores are the export's."""


class Beside:
    """One thread's. Made by another one, which may call all but work().

    sources: event types whose commits are worth a wake().
    """

    def __init__(self, settings: Settings, lake: Lake) -> None:
        self.sources = frozenset(source for table in settings.derive.values() for source in sources_of(table))
        self._settings = settings
        self._lake = lake
        self._stopping = Stopping(lake.session)
        self._last = threading.Event()
        self._passes: Passes | None = None

    @property
    def states(self) -> Mapping[str, JobState]:
        """How the jobs fare; none before the first one is opened."""
        return self._passes.states if self._passes is not None else {}

    def work(self) -> ExporterError | None:
        """The thread: until stopped, or finished and caught up. What ended a job, if no job is left or it is finished.

        Raises JvmEnded.
        """
        with self._stopping.entered():
            return self._worked()

    def _worked(self) -> ExporterError | None:
        settings, lake = self._settings, self._lake
        try:
            jobs = jobs_of(settings, lake)
        except ConfigError as error:
            return error
        self._passes = passes = Passes(
            jobs, lambda ran: None, self._stopping, settings.give_up_secs,
            made_of=made_of(settings.derive), jvm_ended=lambda error: has_ended(lake.session, error), pace=PACE,
        )  # fmt: skip
        passes.follow(settings.derive_secs, self._last.is_set)
        passes.catch_up()
        return passes.error

    def wake(self) -> None:
        """A source has something new."""
        self._stopping.wake()

    def finish(self) -> None:
        """There will be nothing new: catch up, and end."""
        self._last.set()
        self._stopping.wake()

    def stop(self) -> None:
        """End, also in the middle of a Spark job."""
        self._stopping.ask()
