"""Mirrors of real exports: changes of databases end in the rows that the database has; the handbook's page runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pytest

from exporter.derive.jobs import jobs_of
from exporter.lake.lake import Lake
from tests.support.envelope_samples import (
    DAY,
    MYSQL,
    NOT_SENT,
    POSTGRES,
    UNAVAILABLE,
    VALUES,
    changed,
    dms,
    envelope_schema,
    mongo,
    text,
    with_schema,
)
from tests.support.lakes import NOON, Export, millis
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PAGE = Path(__file__).parents[2] / "deploy" / "handbook" / "derive-mirror.md"
COLUMNS = "id BIGINT, name STRING, d DATE, price DECIMAL(10,2), doc STRING"
JOBS = """[derive.mysql]
kind = "mirror"
source = "shop.orders"
keys = ["id"]
op = "_cdc"
[derive.large]
kind = "mirror"
source = "large.orders"
keys = ["id"]
op = "_cdc"
[derive.postgres]
kind = "mirror"
source = "public.orders"
keys = ["id"]
op = "_cdc"
[derive.mongo]
kind = "mirror"
source = "docs.orders"
keys = ["_cdc.key"]
op = "_cdc"
[derive.dms]
kind = "mirror"
source = "crm.orders"
keys = ["id"]
order = ["_cdc.ts"]
op = "_cdc"
"""
Change = tuple[Any, Any]
"""The record's key and value."""


def row(number: int, name: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, **more}


def of_mysql() -> list[Change]:
    """Read, inserted, updated, deleted, inserted again; a primary key that changes is a delete and an insert."""
    steps = [
        (1, changed(MYSQL, "r", after=row(1, "old"))), (2, changed(MYSQL, "c", after=row(2, "two", d=DAY))),
        (1, changed(MYSQL, "u", before=row(1, "old"), after=row(1, "new"))),
        (2, changed(MYSQL, "d", before=row(2, "two"))), (2, None), (2, changed(MYSQL, "c", after=row(2, "again"))),
        (3, changed(MYSQL, "c", after=row(3, "moves"))), (3, changed(MYSQL, "d", before=row(3, "moves"))), (3, None),
        (4, changed(MYSQL, "c", after=row(4, "moves"))),
    ]  # fmt: skip
    return [({"id": key}, value) for key, value in steps]


def of_postgres() -> list[Change]:
    """With schemas; a large value is not sent again where it did not change, and a delete has its key alone."""
    steps = [
        (1, changed(POSTGRES, "c", after=row(1, "old", d=DAY, price="BNI=", doc="large"))),
        (1, changed(POSTGRES, "u", after=row(1, "new", d=DAY, price="BNI=", doc=UNAVAILABLE))),
        (2, changed(POSTGRES, "c", after=row(2, "two", doc="x"))), (2, changed(POSTGRES, "d", before={"id": 2})),
        (3, changed(POSTGRES, "c", after=row(3, "three", doc="x"))),
        (3, changed(POSTGRES, "u", after=row(3, "three", doc=None))),
    ]  # fmt: skip
    return [({"id": key}, with_schema(value, envelope_schema())) for key, value in steps]


LARGE = {
    f"c{at}": kind
    for at, (name, (kind, _)) in enumerate(NOT_SENT.items())
    if name in ("int[]", "bigint[]", "uuid[]", "double[]", "boolean[]", "hstore as json", "geometry")
}
"""Columns of types that large values may have."""


def of_large() -> list[Change]:
    """Of each type of column a value, and an update that does not send it again."""
    source = {**POSTGRES, "version": "3.7.0.Final", "schema": "large"}
    sent = {f"c{at}": sample for at, sample in enumerate(VALUES.values())}
    unsent = {f"c{at}": sample for at, (_, sample) in enumerate(NOT_SENT.values())}
    return [({"id": 1}, changed(source, op, after=row(1, name, **{one: values[one] for one in LARGE})))
            for op, name, values in (("c", "old", sent), ("u", "new", unsent))]  # fmt: skip


