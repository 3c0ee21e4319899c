"""What `exporter derive` does, each verb with a lake of its own that it opens and closes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from exporter.derive.job import AuditLine, Job, JobStatus, Planned, Ran
from exporter.derive.jobs import jobs_of, made_of
from exporter.derive.passes import ENDS, Passes
from exporter.derive.source import NoSource
from exporter.derive.stopping import Stopping
from exporter.ending import ending
from exporter.errors import ConfigError
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.schedule import on_schedule
from exporter.settings.model import Settings
from exporter.spark import session as spark
from exporter.spark.session import jvm_watched
from exporter.workbench import open_lake

log = get_logger(__name__)


@dataclass(frozen=True)
class How:
    """When `run` works, and when it ends; by default it follows the sources until it is stopped."""

    until_caught_up: bool = False
    scheduled: bool = False
    rebuilds: bool = False

    @property
    def has_an_end(self) -> bool:
        return self.until_caught_up or self.rebuilds


def run_jobs(settings: Settings, only: Collection[str], how: How, told: Callable[[Ran], None]) -> None:
    """Run jobs, as `how` says. Raises ConfigError, and the first error that ended a job, once no job is left."""
    if how.scheduled and not settings.derive_cron:
        raise ConfigError("--schedule needs a schedule", "set `derive_cron`")
    lake = open_lake(settings, short_lived=how.has_an_end)
    try:
        stopping = Stopping(lake.session)
        budget_secs = settings.stop_budget_secs
        with jvm_watched(lake.session), ending.stopping(stopping.ask, budget_secs), stopping.entered():
            passes = Passes(
                jobs_of(settings, lake, only), told, stopping, settings.give_up_secs,
                made_of=made_of(settings.derive), jvm_ended=lambda error: spark.has_ended(lake.session, error),
            )  # fmt: skip
            _run(passes, stopping, how, settings)
    finally:
        ending.leave()
        lake.stop()


def _run(passes: Passes, stopping: Stopping, how: How, settings: Settings) -> None:
    def in_its_turn() -> None:
        passes.catch_up()
        passes.require_a_job()

    def waits(due: datetime) -> None:
        log.info(Event.DERIVE_SCHEDULED, cron=settings.derive_cron, next=f"{due:%Y-%m-%dT%H:%M:%SZ}")

    if how.scheduled:
        on_schedule(settings.derive_cron, stopping.asked, in_its_turn, waits)
    elif how.rebuilds:
        passes.rebuild()
        passes.require_well()
    elif how.until_caught_up:
        passes.catch_up()
        passes.require_well()
    else:
        passes.follow(settings.derive_secs)
        passes.require_a_job()


def plans(settings: Settings, only: Collection[str]) -> list[Planned]:
    """What the next run of each job would do; of one that cannot run, why not."""
    with open_lake(settings) as lake:
        return [_planned(job) for job in jobs_of(settings, lake, only)]


def _planned(job: Job) -> Planned:
    try:
        return job.plan()
    except NoSource as error:
        return Planned(job.name, job.kind, says=error.message)
    except ENDS as error:
        return Planned(job.name, job.kind, says=f"it would end: {error.message}; {error.hint}")


def statuses(settings: Settings, only: Collection[str]) -> list[JobStatus]:
    """Where each of the chosen jobs stands."""
    with open_lake(settings) as lake:
        return [_status(job) for job in jobs_of(settings, lake, only)]


def _status(job: Job) -> JobStatus:
    try:
        return job.status()
    except NoSource as error:
        return JobStatus(job.name, job.kind, None, {}, {"waits": error.message})
    except ENDS as error:
        return JobStatus(job.name, job.kind, None, {}, {"ends": error.message})


def audits(settings: Settings, only: Collection[str]) -> list[AuditLine]:
    """What is proven of each job."""
    with open_lake(settings) as lake:
        return [line for job in jobs_of(settings, lake, only) for line in _audited(job)]


def _audited(job: Job) -> Collection[AuditLine]:
    try:
        return job.audit()
    except NoSource as error:
        return (AuditLine(job.name, "source", True, 0, error.message),)
    except ENDS as error:
        return (AuditLine(job.name, "audit", False, 0, error.message),)
