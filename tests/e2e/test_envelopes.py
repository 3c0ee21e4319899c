"""Changes of four kinds of sources through one exporter: rows with `_cdc` for readers not of ours, and dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from tests.support.envelope_samples import (
    AT_MS,
    DAY,
    MYSQL,
    POSTGRES,
    UNAVAILABLE,
    changed,
    dms,
    dms_control,
    envelope_schema,
    message,
    mongo,
    partial,
    text,
    with_schema,
)
from tests.support.lakes import NOON, Export, Exports, millis
from tests.support.read_back import READERS
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OLD, NEW = {"id": 7, "name": "old"}, {"id": 7, "name": "new"}
OID = "5f50d2c2e1d2a1b6a1b6a1b6"
COLUMNS = "id BIGINT, name STRING, d DATE, at TIMESTAMP, price DECIMAL(10,2), doc STRING"


def of_mysql() -> list[Any]:
    """Each op, without schemas; a tombstone behind the delete."""
    return [
        changed(MYSQL, "r", after=OLD), changed(MYSQL, "c", after={**OLD, "d": DAY}),
        changed(MYSQL, "u", before=OLD, after={**NEW, "more": [1]}), changed(MYSQL, "d", before=NEW), None,
        changed(MYSQL, "t"), {"ts_ms": AT_MS}, changed(MYSQL, "c", after={"id": 1, "at": AT_MS}),
    ]  # fmt: skip


def of_postgres() -> list[Any]:
    """Each op, with schemas."""
    row = {**NEW, "d": DAY, "at": AT_MS * 1000 + 5, "price": "BNI=", "doc": UNAVAILABLE}
    changes = [changed(POSTGRES, "c", after=row), changed(POSTGRES, "u", after=row), message(),
               changed(POSTGRES, "d", before={"id": 7})]  # fmt: skip
    return [with_schema(change, envelope_schema()) for change in changes]


def of_mongo() -> list[Any]:
    """Each op, in the capture modes with images and without."""
    document = {"_id": {"$oid": OID}, "n": {"$numberLong": "5"}, "at": {"$date": AT_MS}}
    changes = [mongo("c", document), mongo("u", document, **partial({})), mongo("u", **partial({"n": 6})), mongo("d"),
               mongo("d", None, document)]  # fmt: skip
    return [{**change, "source": {**change["source"], "db": "docs"}} for change in changes]


def of_dms() -> list[Any]:
    """Each operation, and a control record."""
    changes = [dms("load", OLD), dms("insert", OLD), dms("update", NEW), dms("delete", NEW), dms_control("drop-table")]
    return [{**change, "metadata": {**change["metadata"], "schema-name": "crm"}} for change in changes]


def records(changes: Sequence[Any]) -> list[Record]:
    values = [None if change is None else text(change) for change in changes]
    return [Record(b'{"id":7}', value, timestamp_ms=millis(NOON)) for value in values]


@pytest.fixture
def exported(kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any) -> Export:
    """All of it, each source in its topic, by one task."""
    topics = {name: topic() for name in ("mysql", "postgres", "mongo", "dms")}
    formats = [
        'kind = "json"', 'envelope = "debezium"', 'semantic_types = "connect"', 'tombstones = "count"',
        f'[topic_formats."{topics["postgres"]}"]', 'kind = "connect_json"', 'envelope = "debezium"',
        'semantic_types = "connect"',
        f'[topic_formats."{topics["mongo"]}"]', 'kind = "json"', 'envelope = "debezium_mongo"',
        f'[topic_formats."{topics["dms"]}"]', 'kind = "json"', 'envelope = "dms"',
    ]  # fmt: skip
    e = Export(
        kafka,
        topics["mysql"],
        tmp_path,
        fresh_name("app"),
        types={
            "shop.orders": COLUMNS,
            "public.orders": COLUMNS,
            "docs.orders": "_id STRING, n BIGINT, at TIMESTAMP",
            "crm.orders": "id BIGINT NOT NULL, name STRING",
        },
        scalars={"topics": list(topics.values())},
        event_time='kind = "record"',
        type_from='kind = "source"',
        value_format="\n".join(formats),
    )
    for name, changes in (("mysql", of_mysql), ("postgres", of_postgres), ("mongo", of_mongo), ("dms", of_dms)):
        produce(kafka, topics[name], {0: records(changes())})
    e.run(spark)
    return e


def changes_of(op: str, source: str, pos: str | None, ts: Any = NOON) -> dict[str, Any]:
    """What `_cdc` has."""
    return {"op": op, "ts": ts, "source": source, "key": '{"id":7}', "pos": pos}


def test_each_change_of_each_source_is_a_row_or_a_dead_letter(exported: Export, spark: Any) -> None:
    """Rows as they were after a change, or before it; read by Spark, delta-rs and DuckDB alike."""
    e = exported
    none = dict.fromkeys(("id", "name", "d", "at", "price", "doc", "_rescued"))
    at = "mysql-bin.000003:484:0"
    day, moment = date(2026, 1, 31), NOON.replace(microsecond=5)
    hidden = json.dumps({"doc": UNAVAILABLE}, separators=(",", ":"))
    whole = {**NEW, "d": day, "at": moment, "price": Decimal("12.34"), "_rescued": hidden}
    oid = {"_id": OID, "n": 5, "at": NOON}
    loaded = NOON + timedelta(seconds=1.5)
    dms_at = "mysql-bin-changelog.000003.484.0.31:12884904641:2"
    wanted = {
        "shop.orders": [
            {**none, **OLD, "_cdc": changes_of("R", "shop.orders", at)},
            {**none, **OLD, "d": day, "_cdc": changes_of("I", "shop.orders", at)},
            {**none, **NEW, "_rescued": '{"more":[1]}', "_cdc": changes_of("U", "shop.orders", at)},
            {**none, **NEW, "_cdc": changes_of("D", "shop.orders", at)},
        ],
        "public.orders": [
            {**none, **whole, "_cdc": changes_of("I", "public.orders", "24023128")},
            {**none, **whole, "_cdc": changes_of("U", "public.orders", "24023128")},
            {**none, "id": 7, "_cdc": changes_of("D", "public.orders", "24023128")},
        ],
        "docs.orders": [
            {**oid, "_cdc": changes_of("I", "docs.orders", f"{AT_MS}:31")},
            {**oid, "_cdc": changes_of("U", "docs.orders", f"{AT_MS}:31")},
            {**dict.fromkeys(oid), "_cdc": changes_of("D", "docs.orders", f"{AT_MS}:31")},
            {**oid, "_cdc": changes_of("D", "docs.orders", f"{AT_MS}:31")},
        ],
        "crm.orders": [
            {**OLD, "_cdc": changes_of("R", "crm.orders", None, loaded)},
            {**OLD, "_cdc": changes_of("I", "crm.orders", dms_at)},
            {**NEW, "_cdc": changes_of("U", "crm.orders", dms_at)},
            {**NEW, "_cdc": changes_of("D", "crm.orders", dms_at)},
        ],
    }
    for name, rows in wanted.items():
        for reader, read in READERS.items():
            assert read(spark, e, name, [*rows[0]]) == rows, (name, reader)
    frame = spark.read.format("delta").load(str(e.folder(DEAD_LETTERS)))
    codes = [row.reason.partition(":")[0] for row in frame.orderBy("_kafka.topic", "_kafka.offset").collect()]
    assert sorted(codes) == sorted(["cdc_truncate", "no_envelope", "unknown_unit", "cdc_message", "partial_update",
                                    "cdc_control"])  # fmt: skip
    report = e.proven(spark)
    assert (report.contents, report.contents_skipped) == (sum(map(len, wanted.values())), 0)
    cells = {"shop.orders": "_cdc.op = 'X'", "public.orders": "_cdc.pos = NULL", "docs.orders": "n = 6",
             "crm.orders": "_cdc.ts = _cdc.ts + INTERVAL 1 MICROSECOND"}  # fmt: skip
    for name, cell in cells.items():
        spark.sql(f"UPDATE delta.`{e.folder(name)}` SET {cell} WHERE _cdc.op = 'U'")
    report = e.audit(spark)
    paths = {one.table: one.path for one in report.differing}
    assert report.findings == 4, report.as_text()
    assert paths == {"shop.orders": "$._cdc.op", "public.orders": "$._cdc.pos", "docs.orders": "$.n",
                     "crm.orders": "$._cdc.ts"}  # fmt: skip


def test_tables_of_sources_that_nobody_declared_grow(exports: Exports, spark: Any) -> None:
    """Each source gets its table, with `_cdc` and the columns that its rows have."""
    e = exports(
        types={"other": "id BIGINT"}, new_type="table", evolve="add",
        event_time='kind = "field"\npath = "source.ts_ms"\nunit = "ms"', type_from='kind = "source"',
        value_format='envelope = "debezium"\ntombstones = "count"',
    )  # fmt: skip
    e.send({0: records([changed(MYSQL, "c", after=OLD), changed(POSTGRES, "c", after={"id": 1})])})
    e.run(spark)
    wider = {**NEW, "price": 1.5, "name": UNAVAILABLE}
    e.send({0: records([changed(MYSQL, "u", after=wider), changed(MYSQL, "d", before=OLD), None])})
    e.run(spark)
    assert e.tables() == sorted([DEAD_LETTERS, "other", "public.orders", "shop.orders"])
    names = ["id", "name", "price", "_rescued", "_event_time"]
    rows = [(row["id"], row["name"], row["price"], row["_cdc"]["op"], row["_event_time"])
            for row in READERS["Spark"](spark, e, "shop.orders", [*names, "_cdc"])]  # fmt: skip
    assert rows == [(7, "old", None, "I", NOON), (7, None, 1.5, "U", NOON), (7, "old", None, "D", NOON)]
    kept = [row["_rescued"] for row in READERS["QueryBuilder"](spark, e, "shop.orders", names)]
    assert kept == [None, f'{{"name":"{UNAVAILABLE}"}}', None]
    assert [row["_cdc"]["source"] for row in e.rows("public.orders")] == ["public.orders"]
    assert e.rows(DEAD_LETTERS) == []
