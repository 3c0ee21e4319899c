"""The audit's whole contents against real tables: clean where they are right, and one changed value is found.

What no Spark has written: a data file is rewritten behind the table's log, as a broken disk or a stranger would.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.core.record_columns import RecordColumns
from exporter.core.routing import DEAD_LETTERS, EventTime
from exporter.operate.audit.report import AuditReport
from offsets.ranges import TopicPartition
from tests.spark.audit_lake import Exported, assert_finds, routing_of
from tests.support.documents import differences, documents
from tests.support.lakes import seldom
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("audit")]

KAFKA_MS = 1_741_608_000_000
NUMBERS = 18
DDL = {
    "all": "id BIGINT, small SMALLINT, name STRING, ok BOOLEAN, x DOUBLE, f FLOAT, price DECIMAL(12,3), at TIMESTAMP, "
    "at_local TIMESTAMP_NTZ, `on` DATE, raw BINARY, who STRUCT<name: STRING, born: DATE, net: STRUCT<`a.b`: INT>>, "
    "items ARRAY<STRUCT<sku: STRING, at: TIMESTAMP>>, tags ARRAY<STRING>, marks MAP<STRING, TIMESTAMP>, "
    "sums MAP<STRING, STRUCT<n: BIGINT>>",
    "thin": "id BIGINT",
}
ALL = """{"type":"all","ts":"2025-03-10T10:00:00Z","id":%d,"small":-1,"name":"n\\u00e9 %d","ok":true,"x":0.1,"f":0.1,
"price":"1.50","at":"2025-03-10T10:00:00.123456789+02:00","at_local":"1960-03-10 10:00:00.5","on":"1969-12-31",
"raw":"AP8=","who":{"name":"w","born":"2000-01-01","net":{"a.b":1,"more":[1.50]}},
"items":[{"sku":"s","at":"2025-01-01T00:00:00Z"},null,{"sku":null,"qty":2}],"tags":["a",null,""],
"marks":{"z":"2025-01-01T00:00:00Z","a":null},"sums":{"k":{"n":1,"m":"t"},"l":null},"unknown":{"n":1e2,"nul":null}}"""


def both(number: int) -> list[bytes]:
    """A value with everything in it, and one of which nothing is declared but a number."""
    thin = {"type": "thin", "ts": "2025-03-10T10:00:00Z", "id": number, "a": "left", "b": [number, {"c": "right"}]}
    return [(ALL % (number, number)).encode(), json.dumps(thin).encode()]


@pytest.fixture(scope="module")
def exported(spark: Any, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Values of many types, and a dead letter with headers."""
    values = [one for number in range(NUMBERS) for one in both(number)]
    values.append(b"no json")
    sent = [Record(b"k", value, [("h", b"1"), ("h", None)], KAFKA_MS) for value in values]
    return Exported(spark, kafka, fresh_name(), tmp_path_factory.mktemp("lake") / "l", routing_of(DDL)).sent(sent)


@pytest.fixture
def lake(exported: Exported, tmp_path: Path) -> Exported:
    """A copy, to be spoilt."""
    return exported.copy(tmp_path / "copy")


def rewrite(lake: Exported, event_type: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Other rows in a table's only data file; the log is told its new size, and no more."""
    folder = Path(lake.folder(event_type))
    (file,) = folder.glob("day=*/*.parquet")
    size = file.stat().st_size
    table = pq.read_table(file, partitioning=None)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)
    for log in (folder / "_delta_log").glob("*.json"):
        log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{file.stat().st_size}'))


def whole(lake: Exported, **kinds: int) -> AuditReport:
    """The findings, where the naive checker, which compares no whole contents, is not asked."""
    return assert_finds(lake.report(), **kinds)


