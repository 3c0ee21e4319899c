"""Jobs over a source to which something happens: replays, repairs, a topic made again, what users do to its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import deltalake
import pytest

from exporter.derive.job import Job
from exporter.derive.jobs import jobs_of
from exporter.errors import InvariantBroken
from exporter.kafka.topics import FirstPosition
from exporter.lake.lake import Lake
from exporter.operate.chosen import parse_ranges
from exporter.operate.dead_letters.listing import Chosen
from exporter.operate.dead_letters.replay import Replay
from exporter.operate.repair.repair import repair
from tests.support.lakes import DDL, Export, Exports, event
from tests.support.services import make_again

pytestmark = [pytest.mark.broker, pytest.mark.spark]

JOB = '[derive.copy]\nkind = "sql"\nsource = "click"\nquery = "SELECT id, page FROM source"\noffsets_max = 25'


@pytest.fixture
def export(exports: Exports) -> Export:
    """Of clicks alone, followed by a job that takes few offsets a run."""
    types = {"click": DDL["click"]}
    return exports(types=types, more=JOB)


def opened(e: Export, spark: Any) -> Job:
    settings = e.settings()
    return jobs_of(settings, Lake(spark, settings.store, settings.app))[0]


def caught_up(job: Job) -> int:
    """Run it until nothing is left; the rows."""
    rows = 0
    while not (ran := job.run()).idle:
        rows += ran.rows
    return rows


def places(e: Export, table: str = "_derived.tables/copy") -> list[tuple[int, int]]:
    """(epoch, offset) of each row, in order."""
    found = deltalake.DeltaTable(str(e.root / "lake" / table)).to_pyarrow_table(columns=["_kafka"])["_kafka"]
    return sorted((row["epoch"], row["offset"]) for row in found.to_pylist())


def follows(e: Export, job: Job) -> None:
    """The table has each row of the source once, and its own audit says so too."""
    assert places(e) == places(e, "click") != []
    assert [line.clean for line in job.audit()] == [True]
    assert job.run().idle


def test_rows_of_a_replay_below_the_cursor_come_once_wherever_their_files_went(export: Export, spark: Any) -> None:
    """Those beyond the cursor come as ever. OPTIMIZE packs them all, a user deletes one; a second one is among them."""
    e = export.with_({"order": DDL["order"]}, new_type="dead_letter")
    e.send({0: [event("order", 1), *(event("click", number) for number in range(1, 41))]})
    e.run(spark)
    e = replace(e, types={"order": DDL["order"], "click": DDL["click"]})
    e.send({0: [event("click", number) for number in range(41, 51)]})
    e.run(spark)
    job = opened(e, spark)
    assert (job.run().rows, job.status().behind) == (0, {"click": 26}), "offsets 0..24 hold dead letters only, by now"
    replayed(e, spark, "0:5-10,0:20-30")
    e.table("click").optimize.compact()
    e.table("click").delete("id = 8")
    ran = job.run()
    assert (ran.rows, ran.more) == (5 + 5 + 6 + 9, True)
    assert caught_up(job) == 1
    follows(e, job)
    replayed(e, spark, "0:0-100")
    assert caught_up(job) == 4 + 9 + 10
    follows(e, job)


def replayed(e: Export, spark: Any, offsets: str) -> None:
    """The dead letters of these offsets become rows."""
    with e.bench(spark) as bench:
        chosen = Chosen(offsets=parse_ranges(offsets, [e.topic]))
        Replay(bench.lake, bench.routing, chosen).run(apply=True)


@pytest.mark.long
def test_a_replay_that_the_log_no_longer_tells_stops_the_job_until_it_begins_anew(export: Export, spark: Any) -> None:
    """Exit 70 with the command; the rows of other replays are not guessed."""
    e = export.with_({"order": DDL["order"]}, new_type="dead_letter")
    e.send({0: [event("order", 1), *(event("click", number) for number in range(20))]})
    e.run(spark)
    e = replace(e, types={"order": DDL["order"], "click": DDL["click"]})
    e.send({0: [event("click", 100)]})
    e.run(spark)
    job = opened(e, spark)
    caught_up(job)
    replayed(e, spark, "0:0-100")
    version = e.table("click").version()
    e.send({0: [event("click", 101)]})
    e.run(spark)
    assert e.lake(spark).table("click").checkpoint(0, apply=True)
    entry = e.folder("click") / "_delta_log" / f"{version:020d}.json"
    hidden = entry.rename(e.root / "entry")
    with pytest.raises(InvariantBroken, match="no longer in its log") as stopped:
        job.run()
    assert stopped.value.exit_code == 70 and "--rebuild" in stopped.value.hint
    hidden.rename(entry)
    caught_up(job)
    follows(e, job)


def test_no_job_reads_over_a_hole_and_what_a_rewind_gives_again_needs_a_rebuild(export: Export, spark: Any) -> None:
    """RESTORE: 70 until the export is repaired; then 70 until the job begins anew; its table is then the source's."""
    e = export
    e.send({0: [event("click", number) for number in range(30)]})
    e.run(spark)
    first = e.table("click").version()
    job = opened(e, spark)
    e.send({0: [event("click", number) for number in range(30, 50)]})
    e.run(spark)
    assert caught_up(job) == 50
    e.table("click").restore(first)
    for act in (job.run, job.plan, job.rebuild):
        with pytest.raises(InvariantBroken, match="RESTORE") as stopped:
            act()
        assert "exporter repair --rewind" in stopped.value.hint
    repaired(e, spark, "rewind")
    with pytest.raises(InvariantBroken, match=r"took back offsets 30\.\.49 .*") as stopped:
        job.run()
    assert stopped.value.exit_code == 70 and "derive run copy --rebuild" in stopped.value.hint
    e.send({0: [event("click", number) for number in range(50, 60)]})
    e.run(spark)
    assert job.rebuild().rows == 60
    follows(e, job)
    assert [epoch for epoch, _ in places(e)] == [0] * 30 + [1] * 30


