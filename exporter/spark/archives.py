"""A server that is fetched as one archive: unpacked once, beside it in the cache, there whole or not at all."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from exporter.errors import ConfigError
from exporter.spark.jars import cache_folder, jar_paths
from exporter.stores import kept

SUFFIX = ".tar.gz"


def unpacked(set_name: str) -> Path:
    """The folder of a set that is one archive; fetches and unpacks what is missing.

    Raises what jar_paths raises, ConfigError for a cache folder that cannot be written.
    """
    (archive,) = jar_paths(set_name)
    home = archive.with_name(archive.name.removesuffix(SUFFIX))
    if home.is_dir():
        return home
    try:
        work = Path(tempfile.mkdtemp(prefix=".unpack-", dir=cache_folder(set_name)))
        try:
            with tarfile.open(archive) as files:
                extract(files, work)
            kept.folder_into_place(work, home)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except (OSError, tarfile.TarError) as error:
        hint = "set EXPORTER_CACHE_DIR to a folder that this user can write"
        raise ConfigError(f"cannot unpack {archive}: {error}", hint) from error
    return home


def extract(files: tarfile.TarFile, folder: Path) -> None:
    """Unpack into a folder; nothing outside of it, and no devices. Raises TarError, OSError."""
    if hasattr(tarfile, "data_filter"):
        files.extractall(folder, filter="data")
        return
    # Debian's Python 3.11.2 has no filters, nor have those before 3.10.12 and 3.11.4.
    root = folder.resolve()
    for member in files:
        is_inside = (root / member.name).resolve().is_relative_to(root)
        if not (is_inside and (member.isfile() or member.isdir())):
            raise tarfile.TarError(f"{member.name!r} leads outside, or is no file")
    files.extractall(folder)
