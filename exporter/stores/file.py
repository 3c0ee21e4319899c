"""Files and hard links of a mounted file system, and the log store that commits to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    import pyarrow as pa


def size_on_disk(folder: Path, path: str) -> int | None:
    """Bytes of a live file, None if it is not there. path: as the log has it, URL-encoded."""
    plain = unquote(path).removeprefix("file://")
    try:
        return os.stat(folder / plain).st_size
    except FileNotFoundError:
        return None


def write_once(path: Path, body: pa.Buffer) -> None:
    """Create `path` with `body`; it must not exist. The day's folder may vanish under a VACUUM: made again once."""
    for last in (False, True):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "xb") as file:
                file.write(memoryview(body))
                return
        except FileNotFoundError:
            if last:
                raise


CLASS = "exporter.FileLogStore"
CHECKSUMS_CLASS = "exporter.FileChecksums"
SOURCES = [Path(__file__).with_name(f"{name.rpartition('.')[2]}.java") for name in (CLASS, CHECKSUMS_CLASS)]
SYNC = "exporter.sync"
"""Hadoop's name for the setting; without it all is synced."""
NOT_SYNCED = f"{CLASS}$NotSynced"
CONFIGURATION = {
    "spark.delta.logStore.file.impl": CLASS,
    "spark.sql.streaming.checkpointFileManagerClass": CHECKSUMS_CLASS,
}

FREE_BYTES_MIN = 1 << 20


def storage_trouble(root: Path) -> str:
    """Why nothing under the root can be read or written now, whatever a table; empty if it seems to answer."""
    try:
        with os.scandir(root) as entries:
            next(entries, None)
        free = os.statvfs(root)
    except OSError as error:
        return f"{root}: {error.strerror or error}"
    if free.f_flag & os.ST_RDONLY:
        return f"{root} is mounted read-only"
    return f"{root} is full" if free.f_bavail * free.f_frsize < FREE_BYTES_MIN else ""
