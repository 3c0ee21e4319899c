"""Whether a folder can be written is tried, and what is in the way is told with the right exit code."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.errors import ConfigError, DependencyUnreachable
from exporter.spark import session as spark
from exporter.stores.writable import require_writable, unwritable


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    """Also one that is not there yet: nothing of the trial stays, and nothing is made."""
    (tmp_path / "there").mkdir()
    assert unwritable(tmp_path / "there") is None
    assert unwritable(tmp_path / "not" / "yet") is None
    assert [*tmp_path.rglob("*")] == [tmp_path / "there"]


@pytest.mark.parametrize("below", ["", "lake", "deep/lake"])
def test_a_file_where_a_folder_has_to_be_is_named(tmp_path: Path, below: str) -> None:
    """Exit 2: table_root itself, or anything above it; no waiting changes that."""
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ConfigError, match="file is a file, where a folder has to be") as caught:
        require_writable(tmp_path / "file" / below)
    assert "table_root" in caught.value.hint


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    """A mount that is missing, most likely."""
    (tmp_path / "lake").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="lake leads nowhere"):
        require_writable(tmp_path / "lake")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, ConfigError),
        (errno.EPERM, ConfigError),
        (errno.ENAMETOOLONG, ConfigError),
        (errno.EROFS, DependencyUnreachable),
        (errno.ENOSPC, DependencyUnreachable),
        (errno.EIO, DependencyUnreachable),
        (errno.ESTALE, DependencyUnreachable),
    ],
)
def test_what_waiting_may_change_is_an_outage_and_all_else_is_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    """2 and 69; the reason is the system's own."""

    def refuse(self: Path, *arguments: Any, **more: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(kind) as caught:
        require_writable(tmp_path)
    assert os.strerror(number) in str(caught.value) and str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EPERM])
def test_a_file_system_without_hard_links_is_refused_before_it_loses_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Exit 2; the file of the trial is gone as well."""

    def refuse(*arguments: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(ConfigError, match="has no hard links"):
        require_writable(tmp_path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_system_that_keeps_no_names_is_refused_before_a_power_cut_takes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    """Exit 2, naming the setting that does without; with it nothing is asked of the disk."""

    def refuse(path: Path) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr("exporter.stores.kept.sync", refuse)
    found = unwritable(tmp_path, sync)
    assert (found is not None) is sync and [*tmp_path.iterdir()] == []
    assert found is None or (isinstance(found, ConfigError) and "sync = false" in found.hint)


def test_letters_that_the_locale_has_not_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LC_ALL=C without Python's UTF-8 mode: exit 2 with the variable that helps."""
    monkeypatch.setattr(os, "fsencode", lambda path: str(path).encode("ascii"))
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    with pytest.raises(ConfigError, match="writes file names as ascii") as caught:
        require_writable(tmp_path / "sé")
    assert "LC_ALL=C.UTF-8" in caught.value.hint


@pytest.mark.parametrize("where", ["lake", "lake/order", "lake/order/_delta_log"])
def test_a_run_does_not_begin_where_something_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Exit 2 and the path within a second: no JVM, no broker, and no other task is blamed for it."""
    (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / where).write_text("no folder")
    toml = tmp_path / "exporter.toml"
    toml.write_text(
        f'brokers = ["127.0.0.1:1"]\ntopics = ["t"]\ngroup = "g"\ntable_root = "{tmp_path}/lake"\n'
        '[type_from]\nkind = "topic"\n[event_time]\nkind = "record"\n[types.order]\ncolumns = "id BIGINT"\n'
    )
    monkeypatch.setattr(spark, "starting", lambda *arguments: pytest.fail("Spark was started"))
    error = CliRunner().invoke(cli, ["run", "--config", str(toml)]).exception
    assert isinstance(error, ConfigError) and error.exit_code == 2
    assert f"{tmp_path / where} is a file" in error.message
