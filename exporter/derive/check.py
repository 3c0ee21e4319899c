"""What `check` says of [derive]: of each job, whether its sources are or will be there, and whether it could run.

By what a run would do next: its statements are analysed, its topic and its table are looked at, nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import AnalysisException

from exporter.derive.job import Job
from exporter.derive.jobs import jobs_of, sources_of
from exporter.derive.source import NoSource
from exporter.errors import ConfigError, ExporterError
from exporter.finding import Finding
from exporter.lake.lake import Lake
from exporter.settings.model import Settings
from exporter.text import first_line


def check_derive(settings: Settings, lake: Lake) -> Iterator[Finding]:
    """One line or more of each job; none without [derive]."""
    if not settings.derive:
        return
    try:
        jobs = jobs_of(settings, lake)
    except ConfigError as error:
        yield Finding.of("derive", error)
        return
    there = {*lake.event_types(), *settings.derive}
    for job in jobs:
        yield from findings(job, unknown_sources(settings, job.name, there))
    if not (settings.derive_inline or settings.derive_cron):
        says = "`exporter run` does not run the jobs: `exporter derive run` does, as a task of its own"
        yield Finding("derive", "ok", says)


def unknown_sources(settings: Settings, job: str, there: set[str]) -> list[str]:
    """Sources that have no table and will get none from these settings. there: tables and jobs."""
    if settings.new_type == "table":
        return []
    return [one for one in sources_of(settings.derive[job]) if one not in there and one not in settings.types]


def findings(job: Job, unknown: list[str]) -> Iterator[Finding]:
    """Of one job. unknown: its sources that nobody makes."""
    what = f"derive {job.name}"
    for name in unknown:
        says = f"there is no table of the event type {name!r}, and none will be made: it is not declared"
        yield Finding(what, "error", says, f"correct [derive.{job.name}], or declare [types.{name}]", in_settings=True)
    if unknown:
        return
    try:
        planned = job.plan()
    except NoSource as error:
        yield Finding(what, "warn", error.message, "the job waits for it; a task makes it")
    except AnalysisException as error:
        yield Finding(what, "error", first_line(error), f"correct [derive.{job.name}]", in_settings=True)
    except ExporterError as error:
        yield Finding.of(what, error)
    else:
        new = f", {len(planned.ranges)} ranges are new" if planned.ranges else ", nothing is new"
        yield Finding(what, "ok", f"{job.kind}{new}{f'; {planned.says}' if planned.says else ''}")
