"""Commits whose reply is lost, by a real Delta log store that writes a commit and reports failure, or does neither."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from tests.support import log_store, naive
from tests.support.lakes import EVERYWHERE_SELDOM, Export, Exports, bad, event, seldom, wrong_places
from tests.support.places import Place

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(autouse=True)
def losing(spark: Any, place: Place) -> Iterator[None]:
    """The tables of these tests have a losing store."""
    with log_store.losing_log_store(spark, place.spark_root.rpartition("://")[0] or "file"):
        yield


@pytest.fixture
def export(exports: Exports) -> Export:
    """Two partitions, a few records a commit."""
    scalars = {"new_type": "table", "round_records_max": 20, "roll_records_max": 10}
    return exports(2, types={"order": "id BIGINT"}, **scalars)


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Callable[[str], Counter[str]]:
    """event -> how often it was logged of a table."""
    caplog.set_level(logging.INFO, "exporter")

    def of(table: str) -> Counter[str]:
        said = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
        return Counter(line["event"] for line in said if line.get("table") == table)

    return of


@EVERYWHERE_SELDOM
@pytest.mark.parametrize(
    "accident, unknown",
    [
        seldom({"replies": 1}, 0),
        ({"replies": 2}, 0),
        ({"retries": 1}, 0),
        seldom({"retries": 2}, 0),
        seldom({"requests": 1}, 1),
        ({"requests": 2, "replies": 1, "retries": 1}, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["order", seldom(DEAD_LETTERS)])
def test_a_lost_reply_is_landed_and_a_lost_request_is_offered_again(
    export: Export,
    spark: Any,
    events: Callable[[str], Counter[str]],
    accident: dict[str, int],
    unknown: int,
    name: str,
) -> None:
    """Both partitions of the commit: every row once, nothing refused, staged twice or deleted; the log says landed."""
    e = export
    e.send({p: [event("order", 1), bad(b"{")] for p in (0, 1)})
    e.run(spark)
    before = events(name)
    log_store.arm(spark, name, **accident)
    e.send({p: [event("order", n) if n % 2 else bad(b"{") for n in range(30)] for p in (0, 1)})
    service = e.run(spark)
    assert log_store.left(spark, name) == 0, "all of it has happened"
    assert wrong_places(e) == {}
    assert service.totals.refused == 0
    assert service.totals.records == 60, "nothing was read again"
    said = events(name) - before
    # One claim a partition is logged as unknown, and a commit of several is one landing.
    assert (said["commit_unknown"] >= unknown, said["commit_unknown"] > 0) == (True, unknown > 0)
    said_so = events(name)["commit_landed"] + events(name)["positions_anchored"]
    assert said_so == e.table(name).version() + (0 if name == DEAD_LETTERS else 1), "all but the listing of tables"
    assert said["commit_refused"] == said["staged_files_dropped"] == 0
    assert e.live(name) <= e.files(name), "no file that was committed is deleted"


@EVERYWHERE_SELDOM
@pytest.mark.parametrize("kind", ["retries", *(seldom(kind) for kind in ("replies", "requests"))])
def test_a_table_whose_creation_has_no_reply_is_found_or_made_again(export: Export, spark: Any, kind: str) -> None:
    """The dead letters, a declared type and one met at run time are created and anchored once; the audit is clean."""
    e = export
    for name in (DEAD_LETTERS, "order", "click"):
        log_store.arm(spark, name, **{kind: 1})
    e.send({p: [event("order", 1), event("click", 2), bad(b"{")] for p in (0, 1)})
    e.run(spark)
    assert [log_store.left(spark, name) for name in (DEAD_LETTERS, "order", "click")] == [0, 0, 0]
    assert wrong_places(e) == {}
    naive.assert_each_once(e)
