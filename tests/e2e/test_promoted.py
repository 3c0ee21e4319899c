"""A registered `int` that becomes `long`, a `float` that becomes `double`: what tables have of it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from exporter.operate.check.check import check_tables
from exporter.operate.schema.schema import table_schemas
from tests.support.fake_registry import FakeRegistry
from tests.support.lakes import NOON, Export, Exports, millis, wait_until
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

HUGE, EXACT = 2**40, 0.1


def order(whole: str, broken: str) -> dict[str, Any]:
    fields = [{"name": "id", "type": whole}, {"name": "ratio", "type": broken}]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}


FIRST, SECOND = order("int", "float"), order("long", "double")


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    with FakeRegistry() as found:
        for schema in (FIRST, SECOND):
            found.add("orders-value", json.dumps(schema))
        yield found


@pytest.fixture
def export(exports: Exports, tmp_path: Path, server: FakeRegistry) -> Callable[[bool], Export]:
    """Two partitions of Avro in Confluent's frame. widens: `type_widening`."""

    def make(widens: bool) -> Export:
        formats = ['kind = "avro"', "[schema_registry]", f'urls = ["{server.url}"]']
        return exports(
            2, root=tmp_path / fresh_name(), types={}, new_type="table", type_widening=widens,
            event_time='kind = "record"', type_from='kind = "schema"\nname = "short"', value_format="\n".join(formats),
        )  # fmt: skip

    return make


def framed(schema_id: int, **fields: Any) -> Record:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema((FIRST, SECOND)[schema_id - 1]), fields)
    return Record(b"Order", b"\0" + schema_id.to_bytes(4, "big") + body.getvalue(), timestamp_ms=millis(NOON))


def rows(e: Export, spark: Any, where: str = "true") -> list[tuple[Any, ...]]:
    """By Spark, for delta-rs reads no widened table; at a version, for a query ends with an error where a column is
    widened while it is planned."""
    reader = spark.read.format("delta").option("versionAsOf", e.log("Order")[-1].name.removesuffix(".json"))
    found = reader.load(e.uri("Order")).where(where).select("id", "ratio", "_rescued")
    return sorted((tuple(row) for row in found.collect()), key=str)


def exported(e: Export, spark: Any) -> None:
    """Some records of the first schema, committed; then both, in both partitions, and some in a start of its own."""
    e.root.mkdir(exist_ok=True)
    e.send({0: [framed(1, id=1, ratio=0.5)], 1: [framed(1, id=2, ratio=EXACT)]})
    with e.going(spark):
        wait_until(lambda: "Order" in e.tables() and len(rows(e, spark)) == 2, 60, "the first records")
        second = [framed(2, id=HUGE, ratio=EXACT), framed(1, id=3, ratio=0.25)]
        e.send({0: second, 1: [framed(1, id=4, ratio=0.5), *second]})
        wait_until(lambda: len(rows(e, spark)) == 7, 60, "those of both schemas")
    e.send({1: [framed(1, id=5, ratio=0.5), framed(2, id=HUGE + 1, ratio=EXACT)]})
    e.run(spark)


def test_with_type_widening_a_column_gets_the_wider_type_of_its_schema(
    export: Callable[[bool], Export], spark: Any
) -> None:
    """Every value is in its column, old and new, and filters find them; nothing is rescued."""
    e = export(True)
    exported(e, spark)
    found = rows(e, spark)
    assert sorted(row[0] for row in found) == [1, 2, 3, 3, 4, 5, HUGE, HUGE, HUGE + 1]
    assert {row[2] for row in found} == {None}
    assert [row[0] for row in rows(e, spark, f"ratio = {EXACT}D")] == [HUGE, HUGE, HUGE + 1]
    assert [row[0] for row in rows(e, spark, f"ratio = CAST(CAST({EXACT} AS FLOAT) AS DOUBLE)")] == [2]
    e.proven(spark)


def test_without_it_the_column_stays_and_is_said_to_be_outgrown(export: Callable[[bool], Export], spark: Any) -> None:
    """What it cannot hold is in `_rescued`, and counted."""
    e = export(False)
    exported(e, spark)
    found = rows(e, spark)
    assert sorted(str(row[0]) for row in found) == sorted(map(str, [1, 2, 3, 3, 4, 5, None, None, None]))
    assert [json.loads(row[2])["id"] for row in found if row[2] and "id" in row[2]] == [HUGE, HUGE, HUGE + 1]
    e.proven(spark)
    (told,) = table_schemas(e.lake(spark), {}, {}, ["Order"], 100)
    assert {(one.path, one.column, one.rows, one.outgrown) for one in told.rescued} == {
        ("id", "INT", 3, 3), ("ratio", "FLOAT", 3, 3)
    }  # fmt: skip
    said = [one.says for one in check_tables(e.settings(), spark) if "outgrown" in one.says]
    assert said == [
        f"column {one} is outgrown: 3 values or more are in _rescued instead" for one in ("id (INT)", "ratio (FLOAT)")
    ]
