"""`_rescued` as it is staged: null where all that no column holds is empty, else whole, as the settings say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from exporter.core.evolve import Evolution, Evolutions, grown
from exporter.core.routing import DEAD_LETTERS, EventTime, TypeFrom
from exporter.core.seen import Seen
from exporter.core.specs import Specs
from exporter.core.writers import PartitionPlan
from exporter.executor.stage import stage
from offsets.partitions import Spec
from tests.support.orders import order_of
from tests.unit.executor.test_stage import ALL, ROUTING, TP, batch
from tests.unit.executor.test_stage_specs import COUNTRY

BARE = replace(
    ROUTING, type_from=TypeFrom("json", "type"), event_time=EventTime("record"), types=(("a", COUNTRY),),
    new_type="table",
)  # fmt: skip


def staged(root: Path, *beside: str, given: str = "a", **order: Any) -> tuple[list[str | None], int, Seen]:
    """What rows have in `_rescued` of records with these texts of members; how many count; what evolution saw."""
    plan = PartitionPlan(TP, 1, 2, 0, 10_000, order.pop("bounds", {**ALL, given: -1}))
    told = order_of(root, BARE, {TP: plan}, new_types_max=9, **order)
    values = [f'{{"type":"{given}"{"," * bool(one)}{one}}}'.encode() for one in beside]
    rows: list[Any] = []
    count, seen = 0, Seen()
    for row in next(stage(told, iter([batch(values)]))).to_pylist():
        if row["path"] is not None:
            rows += pq.read_table(root / row["event_type"] / row["path"], partitioning=None).to_pylist()
        count += json.loads(row["counts"] or "{}").get("rescued", 0)
        seen.merge(Seen.from_json(row["seen"] or "{}"))
    return [row["_rescued"] for row in sorted(rows, key=lambda one: one["_kafka"]["offset"])], count, seen


BESIDE = ['"n":1', '"n":1,"u":null', '"u":{},"v":[]', '"u":{"a":[null,{}]}', '"u":"","v":{}', '"u":{"a":[null,0]}']
WHOLE = [None, '{"u":null}', '{"u":{},"v":[]}', '{"u":{"a":[null,{}]}}', '{"u":"","v":{}}', '{"u":{"a":[null,0]}}']


def test_rescued_is_null_where_all_of_it_is_empty_and_whole_where_it_is_not(tmp_path: Path) -> None:
    """So whoever has something there has a value that no column holds; and so it is counted."""
    rescued, count, _ = staged(tmp_path, *BESIDE)
    assert (rescued, count) == ([None] * 4 + WHOLE[4:], 2)


def test_with_rescue_empty_everything_is_there(tmp_path: Path) -> None:
    """As earlier versions had it."""
    rescued, count, _ = staged(tmp_path, *BESIDE, rescue_empty=True)
    assert (rescued, count) == (WHOLE, 5)


def test_only_rows_that_are_staged_are_counted(tmp_path: Path) -> None:
    """Neither those at or below the bound of their table, nor those of a table that the plan does not list."""
    assert staged(tmp_path, *BESIDE, bounds={DEAD_LETTERS: -1, "a": 4})[:2] == ([WHOLE[5]], 1)
    plan = PartitionPlan(TP, 1, 2, 0, 10_000, {DEAD_LETTERS: -1}, unlisted=("a",))
    order = order_of(tmp_path, BARE, {TP: plan})
    (manifest,) = stage(order, iter([batch([b'{"type":"a","u":1}'])]))
    assert sum(json.loads(row["counts"] or "{}").get("rescued", 0) for row in manifest.to_pylist()) == 0


def test_a_type_without_columns_has_its_records_in_rescued_by_the_same_rule(tmp_path: Path) -> None:
    """The field of its event type is a value."""
    assert staged(tmp_path, "", '"u":{}', given="new")[0] == ['{"type":"new"}', '{"type":"new","u":{}}']


def test_a_text_that_cuts_no_table_keeps_what_is_empty_beside_it(tmp_path: Path) -> None:
    """It comes to the others before they are looked at."""
    specs = Specs({"a": Spec("day", ("c",))})
    assert staged(tmp_path, '"c":"","u":{}', '"u":{}', specs=specs)[0] == ['{"c":"","u":{}}', None]


@pytest.mark.parametrize("rescue_empty", [False, True])
def test_evolution_sees_the_same_whatever_rescued_has(tmp_path: Path, rescue_empty: bool) -> None:
    """So the same columns follow: of what is empty alone none."""
    evolutions = Evolutions(Evolution())
    _, _, seen = staged(tmp_path, *BESIDE, evolutions=evolutions, rescue_empty=rescue_empty)
    assert {name: dict(one.kinds) for name, one in seen.fields.items()} == {
        "u": {"object": 3, "text": 1}, "v": {"array": 1, "object": 1}
    }  # fmt: skip
    empty = staged(tmp_path, *BESIDE[:4], evolutions=evolutions, rescue_empty=rescue_empty)[2]
    assert empty.fields and grown(COUNTRY, empty, Evolution()) is COUNTRY
