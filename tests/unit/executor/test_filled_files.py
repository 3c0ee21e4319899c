"""Files that are filled one by one hold the rows that they had, in their order, filled as all of them at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.core.fillable import fillable_columns
from exporter.core.order import Destination
from exporter.executor import filled_files
from exporter.executor.filled_files import FilesOrder, counted_files
from exporter.executor.filling import FilledRows, Filler, FillOrder
from exporter.stores.file_rows import in_columns
from offsets.names import BadName, DataFile
from tests.unit.executor.test_filling import case, decoded, routing, table_of

KAFKA = pa.struct([("topic", pa.string())])
FOLDER = "day=2026-01-31/of=a b%2F"
LONG = {"a": '"long"'}


class Files:
    """Of the table `t`, whose columns are those of now."""

    def __init__(self, root: Path, now: Mapping[str, str]) -> None:
        self.folder = root / "t"
        columns = fillable_columns(routing(now), "t", table_of(now), ("day",))
        self.order = FillOrder("t", columns, routing(now))
        there = decoded([], now)[0].schema
        self.schema = pa.schema([pa.field("_kafka", KAFKA), *there])
        self.adds: list[dict[str, Any]] = []
        self.to = Destination(str(root), "app", sync=True)

    def write(self, rows: pa.Table, **footer: str) -> pa.Table:
        """A file; its rows as the table has them, all of one topic."""
        rows = rows.append_column("_kafka", pa.array([{"topic": "t"}] * len(rows), KAFKA))
        path = f"{FOLDER}/{len(self.adds)}.parquet"
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows.replace_schema_metadata(footer or None), self.folder / path, row_group_size=4)
        self.adds.append({"path": quote(path, safe="/="), "partitionValues": {"day": "2026-01-31"}})
        return in_columns(rows, self.schema, len(rows))

    def told(self, run: Any, **more: Any) -> list[dict[str, Any]]:
        """What a task says of all of them."""
        order = FilesOrder(self.order, self.to, self.schema, self.adds)
        numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(len(self.adds)), pa.int64())})
        return [row for batch in run(order, iter([numbers]), **more) for row in batch.to_pylist()]

    def at_once(self, rows: pa.Table) -> FilledRows:
        """All of them, filled together."""
        return Filler(self.order).fill(rows, pa.array(["t"] * len(rows)))


@pytest.mark.parametrize("seed", range(20))
def test_files_hold_the_same_rows_whatever_their_number(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether rows are read in one part or in many, and written to one file or to many, by Parquet's own reader."""
    was, now, values = case(seed)
    files = Files(tmp_path, now)
    rows = [files.write(decoded(some, was)[0]) for some in (values, values[:1], values[:7])]
    expected = files.at_once(pa.concat_tables(rows))
    before = sorted(files.folder.rglob("*.parquet"))
    counts = files.told(counted_files)
    by_column = {name: sum(one["rows"] for one in counts if one["column"] == name) for name in expected.by_column}
    assert by_column == dict(expected.by_column)
    assert sum(one["rows"] for one in counts if not one["column"]) == expected.filled.sum()
    for one_by_one in (False, True):
        if one_by_one:
            monkeypatch.setattr("exporter.stores.file_rows.BATCH_ROWS", 3)
            monkeypatch.setattr(filled_files, "ENOUGH", 0)
            for bound in ("GROUP_BYTES_MAX", "FILE_BYTES_MAX"):
                monkeypatch.setattr(filled_files, bound, 1)
        made = files.told(filled_files.filled_files)
        adds = [json.loads(one["add"]) for one in made]
        read = [pq.read_table(files.folder / unquote(add["path"]), partitioning=None) for add in adds]
        assert pa.concat_tables(read).to_pylist() == expected.rows.to_pylist()
        assert [json.loads(add["stats"])["numRecords"] for add in adds] == [*map(len, read)]
        assert sum(one["rows"] for one in made) == expected.filled.sum()
        of_each = 3 if one_by_one else 12
        assert len(adds) == sum(-(-len(one) // of_each) for one in rows)
        assert {add["path"].rpartition("/")[0] for add in adds} == {quote(FOLDER, safe="/=")}
        assert all(add["size"] == (files.folder / unquote(add["path"])).stat().st_size for add in adds)
        for add in adds:
            with pytest.raises(BadName):  # nothing of an offset may be read into it
                DataFile.parse(unquote(add["path"]))
    assert {*before} < {*files.folder.rglob("*.parquet")}


def test_once_is_enough_to_know_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of its first part; a file in which nothing can be filled is none of them."""
    files = Files(tmp_path, LONG)
    files.write(decoded([b'{"a":7}'] * 9, {})[0])
    files.write(decoded([b'{"b":7}'] * 9, {})[0])
    monkeypatch.setattr("exporter.stores.file_rows.BATCH_ROWS", 4)
    first = files.adds[0]["path"]
    assert [(one["file"], one["column"], one["rows"]) for one in files.told(counted_files, once=True)] == [
        (first, "a", 4), (first, "", 4)
    ]  # fmt: skip
    assert {one["rows"] for one in files.told(counted_files)} == {9}


def test_dates_of_the_older_calendar_are_left_to_spark(tmp_path: Path) -> None:
    """Others read them as of the newer one, and so they would stay."""
    files = Files(tmp_path, LONG)
    files.write(decoded([b'{"a":7}'], {})[0], **{"org.apache.spark.legacyDateTime": ""})
    assert [(one["column"], one["rows"]) for one in files.told(counted_files)] == [("", -1)]
