"""Mirrors (protocol 9.5, NEWEST): whatever comes when, they are what a plain Python program makes of the rows."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from exporter.derive.mirror_audit_unsent import never_sent
from exporter.derive.mirror_sql import lacking_sql, merge_sql
from exporter.derive.mirror_unsent import is_unsent
from exporter.errors import ConfigError, Fenced, InvariantBroken
from exporter.lake.lake import Lake
from tests.support.envelope_samples import NOT_SENT, NUMBERS, UNAVAILABLE
from tests.support.mirrored import PAGE, Raw, applied, mirror_job, mirror_rows, path_of, raw_table, require_clean, shown

pytestmark = pytest.mark.spark


@pytest.fixture
def raw(spark: Any, tmp_path: Path) -> Raw:
    return raw_table(Lake(spark, tmp_path / "lake", "mirrored", sync=False))


def now(raw: Raw) -> dict[Any, Any]:
    """The mirror's rows."""
    return shown(mirror_rows(path_of(raw)))


def test_the_newest_row_of_each_key_wins_whatever_comes_when(raw: Raw) -> None:
    """Several rows of a key in a batch, delete then insert, another day, late rows, late patches, and no key."""
    mirror = mirror_job(raw)
    raw.append([
        {"id": 1, "at": 10, "op": "I", "a": "one", "b": 1}, {"id": 1, "at": 20, "op": "U", "a": "two", "b": 2},
        {"id": 2, "at": 10, "op": "I", "a": "x"}, {"id": 2, "at": 30, "op": "D"}, {"id": None, "at": 1, "op": "I"},
        {"id": 3, "at": 50, "op": "P", "changed": ["b"], "b": 7},
    ])  # fmt: skip
    ran = mirror.run()
    assert (ran.version, ran.rows, ran.says) == (0, 3, "left out: 1 of null key")
    raw.append([
        {"id": 1, "at": 40, "op": "D", "days": 3}, {"id": 1, "at": 50, "op": "I", "a": "again", "days": 4},
        {"id": 2, "at": 20, "op": "U", "a": "late: stays deleted"}, {"id": 4, "at": 1, "op": "odd"},
        {"id": 3, "at": 40, "op": "U", "a": "under the patch", "b": 1, "c": {"x": 5}},
        {"id": 1, "at": 45, "op": "P", "changed": ["c"], "c": {"x": 1}},
    ])  # fmt: skip
    ran = mirror.run()
    assert (ran.rows, ran.says) == (2, "left out: 1 of unknown op")
    assert now(raw) == applied(raw.rows)
    assert now(raw)[3] | {"from": 0} == {"a": "under the patch", "b": 7, "c": {"x": 5}, "at": 50, "deleted": False,
                                        "from": 0}  # fmt: skip
    assert now(raw)[2]["deleted"] and now(raw)[1]["a"] == "again"
    require_clean(mirror)
    assert mirror.run().idle
    raw.by_others(raw.lake.derived("customers")).update({"b": "8"}, predicate="id = 3")
    assert [line.says for line in mirror.audit() if not line.clean] == ['{"key0":3} differs']


def test_a_mirror_is_put_right_where_its_source_was_taken_back(raw: Raw) -> None:
    """A RESTORE is followed once it is repaired; keys that no row is left of stop it, until it is told otherwise."""
    mirror = mirror_job(raw)
    raw.append([{"id": n, "at": n, "op": "I", "a": "first"} for n in range(4)])
    mirror.run()
    before = raw.version
    raw.append([{"id": 1, "at": 9, "op": "U", "a": "second"}, {"id": 7, "at": 9, "op": "I"}])
    mirror.run()
    raw.restore(before)
    with pytest.raises(InvariantBroken, match="RESTORE") as broken:
        mirror.run()
    assert "exporter repair --rewind" in broken.value.hint
    raw.rewind({0: 4})
    assert "made anew" in mirror.run().says
    assert now(raw) == applied(raw.rows) and 7 not in now(raw)
    raw.append([{"id": 7, "at": 9, "op": "I", "a": "once more"}])
    mirror.run()
    assert now(raw) == applied(raw.rows) and now(raw)[7]["a"] == "once more"
    raw.delete(lambda row: row["id"] == 0, "id = 0")
    raw.rewind({0: 4})
    with pytest.raises(InvariantBroken, match="1 keys of the mirror"):
        mirror.run()
    assert mirror.rebuild().version is not None
    assert now(raw) == applied(raw.rows) and 0 not in now(raw)
    require_clean(mirror)


