"""What is in the way in a file system is told with the right exit code; an outage of it is no answer."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.errors import ConfigError, DependencyUnreachable, ExporterError
from exporter.spark import session as spark
from exporter.stores.file import FileStore
from exporter.stores.obstacles import require_room
from exporter.stores.store import Entry


def unwritable(folder: Path, sync: bool = False) -> ExporterError | None:
    return FileStore(str(folder)).unwritable(sync=sync)


def require_writable(folder: Path) -> None:
    require_room(FileStore(str(folder)), ())


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


def test_a_link_leads_nowhere_where_files_are_listed(tmp_path: Path) -> None:
    """What is listed may be deleted (sweep): not what stands elsewhere. A root may be a link, as a mount often is."""
    (tmp_path / "elsewhere" / "day=1").mkdir(parents=True)
    (tmp_path / "elsewhere" / "day=1" / "x").write_text("1")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "day=1").symlink_to(tmp_path / "elsewhere" / "day=1")
    (tmp_path / "table" / "y").symlink_to(tmp_path / "elsewhere" / "day=1" / "x")
    table = FileStore(str(tmp_path / "table"))
    assert [*table.files("day=1")] == [] == [*table.files()]
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere")
    linked = FileStore(str(tmp_path / "linked"))
    assert [*linked.files("day=1")] == [Entry("day=1/x", 1)] and linked.has_folder("day=1")


def test_a_folder_that_cannot_be_listed_is_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage is no "there is none"; what is not there, or stands below a file, is."""
    (tmp_path / "file").write_text("")
    store = FileStore(str(tmp_path))
    assert store.names("gone") == store.names("file/below") == []
    with pytest.raises(NotADirectoryError):
        store.names("file")

    def refuse(*arguments: Any, **more: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for name in "listdir", "stat":  # it may tell of no folder at all
        monkeypatch.setattr(os, name, refuse)
        with pytest.raises(OSError, match="Input/output error"):
            store.names()


def test_a_file_system_that_does_not_tell_is_not_taken_for_a_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the tables of a storage that is out would seem to be gone."""

    def refuse(*arguments: Any, **more: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "stat", refuse)
    for name in "exists", "is_dir", "is_file":
        monkeypatch.setattr(Path, name, lambda self: False)  # as from Python 3.14 on
    store = FileStore(str(tmp_path))
    for asks in (store.has_folder, store.has_file, store.size, store.live_size):
        with pytest.raises(OSError, match="Input/output error"):
            asks("order")


def test_a_folder_that_vanishes_between_is_made_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """VACUUM removes empty folders."""
    real, vanish = Path.mkdir, [True]

    def mkdir(self: Path, *arguments: Any, **more: Any) -> None:
        real(self, *arguments, **more)
        if vanish and vanish.pop():
            self.rmdir()

    monkeypatch.setattr(Path, "mkdir", mkdir)
    store = FileStore(str(tmp_path))
    store.write_once("day=1/x", b"1")
    assert store.read("day=1/x") == b"1"
    vanish += [True, True]
    with pytest.raises(FileNotFoundError):
        store.write_once("day=2/x", b"1")


@pytest.mark.parametrize(
    ("path", "encoding", "refused"),
    [("/data/lake", "ANSI_X3.4-1968", False), ("/data/sé", "UTF-8", False), ("/data/sé", "ANSI_X3.4-1968", True),
     ("/data/sé", "ISO-8859-1", True), ("/data/sé", "x-unheard-of", True), ("/data/sé", None, True)],
)  # fmt: skip
def test_a_root_that_java_would_write_otherwise_is_refused(path: str, encoding: str | None, refused: bool) -> None:
    """Exit 2 with what helps, not two folders of which one is an outage."""
    if not refused:
        FileStore(path).require_same_names(lambda: encoding)
        return
    with pytest.raises(ConfigError, match="two folders") as caught:
        FileStore(path).require_same_names(lambda: encoding)
    assert "LC_ALL" in caught.value.hint


def test_a_value_that_java_would_write_otherwise_is_refused_too() -> None:
    """OPTIMIZE names folders by values as they are; where none cuts a table, an ASCII root goes with any locale."""
    store = FileStore("/lake")
    store.require_same_names(lambda: "UTF-8", values=True)
    with pytest.raises(ConfigError, match="/lake/é would be two folders") as caught:
        store.require_same_names(lambda: "ANSI_X3.4-1968", values=True)
    assert "LC_ALL" in caught.value.hint and "partition_columns" in caught.value.hint


def test_what_is_created_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its name, with those of all folders above it up to the root, before its writer is told."""
    done: list[str] = []
    real_link = os.link

    def link(source: Path, target: Path) -> None:
        real_link(source, target)
        done.append("named")

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(
        "exporter.stores.kept.sync",
        lambda path: done.append("file" if path.is_file() else str(path.relative_to(tmp_path))),
    )
    FileStore(str(tmp_path / "lake")).create("a/b/x", b"body")
    assert done == ["file", "named", "lake/a/b", "lake/a", "lake"]
    FileStore(str(tmp_path / "lake")).create("a/b/y", b"body", sync=False)
    assert done[5:] == ["named"]
    assert sorted(path.name for path in (tmp_path / "lake/a/b").iterdir()) == ["x", "y"]


def test_a_file_system_that_cannot_sync_names_creates_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it has to, it is refused at the start; any other error is told."""

    def fails(number: int) -> Any:
        def sync(path: Path) -> None:
            raise OSError(number, os.strerror(number))

        return sync

    store = FileStore(str(tmp_path))
    monkeypatch.setattr("exporter.stores.kept.sync", fails(errno.EINVAL))
    store.create("x", b"1")
    monkeypatch.setattr("exporter.stores.kept.sync", fails(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        store.create("y", b"1")
    assert [*store.files()] == [Entry("x", 1)]