@pytest.mark.long
def test_a_rewind_of_what_was_not_taken_yet_changes_nothing(export: Export, spark: Any) -> None:
    """The cursor lies below what the RESTORE took; what is exported again is taken once."""
    e = export
    e.send({0: [event("click", number) for number in range(20)]})
    e.run(spark)
    first = e.table("click").version()
    job = opened(e, spark)
    caught_up(job)
    e.send({0: [event("click", number) for number in range(20, 50)]})
    e.run(spark)
    e.table("click").restore(first)
    repaired(e, spark, "rewind")
    e.run(spark)
    assert caught_up(job) == 30
    follows(e, job)


@pytest.mark.long
def test_a_topic_that_was_made_again_goes_on_behind_what_the_former_one_left(export: Export, spark: Any) -> None:
    """The same offsets twice: the rest of the former topic by its epoch, then the new one, window by window."""
    e = export
    e.send({0: [event("click", number) for number in range(60)]})
    e.run(spark)
    job = opened(e, spark)
    assert job.run().rows == 25
    make_again(e.kafka, e.topic)
    e.send({0: [event("click", number) for number in range(1000, 1040)]})
    repaired(e, spark, "rebase")
    e.run(spark)
    assert job.run().rows == 25
    assert caught_up(job) == 50
    follows(e, job)
    assert places(e) == [(0, offset) for offset in range(60)] + [(1, offset) for offset in range(40)]
    assert job.rebuild().rows == 100
    follows(e, job)


@pytest.mark.long
def test_what_users_do_to_the_files_of_a_source_is_of_no_account(export: Export, spark: Any) -> None:
    """OPTIMIZE, VACUUM, DELETE and an UPDATE between two runs: nothing comes twice, what was taken stays."""
    e = export
    e.send({0: [event("click", number) for number in range(20)]})
    e.run(spark)
    job, name = opened(e, spark), e.sql_name("click")
    caught_up(job)
    e.send({0: [event("click", number) for number in range(20, 40)]})
    e.run(spark)
    spark.sql(f"OPTIMIZE {name}")
    spark.sql(f"DELETE FROM {name} WHERE id IN (5, 25)")
    with vacuuming(spark):
        spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    assert caught_up(job) == 19
    assert [offset for _, offset in places(e)] == [offset for offset in range(40) if offset != 25]
    (line,) = job.audit()
    assert (line.clean, line.rows) == (True, 39) and "1 rows are of rows that were deleted" in line.says


@contextmanager
def vacuuming(spark: Any) -> Iterator[None]:
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        yield
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def repaired(e: Export, spark: Any, action: str) -> None:
    """exporter repair --<action> --apply"""
    with e.bench(spark) as made:
        repair(made, action, "", FirstPosition(), True)