def test_a_clean_lake_of_many_types_is_clean(exported: Exported) -> None:
    """Every record is compared, and nothing is found; the plain reader finds every value as well."""
    report = whole(exported)
    assert (report.contents, report.contents_skipped) == (2 * NUMBERS, 0)
    assert f"contents compared whole: {2 * NUMBERS}" in report.as_text()
    found = documents(exported.folder("all"))
    sent = {(exported.topic, 0, 2 * number): both(number)[0] for number in range(NUMBERS)}
    assert differences(found, sent, ["$.type", "$.ts"]) == []


Change = Callable[[dict[str, Any]], None]


def _set(name: str, value: Any) -> Change:
    def change(row: dict[str, Any]) -> None:
        assert row[name] != value
        row[name] = value

    return change


def _moved(row: dict[str, Any]) -> None:
    """From one column to another one of the same type."""
    row["who"]["name"], row["name"] = row["name"], row["who"]["name"]


def _inside(row: dict[str, Any]) -> None:
    row["items"][0]["at"] = None


def _born(row: dict[str, Any]) -> None:
    row["who"]["born"] += dt.timedelta(days=1)


def _text(old: str, new: str) -> Change:
    """In `_rescued`."""

    def change(row: dict[str, Any]) -> None:
        assert old in row["_rescued"]
        row["_rescued"] = row["_rescued"].replace(old, new)

    return change


CHANGES: dict[str, list[tuple[Change, str]]] = {
    "all": [
        (_set("name", "n"), "$.name"),
        (_set("f", 0.125), "$.f"),
        (_set("raw", b"\x00"), "$.raw"),
        (_set("on", None), "$.on"),
        (_set("tags", ["a", "", None]), "$.tags[1]"),
        (_set("marks", [("z", None)]), "$.marks.z"),
        (_inside, "$.items[0].at"),
        (_moved, "$.name"),
        (_text('"m":"t"', '"m":"u"'), "$.sums.k.m"),
        (_set("id", -1), "$.id"),
        (_set("small", 1), "$.small"),
        (_set("ok", False), "$.ok"),
        (_set("x", 0.25), "$.x"),
        (_set("price", Decimal("1.501")), "$.price"),
        (_set("at", dt.datetime(2025, 3, 10, 8, 0, 0, 123457, dt.timezone.utc)), "$.at"),
        (_set("at_local", dt.datetime(1960, 3, 10, 10)), "$.at_local"),
        (_born, "$.who.born"),
    ],
    "thin": [
        (_text('"c":"right"', '"c":"Right"'), "$.b[1].c"),
        (_text('"a":"left",', ""), "$.a"),
        (_set("_rescued", None), "$.a"),
    ],
}
"""Table -> what is done to its first rows, one thing to each, and where it is found: of each type of column."""


def test_each_value_that_is_not_the_record_s_is_found(lake: Exported) -> None:
    """With its table, its coordinates and its path; one finding, whatever else has seen it too."""

    def change(rows: list[dict[str, Any]], changes: list[tuple[Change, str]]) -> None:
        for number, (one, _) in enumerate(changes):
            one(rows[number])

    for table, changes in CHANGES.items():
        rewrite(lake, table, partial(change, changes=changes))
    wanted = {
        (table, lake.topic, 0, 2 * number + (table == "thin"), path)
        for table, changes in CHANGES.items()
        for number, (_, path) in enumerate(changes)
    }
    report = whole(lake, different=len(wanted))
    assert {(one.table, one.topic, one.partition, one.record_offset, one.path) for one in report.differing} == wanted
    assert f"finding: contents: all {lake.topic}-0: 6 $.on: " in report.as_text()


def test_values_that_two_rows_have_swapped_are_found(lake: Exported) -> None:
    """Both rows differ."""

    def swap(rows: list[dict[str, Any]]) -> None:
        rows[3]["name"], rows[4]["name"] = rows[4]["name"], rows[3]["name"]

    rewrite(lake, "all", swap)
    report = whole(lake, different=2)
    assert [one.record_offset for one in report.differing] == [6, 8]


