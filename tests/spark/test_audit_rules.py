"""The audit of rules: records that several tables take, that none takes, or that a filter takes out.

The lakes are made by the real exporter without rules. Then the dead letters record a configuration with rules, and the
tables are given by hand what it would have made; what is wrong is made by hand as well.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.shapes import Rename, Shape
from tests.spark.audit_lake import APP, Exported, assert_finds, routing_of
from tests.support.naive_rules import Plain
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("audit")]

KAFKA_MS = 1_741_608_000_000
COLUMNS = "id BIGINT, name STRING"


def sent() -> list[bytes | None]:
    """Ten of `a`, five of `b`, one of `a` that does not fit its columns; three whose type none has, two that have none,
    a tombstone."""
    names = ["a"] * 10 + ["b"] * 5
    values = [{"type": name, "id": number, "name": f"n{number}"} for number, name in enumerate(names)]
    values += [{"type": "a", "id": "no number"}, *({"type": "x", "id": n} for n in range(3)), {"id": 1}]
    made = [json.dumps({**value, "ts": "2025-03-10T10:00:00Z"}).encode() for value in values]
    return [*made, b"no json", None]


NO_NUMBER, FIRST_X, TYPELESS = 15, 16, 19
"""Offsets."""


@pytest.fixture(scope="module")
def plain(spark: Any, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The topic, exported without rules."""
    routing = routing_of(dict.fromkeys("abc", COLUMNS))
    lake = Exported(spark, kafka, fresh_name(), tmp_path_factory.mktemp("lake") / "l", routing)
    return lake.sent([Record(b"k", value, (), KAFKA_MS) for value in sent()])


def recorded(lake: Exported, root: Path, routing: Routing) -> Exported:
    """A copy whose dead letters say that it was this configuration."""
    copy = replace(lake.copy(root), routing=routing)
    text = routing.to_json().replace("\\", "\\\\").replace("'", "\\'")
    name = f"exporter.config.{lake.routing.fingerprint()}"
    lake.session.sql(f"ALTER TABLE delta.`{copy.folder(DEAD_LETTERS)}` SET TBLPROPERTIES ('{name}' = '{text}')")
    return copy


