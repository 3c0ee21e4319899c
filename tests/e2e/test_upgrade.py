"""A lake that an earlier version wrote opens, goes on, and is as right as one that this version wrote.

tests/golden/without_event_time.tar.xz holds two lakes of one topic, as a version wrote them that kept no event time,
and the topic's first records (records.jsonl). Both tasks were killed between the commits of their tables:

    exported   order is 12 records ahead of click, refund (not declared) and the dead letters
    reserved   declares a column `_event_time` of its own, for whose sake its first record was poison
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import QueryBuilder

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError
from exporter.operate.check.check import check_tables
from exporter.operate.start_plan import start_plan
from exporter.protocol.anchor import Anchors
from tests.support import naive
from tests.support.golden import send_again, sent_before, unpack
from tests.support.lakes import DDL, EVERYWHERE_SELDOM, NOON, Export, Exports, event, wrong_places
from tests.support.places import Place
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ARCHIVE = "without_event_time.tar.xz"
TOPIC = "golden.v1"
CLUSTER_ID, TOPIC_ID = "AeEMWL3KT4-UgJ3nlTDqFg", "1e7a1f84-f57c-43d0-b2cb-6ac66620b856"
"""Of the broker and the topic that were exported; in the logs the present ones take their place."""
TYPES = {"order": DDL["order"], "click": "id BIGINT, page STRING, `net.ip` STRING, `net.port` INT"}
NEW = [event("order", 36), event("click", 37), event("refund", 38), event("order", 39)]


@pytest.fixture(scope="module")
def records(kafka: str) -> list[Record]:
    """The topic's records: those that the lakes know, and some that came since."""
    sent = sent_before(ARCHIVE, TOPIC)
    sent[TOPIC, 0] += NEW
    send_again(kafka, sent)
    return sent[TOPIC, 0]


@pytest.fixture
def lake(kafka: str, records: list[Record], tmp_path: Path, place: Place) -> Exports:
    """Unpacks one of the two lakes: lake("exported", types)."""

    def unpacked(name: str, types: dict[str, str], **scalars: Any) -> Export:
        e = Export(kafka, TOPIC, tmp_path, "golden", types=types, scalars=scalars, at=place)
        unpack(e, ARCHIVE, name, {TOPIC: TOPIC_ID}, CLUSTER_ID)
        return e

    return unpacked


def times(e: Export, name: str) -> dict[int, datetime | None]:
    """Offset -> the event time that the table holds."""
    return {row["_kafka"]["offset"]: row["_event_time"] for row in e.rows(name)}


def sent_times(records: list[Record], name: str, first: int = 0) -> dict[int, datetime]:
    """Offset -> the event time of a type's records from an offset on."""
    return {
        offset: datetime.fromisoformat(json.loads(record.value or b"")["at"].replace("Z", "+00:00"))
        for offset, record in enumerate(records)
        if record.key == name.encode() and offset >= first
    }


def metadata_changes(e: Export, name: str) -> int:
    """How many versions of a table say what its columns are."""
    return sum(b'{"metaData":' in e.place.read(entry) for entry in e.log(name))


@EVERYWHERE_SELDOM
def test_tables_without_event_times_get_them_by_one_change_each_and_go_on(
    lake: Callable[..., Export], records: list[Record], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No switch, no row again; old rows have null, new ones their time; a task that adds it too late reads it anew."""
    e = lake("exported", TYPES, new_type="table")
    real, late = Anchors.add_event_time, []

    def twice(self: Anchors, name: str, view: Any) -> None:
        real(self, name, view)
        late.append(name)
        real(self, name, view)

    monkeypatch.setattr(Anchors, "add_event_time", twice)
    before = {name: metadata_changes(e, name) for name in e.tables()}
    with e.bench(spark) as bench:
        (planned,) = start_plan(bench, e.settings()).partitions
    assert planned.steps == ("add the column _event_time to click, order, refund",)
    assert told(e, spark)["click"] == ("ok", "version 1; the next start adds to it: _event_time")
    e.run(spark)
    assert wrong_places(e) == {}
    assert set(e.positions().values()) == {(0, len(records) - 1)}
    report = e.audit(spark)
    assert report.clean and report.contents and not report.contents_skipped, report.as_text()
    naive.assert_each_once(e, timed=False)
    assert sorted(late) == ["click", "order", "refund"]
    for name, first in (("order", 36), ("click", 24), ("refund", 24)):
        old = dict.fromkeys(sent_times(records, name).keys() - sent_times(records, name, first).keys())
        assert times(e, name) == {**old, **sent_times(records, name, first)}
        assert e.table(name).to_pyarrow_dataset().schema.names[:2] == ["_kafka", "_event_time"]
        assert metadata_changes(e, name) == before[name] + 1
        later = f"_event_time >= TIMESTAMP '{NOON:%Y-%m-%d %H:%M:%S}+00:00'"
        assert found(e, spark, name, later) == [2 if name == "order" else 1] * 2
        assert found(e, spark, name, "_event_time IS NULL") == [len(old)] * 2
    assert "_event_time" not in e.table(DEAD_LETTERS).to_pyarrow_dataset().schema.names


def told(e: Export, spark: Any) -> dict[str, tuple[str, str]]:
    """What `exporter check` says of each table."""
    return {one.what.removeprefix("table "): (one.level, one.says) for one in check_tables(e.settings(), spark)}


def found(e: Export, spark: Any, name: str, where: str) -> list[int]:
    """The rows that a filter leaves, as Spark and delta-rs find them."""
    query = QueryBuilder().register("exported", e.table(name))
    by_delta_rs = query.execute(f"SELECT day FROM exported WHERE {where}").read_all().num_rows
    return [spark.table(e.sql_name(name)).where(where).count(), int(by_delta_rs)]


def test_settings_that_change_with_the_version_are_a_switch_like_any(
    lake: Callable[..., Export], records: list[Record], spark: Any
) -> None:
    """What the earlier version had begun is drained under its settings, with event times; dotted names among them."""
    e = lake("exported", {"order": TYPES["order"], "click": "id BIGINT, page STRING, port INT"}, new_type="table")
    e.run(spark)
    assert wrong_places(e) == {}
    naive.assert_each_once(e, timed=False)
    assert times(e, "click") == {**dict.fromkeys(range(1, 24, 4)), **sent_times(records, "click", 24)}
    ports = {row["_kafka"]["offset"]: row["net.port"] for row in e.rows("click")}
    assert ports == {**{offset: offset for offset in range(1, 36, 4)}, 37: None}


def test_a_column_of_the_same_name_is_refused_and_the_table_that_has_it_goes_on_without_event_times(
    lake: Callable[..., Export], records: list[Record], spark: Any
) -> None:
    """Its records were skipped as poison one by one; once the settings call it otherwise they are exported."""
    e = lake("reserved", {"order": DDL["order"], "click": "id BIGINT, `_event_time` STRING"})
    with pytest.raises(ConfigError, match="column '_event_time': the exporter writes a column of that name itself"):
        e.run(spark)
    renamed = e.with_({"order": DDL["order"], "click": "id BIGINT, at_text STRING"}, new_type="table")
    assert told(renamed, spark)["click"][0] == "warn"
    renamed.run(spark)
    assert wrong_places(renamed) == {(0, 1): (["click"], [DEAD_LETTERS]), (0, 2): (["refund"], [DEAD_LETTERS])}
    naive.assert_each_once(renamed, timed=False)
    assert set(times(renamed, "click").values()) == {None}
    assert len(renamed.rows("click")) == 9
    assert times(renamed, "order") == {0: None, 4: None, **sent_times(records, "order", 5)}
