"""Whether files can be made in a folder: tried, with one that is removed again; permissions alone do not tell.

    encoded? ── the deepest folder that is there ── a file, a hard link to it, both removed

What is in the way says whose it is: the settings' or the machine's (2), or the storage's, which may come back (69).
"""

from __future__ import annotations

import errno
import os
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from exporter.errors import ConfigError, DependencyUnreachable, ExporterError
from exporter.stores import kept
from offsets.names import table_folder

STANDING = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG,
     errno.EINVAL}
)  # fmt: skip
"""What no waiting changes. All else, such as a full or read-only file system, is an outage of the storage."""
NO_LINKS = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})

NO_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})


def unwritable(folder: Path, sync: bool = False) -> ExporterError | None:
    """Why nothing can be written to a folder, which need not be there yet; None if it can.

    sync: whether what is written also has to be brought to disk.
    """
    try:
        os.fsencode(folder)
    except UnicodeEncodeError:
        return ConfigError(
            f"{folder} cannot be a path here: this process writes file names as {sys.getfilesystemencoding()}",
            "start it with LC_ALL=C.UTF-8, or another locale that is UTF-8",
        )
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        what = "leads nowhere" if there.is_symlink() and not there.exists() else "is a file"
        return ConfigError(
            f"{there} {what}, where a folder has to be", "move it away, or correct `table_root`: nothing was written"
        )
    return _tried(there, sync)


def _tried(folder: Path, sync: bool) -> ExporterError | None:
    """A file and a hard link to it: a commit is one (spark/java_classes.py)."""
    file, link = (folder / f".{uuid.uuid4().hex}.tmp" for _ in range(2))
    try:
        with file.open("xb") as opened:
            opened.write(b"0")
        try:
            os.link(file, link)
        except OSError as error:
            if error.errno in NO_LINKS or error.errno == errno.EPERM:
                return ConfigError(
                    f"the file system of {folder} has no hard links, so commits of two tasks could not be told apart",
                    "put `table_root` on one that has them",
                )
            raise
        if sync and (refused := _unsynced(folder)) is not None:
            return refused
    except OSError as error:
        reason = error.strerror or type(error).__name__
        if error.errno in STANDING:
            hint = "give the user of this process the right to write there, or correct `table_root`"
            return ConfigError(f"nothing can be written to {folder}: {reason}", hint)
        return DependencyUnreachable(
            f"nothing can be written to {folder}: {reason}", "start again when it can; all goes on from the tables"
        )
    finally:
        for path in (link, file):
            with suppress(OSError):
                path.unlink()
    return None


def _unsynced(folder: Path) -> ExporterError | None:
    """Names are brought to disk by their folder. Raises OSError for what is not for ever."""
    try:
        kept.sync(folder)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
        return ConfigError(
            f"the file system of {folder} cannot bring the names in a folder to disk: {error.strerror}",
            "put `table_root` on one that can, or set `sync = false` and bear what a power cut takes",
        )
    return None


def in_the_way(root: Path, event_types: Iterable[str]) -> Iterator[ConfigError]:
    """Each file that stands where the folder of a table, or of its log, has to be."""
    for name in event_types:
        folder = root / table_folder(name)
        for path in (folder, folder / "_delta_log"):
            if path.is_file():
                yield ConfigError(f"{path} is a file, where table {name} has to be", "move it away")


def require_room(root: Path, event_types: Iterable[str], sync: bool = False) -> None:
    """Raises ConfigError or DependencyUnreachable if nothing can be written, or a file is where a table has to be."""
    require_writable(root, sync)
    if found := [*in_the_way(root, event_types)]:
        raise ConfigError.of(found, "files are in the way")


def require_writable(folder: Path, sync: bool = False) -> None:
    """Raises ConfigError or DependencyUnreachable if nothing can be written to a folder."""
    if (error := unwritable(folder, sync)) is not None:
        raise error
