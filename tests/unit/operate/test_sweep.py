"""What maintenance asks of a table's folder: the files of its days, and to be alone there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from exporter.errors import TableUnreadable
from exporter.operate.maintain import maintain
from exporter.operate.maintain.sweep import listed_files
from exporter.stores.memory import MemoryStore
from offsets.partitions import DAY, Spec


def test_the_files_of_days_are_listed_and_no_others(store: MemoryStore) -> None:
    """Neither the log's nor a user's; nothing of what a listing does not tell yet, which is younger than any sweep."""
    for path in ("day=2026-01-01/a", "day=2026-01-02/b", "day=2026-01-02/deeper/c", "_delta_log/0", "d", "x/day=1/e"):
        store.write_once(path, path.encode())
    store.disk.lists_late = True
    store.write_once("day=2026-01-02/late", b"")
    assert listed_files(store, DAY) == {"day=2026-01-01/a": 16, "day=2026-01-02/b": 16}
    with pytest.raises(TableUnreadable, match="cannot be listed"):
        listed_files(store.below("none"), DAY)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (Spec("none"), {"a", "_x"}),
        (Spec("hour"), {"day=1/hour=2/c"}),
        (Spec("none", ("country",)), {"country=%C3%9C/d"}),
        (Spec("day", ("country",)), {"day=1/country=DE/e"}),
    ],
)
def test_files_are_listed_by_the_spec_of_the_table(store: MemoryStore, spec: Spec, found: set[str]) -> None:
    """Those of its partitions; a table without has them in its own folder."""
    for path in ("a", "_x", "day=1/b", "day=1/hour=2/c", "day=1/hour=2/x/c", "country=%C3%9C/d", "day=1/country=DE/e"):
        store.write_once(path, b"")
    store.write_once("_delta_log/0", b"")
    assert listed_files(store, spec).keys() == found


def test_a_folder_that_cannot_be_listed_is_told(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 70: nothing is taken for dead because it was not seen."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("out")

    monkeypatch.setattr(MemoryStore, "names", refuse)
    with pytest.raises(TableUnreadable, match=f"{store.uri()} cannot be listed: out"):
        listed_files(store, DAY)


def test_one_maintains_a_table_at_a_time(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails under the lease is no failure of the lease."""
    table: Any = SimpleNamespace(store=store, event_type="order")
    with maintain._locked(table) as first, maintain._locked(table) as second:
        assert (first, second) == (True, False)
    with pytest.raises(OSError, match="of the work"), maintain._locked(table):
        raise OSError("of the work")

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError("not here")

    monkeypatch.setattr(MemoryStore, "create", refuse)
    with pytest.raises(TableUnreadable, match="table order cannot be locked: not here"), maintain._locked(table):
        pytest.fail("it was not locked")
