"""A stop of the thread that runs jobs, in the middle of a Spark job."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from exporter.derive.job import Ran
from exporter.derive.passes import Passes
from exporter.derive.stopping import Stopping
from tests.support.lakes import wait_until

pytestmark = pytest.mark.spark


class Long:
    """A job whose run takes hours, and tries once more if that fails."""

    name, kind = "long", "sql"

    def __init__(self, session: Any) -> None:
        self.session = session.newSession()
        self.ended: list[str] = []

    def run(self) -> Ran:
        for _ in range(2):
            try:
                self.session.range(10**14).selectExpr("sum(id % 7)").collect()
            except Exception as error:  # noqa: BLE001 - what it is, is looked at
                self.ended.append(str(error))
        raise RuntimeError(self.ended[-1])

    rebuild = plan = status = audit = run


def test_a_stop_ends_a_long_spark_job_and_those_that_would_follow(spark: Any) -> None:
    """That counts as no failure, and Spark jobs of other threads go on."""
    job: Any = Long(spark)
    stopping = Stopping(spark)
    passes = Passes([job], lambda ran: None, stopping, 600.0)

    def work() -> None:
        with stopping.entered():
            passes.follow(1.0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        tracker = spark.sparkContext.statusTracker()
        wait_until(lambda: tracker.getActiveJobsIds() or not thread.is_alive(), 60, "a Spark job")
        assert thread.is_alive()
    finally:
        stopping.ask()
        thread.join(60)
    assert not thread.is_alive()
    assert len(job.ended) == 2 and all("cancelled" in one for one in job.ended)
    assert (passes.states["long"].failures, passes.states["long"].ended) == (0, False)
    assert spark.range(10).count() == 10
