"""`exporter prepare`: for which store, and what it fetches and makes for that."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.operate import prepare
from exporter.spark import class_data, jars


@pytest.mark.parametrize("flags, sets", [([], ()), (["--for", "s3"], ("s3",))], ids=["file", "s3"])
def test_a_store_s_jars_are_fetched_and_in_the_archive_only_if_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: list[str], sets: tuple[str, ...]
) -> None:
    """Its home is another one, so that starts of either find theirs."""
    fetched: list[str] = []
    trained: list[Any] = []
    noted: list[Any] = []

    def trains(command: list[str], **_: Any) -> Any:
        trained.append(command[4:])
        Path(command[3]).write_bytes(b"classes")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(jars, "fetch", lambda *names: fetched.extend(names))
    monkeypatch.setattr(class_data, "home", lambda sets=(): tmp_path / f"home-{'-'.join(sets)}")
    monkeypatch.setattr(class_data, "link", lambda folder, sets: folder.mkdir())
    monkeypatch.setattr(class_data, "note", lambda folder, sets: noted.append((folder, sets)))
    monkeypatch.setattr(prepare.subprocess, "run", trains)
    ran = CliRunner().invoke(cli, ["prepare", *flags])
    home = tmp_path / f"home-{'-'.join(sets)}"
    assert ran.exit_code == 0 and ran.output.strip() == f"made: {home}"
    assert fetched == ["spark", *sets] and trained == [[*sets]] and noted == [(home, sets)]
    assert [path.name for path in home.iterdir()] == [class_data.ARCHIVE]


def test_a_store_that_there_is_no_set_for_is_no_choice() -> None:
    """Such as HDFS, which Spark brings along."""
    assert CliRunner().invoke(cli, ["prepare", "--for", "hdfs"]).exit_code == 2
