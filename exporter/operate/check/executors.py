"""`exporter check` on a cluster: do executors come, and has their Python what a round needs."""

from __future__ import annotations

import concurrent.futures
from typing import Any

from exporter.aside import aside
from exporter.finding import Finding
from exporter.rounds.read import warm
from exporter.settings.model import Settings
from exporter.text import why

WHAT = "executors"
EXECUTORS_SECS_MAX = 120.0
"""How long is waited for the first tasks to be done; executors of a cluster may be pods that have to start."""
OF_A_CLUSTER = ("driver_host", "driver_port", "worker_python", "worker_archive")


def check_executors(settings: Settings, session: Any) -> Finding | None:
    """Runs tasks of nothing on the session; None where there is nothing to say."""
    if settings.deployment.is_local:
        idle = [name for name in OF_A_CLUSTER if getattr(settings, name)]
        says = f"{', '.join(idle)}: of no effect with spark_master = {settings.spark_master}"
        return Finding(WHAT, "warn", says, "set `spark_master`, or leave it: a verb may run here") if idle else None
    tried = aside(WHAT, lambda: warm(session))
    try:
        tried.result(EXECUTORS_SECS_MAX)
    except concurrent.futures.TimeoutError:
        says = f"no task was done on {settings.spark_master} within {EXECUTORS_SECS_MAX:.0f} s"
        return Finding(WHAT, "error", says, "see whether it has cores and memory left, and can reach `driver_host`")
    except Exception as error:  # noqa: BLE001 - whatever it is, no round would come through
        return Finding(WHAT, "error", why(error), "see `worker_python`: it needs this exporter, of this version")
    return Finding(WHAT, "ok", f"{session.sparkContext.defaultParallelism} cores on {settings.spark_master}")
