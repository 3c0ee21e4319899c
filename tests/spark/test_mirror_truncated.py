"""Truncates (protocol 9.5, EMPTIED): rows of a mirror that are older go, or the job stops."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from exporter.derive.mirror import MirrorJob
from exporter.errors import ConfigError
from exporter.lake.lake import Lake
from tests.support.mirror_kinds import BEGIN
from tests.support.mirror_oracle import Page
from tests.support.mirrored import CDC, ORDERS, Raw, changed, mirror_job, raw_table, require_clean, rows_of, silent_of

pytestmark = pytest.mark.spark

BY_OFFSET = Page(["id"], (), "_cdc")
DDL = f"id BIGINT, a STRING, b BIGINT, {CDC}"


@pytest.fixture
def raw(spark: Any, tmp_path: Path) -> Raw:
    return raw_table(Lake(spark, tmp_path / "lake", "mirrored", sync=False), "order", ddl=DDL)


def at(seconds: int) -> Any:
    return BEGIN + timedelta(seconds=seconds)


def shown(raw: Raw, job: MirrorJob, older: int | None = None) -> dict[Any, tuple[Any, ...]]:
    """What the mirror has, which its audit finds right and a mirror that is made anew has too. older: how many rows the
    audit says are."""
    found = rows_of(raw, "orders", "a", "b")
    told = [line.rows for line in require_clean(job) if line.what == "rows older than a truncate"]
    assert older is None or told == [older]
    job.rebuild()
    assert rows_of(raw, "orders", "a", "b") == found
    return found


def test_rows_older_than_a_truncate_go_and_run_status_and_audit_say_so(raw: Raw) -> None:
    """By the offset in a partition; those behind it stay, also such that come in one run with it."""
    job = mirror_job(raw, BY_OFFSET, "orders")
    raw.append([changed("I", 1, id=1, a="x"), changed("I", 1, id=2, a="x")])
    job.run()
    raw.truncate(ts=at(2))
    raw.append([changed("I", 3, id=3, a="y"), changed("I", 3, id=2, a="y")])
    assert "rows older than the truncate of 2026-01-31T12:00:02Z (t-0 offset 2) go" in job.plan().says
    assert "2 rows were older than the truncate of 2026-01-31T12:00:02Z" in job.run().says
    assert job.status().facts["emptied by"] == "the truncate of 2026-01-31T12:00:02Z (t-0 offset 2)"
    assert job.run().idle
    assert shown(raw, job, older=2) == {3: ("y", None), 2: ("y", None)}


def test_late_rows_and_values_older_than_a_truncate_are_in_no_mirror(raw: Raw) -> None:
    """Rows by `order`: late ones, and single columns that a newer row did not send; rows of that moment stay."""
    job = mirror_job(raw, ORDERS, "orders")
    raw.append(
        [changed("I", 5, id=key, a="old", b=1) for key in (1, 2, 4)] + [changed("I", 10, id=5, a="at", partition=1)]
    )
    raw.append([changed("U", 20, id=1, b=2, _rescued=silent_of("a"), partition=1)])
    job.run()
    raw.truncate(ts=at(10))
    job.run()
    raw.append([changed("I", 7, id=3, a="late"), changed("U", 30, id=2, b=3, _rescued=silent_of("a")),
                changed("U", 9, id=1, a="late", b=9)])  # fmt: skip
    job.run()
    assert shown(raw, job) == {1: (None, 2), 2: (None, 3), 5: ("at", None)}


@pytest.mark.long
def test_a_truncate_that_the_dead_letters_tell_late_is_taken_when_it_is_told(raw: Raw) -> None:
    """Though its source has nothing new by then. Until then an audit has nothing to say, for nobody knows of it."""
    job = mirror_job(raw, BY_OFFSET, "orders")
    raw.append([changed("I", 1, id=1, a="x")])
    raw.truncate(ts=at(2), told=False)
    raw.append([changed("I", 3, id=2, a="y")])
    job.run()
    require_clean(job)
    raw.tell()
    assert [line.says for line in job.audit() if not line.clean] == [
        "table order was emptied since: run the job, then audit it"
    ]
    assert "were older" in job.run().says and job.run().idle
    assert shown(raw, job) == {2: ("y", None)}


@pytest.mark.long
def test_what_a_mirror_was_taken_through_stays_known_when_the_dead_letters_are_cleared(raw: Raw) -> None:
    """And when the job is told to begin anew."""
    job = mirror_job(raw, ORDERS, "orders")
    raw.append([changed("I", 1, id=1, a="x"), changed("I", 9, id=2, a="x")])
    raw.truncate(ts=at(5))
    assert "rows older than the truncate" in job.run().says
    raw.session.sql(f"DELETE FROM {raw.dead_letters.sql_name}")
    job = mirror_job(raw, ORDERS, "orders")
    raw.append([changed("I", 2, id=3, a="late")])
    job.run()
    assert shown(raw, job) == {2: ("x", None)}


@pytest.mark.long
def test_a_truncate_of_an_earlier_version_says_its_time_by_its_value(raw: Raw) -> None:
    """Its reason does not; of what is no JSON, nothing tells it, and the job stops."""
    job = mirror_job(raw, ORDERS, "orders")
    raw.append([changed("I", 1, id=1, a="x"), changed("I", 9, id=2, a="x")])
    source = {"schema": "public", "table": "orders", "ts_ms": int(at(5).timestamp() * 1000)}
    raw.truncate(value=json.dumps({"op": "t", "source": source}).encode())
    job.run()
    assert shown(raw, job) == {2: ("x", None)}
    raw.truncate(value=b"\0\0\0\0\7avro")
    with pytest.raises(ConfigError, match=r"has no _cdc\.ts"):
        job.run()


def test_a_job_stops_where_nothing_tells_which_rows_are_older(raw: Raw) -> None:
    """Offsets of two partitions; `order` by a column that a truncate has no value of: the hint says what to do."""
    job = mirror_job(raw, BY_OFFSET, "orders")
    raw.append([changed("I", 1, id=1, a="x"), changed("I", 1, id=2, a="x", partition=1)])
    job.run()
    raw.truncate(ts=at(2))
    for one in (job, mirror_job(raw, Page(["id"], ["b"], "_cdc"), "others")):
        with pytest.raises(ConfigError, match="which") as stopped:
            one.run()
        assert 'order = ["_cdc.ts"]' in stopped.value.hint and 'truncates = "ignore"' in stopped.value.hint
    assert rows_of(raw, "orders", "a") == {1: ("x",), 2: ("x",)}


@pytest.mark.long
def test_a_job_stops_at_a_truncate_or_ignores_it_as_the_settings_say(raw: Raw) -> None:
    """A stopped one goes on where the settings say otherwise; none was made of other rules."""
    raw.append([changed("I", 1, id=1, a="x")])
    stop, ignore = (mirror_job(raw, ORDERS, name, truncates=name) for name in ("stop", "ignore"))
    for job in (stop, ignore):
        job.run()
    raw.truncate(ts=at(2))
    raw.append([changed("I", 3, id=2, a="y")])
    with pytest.raises(ConfigError, match="empties table order"):
        stop.run()
    ignore.run()
    assert rows_of(raw, "ignore", "a") == {1: ("x",), 2: ("y",)} and rows_of(raw, "stop", "a") == {1: ("x",)}
    require_clean(ignore)
    mirror_job(raw, ORDERS, "stop").run()
    assert rows_of(raw, "stop", "a") == {2: ("y",)}
    assert stop.run().idle


def test_a_source_without_change_data_is_asked_for_no_truncates(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the setting, as it is by default, change what an existing mirror was made with."""
    plain = raw_table(raw.lake, "plain", ddl="id BIGINT, a STRING")
    plain.append([{"id": 1, "a": "x"}])
    monkeypatch.setattr("exporter.derive.mirror_truncated.Truncates._look", None)
    job = mirror_job(plain, Page(["id"]), "plain")
    job.run()
    require_clean(job)
    assert "truncates" not in raw.lake.derived("plain").view().properties["exporter.derive.mirror"]
