"""When jobs run: once, until they have caught up, on a schedule, or whenever there is something new."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from exporter.derive.job import Job, Ran
from exporter.errors import ExporterError
from exporter.log import get_logger
from exporter.log_events import Event

log = get_logger(__name__)

LOOK_SECS = 0.2
"""How often a stop is looked for."""


def one_pass(jobs: Sequence[Job], told: Callable[[Ran], None], stopped: Callable[[], bool]) -> list[Ran]:
    """Run each job until it has taken all that was there; what each did.

    What ends one job does not end the others: the first error is raised once all have run.
    """
    done: list[Ran] = []
    failed: list[ExporterError] = []
    for job in jobs:
        try:
            while not stopped():
                ran = job.run()
                if not ran.idle:
                    log.info(Event.DERIVE_RAN, job=ran.job, version=ran.version, rows=ran.rows)
                    done.append(ran)
                    told(ran)
                if not ran.more:
                    break
        except ExporterError as error:
            log.warning(Event.DERIVE_FAILED, job=job.name, error=error.message)
            failed.append(error)
    if failed:
        raise failed[0]
    return done


def following(
    jobs: Sequence[Job], told: Callable[[Ran], None], stopped: Callable[[], bool], every_secs: float
) -> None:
    """Pass after pass, until stopped."""
    while not stopped():
        one_pass(jobs, told, stopped)
        until = time.monotonic() + every_secs
        while time.monotonic() < until and not stopped():
            time.sleep(LOOK_SECS)  # pace of the polling