def of_mongo() -> list[Change]:
    """Documents; a delete has no image, so its record's key alone tells which."""
    steps = [("a", "c", {"n": {"$numberLong": "5"}}), ("b", "c", {"n": 1}), ("a", "u", {"n": 6}), ("b", "d", None)]
    found = []
    for key, op, document in steps:
        value = mongo(op, None if document is None else {"_id": key, **document})
        found.append(({"id": key}, {**value, "source": {**value["source"], "db": "docs"}}))
    return found


def of_dms() -> list[Change]:
    """Each at a time of its own; a primary key that changes is an update with an image of before."""
    steps: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("load", row(1, "old"), {}), ("insert", row(2, "two"), {}), ("update", row(1, "new"), {"id": 1}),
        ("delete", row(2, "two"), {}), ("insert", row(4, "stays"), {}), ("update", row(3, "new"), {"id": 1}),
    ]  # fmt: skip
    found = []
    for second, (operation, data, before) in enumerate(steps):
        value = {**dms(operation, data), **({"before-image": before} if before else {})}
        at = f"2026-01-31T12:00:0{second}.000000Z"
        stamps = {name: at for name in ("timestamp", "commit-timestamp") if name in value["metadata"]}
        found.append(({"id": data["id"]}, {**value, "metadata": {**value["metadata"], **stamps, "schema-name": "crm"}}))
    return found


def records(changes: Sequence[Change]) -> list[Record]:
    return [
        Record(text(key), None if value is None else text(value), timestamp_ms=millis(NOON)) for key, value in changes
    ]


