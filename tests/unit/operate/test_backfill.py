"""Which partitions a turn of maintenance looks at for values that columns could have."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.errors import InvariantBroken
from exporter.operate.maintain.backfill import Backfill, Fillable, closed_since
from offsets.partitions import DAY
from offsets.table_log import TableView

SCHEMA = json.dumps({"type": "struct", "fields": []})
NOW = datetime(2026, 11, 10, 12, tzinfo=timezone.utc)


def looked_at(said: datetime | None, fingerprint: str = "f") -> list[int]:
    """The days of November that a turn looks at; 1 to 10. said: when the last one did, with these columns."""
    done = {} if said is None else {"a/backfilled/f": int(said.timestamp() * 1000)}
    closed = closed_since("a", TableView(3, "id", fingerprint, done), NOW, 3600.0)
    assert closed.done == f"a/backfilled/{fingerprint}" and closed.at_ms == int(NOW.timestamp() * 1000)
    return [day for day in range(1, 11) if closed.wanted(DAY.at(NOW.replace(day=day)))]


def test_each_day_that_has_ended_is_looked_at_once_for_a_set_of_columns() -> None:
    """A day is closed an hour after its end."""
    assert looked_at(None) == looked_at(NOW - timedelta(days=30)) == [*range(1, 10)]
    assert looked_at(NOW - timedelta(days=1)) == [9] and looked_at(NOW) == []
    assert looked_at(NOW.replace(hour=0, minute=30)) == [9]
    assert looked_at(NOW, "g") == [*range(1, 10)]


class OneTooFew(Backfill):
    """Whose executors write a file less than they should."""

    def look(self, some: Fillable, once: bool = False) -> Fillable | None:
        return some

    def _each(self, some: Fillable, run: Any, made: Any) -> list[Any]:
        return [(json.dumps(add), 1) for add in [*some.adds.values()][1:]]


def test_a_row_that_was_lost_on_the_way_is_not_committed() -> None:
    """ONCE: there are as many rows as before, by the statistics of both."""
    table: Any = SimpleNamespace(event_type="t")
    lake: Any = SimpleNamespace(options=SimpleNamespace(rescue_empty=False))
    routing: Any = SimpleNamespace(columns_of=lambda _: SCHEMA, decoded_of=lambda _: SCHEMA, shape_by_type={})
    work = OneTooFew(lake, routing, table, TableView(3, "id", "f", {}, {}, ("day",), SCHEMA))
    adds = {path: {"path": path, "stats": '{"numRecords": 3}'} for path in "ab"}
    with pytest.raises(InvariantBroken, match="ONCE: table t: 3 rows were made of 6"):
        work.apply(Fillable(DAY.at(NOW), adds, by_spark=False))