def test_findings_of_a_day_are_those_of_that_day(lake: Exported) -> None:
    """And those from an offset on are no others."""
    rewrite(lake, "all", lambda rows: _inside(rows[3]))
    assert_finds(lake.report(day=dt.date(2025, 3, 10)), different=1)
    assert_finds(lake.report(day=dt.date(2025, 3, 11)))
    assert_finds(lake.report(from_offsets={TopicPartition(lake.topic, 0): 7}))


@pytest.mark.parametrize(
    "headers", [seldom("array()"), "array(named_struct('key', 'h', 'value', CAST('1' AS BINARY)))"]
)
def test_the_headers_of_a_dead_letter_are_compared(lake: Exported, headers: str) -> None:
    """As its key and its value are."""
    lake.sql(f"UPDATE {{d}} SET headers = {headers}", d=DEAD_LETTERS)
    whole(lake, different=1)


def test_keys_and_headers_in_columns_are_compared(lake: Exported) -> None:
    """As far as rows have them: those of earlier settings are null."""
    headers = "array(named_struct('key', 'h', 'value', CAST('1' AS BINARY)), named_struct('key', 'h', 'value', NULL))"
    added = "k BINARY, hs ARRAY<STRUCT<key: STRING, value: BINARY>>, ts STRING"
    lake.sql(f"ALTER TABLE {{t}} ADD COLUMNS ({added})", t="thin")
    lake.sql(f"UPDATE {{t}} SET k = CAST('k' AS BINARY), hs = {headers}, ts = 'CreateTime' WHERE id < 5", t="thin")
    keyed = replace(lake, record_columns=RecordColumns("k", "hs", "ts"))
    whole(keyed)
    lake.sql("UPDATE {t} SET k = CAST('l' AS BINARY) WHERE id = 1", t="thin")
    lake.sql("UPDATE {t} SET hs = slice(hs, 1, 1) WHERE id = 2", t="thin")
    lake.sql("UPDATE {t} SET ts = 'LogAppendTime' WHERE id = 3", t="thin")
    assert lake.report().clean, "columns of users"
    whole(keyed, different=3)


def test_columns_that_users_have_added_are_not_compared(lake: Exported) -> None:
    """Whatever they hold, also under the name of an unknown field."""
    lake.sql("ALTER TABLE {t} ADD COLUMNS (a STRING, who STRING)", t="thin")
    lake.sql("UPDATE {t} SET a = 'mine', who = 'me'", t="thin")
    whole(lake)


@pytest.fixture
def policies(spark: Any, kafka: str, topic: Callable[..., str], tmp_path: Path) -> Iterator[Callable[..., Exported]]:
    """A lake of one topic under settings that change."""
    name = topic()

    def of(ddl: dict[str, str], **changed: Any) -> Exported:
        return Exported(spark, kafka, name, tmp_path / "lake", routing_of(ddl, **changed))

    yield of


@pytest.mark.long
def test_each_row_is_compared_by_the_configuration_that_wrote_it(policies: Callable[..., Exported]) -> None:
    """Fields that were dropped, then kept, then declared, then a type without columns; times in numbers."""
    time = EventTime("json", "t.at", "ms")
    steps = (
        policies({"thin": "id BIGINT"}, unknown_fields="ignore", event_time=time, generation=1),
        policies({"thin": "id BIGINT"}, event_time=time, generation=2),
        policies({"thin": "id BIGINT, a STRING, t STRUCT<at: BIGINT>"}, event_time=time, generation=3),
        policies({}, new_type="table", event_time=time, generation=4),
    )
    for number, lake in enumerate(steps):
        lake.export()
        value = {"type": "thin", "t": {"at": KAFKA_MS - number}, "id": number, "a": "x", "b": {"c": number}}
        produce(lake.kafka, lake.topic, {0: [Record(b"k", json.dumps(value).encode(), (), KAFKA_MS)]})
        lake.export()
        assert whole(lake).contents == number + 1
    lake.sql("UPDATE {t} SET a = 'y' WHERE id = 2", t="thin")
    whole(lake, different=1)
    lake.sql("UPDATE {t} SET _rescued = NULL WHERE id IS NULL", t="thin")
    whole(lake, different=2)
