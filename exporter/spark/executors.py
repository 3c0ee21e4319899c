"""Executors of a cluster: whether there are any, which tasks had to be tried again, and whether a job failed with them.

Without a cluster tasks run in the driver's JVM, and none of this is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

LOST = re.compile(
    r"Job aborted due to stage failure: Task \d+ in stage [\d.]+ failed \d+ times?, most recent failure: "
    r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^()\n]*\): (?:ExecutorLostFailure|FetchFailed)\b"
)
"""How Spark's scheduler says that the last try of a task ended with its executor, or for want of what one had kept.
To be matched at the beginning of a message: what stands behind that may be a record's own words."""
DRIVER = 1
"""Spark counts its driver among the executors."""


def lost(error: BaseException) -> bool:
    """Whether a job failed because executors were lost, by what Java says of it."""
    return any(LOST.match(message) for message in _messages(error))


def _messages(error: BaseException) -> Iterator[str]:
    """What the exceptions of Java say that a Python error was made of, each with its causes."""
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while thrown is not None:
        yield str(thrown.getMessage())
        thrown = thrown.getCause()


def are_there(session: Any) -> bool:
    """Whether the cluster gives this session any."""
    return len(session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) > DRIVER


def are_gone(session: Any) -> bool:
    """Whether the cluster has ended this session for good, so that no job will ever run in it."""
    return bool(session.sparkContext._jsc.sc().isStopped())


def tried_again(session: Any, group: str) -> int:
    """Tasks of a group's jobs that failed and were tried again."""
    tracker = session.sparkContext.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = filter(None, (tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds))
    return sum(stage.numFailedTasks for stage in stages)
