"""Staging goes by the spec of each table: which folder a row is in, and what is in the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.core.order import StagingBudget, StagingOrder
from exporter.core.routing import DEAD_LETTERS
from exporter.core.specs import Specs
from exporter.core.writers import PartitionPlan
from exporter.executor import stage as stage_module
from exporter.executor.stage import stage
from exporter.stores.parquet import FileOrigin, merge
from exporter.stores.stores import open_store
from offsets.names import DataFile
from offsets.partitions import DAY, Spec
from tests.support.orders import order_of
from tests.unit.executor.test_stage import ALL, ROUTING, TP, batch

COLUMNS = (("n", "long"), ("c", "string"))
COUNTRY = json.dumps(
    {"type": "struct", "fields": [{"name": n, "type": kind, "nullable": True, "metadata": {}} for n, kind in COLUMNS]}
)
BY_COUNTRY = replace(ROUTING, types=(("a", COUNTRY), ("b", COUNTRY)), new_type="table")


def order(root: Path, specs: Specs, **given: Any) -> StagingOrder:
    plan = PartitionPlan(TP, 1, 2, 0, 10_000, dict.fromkeys(ALL, -1))
    return order_of(root, BY_COUNTRY, {TP: plan}, specs=specs, new_types_max=9, **given)


def sent(kind: str, number: int, country: str | None, at: str = "2025-12-31T12:30:00Z") -> bytes:
    return json.dumps({"type": kind, "n": number, "c": country, "ts": at}).encode()


def staged(root: Path, specs: Specs, *values: bytes, **given: Any) -> dict[str, dict[str, list[Any]]]:
    """Event type -> folder -> rows of its files, with their offsets."""
    (manifest,) = stage(order(root, specs, **given), iter([batch(values)]))
    found: dict[str, dict[str, list[Any]]] = {}
    for row in manifest.to_pylist():
        if row["path"] is None:
            continue
        assert str(DataFile.parse(row["path"])) == row["path"]
        rows = pq.read_table(root / row["event_type"] / row["path"], partitioning=None).to_pylist()
        folder = row["path"].rpartition("/")[0]
        found.setdefault(row["event_type"], {}).setdefault(folder, []).extend(rows)
    return found


def offsets(rows: list[Any]) -> list[int]:
    return [row["_kafka"]["offset"] for row in rows]


def test_each_table_is_cut_by_its_own_spec(tmp_path: Path) -> None:
    """One of hours and values, one that is not cut, the dead letters by day, and a type that nobody knew as all others.

    A column that cuts is not in the files; of the others nothing is missing.
    """
    specs = Specs({"a": Spec("hour", ("c",)), "b": Spec("none")}, Spec("month"))
    found = staged(
        tmp_path, specs,
        sent("a", 0, "DE"), sent("a", 1, "FR", "2025-12-31T13:00:00Z"), sent("b", 2, "DE"), sent("a", 3, None),
        sent("a", 4, "DE"), sent("new", 5, "DE"), b"bad", sent("a", 7, "é/ü"),
        sent("b", 8, None, "2025-11-01T00:00:00Z"), sent("a", 9, ""),
    )  # fmt: skip
    assert {name: {folder: offsets(rows) for folder, rows in one.items()} for name, one in found.items()} == {
        "a": {
            "day=2025-12-31/hour=12/c=DE": [0, 4],
            "day=2025-12-31/hour=13/c=FR": [1],
            "day=2025-12-31/hour=12/c=__HIVE_DEFAULT_PARTITION__": [3, 9],
            "day=2025-12-31/hour=12/c=%C3%A9%2F%C3%BC": [7],
        },
        "b": {"": [2, 8]},
        "new": {"month=2025-12": [5]},
        DEAD_LETTERS: {"day=2026-01-01": [6]},
    }
    of_nulls = found["a"]["day=2025-12-31/hour=12/c=__HIVE_DEFAULT_PARTITION__"]
    assert [(list(row), row["_rescued"]) for row in of_nulls] == [
        (["_kafka", "_event_time", "n", "_rescued"], rescued) for rescued in (None, '{"c":""}')
    ]
    assert [row["c"] for row in found["b"][""]] == ["DE", None]


def test_a_spec_that_is_not_given_is_day(tmp_path: Path) -> None:
    """As all tables were before there were others."""
    assert [*staged(tmp_path, Specs(), sent("a", 0, "DE"))["a"]] == ["day=2025-12-31"]
    assert order_of("r", ROUTING, {}).target("a").spec == DAY


def test_many_values_open_no_more_files_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch may bring as many partitions as rows: those that are too many are finished as they come."""
    monkeypatch.setattr(stage_module, "SPLIT_BYTES", 1)
    opened: list[int] = []
    real = stage_module._Task._bound_files

    def counted(self: Any) -> None:
        opened.append(len(self._growing))
        real(self)

    monkeypatch.setattr(stage_module._Task, "_bound_files", counted)
    values = [sent("a", number, f"c{number % 100}") for number in range(300)]
    found = staged(tmp_path, Specs({"a": Spec("day", ("c",))}), *values, room=StagingBudget(files=4))
    assert max(opened) == 9 and len(found["a"]) == 100
    assert sorted(at for rows in found["a"].values() for at in offsets(rows)) == list(range(300))


def test_small_files_of_a_table_that_is_not_cut_are_merged_in_its_own_folder(tmp_path: Path) -> None:
    """Carried rows and written ones; the name of what comes out parses back."""
    specs, room = Specs({"b": Spec("none"), "a": Spec("month", ("c",))}), StagingBudget()
    for kind, folder in (("b", ""), ("a", "month=2025-12/c=a%25b/")):
        files = []
        for first in (0, 10):
            one = order(tmp_path, specs, carried_bytes=1 << 20)
            (manifest,) = stage(one, iter([batch([sent(kind, n, "a%b") for n in range(3)], first=first)]))
            (row,) = [row for row in manifest.to_pylist() if row["path"] is not None]
            files.append(_file(row))
        origin = FileOrigin(open_store(str(tmp_path / kind)), "app", TP, 2, kind, "", {})
        merged = merge(origin, files, room)
        assert merged.path.startswith(f"{folder}app.") and merged.rows == 6
        assert offsets(pq.read_table(tmp_path / kind / merged.path, partitioning=None).to_pylist()) == [
            0, 1, 2, 10, 11, 12
        ]  # fmt: skip


def _file(row: dict[str, Any]) -> Any:
    from exporter.core.writers import StagedFile
    from offsets.ranges import OffsetRange

    assert pa.ipc.open_stream(row["body"]).read_all().num_rows == 3
    ends = OffsetRange(row["first_offset"], row["last_offset"])
    return StagedFile(row["path"], ends, row["rows"], row["size_bytes"], body=row["body"])
