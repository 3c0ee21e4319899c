"""The parts of an audit as tasks of a Spark cluster, which the settings name and a long topic is worth.

Its executors have what they need for the export: this package, the way to the brokers, and to the store.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pyarrow as pa

TALLY = "tally"


def spread(
    session: Any, of_part: Callable[[int], Any], parts: int, tell: Callable[[int], None], secs: float
) -> Iterator[Any]:
    """What a function says of each of so many parts, each by a task of its own.

    tell: so many are done, told after so many seconds each. Raises what Spark raises.
    """

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pydict({TALLY: pa.array([pickle.dumps(of_part(number))], pa.binary())})

    context, group = session.sparkContext, f"audit-{uuid.uuid4().hex}"

    def collected() -> list[bytes]:
        context.setJobGroup(group, "exporter audit")
        rows = session.range(0, parts, 1, parts).mapInArrow(run, f"{TALLY} binary").toArrow()
        found: list[bytes] = rows[TALLY].to_pylist()
        return found

    with ThreadPoolExecutor(1, thread_name_prefix="audit-cluster") as pool:
        asked = pool.submit(collected)
        try:
            while not wait([asked], secs).done:
                tell(_done(context.statusTracker(), group))
            yield from map(pickle.loads, asked.result())
        finally:
            context.cancelJobGroup(group)  # of who waits no more


def _done(tracker: Any, group: str) -> int:
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)
