"""How jobs of [derive] run: inside the export, as a process of their own that is killed and stopped, two at once."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from typing import Any

import deltalake
import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.derive.jobs import jobs_of
from exporter.errors import FoundProblem
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from tests.support.lakes import Export, Exports, mixed, wait_until
from tests.support.processes import running

pytestmark = [pytest.mark.broker, pytest.mark.spark]

EVEN = '[derive.even]\nkind = "sql"\nsource = "order"\nquery = "SELECT id, _kafka FROM source WHERE id % 2 = 0"\n'
WAITS = '[derive.waits]\nkind = "sql"\nsource = "never"\nquery = "SELECT id FROM source"\n'
WRONG = '[derive.wrong]\nkind = "sql"\nsource = "order"\nquery = "SELECT nothing FROM source"\n'


@pytest.fixture
def export(exports: Exports) -> Export:
    e = exports(2)
    return replace(e, more=EVEN + WAITS)


def even(e: Export) -> list[int]:
    """The ids of the job's table; none if there is none."""
    path = e.root / "lake" / "_derived.tables" / "even"
    if not [*path.glob("_delta_log/*.json")]:
        return []
    return sorted(deltalake.DeltaTable(str(path)).to_pyarrow_table(columns=["id"])["id"].to_pylist())


def expected(e: Export) -> list[int]:
    return sorted(row["id"] for row in e.rows("order") if row["id"] % 2 == 0)


def test_an_export_with_an_end_runs_the_jobs_too_and_tells_what_ended_one(export: Export, spark: Any) -> None:
    """What the export has at its end, the jobs have, once; one that is wrong fails the run, after all else is done.

    A job that was caught up has nothing to do, its audit says so too, and maintenance does not see its table.
    """
    e = export.with_(derive_inline=True)
    e.send({0: mixed(60), 1: mixed(60, first=1_000)})
    service = e.run(spark)
    assert even(e) == expected(e) != []
    states = service._watch.jobs
    assert (states["even"].rows, states["even"].failures, states["waits"].waits) == (len(even(e)), 0, True)
    (job,) = jobs_of(e.settings(), e.lake(spark), ["even"])
    assert job.run().idle and [(line.clean, line.rows) for line in job.audit()] == [(True, len(even(e)))]
    maintenance = Maintenance(e.lake(spark), MaintenanceLimits(0.0, 1 << 29, 21_600.0))
    assert maintenance.tables(()) == e.tables() == ["click", DEAD_LETTERS, "order", "payment"]
    e.send({0: mixed(60, first=2_000)})
    with pytest.raises(FoundProblem, match=r"everything was exported; \[derive.wrong\] query: "):
        replace(e, more=EVEN + WRONG).run(spark)
    assert even(e) == expected(e)


def test_an_export_without_an_end_runs_the_jobs_beside_it(export: Export, spark: Any) -> None:
    """New records come to the job's table while it goes on, a job that ended is told, and a stop is not held up."""
    e = replace(export, more=EVEN + WRONG).with_(derive_inline=True)
    e.send({0: mixed(60), 1: mixed(60, first=1_000)})
    with e.going(spark) as task:
        watch = task.service._watch
        wait_until(lambda: even(e) and even(e) == expected(e), 60, "the first rows")
        wait_until(lambda: watch.jobs["wrong"].ended, 60, "the end of the wrong job")
        e.send({0: mixed(60, first=2_000)})
        wait_until(lambda: max(even(e)) > 2_000 and even(e) == expected(e), 60, "the new rows")
        began = time.monotonic()
        task.stop()
        assert time.monotonic() - began < 20
    assert (watch.jobs["even"].failures, watch.jobs["even"].rows) == (0, len(even(e)))
    assert watch.snapshot.as_dict()["derive"][1]["error"].startswith("[derive.wrong] query: ")


def test_a_process_that_is_killed_after_its_commit_goes_on_where_it_was(export: Export, spark: Any) -> None:
    """Killed in the middle of its second run; a second one takes what is left, once, and stops when it is told."""
    e = export
    e.send({0: mixed(60), 1: mixed(60, first=1_000)})
    e.run(spark)
    with running(e, faults="after_derive_commit:kill:2", verb="derive run") as first:
        wait_until(lambda: even(e) == expected(e), 120, "the first rows")
        e.send({0: mixed(60, first=2_000)})
        e.run(spark)
        assert first.wait() == -9
    e.send({0: mixed(60, first=3_000)})
    e.run(spark)
    with running(e, verb="derive run") as second:
        second.wait_for('"derive_ran"')
        assert even(e) == expected(e) != []
        second.signal(signal.SIGTERM)
        assert second.wait() == 0
    assert "derive_failed" not in second.text and second.text.count("derive_waits") == 1
    table = deltalake.DeltaTable(str(e.root / "lake" / "_derived.tables" / "even"))
    assert table.version() == 2
