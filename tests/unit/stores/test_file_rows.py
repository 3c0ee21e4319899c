"""The rows of a data file in the columns that are asked for; tests/spark/test_live_files.py reads Spark's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.stores import file_rows as reading
from exporter.stores.file import FileStore
from exporter.stores.file_rows import file_rows

ADD = {"path": "day=2026-01-02/a%20b.parquet", "partitionValues": {"day": "2026-01-02", "word": None}}
KAFKA = pa.struct([("topic", pa.string()), ("epoch", pa.int32()), ("offset", pa.int64())])
CUT = [("day", pa.date32()), ("word", pa.string())]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Five rows, whose struct lacks a field and is null once; read two at a time: the rows, and how many at a time."""
    monkeypatch.setattr(reading, "BATCH_ROWS", 2)
    place = tmp_path / "day=2026-01-02" / "a b.parquet"
    place.parent.mkdir()
    older = pa.struct([("topic", pa.string()), ("offset", pa.int32())])
    rows = [{"_kafka": None if n == 3 else {"topic": "t", "offset": n}, "text": None if n == 1 else str(n)}
            for n in range(5)]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, pa.schema([("_kafka", older), ("text", pa.string())])), place)

    def told(*wanted: tuple[str, pa.DataType]) -> tuple[list[Any], list[int]]:
        found = [*file_rows(FileStore(str(tmp_path)), ADD, pa.schema([*wanted]))]
        return [row for one in found for row in one.to_pylist()], [one.num_rows for one in found]

    return told


def test_what_a_file_lacks_is_null_and_what_cuts_the_table_stands_in_none(read: Any) -> None:
    """In the types that are asked for, a part of the rows at a time."""
    rows, parts = read(("_kafka", KAFKA), ("text", pa.string()), ("more", pa.list_(pa.int64())), *CUT)
    day = {"more": None, "word": None, "day": rows[0]["day"]}
    assert str(rows[0]["day"]) == "2026-01-02" and parts == [2, 2, 1]
    kafka = [None if n == 3 else {"topic": "t", "epoch": None, "offset": n} for n in range(5)]
    texts = [None if n == 1 else str(n) for n in range(5)]
    assert rows == [{"_kafka": kafka[n], "text": texts[n], **day} for n in range(5)]


@pytest.mark.parametrize("wanted", [[*CUT], [("more", pa.binary())], [("more", KAFKA), CUT[1]]])
def test_rows_are_counted_where_no_column_of_the_file_is_wanted(read: Any, wanted: Any) -> None:
    """Each is there, with what all of them have."""
    rows, _ = read(*wanted)
    assert len(rows) == 5 and all(row.keys() == {name for name, _ in wanted} for row in rows)
