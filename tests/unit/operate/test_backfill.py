"""Which partitions a turn of maintenance looks at for values that columns could have."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from exporter.operate.maintain.backfill import closed_since
from offsets.partitions import DAY
from offsets.table_log import TableView

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
