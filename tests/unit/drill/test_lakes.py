"""Where the lakes of a drill stand: what tasks are told, what whoever looks on sees, what is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from exporter.drill.lakes import FolderLakes, S3Lakes, lakes_of
from exporter.drill.scenarios import SCENARIOS
from exporter.drill.services import Services
from exporter.local.plain import PlainLake, problems
from exporter.local.proxy import Down, FaultyProxy, Troubles
from exporter.settings.load import load
from exporter.stores.store import Store
from tests.support.services import fresh_name
from tests.unit.drill.test_drill import WANTED, commit


@pytest.fixture
def lakes(s3: Store) -> S3Lakes:
    """In a real S3, as the drill's own."""
    root = f"s3://{s3.uri().partition('://')[2]}/{fresh_name('drill')}"
    return S3Lakes(root, s3.options, None, FaultyProxy(s3.options["endpoint"]))


def put(lakes: S3Lakes, name: str, folder: Path) -> None:
    """A lake that was written into a folder, in its place there."""
    place = f"{lakes.root.partition('://')[2]}/{name}"
    there = fs.S3FileSystem(endpoint_override=lakes.options["endpoint"], region="us-east-1")
    fs.copy_files(str(folder), place, fs.LocalFileSystem(), there)


def test_tasks_go_through_the_proxy_and_whoever_looks_on_does_not(lakes: S3Lakes, tmp_path: Path) -> None:
    """So the naive check, SQL and the audit see a lake whose tasks see nothing."""
    assert lakes.proxy is not None
    told, direct = lakes.settings("a", tmp_path), lakes.settings("a", tmp_path, direct=True)
    assert (told["s3_endpoint"], direct["s3_endpoint"]) == (lakes.proxy.endpoint, lakes.options["endpoint"])
    assert told["table_root"] == f"{lakes.root}/a"
    lakes.proxy.troubles = Troubles(down=Down.REFUSES)
    assert lakes.store("a", tmp_path).trouble() == ""


def test_a_lake_in_an_s3_is_checked_as_one_in_a_folder_is(lakes: S3Lakes, tmp_path: Path) -> None:
    """Commits as they come, rows by their coordinates, what no commit names."""
    assert lakes.plain("a", tmp_path).look() == []
    commit(tmp_path / "lake", "order", 0, 1, [0])
    put(lakes, "a", tmp_path / "lake")
    lake = lakes.plain("a", tmp_path)
    assert [(one.table, one.version, one.pid) for one in lake.look()] == [("order", 0, 42)] and lake.look() == []
    assert "missing" in next(problems(WANTED, lake, "app", "t", through=True))
    commit(tmp_path / "lake", "click", 0, 5, [1])
    commit(tmp_path / "lake", "dead_letters", 0, 0, [0], partition=1)
    last = commit(tmp_path / "lake", "order", 1, 2, [2])
    (last.parent / "staged.parquet").write_bytes(b"")
    put(lakes, "a", tmp_path / "lake")
    assert len(lake.look()) == 3 and lake.orphans() == 1
    assert list(problems(WANTED, lake, "app", "t", through=True)) == []
    lake.delete("order", "day=2026-01-31/1.parquet")
    assert "not there" in next(problems(WANTED, _looked(lakes, tmp_path), "app", "t", through=False))
    lake.drop("order")
    assert _looked(lakes, tmp_path).tables.keys() == {"click", "dead_letters"}


def _looked(lakes: S3Lakes, folder: Path) -> PlainLake:
    """The same lake by somebody who has looked now for the first time."""
    lake = lakes.plain("a", folder)
    lake.look()
    return lake


def test_a_run_s_lake_goes_with_it_and_no_other(lakes: S3Lakes, tmp_path: Path) -> None:
    """What is to be kept stands in its folder afterwards, where there is no S3 any more."""
    commit(tmp_path / "made", "order", 0, 1, [0])
    for name in ("a", "b"):
        put(lakes, name, tmp_path / "made")
    lakes.drop("a", tmp_path / "run", keep=True)
    assert (tmp_path / "run" / "lake" / "order" / "_delta_log").is_dir()
    assert lakes.plain("a", tmp_path).look() == [] and len(lakes.plain("b", tmp_path).look()) == 1
    lakes.drop("b", tmp_path / "other", keep=False)
    lakes.drop("c", tmp_path / "other", keep=True)
    assert not (tmp_path / "other").exists() and lakes.plain("b", tmp_path).look() == []


def test_an_s3_of_the_settings_is_used_and_never_broken(tmp_path: Path) -> None:
    """Below the table root that they name; a scenario that needs a disk, or a store to break, is left out there."""
    config = tmp_path / "exporter.toml"
    config.write_text(
        'brokers = ["a:1"]\ntopics = ["mine"]\ngroup = "mine"\ntable_root = "s3://mine/lake"\n'
        's3_endpoint = "http://localhost:9"\n'
        '[type_from]\nkind = "topic"\n[event_time]\nkind = "record"\n[types.mine]\ncolumns = "id BIGINT"\n'
    )
    given = lakes_of("s3", load(config, {}, {}))
    assert given.settings("a", tmp_path)["table_root"] == "s3://mine/lake/a"
    assert given.settings("a", tmp_path)["s3_endpoint"] == "http://localhost:9"
    assert Services(lakes=given).own == frozenset() and Services(lakes=FolderLakes()).own == {"disk"}
    assert {one.name for one in SCENARIOS.values() if one.needs == "disk"} == {"storage-full", "power-cut"}
    assert isinstance(lakes_of("file", load(config, {}, {})), FolderLakes)
