"""`_rescued` of real exports: it is not null where there is a value that no column holds, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.derive.jobs import jobs_of
from exporter.lake.lake import Lake
from exporter.operate.dead_letters.listing import Chosen
from exporter.operate.dead_letters.replay import Replay
from tests.support import naive
from tests.support.documents import differences, documents
from tests.support.envelope_samples import POSTGRES, UNAVAILABLE, changed, text
from tests.support.lakes import NOON, Export, Exports, messages, millis
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

AT = "2026-01-31T12:00:00Z"
EMPTY: tuple[dict[str, Any], ...] = (
    {}, {"milestone": None}, {"labels": [], "assignee": None}, {"org": {"plan": {}, "seats": [None, {}]}},
    {"actor": {"login": "u", "bio": None}}, {"links": [{"href": "h", "rel": []}, {"href": "i"}]},
)  # fmt: skip
"""What no column holds of these is empty."""
FULL: tuple[dict[str, Any], ...] = (
    {"milestone": ""}, {"labels": [], "draft": False}, {"org": {"plan": {}, "seats": [None, 0]}},
    {"actor": {"login": "u", "bio": "null"}}, {"links": [{"href": "h", "rel": []}, {"href": "i", "size": 1.50}]},
)  # fmt: skip
COLUMNS = "id BIGINT, actor STRUCT<login: STRING>, links ARRAY<STRUCT<href: STRING>>"
WHERE = {"actor": "login", "links": "href"}


def hook(number: int, kind: str = "hook", **fields: Any) -> Record:
    value = {"type": kind, "at": AT, "id": number, **fields}
    return Record(kind.encode(), json.dumps(value).encode(), timestamp_ms=millis(NOON))


def whole(fields: dict[str, Any]) -> Any:
    """What no column holds of a record with these fields, as `_rescued` has all of it; None if there is none."""
    rest: dict[str, Any] = {}
    for name, value in fields.items():
        parts = value if isinstance(value, list) else [value]
        if name not in WHERE:
            rest[name] = value
        elif any(len(part) > 1 for part in parts):
            left = [{key: one for key, one in part.items() if key != WHERE[name]} or None for part in parts]
            rest[name] = left if isinstance(value, list) else left[0]
    return rest or None


def rescued(e: Export, kind: str = "hook") -> list[Any]:
    return [None if row["_rescued"] is None else json.loads(row["_rescued"]) for row in e.rows(kind)]


def is_whole(e: Export, spark: Any) -> None:
    """Every record once, and each document by two readers."""
    e.proven(spark)
    sent = {(m.topic(), m.partition(), m.offset()): (m.key(), m.value()) for m in messages(e.kafka, e.topic)}
    for name in (one for one in e.tables() if one != DEAD_LETTERS):
        mine = {at: value for at, (key, value) in sent.items() if key == name.encode()}
        assert differences(documents(e.table(name)), mine, ("$.type", "$.at")) == []


def test_whoever_asks_for_rescued_rows_finds_values_alone(exports: Exports, spark: Any) -> None:
    """Also in a lake that has rows of before; a replay goes by the settings of its day. Nothing is switched or drained
    for it, documents are whole to both readers, and a row that lacks a value is found."""
    fields = [*EMPTY, *FULL]
    e = exports(types={"hook": COLUMNS})
    e.send({0: [hook(number, **one) for number, one in enumerate(fields)]})
    before = e.with_(rescue_empty=True).run(spark)
    assert rescued(e) == [*map(whole, fields)] and before.totals.counts["rescued"] == len(fields) - 1
    e.send({0: [hook(number, kind, **one) for number, one in enumerate(fields)
                                 for kind in ("hook", "late")]})  # fmt: skip
    after = e.run(spark)
    asked = e.table("hook").to_pyarrow_dataset().to_table(columns=["_kafka", "_rescued"])
    found = [row for row in asked.to_pylist() if row["_rescued"] is not None]
    new = [row for row in found if row["_kafka"]["offset"] >= len(fields)]
    assert [json.loads(row["_rescued"]) for row in new] == [*map(whole, FULL)]
    assert after.totals.counts["rescued"] == len(new) == len(FULL)
    assert {epoch for epoch, _ in e.positions().values()} == {0}
    naive.assert_each_once(e)
    is_whole(e, spark)
    late = e.with_({"hook": COLUMNS, "late": COLUMNS}, rescue_empty=True)
    late.run(spark)
    with late.bench(spark) as bench:
        replayed = Replay(bench.lake, bench.routing, Chosen()).run(apply=True)
    assert sum(one.rows for one in replayed if one.name == "late") == len(fields)
    assert rescued(late, "late") == [*map(whole, fields)]
    is_whole(late, spark)
    lost = f"_kafka.offset = {new[0]['_kafka']['offset']}"
    spark.sql(f"UPDATE {late.sql_name('hook')} SET _rescued = NULL WHERE {lost}")
    assert not late.audit(spark).clean


JOB = """[derive.{name}]
kind = "mirror"
source = "public.orders"
keys = ["id"]
op = "_cdc"
"""


def changes() -> list[Record]:
    """Of a table whose columns are not all declared: nulls and empty values, values, what was not sent, and deletes."""
    plain = {"name": "n", "doc": "large", "note": None, "tags": [], "more": {"a": {}}}
    steps: list[tuple[int, str, dict[str, Any]]] = [
        (1, "c", plain), (2, "c", {**plain, "note": "x"}), (3, "c", {**plain, "name": None}), (4, "c", plain),
        (1, "u", {**plain, "doc": UNAVAILABLE}), (2, "u", {**plain, "name": "m", "doc": UNAVAILABLE}),
        (3, "u", {**plain, "note": "y", "doc": None}), (3, "u", {**plain, "doc": UNAVAILABLE}), (4, "d", plain),
        (5, "c", {"doc": {}, "note": []}), (5, "u", {"doc": UNAVAILABLE, "tags": [0]}),
    ]  # fmt: skip
    found = [({"id": key}, changed(POSTGRES, op, **{"before" if op == "d" else "after": {"id": key, **row}}))
             for key, op, row in steps]  # fmt: skip
    return [Record(text(key), text(value), timestamp_ms=millis(NOON)) for key, value in found]


def test_a_mirror_comes_to_the_same_whether_rescued_has_what_is_empty(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """All columns of all keys, half by half, with what a change did not send; both audits are clean."""
    name, mirrors, told = topic(), {}, set[str]()
    exports = [
        Export(
            kafka, name, tmp_path / str(kept), fresh_name("app"), types={"public.orders": "id BIGINT, name STRING"},
            scalars={"rescue_empty": kept, "evolve": "add"}, event_time='kind = "record"',
            type_from='kind = "source"', more=JOB.format(name="orders"),
            value_format='kind = "json"\nenvelope = "debezium"\ntombstones = "count"',
        )
        for kept in (False, True)
    ]
    for part in (changes()[:6], changes()[6:]):
        produce(kafka, name, {0: part})
        for e in exports:
            e.root.mkdir(exist_ok=True)
            e.run(spark)
            settings = e.settings()
            (job,) = jobs_of(settings, Lake(spark, settings.store, settings.app))
            job.run()
            held = deltalake.DeltaTable(str(e.root / "lake" / "_derived.tables" / "orders")).to_pyarrow_table()
            mirrors[e.root.name] = {row["id"]: row for row in held.to_pylist()}
        fewer, all_of_it = mirrors["False"], mirrors["True"]
        assert fewer.keys() == all_of_it.keys()
        for key, row in fewer.items():
            other = all_of_it[key]
            apart = {one for one in row.keys() | other.keys() if row[one] != other[one]}
            assert not apart or row["_rescued"] is None
            told |= apart
    assert told == {"_rescued"}
    assert fewer[1]["doc"] == fewer[2]["doc"] == "large" and fewer[3]["doc"] is None and fewer[4]["_deleted"]
    for e in exports:
        (job,) = jobs_of(e.settings(), Lake(spark, e.settings().store, e.settings().app))
        assert [line for line in job.audit() if not line.clean] == []
        e.proven(spark)