@pytest.fixture(scope="module")
def fanned(plain: Exported, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """`b` takes `a` too, and so does `c` under its other name; what none takes is counted."""
    routing = replace(
        plain.routing,
        renames=(Rename("(a)", "$1.v1"),),
        matches=(("a", r"a\.v\d"), ("b", r"b|a\.v1"), ("c", r".*\.v1")),
        unrouted="count",
    )
    lake = recorded(plain, tmp_path_factory.mktemp("fanned") / "l", routing)
    for name in "bc":
        lake.sql("INSERT INTO {t} SELECT * FROM {a}", t=name, a="a")
        copied(lake, "stage = 'decode' AND event_type = 'a'", event_type=name)
    lake.sql("DELETE FROM {t} WHERE event_type = 'x'", t=DEAD_LETTERS)
    return lake


def copied(lake: Exported, which: str, **changed: Any) -> None:
    """Add copies of dead letters."""
    from pyspark.sql import functions as sf

    folder = lake.folder(DEAD_LETTERS)
    rows = lake.session.read.format("delta").load(folder).filter(which)
    rows = rows.withColumns({name: sf.lit(value) for name, value in changed.items()})
    rows.write.format("delta").mode("append").save(folder)


def whole(lake: Exported, *offsets: int) -> None:
    """Dead letters of records as wholes, at offsets that have none."""
    folder = lake.folder(DEAD_LETTERS)
    (dead_letter,) = lake.session.read.format("delta").load(folder).filter(f"_kafka.offset = {TYPELESS}").collect()
    rows = [{**dead_letter.asDict(recursive=True), "value": sent()[offset]} for offset in offsets]
    rows = [{**row, "_kafka": {**row["_kafka"], "offset": offset}} for row, offset in zip(rows, offsets, strict=True)]
    there = lake.session.read.format("delta").load(folder)
    lake.session.createDataFrame(rows, there.schema).write.format("delta").mode("append").save(folder)


@pytest.fixture
def lake(fanned: Exported, tmp_path: Path) -> Exported:
    """A copy, to be spoilt."""
    return fanned.copy(tmp_path / "copy")


def test_a_record_is_in_each_table_that_takes_it(fanned: Exported) -> None:
    """Each of its rows, or the dead letter of its type, is expected; one that no table takes is counted."""
    report = assert_finds(fanned.report())
    assert (report.checked, report.unrouted, report.pending) == (22, 3, 0), report.as_text()
    assert (report.once, report.dead_letters) == (3 * 10 + 5 + 3 + 3, 3 + 3), report.as_text()
    assert report.contents == 35
    assert "records that no table takes 3" in report.as_text()
    assert fanned.audit().clean, "and the naive checker agrees"


def test_what_is_wrong_with_one_of_several_rows_is_found(lake: Exported) -> None:
    """Each table by itself: missing, twice, changed, where it does not belong, beside a dead letter of the whole; a
    dead letter of a type that lacks it, or that is there twice, or of a record that is counted."""
    lake.sql("DELETE FROM {t} WHERE id = 0", t="c")
    lake.sql("INSERT INTO {t} SELECT * FROM {t} WHERE id = 1", t="b")
    lake.sql("UPDATE {t} SET name = 'other' WHERE id = 2", t="c")
    lake.sql("INSERT INTO {c} SELECT * FROM {b} WHERE id = 11", c="c", b="b")
    copied(lake, "event_type = 'c'", event_type="a")
    whole(lake, 3, 12, FIRST_X)
    lake.sql("DELETE FROM {t} WHERE stage = 'decode' AND event_type = 'b'", t=DEAD_LETTERS)
    report = lake.report()
    at = f"{lake.topic}-0:"
    assert [str(one) for one in report.examples] == [
        f"missing: b {at} {NO_NUMBER}",
        f"missing: c {at} 0",
        f"twice: dead_letters {at} {NO_NUMBER} (also in dead_letters)",
        f"twice: a {at} 3 (also in dead_letters)",
        f"twice: b {at} 1 (also in b)",
        f"twice: b {at} 3, 12 (also in dead_letters)",
        f"twice: c {at} 3 (also in dead_letters)",
        f"in another table: c {at} 11 (expected in b)",
        f"in a table, but only to be counted: dead_letters {at} {FIRST_X}",
        f"different values: c {at} 2",
    ], report.as_text()
    assert report.findings == 11, report.as_text()
    assert len(lake.naive_findings()) == 11


def test_a_replay_takes_dead_letters_to_the_tables_that_they_are_of(lake: Exported) -> None:
    """While one is interrupted, that of a type stands beside its row, and that of a whole record beside those of all;
    then they are gone, and nothing is missing."""
    from pyspark.sql import functions as sf

    moved = {"c": ("id = 0", NO_NUMBER), "b": ("id = 11", 11)}
    for name, (which, offset) in moved.items():
        folder = lake.folder(name)
        rows = lake.session.read.format("delta").load(folder).filter(which)
        rows = rows.withColumn("_kafka", sf.col("_kafka").withField("offset", sf.lit(offset).cast("bigint")))
        if offset == NO_NUMBER:
            nothing = {"id": sf.lit(None).cast("bigint"), "name": sf.lit(None).cast("string")}
            rows = rows.withColumns({**nothing, "_rescued": sf.lit('{"id":"no number"}')})
        rows = lake.session.createDataFrame(rows.collect(), rows.schema)
        lake.sql(f"DELETE FROM {{t}} WHERE _kafka.offset = {offset}", t=name)
        txn = {"txnAppId": f"{APP}/replay/{lake.topic}/0/1", "txnVersion": str(offset)}
        rows.write.format("delta").options(**txn).mode("append").save(folder)
    whole(lake, 11)
    report = assert_finds(lake.report())
    assert (report.replaying, report.dead_letters, report.pending) == (2, 5, 0), report.as_text()
    lake.sql("DELETE FROM {t} WHERE event_type = 'c' OR _kafka.offset = 11", t=DEAD_LETTERS)
    report = assert_finds(lake.report())
    assert (report.replaying, report.dead_letters, report.pending) == (0, 5, 0), report.as_text()


NOT_A_CODE, FILTERED_AMOUNT, NULL_AMOUNT = 3, 5, 7


def orders() -> list[bytes]:
    """Twenty orders, of which one has a code that is no number, one is too small, and one says no amount."""
    values = []
    for n in range(20):
        amount = {FILTERED_AMOUNT: 1.5, NULL_AMOUNT: None}.get(n, n + 4.5)
        order = {"id": n, "amount": amount, "code": "x" if n == NOT_A_CODE else str(n), "mail": f"m{n}@é"}
        values.append({"type": "order", "ts": "2025-03-10T10:00:00Z", **order, "user": {"name": f"u{n}", "age": n}})
    values.append({"type": "view", "ts": "2025-03-10T10:00:00Z", "id": 4, "more": True})
    return [json.dumps(value, ensure_ascii=False).encode() for value in values]


def kept(value: dict[str, Any], message: Any) -> bool:
    return value.get("amount") is not None and value["amount"] > 3 and int(value["code"]) >= 0


def made(value: dict[str, Any], message: Any) -> dict[str, Any]:
    mail = hashlib.sha256(value["mail"].encode()).hexdigest()
    return {"mail": mail, "cents": round(value["amount"] * 100), "place": message.offset}


@pytest.fixture(scope="module")
def shaped_lake(spark: Any, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Orders with a filter, computed columns, one at a path, one that goes, and a constant; and a table of all."""
    from pyspark.sql.types import StructType

    from exporter.core.naming import decoded_schema
    from exporter.shape.columns import table_columns

    columns = {"order": "id BIGINT, amount DOUBLE, code STRING, mail STRING, who STRING", "every": "id BIGINT"}
    names = {"order": (("who", ("user.name", "name")),), "every": ()}
    said = {
        "order": {
            "where": "amount > 3 AND CAST(code AS INTEGER) >= 0",
            "computed": (("mail", "sha256(mail)"), ("cents", "CAST(round(amount * 100) AS BIGINT)"),
                         ("place", "_kafka.offset")),
            "drop": ("code",),
        },
        "every": {"where": "id % 2 = 0"},
    }  # fmt: skip
    constants = (("env", "test"),)
    shapes = {
        name: Shape(decoded_schema(StructType.fromDDL(ddl).json(), names[name]), names[name], **said[name])
        for name, ddl in columns.items()
    }
    routing = replace(
        routing_of({}),
        types=tuple(sorted((name, table_columns(name, shape, constants)) for name, shape in shapes.items())),
        shapes=tuple(sorted(shapes.items())),
        matches=(("every", ".*"),),
        constants=constants,
    )
    plain = Plain({"order": kept, "every": lambda value, _: value["id"] % 2 == 0}, {"order": made})
    lake = Exported(spark, kafka, fresh_name(), tmp_path_factory.mktemp("shaped") / "l", routing, plain=plain)
    return lake.sent([Record(b"k", value, (), KAFKA_MS) for value in orders()])


@pytest.fixture
def shaped(shaped_lake: Exported, tmp_path: Path) -> Exported:
    """A copy, to be spoilt."""
    return shaped_lake.copy(tmp_path / "copy")


def test_shaped_rows_are_audited_by_what_the_settings_say(shaped_lake: Exported) -> None:
    """Filters and computed columns are evaluated a second time, and once more by plain Python."""
    report = assert_finds(shaped_lake.report())
    assert report.filtered_by_table == {"every": 10, "order": 2}, report.as_text()
    assert (report.checked, report.once, report.dead_letters, report.pending) == (21, 11 + 18, 1, 0), report.as_text()
    assert "filtered from order 2" in report.as_text()
    assert shaped_lake.audit().clean, "and the naive checker agrees"


def test_rows_that_rules_have_made_wrongly_are_found(shaped: Exported) -> None:
    """One that a filter takes out and that stands, those that it keeps and that are missing, values of each kind."""
    at = "named_struct('topic', _kafka.topic, 'partition', 0, 'epoch', 0, 'offset', {}L, 'timestamp', _kafka.timestamp)"
    shaped.sql(f"INSERT INTO {{e}} (_kafka, id, env, _event_time, day) SELECT {at.format(1)}, 1, env, _event_time, day "
               "FROM {e} WHERE id = 0", e="every")  # fmt: skip
    shaped.sql("DELETE FROM {t} WHERE id = 2", t="every")
    shaped.sql("DELETE FROM {t} WHERE stage = 'transform'", t=DEAD_LETTERS)
    for number, change in enumerate(("cents = cents + 1", "mail = 'm8@é'", "who = 'u0'", "env = 'prod'", "place = NULL",
                                     "amount = 0", "_rescued = NULL"), 8):  # fmt: skip
        shaped.sql(f"UPDATE {{t}} SET {change} WHERE id = {number}", t="order")
    report = shaped.report()
    where = f"{shaped.topic}-0:"
    assert [str(one) for one in report.examples] == [
        f"missing: dead_letters {where} {NOT_A_CODE}",
        f"missing: every {where} 2",
        f"in a table, but only to be counted: every {where} 1",
        f"different values: order {where} 8..14",
    ], report.as_text()
    assert report.findings == 10, report.as_text()
    found = {one.record_offset: one.path for one in report.differing if one.table == "order"}
    paths = ["$.cents", "$.mail", "$.who", "$.env", "$.place", "$.amount", "$.user"]
    assert found == dict(enumerate(paths, 8))
    assert len(shaped.naive_findings()) == 9, "it does not look into `_rescued`"
