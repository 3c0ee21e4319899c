"""Runs one job of [derive] in a process that lives on: whenever there is something new, told of each run as JSON.

`ran`: secs, rows, version; read: how many of its source's files Spark has read, by its own metrics.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exporter.derive.jobs import jobs_of
from exporter.settings.load import load
from exporter.workbench import open_lake

FILES_READ = "number of files read"
PLACE = "spark.sql.maxMetadataStringLength"
"""Spark cuts the place of a scan in its own description short otherwise."""
POLL_SECS = 0.2


def words(config: Path, job: str, source: str) -> list[str]:
    """The command line."""
    return [str(config), job, source]


def main() -> None:
    """Until it is killed."""
    parser = argparse.ArgumentParser()
    for name in ("config", "job", "source"):
        parser.add_argument(name)
    given = parser.parse_args()
    with open_lake(load(Path(given.config), {}, {})) as lake:
        (job,) = jobs_of(load(Path(given.config), {}, {}), lake, [given.job])
        session: Any = vars(job).get("_session", lake.session)
        session.conf.set(PLACE, "10000")
        tell({"event": "ready"})
        while True:
            before, began = executions(lake.session), time.monotonic()
            ran = job.run()
            secs = time.monotonic() - began
            if ran.version is not None or ran.rows:
                read = sum(files_read(lake.session, before, f"/{given.source}]"))
                told = {"secs": round(secs, 3), "rows": ran.rows, "version": ran.version, "read": read}
                tell({"event": "ran", **told, "more": ran.more})
            elif not ran.more:
                time.sleep(POLL_SECS)


def tell(said: dict[str, Any]) -> None:
    print(json.dumps(said), flush=True)


def executions(session: Any) -> int:
    """How many queries Spark has run so far."""
    return int(session._jsparkSession.sharedState().statusStore().executionsCount())


def files_read(session: Any, after: int, place: str) -> Iterator[int]:
    """Of each scan of a table in the queries since, how many files it has read. place: how its folder ends."""
    store = session._jsparkSession.sharedState().statusStore()
    queries = store.executionsList(after, executions(session) - after)
    for at in range(queries.size()):
        number = queries.apply(at).executionId()
        values, nodes = store.executionMetrics(number), store.planGraph(number).allNodes()
        for node in (nodes.apply(index) for index in range(nodes.size())):
            metrics = node.metrics()
            for metric in (metrics.apply(index) for index in range(metrics.size())):
                if metric.name() == FILES_READ and place in node.desc():
                    found = values.get(metric.accumulatorId())
                    yield int(found.get().replace(",", "")) if found.isDefined() else 0