@pytest.mark.long
def test_what_cannot_be_read_any_more_leads_to_a_full_pass(raw: Raw, spark: Any) -> None:
    """The log of the source is cleaned up past the mirror's version, or the mirror was restored: all rows, and said."""
    mirror = mirror_job(raw)
    raw.append([{"id": n, "at": n, "op": "I", "a": "first"} for n in range(4)])
    made = mirror.run().version
    raw.append([{"id": 1, "at": 9, "op": "U", "a": "second"}])
    raw.append([{"id": 2, "at": 9, "op": "D"}])
    raw.clean_log()
    raw.append([{"id": 3, "at": 1, "op": "U", "a": "late"}])
    assert "all rows once more" in mirror.plan().says
    ran = mirror.run()
    assert "all rows once more" in ran.says and ran.rows == 2
    assert now(raw) == applied(raw.rows)
    spark.sql(f"RESTORE TABLE {raw.lake.derived('customers').sql_name} TO VERSION AS OF {made}")
    assert now(raw) != applied(raw.rows)
    assert "the mirror is a RESTORE" in mirror.run().says
    assert now(raw) == applied(raw.rows)
    assert mirror.run().idle


def test_a_mirror_follows_the_columns_of_its_source(raw: Raw, spark: Any) -> None:
    """New ones, also in structs, are added; another type or other keys need a rebuild, and are told so."""
    mirror = mirror_job(raw)
    raw.append([{"id": 1, "at": 1, "op": "I", "a": "x"}])
    mirror.run()
    raw.sql("ALTER TABLE {t} ADD COLUMNS (more STRING, c.y STRING)")
    raw.append([{"id": 2, "at": 1, "op": "I", "more": "m", "c": {"x": 1, "y": "y"}}])
    mirror.run()
    rows = {row["id"]: row for row in mirror_rows(path_of(raw))}
    assert (rows[1]["more"], rows[2]["more"], rows[2]["c"]) == (None, "m", {"x": 1, "y": "y"})
    other = mirror_job(raw, replace(PAGE, keys=["a"]))
    with pytest.raises(ConfigError, match="other keys") as told:
        other.run()
    assert "--rebuild" in told.value.hint
    other.rebuild()
    raw.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    raw.session.sql(f"ALTER TABLE {raw.sql_name} ALTER COLUMN c.x TYPE DECIMAL(20, 0)")
    raw.append([{"id": 2, "at": 2, "op": "I", "a": "x"}])
    with pytest.raises(ConfigError, match=r"c\.x") as told:
        other.run()
    assert "--rebuild" in told.value.hint
    other.rebuild()
    require_clean(other)
    with pytest.raises(ConfigError, match=r"no column no\.such"):
        mirror_job(raw, replace(PAGE, keys=["no.such"])).rebuild()


