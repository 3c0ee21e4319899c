"""An archive is unpacked once, whole, and nowhere else."""

from __future__ import annotations

import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.spark import archives


def archive(folder: Path, *names: str, link: str = "") -> Path:
    """One with files of these names. link: and with a symbolic link of this name to somewhere outside."""
    path = folder / "server-1.0-all.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for name in names:
            found = tarfile.TarInfo(name)
            found.size = 4
            file.addfile(found, io.BytesIO(b"body"))
        if link:
            found = tarfile.TarInfo(link)
            found.type, found.linkname = tarfile.SYMTYPE, "../../outside"
            file.addfile(found)
    return path


@pytest.fixture(params=["as it is", "without filters"], autouse=True)
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This Python, and one of before 3.11.4, which some systems have."""
    if request.param != "as it is":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the set `server`, whose one file is an archive."""
    monkeypatch.setenv("EXPORTER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(archives, "jar_paths", lambda name: [tmp_path / "jars" / name / "server-1.0-all.tar.gz"])
    (tmp_path / "jars" / "server").mkdir(parents=True)
    return tmp_path / "jars" / "server"


def test_an_archive_is_unpacked_once_whoever_else_does(cache: Path) -> None:
    """Beside it; of those that do it at the same moment each finds it whole."""
    archive(cache, "x.jar", "lib/y.jar")
    with ThreadPoolExecutor(4) as pool:
        (home,) = set(pool.map(archives.unpacked, ["server"] * 8))
    assert home == cache / "server-1.0-all" and (home / "lib" / "y.jar").read_bytes() == b"body"
    (home / "x.jar").write_bytes(b"kept")
    assert (archives.unpacked("server") / "x.jar").read_bytes() == b"kept"
    assert {path.name for path in cache.iterdir()} == {home.name, "server-1.0-all.tar.gz"}


@pytest.mark.parametrize("name", ["../outside", "/outside"])
def test_an_archive_writes_nowhere_else(cache: Path, name: str) -> None:
    """A name that leads out of the folder leads nowhere, or into it."""
    archive(cache, "x.jar", name)
    try:
        archives.unpacked("server")
    except ConfigError as error:
        assert "outside" in error.message
    assert not [path for path in (cache.parent / "outside", cache / "outside", Path("/outside")) if path.exists()]


def test_an_archive_has_no_links_that_lead_out(cache: Path) -> None:
    """What it has behind one would be written there."""
    archive(cache, "x.jar", link="lib")
    with pytest.raises(ConfigError, match="lib"):
        archives.unpacked("server")
    assert [path.name for path in cache.iterdir()] == ["server-1.0-all.tar.gz"]


def test_what_is_no_archive_is_told_with_a_hint(cache: Path) -> None:
    """And nothing stays of the attempt."""
    (cache / "server-1.0-all.tar.gz").write_bytes(b"no archive")
    with pytest.raises(ConfigError, match="cannot unpack") as caught:
        archives.unpacked("server")
    assert "EXPORTER_CACHE_DIR" in caught.value.hint
    assert [path.name for path in cache.iterdir()] == ["server-1.0-all.tar.gz"]
