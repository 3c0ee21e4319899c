"""Settings that declare wider columns: the tables are widened at the switch, what was too large is replayed."""

from __future__ import annotations

import struct
from collections import defaultdict
from datetime import datetime
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError, FoundProblem
from exporter.operate.check.check import check_tables
from exporter.operate.dead_letters.replay import Replay
from exporter.operate.start_plan import start_plan
from tests.support.lakes import Export, Exports, crashed_after, event, struck
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OLD = {
    "click": "id BIGINT, page STRING",
    "order": "id INT, price FLOAT, on DATE, s STRUCT<qty: ARRAY<INT>>",
}
NEW = {**OLD, "order": "id BIGINT, price DOUBLE, on TIMESTAMP_NTZ, s STRUCT<qty: ARRAY<BIGINT>>"}
LARGE = 2**31
SIX_TENTHS = struct.unpack("f", struct.pack("f", 0.6))[0]
"""As a FLOAT holds it."""


def order(number: int, **fields: Any) -> Record:
    """Fits the old types unless its fields say otherwise."""
    return event("order", number, **{"price": number / 10, "on": "2026-01-30", "s": {"qty": [number]}, **fields})


def wide(number: int) -> Record:
    return order(number, id=LARGE + number, on="2026-01-30T01:02:03", s={"qty": [LARGE]})


def mixed(count: int, first: int = 0) -> list[Record]:
    """Orders and clicks in turn, whose ids are their offsets."""
    made = (order, lambda number: event("click", number))
    return [made[number % 2](number) for number in range(first, first + count)]


@pytest.fixture
def export(exports: Exports) -> Export:
    """Two partitions, the narrow types."""
    return exports(2, types=OLD)


def rows(e: Export, spark: Any, name: str) -> list[dict[str, Any]]:
    """As Spark reads them: delta-rs refuses a table with widened columns."""
    frame = spark.read.format("delta").load(str(e.folder(name)))
    found = [row.asDict(recursive=True) for row in frame.collect()]
    return sorted(found, key=lambda row: (row["_kafka"]["partition"], row["_kafka"]["offset"]))


def placed(e: Export, spark: Any) -> dict[tuple[int, int], list[str]]:
    """(partition, offset) -> every table that holds it, once per row."""
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in e.tables():
        for row in rows(e, spark, name):
            found[row["_kafka"]["partition"], row["_kafka"]["offset"]].append(name)
    return dict(found)


def replayed(e: Export, spark: Any) -> dict[tuple[str, str], int]:
    with e.bench(spark) as bench:
        return {(row.outcome, row.name): row.rows for row in Replay(bench.lake, bench.routing).run(apply=True)}


def test_a_wider_column_takes_what_was_too_large_and_what_was_replayed(export: Export, spark: Any) -> None:
    """Refused without the setting; with it old rows read as they were, and both configurations audit clean."""
    export.send({0: [*mixed(20), order(20, id=LARGE), order(21, s={"qty": [LARGE]})]})
    export.run(spark)
    assert [row["reason"].split(":")[0] for row in export.rows(DEAD_LETTERS)] == ["out_of_range"] * 2
    refused, wider = export.with_(NEW), export.with_(NEW, type_widening=True)
    before = export.positions()
    with pytest.raises(ConfigError, match="column id is integer in the table and long in the settings") as told:
        refused.run(spark)
    assert "`type_widening = true`" in str(told.value) and "delta-rs 1.6" in str(told.value)
    assert export.positions() == before
    with wider.bench(spark) as bench:
        steps = start_plan(bench, wider.settings()).partitions[0].steps
    assert "widen id from integer to long in order, which delta-rs 1.6 then refuses to read" in steps
    found = {one.what: one for one in check_tables(wider.settings(), spark)}
    assert found["table order"].level == "warn" and "widens id from integer to long, price" in found["table order"].says
    assert found["table click"].level == "ok"
    wider.run(spark)
    export.send({0: [wide(22), order(23)]})
    wider.run(spark)
    assert replayed(wider, spark) == {("fed", "order"): 2}
    audited = wider.audit(spark)
    assert (audited.clean, audited.once) == (True, 24), audited.as_text()
    assert placed(wider, spark) == {(0, at): ["click" if at < 20 and at % 2 else "order"] for at in range(24)}
    by_offset = {row["_kafka"]["offset"]: row for row in rows(wider, spark, "order")}
    told_ids = {at: row["id"] for at, row in by_offset.items()}
    assert told_ids == {at: {20: LARGE, 22: LARGE + 22}.get(at, at) for at in (*range(0, 20, 2), 20, 21, 22, 23)}
    assert (by_offset[6]["on"], by_offset[6]["price"]) == (datetime(2026, 1, 30), SIX_TENTHS)
    assert by_offset[22]["on"] == datetime(2026, 1, 30, 1, 2, 3)
    assert (by_offset[21]["s"], by_offset[4]["s"]) == ({"qty": [LARGE]}, {"qty": [4]})
    narrower = export.with_(OLD, type_widening=True, generation=1)
    with pytest.raises(ConfigError, match="column id is long in the table and integer in the settings"):
        narrower.run(spark)


@pytest.mark.long
def test_what_is_to_be_drained_under_the_old_types_goes_into_the_widened_table(export: Export, spark: Any) -> None:
    """Two tasks are given the new settings one after the other: the second finds the table widened, and behind.

    Until then its type is parked under the old settings, for its table is no longer as they declare it. The switch of
    the first one is cut off behind its seal, and goes on.
    """
    first, second = ({"assignment": "static", "partitions": f"{number}/2"} for number in (0, 1))
    export.send({0: mixed(20), 1: mixed(20)})
    export.run(spark)
    export.send({1: mixed(20, first=20)})
    with crashed_after("click"):
        export.with_(**second).run(spark)
    wider = export.with_(NEW, type_widening=True)
    with struck("after_seal:raise:2"):
        wider.with_(**first).run(spark)
    wider.with_(**first).run(spark)
    with pytest.raises(FoundProblem, match=r"table order .*column id is long in the table"):
        export.with_(**second).run(spark)
    wider.with_(**second).run(spark)
    export.send({0: [wide(20)], 1: [wide(40)]})
    wider.run(spark)
    audited = wider.audit(spark)
    assert (audited.clean, audited.once) == (True, 62), audited.as_text()
    assert {len(tables) for tables in placed(wider, spark).values()} == {1}
    assert {tables[0] for tables in placed(wider, spark).values()} == {"click", "order"}
    ids = [row["id"] for row in rows(wider, spark, "order")]
    assert ids == [*range(0, 20, 2), LARGE + 20, *range(0, 40, 2), LARGE + 40]


def test_what_is_required_is_optional_where_the_settings_say_so(export: Export, spark: Any) -> None:
    """A record without it is a dead letter, and under the new settings a row with a null, as are those replayed."""
    required = export.with_({"order": "id INT NOT NULL, s STRUCT<qty: ARRAY<INT> NOT NULL>"})
    lacking = [event("order", 0, id=None), event("order", 1, s={}), event("order", 2, s={"qty": [1]})]
    export.send({0: lacking})
    required.run(spark)
    assert [row["reason"].split(":")[0] for row in required.rows(DEAD_LETTERS)] == ["missing_field"] * 2
    optional = required.with_(force_optional=True)
    optional.run(spark)
    assert replayed(optional, spark) == {("fed", "order"): 2}
    assert [(row["id"], row["s"]) for row in optional.rows("order")] == [
        (None, None), (1, {"qty": None}), (2, {"qty": [1]})
    ]  # fmt: skip