def test_of_two_processes_one_is_refused_and_told_by_whom(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that wakes up late adds nothing, and the table is right."""
    first, second = (mirror_job(raw, owner=name) for name in ("first", "second"))
    raw.append([{"id": 1, "at": 1, "op": "I"}])
    first.run()
    raw.append([{"id": 1, "at": 2, "op": "U", "a": "x"}])
    real = first._statements.run

    def late(*args: Any) -> int:
        second.run()
        return real(*args)

    monkeypatch.setattr(first._statements, "run", late)
    with pytest.raises(Fenced, match="by second too"):
        first.run()
    assert now(raw) == applied(raw.rows)
    assert first.run().idle


@pytest.mark.long
def test_a_range_that_is_taken_again_rewrites_nothing(raw: Raw) -> None:
    """A full pass over rows that the mirror has changes no row and no file."""
    mirror = mirror_job(raw)
    raw.append([{"id": n, "at": n, "op": "U", "a": "x"} for n in range(5)])
    mirror.run()
    raw.append([{"id": 9, "at": 1, "op": "P", "changed": ["a"], "a": "x"}])
    mirror.run()
    raw.clean_log()
    raw.append([{"id": None}])
    raw.clean_log()
    ran = mirror.run()
    assert ran.rows == 0 and ran.version is not None
    assert raw.lake.derived("customers").logged(ran.version).added == ()


@pytest.mark.long
def test_deleted_keys_stay_hidden_until_they_are_old(raw: Raw) -> None:
    """A late row does not bring one back; after the days of the settings the hidden row goes."""
    mirror = mirror_job(raw, deleted_days=7)
    raw.append([{"id": 1, "at": 5, "op": "I"}, {"id": 1, "at": 9, "op": "D"}, {"id": 2, "at": 1, "op": "I"}])
    mirror.run()
    raw.append([{"id": 1, "at": 7, "op": "U", "days": 5}, {"id": 2, "at": 2, "op": "U", "days": 6}])
    mirror.run()
    assert now(raw)[1]["deleted"]
    raw.append([{"id": 2, "at": 3, "op": "U", "days": 8}])
    assert "purged" not in mirror.run().says  # looked an hour ago at most
    mirror._purge._looked = None
    raw.append([{"id": 2, "at": 4, "op": "U", "days": 8}])
    assert "1 deleted keys purged" in mirror.run().says
    assert [*now(raw)] == [2]
    require_clean(mirror)


@pytest.mark.long
@pytest.mark.parametrize(
    ("was", "is_"),
    [
        ("WHEN MATCHED AND (", "WHEN MATCHED AND s._deleted AND s._order > t._order THEN DELETE\nWHEN MATCHED AND ("),
        ("ON ", "ON t.at = s.at AND "),
        ("s._order > t._order", "true"),
        ("s._order > t._order", "s._order >= t._order"),
    ],
    ids=["hard deletes", "a condition on what changes", "the last one wins", "equal is newer"],
)
def test_a_merge_that_is_wrong_is_found(
    raw: Raw, monkeypatch: pytest.MonkeyPatch, was: str, is_: str
) -> None:
    """By the oracle, or by what is rewritten, and by the audit where rows differ."""
    mirror = mirror_job(raw)
    raw.append([{"id": 1, "at": 10, "op": "I", "a": "one"}, {"id": 2, "at": 10, "op": "I", "a": "two"}])
    mirror.run()

    assert was in merge_sql(mirror._shape(mirror._pinned()), "mirror")
    for made in (merge_sql, lacking_sql):
        monkeypatch.setattr(
            f"exporter.derive.mirror.{made.__name__}", lambda *args, made=made: made(*args).replace(was, is_)
        )
    raw.append([{"id": 1, "at": 30, "op": "D"}])
    mirror.run()
    raw.append([{"id": 1, "at": 20, "op": "U", "a": "late"}, {"id": 2, "at": 5, "op": "U", "a": "late"}])
    again = mirror.run().rows
    wrong = [line for line in mirror.audit() if not line.clean]
    raw.clean_log()
    raw.append([{"id": None}])
    raw.clean_log()
    again += mirror.run().rows
    rows = mirror_rows(path_of(raw))
    right = len(rows) == 2 and shown(rows) == applied(raw.rows)
    assert not right or again > 0
    assert right or wrong


def test_mirrors_and_their_audit_know_what_was_not_sent_of_each_type(spark: Any) -> None:
    """As `_rescued` has it, in JSON's words and in those of binary formats: so it stays as it was. All else is a value,
    also one that no function of SQL can read."""
    sent = {name: value for name, (_, value) in NOT_SENT.items()}
    scaled = {str(scale): [Decimal(one).scaleb(-scale) for one in NUMBERS] for scale in (0, 2, 12)}
    unsent = [{"c": one} for one in sent.values()]
    unsent += [{"c": one} for one in ([float(n) for n in numbers] for numbers in scaled.values())]
    flags, digits = sent["boolean[]"], sent["numeric[] as decimals"]
    values: list[Any] = [
        "x", "", None, 95, 1e300, [], {}, [[]], [{}], [None] * 28, [0] * 28, [95] * 28, NUMBERS[:-1], [*NUMBERS, 0],
        NUMBERS[::-1], [-one for one in NUMBERS], [*NUMBERS[:-1], 1e308], [*NUMBERS[:-1], "x"], [*NUMBERS[:-1], None],
        [one + 0.25 for one in NUMBERS], flags[1:], [*flags[1:], False], digits[1:], [*digits[1:], "!"], ["Xw"] * 28,
        {"wkb": "!"}, {"wkb": "AQEA"}, {"x": "x", "y": []}, {"x": -99999999, "y": 1}, {UNAVAILABLE: "x"},
        "a " + UNAVAILABLE, [UNAVAILABLE, "x"], [{"scale": 1, "value": one} for one in digits], [0, 1], "9" * 400,
        [10**30] * 28,
    ]  # fmt: skip
    rows = [(json.dumps(one, ensure_ascii=False), True) for one in unsent]
    rows += [(json.dumps({"c": one}), False) for one in values] + [("{}", False), ("no json", False)]
    member = "from_json(_rescued, 'MAP<STRING, STRING>')['c']"
    found = spark.createDataFrame(rows, "_rescued string, unsent boolean").selectExpr(
        "*", f"{is_unsent(member)} AS mirror", f"{never_sent(member)} AS audit"
    )
    wrong = [row for row in found.collect() if not row.unsent == row.mirror == row.audit]
    assert wrong == []