def mirror_of(e: Export, job: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows that are not deleted, sorted."""
    table = deltalake.DeltaTable(str(e.root / "lake" / "_derived.tables" / job)).to_pyarrow_table()
    rows = [one for one in table.to_pylist() if not one["_deleted"]]
    return sorted(tuple(one[name] for name in columns) for one in rows)


def test_changes_of_databases_end_in_the_rows_that_they_have(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """Half of them in a first run, the rest in a second one; each mirror's audit is clean. What an update did not send
    stays as it was, of each type of column. At the end a table is emptied."""
    histories = {"mysql": of_mysql(), "postgres": of_postgres(), "mongo": of_mongo(), "dms": of_dms()}
    topics = {name: topic() for name in histories}
    formats = [
        'kind = "json"', 'envelope = "debezium"', 'semantic_types = "connect"', 'tombstones = "count"',
        f'[topic_formats."{topics["postgres"]}"]', 'kind = "connect_json"', 'envelope = "debezium"',
        'semantic_types = "connect"',
        f'[topic_formats."{topics["mongo"]}"]', 'kind = "json"', 'envelope = "debezium_mongo"',
        f'[topic_formats."{topics["dms"]}"]', 'kind = "json"', 'envelope = "dms"', 'before = ["id"]',
    ]  # fmt: skip
    large = ", ".join(f"{name} {kind}" for name, kind in LARGE.items())
    types = {"shop.orders": COLUMNS, "large.orders": f"id BIGINT, name STRING, {large}",
             "public.orders": COLUMNS, "docs.orders": "_id STRING, n BIGINT",
             "crm.orders": "id BIGINT, name STRING"}  # fmt: skip
    e = Export(
        kafka, topics["mysql"], tmp_path, fresh_name("app"), types=types, scalars={"topics": list(topics.values())},
        event_time='kind = "record"', type_from='kind = "source"', value_format="\n".join(formats), more=JOBS,
    )  # fmt: skip
    settings = e.settings()
    jobs = jobs_of(settings, Lake(spark, settings.store, settings.app))
    for half in (0, 1):
        for name, changes in histories.items():
            middle = len(changes) // 2
            produce(kafka, topics[name], {0: records(changes[middle:] if half else changes[:middle])})
        produce(kafka, topics["mysql"], {0: records([of_large()[half]])})
        e.run(spark)
        for job in jobs:
            assert job.run().version == half
    assert [line for job in jobs for line in job.audit() if not line.clean] == []
    assert mirror_of(e, "mysql", "id", "name", "d") == [(1, "new", None), (2, "again", None), (4, "moves", None)]
    assert mirror_of(e, "postgres", "id", "name", "d", "price", "doc") == [
        (1, "new", date(2026, 1, 31), Decimal("12.34"), "large"), (3, "three", None, None, None)
    ]  # fmt: skip
    emptied = [changed(POSTGRES, "t"), changed(POSTGRES, "c", after=row(9, "nine"))]
    values = [with_schema(one, envelope_schema()) for one in emptied]
    produce(kafka, topics["postgres"], {0: records([(None, values[0]), ({"id": 9}, values[1])])})
    e.run(spark)
    (job,) = [one for one in jobs if one.name == "postgres"]
    assert "older than the truncate of 2026-01-31T12:00:00Z" in job.run().says
    assert [line for line in job.audit() if not line.clean] == []
    assert mirror_of(e, "postgres", "id", "name") == [(9, "nine")]
    assert mirror_of(e, "mongo", "_id", "n") == [("a", 6)]
    assert mirror_of(e, "dms", "id", "name") == [(3, "new"), (4, "stays")]
    (exported, _), (_, held) = e.rows("large.orders"), mirror_of(e, "large", "name", "_kafka")[0]
    assert held["offset"] > exported["_kafka"]["offset"]
    assert mirror_of(e, "large", "name", *LARGE) == [("new", *(exported[name] for name in LARGE))]
    assert None not in [exported[name] for name in LARGE]


@dataclass(frozen=True)
class AsWritten(Export):
    """The settings of a page, but for where brokers and tables are."""

    page: str = ""

    def write(self) -> Path:
        path = self.root / "exporter.toml"
        path.write_text(self.page)
        return path


def test_the_page_of_mirrors_runs_as_it_is_written(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """Its settings, and its views for Spark and DuckDB."""
    (settings,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(settings.splitlines()) <= 15
    name, root = topic(), f"file://{tmp_path / 'lake'}"
    page = settings.replace("localhost:9092", kafka).replace("shop.customers", name)
    app = fresh_name("app")
    page = page.replace("file:///var/lib/exporter/tables", root).replace('"exporter"', json.dumps(app))
    e = AsWritten(kafka, name, tmp_path, app, page=page)
    source = {**POSTGRES, "table": "customers"}
    changes = [changed(source, "c", after={"id": n, "name": f"n{n}", "city": "Rome"}) for n in range(3)]
    changes.append(changed(source, "u", after={"id": 1, "name": "n1", "city": "Oslo"}))
    changes.append(changed(source, "d", before={"id": 2}))
    produce(kafka, name, {0: records([({"id": 1}, change) for change in changes])})
    e.run(spark)
    (job,) = jobs_of(e.settings(), Lake(spark, e.settings().store, e.settings().app))
    job.run()
    (views,) = re.findall(r"```sql\n(.*?)```", page_text(root), re.DOTALL)
    of_spark, of_duckdb = (view.partition(" AS ")[2] for view in views.split("CREATE VIEW customers")[1:])
    expected = [(0, "n0", "Rome"), (1, "n1", "Oslo")]
    shown = spark.sql(of_spark.partition(";")[0]).select("id", "name", "city").collect()
    assert sorted(map(tuple, shown)) == expected
    mirror = deltalake.DeltaTable(f"{tmp_path}/lake/_derived.tables/customers").to_pyarrow_dataset()
    query = re.sub(r"delta_scan\('[^']*'\)", "mirror", of_duckdb.partition(";")[0])
    connection = duckdb.connect()
    connection.register("mirror", mirror)
    assert sorted(connection.sql(query).project("id, name, city").fetchall()) == expected


def page_text(root: str) -> str:
    return PAGE.read_text().replace("file:///var/lib/exporter/tables", root)
