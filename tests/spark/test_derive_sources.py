"""What all kinds of jobs have in common: which rows of a source are theirs, and by which version they are proven."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.derive.bundles.job import BundlesJob
from exporter.derive.job import Job
from exporter.derive.jobs import own_session
from exporter.derive.mirror import MirrorJob
from exporter.derive.sql import SqlJob
from exporter.derive.to_kafka_progress import SendProgress
from exporter.derive.to_kafka_source import SendableSource, source_of
from exporter.errors import ConfigError
from exporter.lake.lake import Lake
from exporter.settings.derive_bundles import BundlesTable
from exporter.settings.derive_mirror import MirrorTable
from exporter.settings.derive_sql import SqlTable
from tests.support.derived import TOPIC, Row, Source, derived

pytestmark = pytest.mark.spark

DDL = "id BIGINT, v BIGINT"
AT = 1_700_000_000
BUNDLES = {
    "kind": "bundles", "inputs": {"o": {"source": "order", "transaction": "id", "done": "true"}},
    "lookups": {"all_orders": {"source": "order"}},
    "outputs": {"n": "SELECT _transaction, count(*) AS n, max(l.v) AS v FROM o JOIN all_orders AS l USING (id) "
                     "GROUP BY _transaction"},
}  # fmt: skip


def rows(first: int, count: int, v: int = 0) -> list[Row]:
    """Of ids that are their offsets, in partition 0."""
    return [(0, at, AT + at, {"id": at, "v": v}) for at in range(first, first + count)]


def jobs_over(lake: Lake) -> dict[str, Job]:
    """One of each kind that has a table, over the source `order`."""

    mirror = MirrorTable(kind="mirror", source="order", keys=("id",))
    sql = SqlTable(kind="sql", source="order", query="SELECT id, v FROM source")
    return {
        "mirror": MirrorJob("newest", mirror, lake, own_session(lake), "me"),
        "sql": SqlJob("copy", sql, lake, own_session(lake), "me"),
        "bundles": BundlesJob("counted", BundlesTable.model_validate(BUNDLES), lake, own_session(lake), "me"),
    }


def sent_of(lake: Lake) -> tuple[SendableSource, SendProgress]:
    """The source as a to_kafka job has it, and its progress once all is sent."""
    source = source_of(lake, own_session(lake), "order", {})
    parts, _ = source.parts(SendProgress("order", "id", 1, "me", 0))
    return source, parts[-1].done


def require_clean(jobs: Sequence[Job]) -> None:
    assert [line for job in jobs for line in job.audit() if not line.clean] == []


def test_the_dead_letters_are_no_source(spark: Any, tmp_path: Path) -> None:
    """Rows come there behind the positions and leave again: exit 2, and what to do instead."""
    lake = Lake(spark, tmp_path, "app")
    Source(lake, DEAD_LETTERS, "value BINARY")
    table = SqlTable(kind="sql", source=DEAD_LETTERS, query="SELECT value FROM source")
    with pytest.raises(ConfigError, match="dead letters are no source") as refused:
        SqlJob("copy", table, lake, own_session(lake), "me").run()
    assert "dead-letters replay" in refused.value.hint


@pytest.mark.long
def test_rows_of_others_are_no_source_s(spark: Any, tmp_path: Path) -> None:
    """Without `_kafka`, or of a topic partition without a position of the app: no run, first run, rebuild or audit
    takes them; a status says how many there are."""
    lake = Lake(spark, tmp_path, "app")
    order, at = Source(lake, "order", DDL), datetime.fromtimestamp(AT, timezone.utc)
    theirs = {"topic": TOPIC, "partition": 7, "epoch": 0, "offset": 1, "timestamp": at}
    others = [{"id": 100, "v": 9}, {"id": 1, "v": 9, "_kafka": theirs},
              {"id": 101, "v": 9, "_kafka": {**theirs, "topic": "another", "partition": 0}}]  # fmt: skip
    order.add(rows(0, 2))
    order.add_of_others(others)
    jobs = jobs_over(lake)
    for job in jobs.values():
        job.run()
    order.add(rows(2, 2, v=1))
    order.add_of_others(others)
    ours = [(0, 0), (1, 0), (2, 1), (3, 1)]
    for job in jobs.values():
        job.run()
    require_clean([*jobs.values()])
    assert len([row for row in derived(lake, "counted") if row["_output"] == "n"]) == 4
    for name, kind in (("newest", "mirror"), ("copy", "sql")):
        assert sorted((row["id"], row["v"]) for row in derived(lake, name)) == ours, name
        jobs[kind].rebuild()
        assert sorted((row["id"], row["v"]) for row in derived(lake, name)) == ours, f"{name}, made anew"
    source, done = sent_of(lake)
    assert source.sent(done)[0].count() == 4
    for told in (*(job.status().facts for job in jobs.values()), source.facts()):
        assert told["rows of others in order"] == 6


@pytest.mark.long
def test_a_quiet_job_is_proven_after_its_source_was_packed(spark: Any, tmp_path: Path) -> None:
    """OPTIMIZE and VACUUM took the files of the version of the last run: the audit reads a version that can be read,
    the rows that were there then. A lookup that nobody can read any more is said."""
    lake = Lake(spark, tmp_path, "app")
    order = Source(lake, "order", DDL)
    order.add(rows(0, 2))
    order.add(rows(2, 2))
    jobs = jobs_over(lake)
    for job in jobs.values():
        job.run()
    _, done = sent_of(lake)
    order.pack()
    lines = [line for job in jobs.values() for line in job.audit()]
    assert [line for line in lines if not line.clean] == []
    assert any("lookups can no longer be read" in line.says for line in lines)
    order.add(rows(4, 1, v=5))
    order.pack()
    assert source_of(lake, own_session(lake), "order", {}).as_of(done).sent(done)[0].count() == 4
    require_clean([jobs["mirror"], jobs["sql"]])


def bundle(lake: Lake, **settings: Any) -> BundlesJob:
    """Of transactions by id that nothing completes."""
    inputs = {"o": {"source": "order", "transaction": "id"}}
    outputs = {"n": "SELECT _transaction, count(*) AS n FROM o GROUP BY _transaction"}
    table = {"kind": "bundles", "inputs": inputs, "outputs": outputs, "expire_secs": 40, **settings}
    return BundlesJob("counted", BundlesTable.model_validate(table), lake, own_session(lake), "me")


def states(lake: Lake) -> dict[str, str]:
    return {row["_transaction"]: row["_state"] for row in derived(lake, "counted") if row["_output"] == "_done"}


@pytest.mark.long
def test_transactions_of_times_before_1970_expire_by_their_own_times(spark: Any, tmp_path: Path) -> None:
    """The newest event time that was seen is one before 1970 as well, and none where none was seen."""
    lake = Lake(spark, tmp_path, "app")
    order = Source(lake, "order", DDL)
    job = bundle(lake)
    order.add([(0, 0, -5000, {"id": 1}), (0, 1, -4990, {"id": 2})])
    job.run()
    assert states(lake) == {}
    order.add([(0, 2, -4955, {"id": 3})])
    job.run()
    assert states(lake) == {"1": "expired"}
    assert job.status().facts["members open"] == 2
    require_clean([job])


def test_transactions_expire_where_the_last_offsets_are_no_rows(spark: Any, tmp_path: Path) -> None:
    """The last window of a run holds none: what is old expires by it, and no job is behind afterwards."""
    lake = Lake(spark, tmp_path, "app")
    order = Source(lake, "order", DDL)
    job = bundle(lake, window_records_max=5)
    order.add([(0, 0, 1000, {"id": 1}), (0, 1, 2000, {"id": 2})])
    order.advance(0, 7)
    while job.run().more:
        pass
    assert states(lake) == {"1": "expired"}
    mirror = jobs_over(lake)["mirror"]
    mirror.run()
    order.advance(0, 9)
    assert mirror.run().idle and not job.run().more
    for one in (job, mirror):
        assert set(one.status().behind.values()) == {0} and one.run().idle
    require_clean([job])
