"""Which columns a row wrote (protocol 9.5, WROTE), whenever the column came; and mirrors of versions before it."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from exporter.derive.mirror import MirrorJob
from exporter.lake.lake import Lake
from exporter.spark.archives import extract
from tests.support.mirror_oracle import NULL_KEY, UNFIT_KEY, Page
from tests.support.mirrored import CDC, ORDERS, Raw, changed, mirror_job, raw_table, require_clean, rows_of, silent_of

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "mirrors_before_wrote.tar.xz"


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path / "lake", "mirrored", sync=False)


def test_a_patch_after_a_delete_makes_a_row_of_what_it_has(lake: Lake) -> None:
    """A delete leaves no value of its key, in one run with the patch or in an earlier one; the audit says so too."""
    raw = raw_table(lake)
    job = mirror_job(raw)
    raw.append([
        {"id": 1, "at": 1, "op": "I", "a": "old", "b": 2}, {"id": 1, "at": 2, "op": "D", "a": "old", "b": 2},
        {"id": 2, "at": 1, "op": "I", "a": "old", "b": 2}, {"id": 2, "at": 2, "op": "D", "a": "old", "b": 2},
        {"id": 2, "at": 3, "op": "P", "changed": ["b"], "b": 9},
    ])  # fmt: skip
    job.run()
    raw.append([{"id": 1, "at": 3, "op": "P", "changed": ["b"], "b": 9}])
    job.run()
    assert rows_of(raw, "customers", "a", "b") == {1: (None, 9), 2: (None, 9)}
    require_clean(job)


def filled(raw: Raw, job: MirrorJob, late: Sequence[Mapping[str, Any]], name: str) -> dict[Any, tuple[Any, ...]]:
    """A source gains a column, then late rows come; what the mirror has of it, which made anew is the same."""
    job.run()
    raw.sql("ALTER TABLE {t} ADD COLUMNS (later STRING)")
    raw.append([dict(row) for row in late])
    job.run()
    found = rows_of(raw, name, "a", "later")
    require_clean(job)
    job.rebuild()
    assert rows_of(raw, name, "a", "later") == found
    return found


@pytest.mark.long
def test_a_late_row_fills_a_new_column_that_was_not_sent_before(lake: Lake) -> None:
    """And none that a newer row of the envelope wrote, though there was no column of it then."""
    raw = raw_table(lake, "order", ddl=f"id BIGINT, a STRING, b BIGINT, {CDC}")
    raw.append([changed("U", 10, id=1, a="x", _rescued=silent_of("later")), changed("U", 10, id=2, a="x")])
    late = [changed("I", 5, id=key, a="late", later="y") for key in (1, 2)]
    assert filled(raw, mirror_job(raw, ORDERS, "orders"), late, "orders") == {1: ("x", "y"), 2: ("x", None)}


@pytest.mark.long
def test_a_late_patch_fills_a_new_column_that_no_newer_one_lists(lake: Lake) -> None:
    """A patch that lists a name before there is a column of it wrote null there, also one that comes late itself."""
    raw = raw_table(lake)
    raw.append([{"id": key, "at": 1, "op": "I", "a": "x"} for key in (1, 2, 3)])
    raw.append([{"id": 1, "at": 30, "op": "P", "changed": ["later"]},
                {"id": 2, "at": 30, "op": "P", "changed": ["a"], "a": "z"}])  # fmt: skip
    job = mirror_job(raw)
    job.run()
    raw.append([{"id": 2, "at": 25, "op": "P", "changed": ["later"]}])
    late = [{"id": key, "at": 20, "op": "P", "changed": ["later"], "later": "y"} for key in (1, 2, 3)]
    assert filled(raw, job, late, "customers") == {1: ("x", None), 2: ("z", None), 3: ("x", "y")}


@pytest.mark.long
def test_a_mirror_goes_on_where_a_restore_took_a_column_of_its_source_back(lake: Lake) -> None:
    """No row was lost, so nothing is made anew: the mirror keeps the column, and has nothing in it."""
    raw = raw_table(lake)
    job = mirror_job(raw, Page(["id"]))
    raw.append([{"id": 1, "a": "x"}])
    before = raw.version
    raw.sql("ALTER TABLE {t} ADD COLUMNS (later STRING)")
    job.run()
    raw.restore(before)
    raw.append([{"id": 1, "a": "y"}, {"id": 2, "a": "z"}])
    job.run()
    assert rows_of(raw, "customers", "a", "later") == {1: ("y", None), 2: ("z", None)}
    require_clean(job)


def test_a_mirror_of_a_version_before_is_made_anew_once_and_loses_nothing(lake: Lake, tmp_path: Path) -> None:
    """tests/golden/mirrors_before_wrote.tar.xz: two sources and mirrors of them as 1e96b4c wrote them, before WROTE.

    Values that a patch had brought back after a delete go; keys whose rows a user has deleted in the source stay.
    """
    with tarfile.open(GOLDEN) as archive:
        extract(archive, tmp_path)
    customers = Raw(lake, lake.session, ends={0: 11, 1: 0})
    orders = Raw(lake, lake.session, "order", ends={0: 5, 1: 0})
    jobs = mirror_job(customers), mirror_job(orders, ORDERS, "orders")
    assert rows_of(customers, "customers", "a", "b")[2] == ("two", 5)
    for job in jobs:
        assert [line.says for line in job.audit() if "made anew once" in line.says]
        assert "made anew once" in job.run().says and job.run().idle
    assert rows_of(customers, "customers", "a", "b") == {2: (None, 5), 4: ("four", 44), 5: ("five", 5)}
    customers.sql("ALTER TABLE {t} ADD COLUMNS (n STRING)")
    customers.append([{"id": key, "at": 10, "op": "P", "changed": ["b"], "b": 9} for key in (1, 3, 4)])
    customers.append([{"id": 5, "at": 10, "op": "P", "changed": ["n"], "n": "y"}])
    orders.sql("ALTER TABLE {t} ADD COLUMNS (n STRING)")
    orders.append([changed("I", 5, id=1, a="late", n="y"), changed("U", 9, id=2, b=7, _rescued=silent_of("a"))])
    for job in jobs:
        job.run()
        require_clean(job)
    assert rows_of(customers, "customers", "a", "b", "n") == {
        1: (None, 9, None), 2: (None, 5, None), 3: (None, 9, None), 4: ("four", 9, None), 5: ("five", 5, None)
    }  # fmt: skip
    assert rows_of(orders, "orders", "a", "b", "n") == {1: ("one", 1, "y"), 2: (None, 7, None), 3: ("three", 4, None)}


def test_rows_that_are_in_no_mirror_are_said_wherever_one_looks(lake: Lake) -> None:
    """A part of a key that is null, and a key that its column cannot hold: by the run, status and audit, each by its
    own name, also after a run that left out none."""
    raw = raw_table(lake)
    job = mirror_job(raw, Page(["id", "a"]))
    raw.append([{"id": 1, "a": "x"}, {"id": None, "a": "x", "_rescued": '{"id":9223372036854775808}'}])
    assert job.run().left_out == {UNFIT_KEY: 1}
    raw.append([{"id": 1, "a": None}, {"id": None, "a": None}])
    assert job.run().left_out == {NULL_KEY: 2}
    raw.append([{"id": 2, "a": "x"}])
    job.run()
    assert job.status().facts["left out"] == f"1 of {UNFIT_KEY}, 2 of {NULL_KEY}"
    audited = {line.what: line.rows for line in job.audit()}
    assert audited["rows whose key its column cannot hold"] == 1 and audited["rows with a null key"] == 2
