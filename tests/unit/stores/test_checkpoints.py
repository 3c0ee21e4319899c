"""Which checkpoint of a log is whole, and what is read of one; tests/spark/test_live_files.py reads Delta's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.lake import log_files
from exporter.stores.checkpoints import Untold, adds, newest
from exporter.stores.file import FileStore

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def named(version: int, rest: str = "parquet") -> str:
    return f"{version:020d}.checkpoint.{rest}"


PARTS = [named(7, f"{part:010d}.0000000003.parquet") for part in (1, 2, 3)]


@pytest.mark.parametrize(
    ("names", "version", "found"),
    [
        ([], 9, (-1, [])),
        ([named(3)], 9, (3, [named(3)])),
        ([named(3), named(5)], 4, (3, [named(3)])),
        ([named(3), named(5)], 5, (5, [named(5)])),
        ([named(3), *PARTS], 9, (7, PARTS)),
        ([named(3), *PARTS[1:]], 9, (3, [named(3)])),
        ([named(3), *PARTS[:2], named(7, "0000000003.0000000004.parquet")], 9, (3, [named(3)])),
        ([named(4, f"{UUID}.json")], 9, (4, [named(4, f"{UUID}.json")])),
        ([named(4, f"{UUID}.parquet"), f"{8:020d}.json", f"{8:020d}.crc"], 9, (4, [named(4, f"{UUID}.parquet")])),
        ([f".{named(6)}.crc", named(6) + ".tmp", named(6, "avro"), "x" + named(6), named(6)[1:]], 9, (-1, [])),
    ],
)
def test_the_newest_checkpoint_whose_files_are_all_there_counts(
    names: list[str], version: int, found: tuple[int, list[str]]
) -> None:
    """In whatever order they are listed."""
    assert newest(names, version) == newest(names[::-1], version) == found


ADD = {"path": "a.parquet", "partitionValues": {"day": None}, "size": 3, "modificationTime": 4, "stats": "{}"}


def lake(folder: Path, files: dict[str, Any]) -> FileStore:
    """A log with some files: lists of actions, a table of Arrow, or bytes."""
    for name, holds in files.items():
        path = folder / "_delta_log" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(holds, pa.Table):
            pq.write_table(holds, path)
        else:
            path.write_text("\n".join(map(json.dumps, holds)))
    return FileStore(str(folder))


def of_adds(*some: dict[str, Any], **more: Any) -> pa.Table:
    kind = pa.struct([
        ("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string())), ("size", pa.int64()),
        ("modificationTime", pa.int64()), *((name, pa.string()) for name in ("stats",) if not more.get("parsed")),
        *((name, pa.struct([("numRecords", pa.int64())])) for name in ("stats_parsed",) if more.get("parsed")),
    ])  # fmt: skip
    rows = [None, *({**one, "partitionValues": [*one["partitionValues"].items()]} for one in some)]
    return pa.table({"add": pa.array(rows, kind)})


def test_live_files_are_those_of_a_checkpoint_and_of_the_commits_since(tmp_path: Path) -> None:
    """A file that the checkpoint has may be taken away, or be told of once more."""
    other, third = {**ADD, "path": "b.parquet"}, {**ADD, "path": "c%20d.parquet", "size": 5}
    store = lake(tmp_path, {
        named(1): of_adds(ADD, other),
        f"{2:020d}.json": [{"remove": {"path": "a.parquet"}}, {"add": third}],
        f"{3:020d}.json": [{"add": {**other, "size": 9}}, {"commitInfo": {"userMetadata": "a\u2028b"}}],
    })  # fmt: skip
    of_checkpoint = {"dataChange": False}
    assert log_files.adds_at(store, 1) == [{**ADD, **of_checkpoint}, {**other, **of_checkpoint}]
    assert log_files.adds_at(store, 2) == [{**other, **of_checkpoint}, third]
    assert log_files.adds_at(store, 3) == [{**other, "size": 9}, third]
    assert log_files.adds_at(store, 4) is None


def test_what_sidecars_hold_is_read_with_what_names_them(tmp_path: Path) -> None:
    """In JSON and in Parquet; one that stands elsewhere is Delta's to read."""
    sidecar = {"path": "s.parquet", "sizeInBytes": 1, "modificationTime": 1}
    top = pa.table({"sidecar": pa.array([sidecar], pa.struct([("path", pa.string())]))})
    store = lake(tmp_path, {
        "_sidecars/s.parquet": of_adds(ADD), "json.json": [{"sidecar": sidecar}, {"checkpointMetadata": {}}],
        "top.parquet": top, "away.json": [{"sidecar": {**sidecar, "path": "file:///x/s.parquet"}}],
    })  # fmt: skip
    wanted = [{**ADD, "dataChange": False}]
    assert [*adds(store, ["json.json"])] == [*adds(store, ["top.parquet"])] == wanted
    with pytest.raises(Untold):
        [*adds(store, ["away.json"])]


def test_statistics_that_are_no_json_are_left_to_delta(tmp_path: Path) -> None:
    """Else a file's rows would be unknown, and it could not be passed over."""
    store = lake(tmp_path, {named(0): of_adds(ADD, parsed=True), f"{1:020d}.json": [{"add": ADD}]})
    assert log_files.adds_at(store, 1) is None


@pytest.mark.parametrize("damage", ["gone", "cut", "no parquet"])
def test_a_checkpoint_that_cannot_be_read_tells_nothing(tmp_path: Path, damage: str) -> None:
    """Delta is asked then, and says what is wrong."""
    store = lake(tmp_path, {named(0): of_adds(ADD), f"{1:020d}.json": [{"add": ADD}]})
    path = tmp_path / "_delta_log" / named(0)
    body = {"gone": None, "cut": path.read_bytes()[:-9], "no parquet": b"PAR1 nothing PAR1"}[damage]
    path.unlink() if body is None else path.write_bytes(body)
    assert log_files.adds_at(store, 1) is None
