"""Fields whose names Delta or Spark do not take: called as Delta calls its own columns, or alike for Spark alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exporter.core import columns
from exporter.errors import ConfigError
from tests.support.lakes import NOON, Export, Exports, event, millis, wait_until, wrong_places
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

CDF = '[table_properties]\n"delta.enableChangeDataFeed" = "true"'
OF_DELTA = {"_change_type": "c", "_commit_version": 1, "_commit_timestamp": "t"}


@pytest.fixture
def export(exports: Exports, tmp_path: Path) -> Exports:
    """Makes exports of fresh topics to lakes of their own, whose tables grow and have a change data feed."""

    def make(types: dict[str, str] | None = None) -> Export:
        root = tmp_path / fresh_name()
        root.mkdir()
        return exports(root=root, types=types or {}, more=CDF, new_type="table", evolve="add")

    return make


def change(kind: str, number: int) -> Record:
    value = {"type": kind, "at": "2026-01-31T12:00:00Z", "id": number, **OF_DELTA}
    return Record(kind.encode(), json.dumps(value).encode(), timestamp_ms=millis(NOON))


def test_fields_that_delta_has_names_for_are_kept_beside_the_columns(export: Exports, spark: Any) -> None:
    """In `_rescued`; the other fields of the first records are columns, and other tables have their records.

    Declared by the settings such a column is refused before anything is read (exit 2).
    """
    e = export()
    e.send({0: [change("row", 1), event("order", 2), change("row", 3)]})
    e.run(spark)
    assert wrong_places(e) == {}
    assert [row["id"] for row in e.rows("row")] == [1, 3]
    assert [json.loads(row["_rescued"]) for row in e.rows("row")] == [OF_DELTA] * 2
    e.proven(spark)
    with pytest.raises(ConfigError, match="_change_type"):
        export({"row": "id BIGINT, _change_type STRING"}).run(spark)


def test_a_table_that_delta_refuses_with_its_columns_holds_up_nobody(
    export: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that nobody here knows of yet: the table is made without the columns, so it is in no one's way.

    It is parked until the columns can be had, or are not asked for; then it has its records too.
    """
    e = export()
    with monkeypatch.context() as patch:
        patch.setattr(columns, "DELTAS_OWN", frozenset())
        with e.going(spark):
            e.send({0: [change("row", 1), event("order", 2), change("row", 3)]})
            wait_until(lambda: "order" in e.tables() and e.offsets("order") == [1], 60, "the other table")
            e.send({0: [event("order", number) for number in range(4, 8)]})
            wait_until(lambda: e.offsets("order") == [1, 3, 4, 5, 6], 60, "it goes on")
    e.run(spark)
    assert wrong_places(e) == {}
    e.proven(spark)


DOTTED = "\u0130"


def test_a_table_that_has_two_columns_of_one_name_for_spark_goes_on(
    export: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version made it: both are filled as ever, and the audit tells them apart. A new table has one."""

    def record(kind: str, number: int) -> Record:
        value = {"type": kind, "at": "2026-01-31T12:00:00Z", "i": number, DOTTED: -number}
        return Record(kind.encode(), json.dumps(value).encode(), timestamp_ms=millis(NOON))

    e = export()
    e.send({0: [record("old", 1), record("old", 2)]})
    with monkeypatch.context() as patch:
        patch.setattr(columns, "folded", str.lower)
        e.run(spark)
    e.send({0: [record("old", 3), record("new", 4)]})
    e.run(spark)
    assert [(row["i"], row[DOTTED]) for row in e.rows("old")] == [(1, -1), (2, -2), (3, -3)]
    (new,) = e.rows("new")
    assert new["i"] == 4 and DOTTED not in new and json.loads(new["_rescued"]) == {DOTTED: -4}
    report = e.audit(spark)
    assert (report.clean, report.contents, report.contents_skipped) == (True, 4, 0), report
