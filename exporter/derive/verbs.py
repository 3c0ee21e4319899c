"""What `exporter derive` does, each verb with a lake of its own that it opens and closes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from exporter.derive.job import AuditLine, JobStatus, Planned, Ran
from exporter.derive.jobs import jobs_of
from exporter.derive.passes import following, one_pass
from exporter.ending import ending
from exporter.settings.model import Settings
from exporter.spark import session as spark
from exporter.spark.session import jvm_watched
from exporter.workbench import open_lake


@dataclass(frozen=True)
class How:
    """When `run` works, and when it ends; by default it follows the sources until it is stopped."""

    until_caught_up: bool = False
    scheduled: bool = False
    rebuilds: bool = False


def run_jobs(settings: Settings, only: Collection[str], how: How, told: Callable[[Ran], None]) -> None:
    """Run jobs, as `how` says. Raises ConfigError, and what ended a job."""
    asked: list[bool] = []
    lake = open_lake(settings)
    try:
        with jvm_watched(lake.session), ending.stopping(lambda: asked.append(True)):
            jobs = jobs_of(settings, lake, only)
            if how.rebuilds:
                for job in jobs:
                    told(job.rebuild())
            elif how.until_caught_up:
                one_pass(jobs, told, lambda: bool(asked))
            else:
                following(jobs, told, lambda: bool(asked), settings.derive_secs)
    finally:
        ending.leave()
        spark.stop(lake.session)


def plans(settings: Settings, only: Collection[str]) -> list[Planned]:
    """What the next run of each job would do."""
    with open_lake(settings) as lake:
        return [job.plan() for job in jobs_of(settings, lake, only)]


def statuses(settings: Settings, only: Collection[str]) -> list[JobStatus]:
    """Where each job stands."""
    with open_lake(settings) as lake:
        return [job.status() for job in jobs_of(settings, lake, only)]


def audits(settings: Settings, only: Collection[str]) -> list[AuditLine]:
    """What is proven of each job."""
    with open_lake(settings) as lake:
        return [line for job in jobs_of(settings, lake, only) for line in job.audit()]
