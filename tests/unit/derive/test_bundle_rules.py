"""What the settings of bundles ask for."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.derive.bundles.rules import rules_of, sources_of
from exporter.settings.derive_bundles import BundlesTable

INPUTS = {"o": {"source": "order", "transaction": "id", "done": "last"}, "m": {"source": "menu", "transaction": "id"}}


def table(**more: Any) -> BundlesTable:
    return BundlesTable.model_validate({"kind": "bundles", **more})


@pytest.mark.parametrize(
    ("complete", "sql"),
    [("any", "bool_or(done)"), ("all", "bool_and(done)"), (3, "count(*) >= 3"), ("max(o.n) > 1", "max(o.n) > 1")],
)
def test_what_completes_a_transaction_is_sql_over_its_members(complete: str | int, sql: str) -> None:
    """By a word, by a number, or as it is; a condition's own columns are read only where it names them."""
    (rule,) = rules_of(table(inputs=INPUTS, outputs={"x": "SELECT 1"}, complete=complete))
    assert rule.complete == sql
    assert [rule.asks_for(one) for one in rule.inputs] == [sql == "max(o.n) > 1", False]


def test_a_rule_of_one_input_takes_each_row_on_its_own() -> None:
    """Its transaction is the row, which is done at once."""
    (rule,) = rules_of(table(shape={"paid": {"input": "order", "where": "op = 'u'", "select": "id", "output": "all"}}))
    assert (rule.complete, rule.expire_secs) == ("true", None)
    assert rule.inputs[0].transaction.startswith("CASE WHEN op = 'u' THEN concat_ws('/', 'paid', ")
    assert rule.outputs == (("all", "SELECT _transaction, id FROM `paid` AS `input`"),)


@pytest.mark.parametrize(("join", "rescue"), [("inner", "false"), ("left", "count_if(input = 'r_left') > 0")])
def test_a_join_waits_for_its_other_side(join: str, rescue: str) -> None:
    """Both sides complete it; a left one is done alone when its time is up, an inner one is not."""
    given = {"left": "a", "right": "b", "left_key": "id", "right_key": "a_id", "join": join, "within_secs": 5}
    made = rules_of(table(shape={"r": {**given, "select": "left.id"}}))
    (rule,) = made
    assert rule.complete == "count_if(input = 'r_left') > 0 AND count_if(input = 'r_right') > 0"
    assert (rule.rescue, rule.expire_secs, rule.late) == (rescue, 5, "again")
    assert sources_of(made) == ("a", "b")
