"""Columns that fields of other names fill, on a table that grows: before and after the settings say so (R50, R51)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from tests.support import naive
from tests.support.lakes import Exports, undeclared

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_a_renamed_field_goes_on_filling_its_column_and_what_is_beside_it_becomes_one(
    exports: Exports, spark: Any
) -> None:
    """A switch, after which other fields fill the same column; new ones are columns under their own names."""
    old = exports(evolve="add", types={"order": "id BIGINT, customer STRING, more STRUCT<a BIGINT>"})
    old.send({0: [
        undeclared("order", id=0, customer="a", more={"a": 1, "b": 2}),
        undeclared("order", id=1, ID=1, buyer={"name": "x"}),
    ]})  # fmt: skip
    old.run(spark)
    assert [row["buyer"] for row in old.rows("order")] == [None, {"name": "x"}]
    lines = 'case = "insensitive"\nnames = { customer = ["buyer.name", "customer"], more = "rest" }'
    new = replace(old, cuts={"order": lines})
    new.run(spark)
    old.send({0: [
        undeclared("order", ID=2, Buyer={"NAME": "b", "city": "Oslo"}),
        undeclared("order", iD=3, CUSTOMER="c", rest={"A": 3, "b": 4, "d": 5}),
        undeclared("order", id=4, Id=4),
        undeclared("order", id=5, buyer={"name": None, "Name": "x"}),
        undeclared("order", id=6, more="nobody's", buyer={"name": "e"}, customer="f"),
    ]})  # fmt: skip
    new.run(spark)
    rows = sorted(new.rows("order"), key=lambda row: row["_kafka"]["offset"])
    assert [row["customer"] for row in rows] == ["a", None, "b", "c", "e"]
    assert [row["id"] for row in rows] == [0, 1, 2, 3, 6]
    assert [row["more"] for row in rows] == [
        {"a": 1, "b": 2, "d": None}, None, None, {"a": 3, "b": 4, "d": 5}, None,
    ]  # fmt: skip
    assert [(row["buyer"] or {}).get("city") for row in rows] == [None, None, "Oslo", None, None]
    assert [row["_rescued"] for row in rows] == [None, '{"ID":1}', None, None, '{"more":"nobody\'s"}']
    assert new.columns("order").keys() == {"id", "customer", "more", "type", "at", "buyer"}
    assert [row["reason"] for row in new.rows(DEAD_LETTERS)] == [
        "ambiguous_field: $.id is filled by 'id' and 'Id'",
        "ambiguous_field: $.buyer.name is filled by 'name' and 'Name'",
    ]
    assert not naive.findings(new)
