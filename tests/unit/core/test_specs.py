"""Which spec a table has: the settings' when it is made, its own from then on."""

from __future__ import annotations

import pytest

from exporter.core.order import TableTarget
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.specs import Specs, table_spec
from offsets.partitions import DAY, Spec
from offsets.table_log import TableView
from tests.support.orders import order_of


def view(*columns: str) -> TableView:
    return TableView(1, "id", "f", {}, partition_columns=columns)


def test_the_dead_letters_are_by_day_whatever_the_settings_say() -> None:
    """They are read by day, and their files bear no other name."""
    specs = Specs({"order": Spec("month"), DEAD_LETTERS: Spec("hour")}, Spec("none"))
    assert (specs.of(DEAD_LETTERS), specs.of("order"), specs.of("click")) == (DAY, Spec("month"), Spec("none"))


def test_a_table_keeps_its_own() -> None:
    """Those that are there are staged as they are cut, all others as the settings say."""
    views = {"order": view("day"), "old": view("day", "c")}
    tables = {name: TableTarget(spec=table_spec(one)) for name, one in views.items()}
    routing = Routing(TypeFrom("json", "type"), EventTime("record"), ())
    order = order_of("r", routing, {}, tables, specs=Specs({"order": Spec("month")}, Spec("none")))
    found = [order.target(name).spec for name in ("order", "old", "new")]
    assert found == [DAY, Spec("day", ("c",)), Spec("none")]
    assert table_spec(view("region day")) == DAY  # of a table that is not filled


@pytest.mark.parametrize(
    ("columns", "wanted", "hint"),
    [
        (("day",), Spec("hour"), 'set `partition_by = "day"`, no `partition_columns` in [types.order]'),
        (("day", "hour", "c"), DAY, 'set `partition_by = "hour"`, `partition_columns = ["c"]` in [types.order]'),
        ((), Spec("none", ("c",)), 'set `partition_by = "none"`, no `partition_columns` in [types.order]'),
        (("month", "a", "b"), Spec("month", ("b", "a")), '`partition_columns = ["a", "b"]`'),
    ],
)
def test_another_spec_is_refused_with_what_to_set(columns: tuple[str, ...], wanted: Spec, hint: str) -> None:
    """Exit 2: no file is moved, and no table has two."""
    error = Specs({"order": wanted}).refused("order", view(*columns))
    assert error is not None and error.exit_code == 2 and hint in error.hint, error
    assert f"table order is cut by {table_spec(view(*columns))}, and the settings cut it by {wanted}" == error.message
    assert Specs({"order": table_spec(view(*columns))}).refused("order", view(*columns)) is None
