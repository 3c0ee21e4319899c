"""What a task says it has seen in `_rescued`, of the types that may grow, and that columns are filled as ordered."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.evolve import Evolution, Evolutions, grown
from exporter.core.evolved import combined
from exporter.core.order import StagingOrder, TableTarget
from exporter.core.routing import DEAD_LETTERS
from exporter.core.seen import At, Seen
from exporter.core.writers import PartitionPlan
from exporter.executor.stage import stage
from exporter.lake.schema import table_schema
from exporter.rounds.told import round_result
from tests.support import orders
from tests.unit.executor.test_stage import ROUTING, TP, batch

ALL = Evolutions(Evolution())


def value(**fields: Any) -> bytes:
    return json.dumps({"type": "a", "ts": "2025-12-31T12:00:00Z", "n": 1, **fields}).encode()


def order_of(root: Path, bound: int = -1, **given: Any) -> StagingOrder:
    plan = PartitionPlan(TP, 1, 2, 0, 10_000, {DEAD_LETTERS: -1, "a": bound, "b": -1})
    order = orders.order_of(root, ROUTING, {TP: plan}, {"a": TableTarget("f")}, {TP: {}}, carried_bytes=1 << 20)
    return replace(order, **given)


def seen(order: StagingOrder, values: list[bytes]) -> dict[str, Seen]:
    (manifest,) = stage(order, iter([batch(values)]))
    (fragment,) = round_result(order, manifest.to_pylist()).fragments
    return dict(fragment.seen)


def test_every_text_in_rescued_is_looked_at(tmp_path):
    """With the coordinates of the first that had a field; nothing of what columns hold, or of dead letters."""
    values = [value(), value(x=1), value(x="t", y={"z": []}), b"{", value(n="no number", w=1)]
    expected = Seen()
    expected.add({"x": 1}, At(TP.topic, TP.partition, 1))
    expected.add({"x": "t", "y": {"z": []}}, At(TP.topic, TP.partition, 2))
    assert seen(order_of(tmp_path, evolutions=ALL), values) == {"a": expected}


def test_rows_that_the_table_has_already_are_not_news(tmp_path):
    """They are read for other types' sake."""
    assert seen(order_of(tmp_path, bound=1, evolutions=ALL), [value(x=1), value(y=1), value()]) == {}


@pytest.mark.parametrize("evolutions", [Evolutions(), Evolutions(Evolution(), {"a": None})])
def test_a_type_that_does_not_grow_is_not_looked_at(tmp_path, evolutions):
    """It may rescue fields in each record, for ever."""
    assert seen(order_of(tmp_path, evolutions=evolutions), [value(x=1)]) == {}


def test_columns_are_filled_as_ordered_and_the_rest_is_seen(tmp_path):
    """What the driver has planned is read into its column; what does not fit is in `_rescued`, and seen again."""
    first = seen(order_of(tmp_path, evolutions=ALL), [value(x=1)])["a"]
    declared = ROUTING.schemas["a"]
    columns = {"a": combined(declared, grown(table_schema(declared), first, Evolution()))}
    order = order_of(tmp_path, evolutions=ALL, tables={"a": TableTarget("f", decoded=columns["a"])})
    (manifest,) = stage(order, iter([batch([value(x=5), value(x="t")])]))
    (fragment,) = round_result(order, manifest.to_pylist()).fragments
    (file,) = fragment.files["a"]
    table = pa.ipc.open_stream(file.body).read_all()
    assert table.column("x").to_pylist() == [5, None]
    assert table.column("_rescued").to_pylist() == [None, '{"x":"t"}']
    assert dict(fragment.seen["a"].fields["x"].kinds) == {"text": 1}
