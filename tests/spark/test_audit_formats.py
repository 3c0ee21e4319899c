"""The audit of Avro and Protobuf values: clean where all is right, and each thing that is not is found.

The lakes are made by the real exporter; what it read by vectorised decoders of its own, the audit reads by fastavro and
Google's protobuf.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, TypeFrom
from exporter.core.schemas import Decision, KnownSchemas, UnknownId
from exporter.core.value_format import ValueFormat
from exporter.registry.pins import Pins
from exporter.stores.stores import open_store
from offsets.ranges import TopicPartition
from tests.spark.audit_lake import Exported, routing_of
from tests.spark.test_audit_contents import rewrite, whole
from tests.support.services import Record, fresh_name, produce
from tests.support.shop_formats import DDL, Kind, order, texts, view

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("audit")]

KAFKA_MS = 1_741_608_000_000
GONE = 9
"""An id that the registry never had."""
NUMBERS = 7


def sent(kind: Kind) -> list[bytes | None]:
    """For each number an order, a view and an order of the later writer; then what is no good record."""
    good = [one for n in range(NUMBERS) for one in (order(kind, n), view(kind, n), order(kind, n, extra="more"))]
    bad = [b"", b"\0\0\0", b"{}", view(kind, 1)[:-1], b"\0\0\0\0\x09" + view(kind, 1)[5:], None]
    return [*good, *bad, view(kind, 1) + (b"\0" if kind == "avro" else b"\x13")]


def decided(topic: str, kind: Kind) -> KnownSchemas:
    """The texts, and that the last id is unknown through some offset."""
    found: dict[int, list[Decision]] = {number: [text] for number, text in texts(kind).items()}
    return KnownSchemas({**found, GONE: [UnknownId({TopicPartition(topic, 0): 1_000})]})


def pinned(lake: Exported) -> None:
    """What was decided of its ids is recorded beside its tables."""
    pins = Pins(open_store(str(lake.root)), "default")
    for number, decisions in lake.schemas.decisions.items():
        for one in decisions:
            pins.add(number, one)


@pytest.fixture(scope="module", params=["avro", pytest.param("protobuf", marks=pytest.mark.long)])
def exported(
    request: pytest.FixtureRequest, spark: Any, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Exported]:
    """A topic of one format, exported, and what was decided of its ids beside the tables."""
    kind, topic = cast("Kind", request.param), fresh_name()
    routing = routing_of(
        DDL[kind],
        type_from=TypeFrom("schema", "short"),
        event_time=EventTime("json", "at"),
        value_format=ValueFormat(kind, "confluent", tombstones="count"),
    )
    root = tmp_path_factory.mktemp("lake") / "l"
    lake = Exported(spark, kafka, topic, root, routing, decided(topic, kind))
    lake.sent([Record(b"k", value, (), KAFKA_MS) for value in sent(kind)])
    pinned(lake)
    yield lake


@pytest.fixture
def lake(exported: Exported, tmp_path: Path) -> Exported:
    """A copy, to be spoilt."""
    return exported.copy(tmp_path / "copy")


def test_a_clean_lake_is_clean(exported: Exported) -> None:
    """Every good record is compared whole; a tombstone is counted, and is in no table."""
    report = whole(exported)
    assert (report.once, report.contents, report.filtered) == (3 * NUMBERS + 6, 3 * NUMBERS, 1), report.as_text()
    assert (report.dead_letters, report.pending) == (6, 0)
    assert "tombstones, which are in no table 1" in report.as_text()
    assert exported.audit().clean, "and the naive checker agrees"


def test_a_record_whose_id_is_not_decided_is_pending(lake: Exported) -> None:
    """Nothing is said of it, and that nothing was compared is told."""
    shutil.rmtree(lake.root / "_schemas.pins" / "default" / "2")
    assert whole(lake).contents_skipped == NUMBERS


def test_rows_that_are_not_where_they_belong_are_found(lake: Exported) -> None:
    """A row of a type and a dead letter are missing, one is there twice, a view is among the orders, by the name of its
    schema. A changed event time is told with the event type."""
    lake.sql("DELETE FROM {t} WHERE id = 3", t="View")
    lake.sql("DELETE FROM {t} WHERE reason LIKE 'unknown_schema_id%'", t=DEAD_LETTERS)
    lake.sql("INSERT INTO {v} SELECT * FROM {v} WHERE id = 2", v="View")
    lake.sql("INSERT INTO {o} (_kafka, id, day) SELECT _kafka, id, day FROM {v} WHERE id = 4", v="View", o="Order")
    lake.sql("DELETE FROM {v} WHERE id = 4", v="View")
    lake.sql("UPDATE {t} SET _event_time = _event_time + INTERVAL 1 MICROSECOND WHERE id = 0", t="View")
    lake.finds(missing=2, twice=1, wrong_table=1, different=1)


def test_a_tombstone_that_is_only_counted_has_no_row(lake: Exported) -> None:
    """One that has one is found."""
    lake.sql(
        "INSERT INTO {v} (_kafka, id, day) SELECT named_struct('topic', _kafka.topic, 'partition', 0, 'epoch', 0, "
        f"'offset', {3 * NUMBERS + 5}L, 'timestamp', _kafka.timestamp), 99, day FROM {{v}} WHERE id = 2",
        v="View",
    )
    assert whole(lake, unfiltered=1).filtered == 0


def _set(name: str, value: Any, row: int) -> Callable[[list[dict[str, Any]]], None]:
    def change(rows: list[dict[str, Any]]) -> None:
        assert rows[row][name] != value
        rows[row][name] = value

    return change


def _more(name: str, row: int) -> Callable[[list[dict[str, Any]]], None]:
    """By one, whatever the format has there."""

    def change(rows: list[dict[str, Any]]) -> None:
        held = rows[row][name]
        rows[row][name] = held + (dt.timedelta(days=1) if isinstance(held, dt.date) else type(held)(1))

    return change


CHANGES = (
    (_set("name", "ne 1", 0), "$.name"),
    (_set("raw", b"\x01", 2), "$.raw"),
    (_set("_rescued", '{"extra":"less"}', 3), "$.extra"),
    (_set("at", dt.datetime(2025, 3, 10, 10, tzinfo=dt.timezone.utc), 4), "$.at"),
    (_set("tags", ["", "a"], 5), "$.tags[0]"),
    (_set("who", {"n": 7}, 6), "$.who.n"),
    (_set("_rescued", None, 7), "$.extra"),
    (_set("_rescued", '{"extra":"more"}', 8), "$.extra"),
    (_set("f", 0.5, 9), "$.f"),
    (_set("note", "", 10), "$.note"),
    (_more("price", 11), "$.price"),
    (_more("born", 12), "$.born"),
    (_more("id", 13), "$.id"),
)
"""What is done to the orders, one thing to a row, and where it is found. Odd rows are of the later writer."""


def test_each_value_that_is_not_the_record_s_is_found(lake: Exported) -> None:
    """With its path; one finding, whatever else has seen it too."""
    rewrite(lake, "Order", lambda rows: [change(rows) for change, _ in CHANGES])
    report = whole(lake, different=len(CHANGES))
    assert [one.path for one in sorted(report.differing, key=lambda one: one.record_offset)] == [p for _, p in CHANGES]


def test_what_an_earlier_version_decided_otherwise_is_no_finding(
    spark: Any, kafka: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A record of an epoch of a lower decoder version that this one refuses may have its row, or its dead letter, but
    must have one of them; what this version has judged itself is where it says (protocol 5.3)."""
    form = ValueFormat("avro", "confluent")
    routing = routing_of(
        DDL["avro"], type_from=TypeFrom("header", "type"), event_time=EventTime("record"), value_format=form
    )
    assert routing.decoder_version == 3
    name, good, cut = topic(), view("avro", 1), view("avro", 1)[:-1]
    lake = Exported(spark, kafka, name, tmp_path / "l", replace(routing, decoder_version=2), decided(name, "avro"))

    def taken_as_row(offset: int) -> None:
        """As if the version of then had taken the record."""
        lake.sql("DELETE FROM {d} WHERE _kafka.offset = " + str(offset), d=DEAD_LETTERS)
        kafka = f"named_struct('topic', _kafka.topic, 'partition', 0, 'epoch', _kafka.epoch, 'offset', {offset}L"
        lake.sql(
            f"INSERT INTO {{v}} (_kafka, id, day) SELECT {kafka}, 'timestamp', _kafka.timestamp), 1, day FROM {{v}} "
            f"WHERE _kafka.offset = {offset - 1}",
            v="View",
        )

    def sent(*values: bytes) -> None:
        produce(kafka, name, {0: [Record(b"k", one, [("type", b"View")], KAFKA_MS) for one in values]})
        lake.export()

    sent(good, cut, cut, cut)
    pinned(lake)
    taken_as_row(1)
    whole(lake)  # before the switch
    lake = replace(lake, routing=routing)
    sent(good, cut, cut)
    whole(lake)
    taken_as_row(5)
    lake.sql("DELETE FROM {d} WHERE _kafka.offset IN (3, 6)", d=DEAD_LETTERS)
    whole(lake, missing=2, wrong_table=1)
