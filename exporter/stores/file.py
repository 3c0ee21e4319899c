"""A mounted file system, and the log store that commits to it: a commit is there whole and once, whoever else commits.

    FileLogStore.java    writes versions
    FileChecksums.java   writes the checksum of each, from which Delta and we know a table without reading its log

Delta's own store for `file:` looks whether a version is there and then renames over it: two processes that look at
the same moment are both told that they committed, and one commit is gone. Here the version is a hard link to a
file that is complete, which only one of them can make. Neither starts a process, where Hadoop's local file system
starts `readlink` and `chmod` about twenty times for a commit and three times for its checksum.

What a power cut takes is what the system had not written yet. With the setting `sync` a version comes to be in this
order, and its writer is told after the last step only (ORDER):

    the files that it adds, the folders that name them, the entry under a hidden name    synced, in threads
    a checksum that outlived a former version of that number                             taken away
    the entry's name, by a hard link
    the folder of the log; while a table is young, also those above it                   synced

So an entry that is there after a power cut names whole files. It is one place for all that this session commits, what
OPTIMIZE and DELETE write too. This process syncs what its workers wrote: on one machine a file has the same pages,
whoever opens it, and one commit's files are synced side by side, where each worker would wait for the disk at every
file. Workers on other machines (a cluster) have pages of their own; they sync each file themselves as it is written.
Checksums are not synced: one that is cut short or lost is not believed (lake/log_files.py, FileLogStore.read). Neither
are commits that others were killed in the middle of; whoever reads a table syncs its log first (lake/table.py).

Whether files can be made is tried, with one that is removed again; permissions alone do not tell:

    encoded? ── the deepest folder that is there ── a file, a hard link to it, both removed

What is in the way says whose it is: the settings' or the machine's (2), or the storage's, which may come back (69).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Literal
from urllib.parse import unquote

from exporter.errors import ConfigError, ExporterError
from exporter.stores import kept
from exporter.stores.rooted import not_written
from exporter.stores.store import Entry, JavaSide

if TYPE_CHECKING:
    import pyarrow as pa

CLASS = "exporter.FileLogStore"
CHECKSUMS_CLASS = "exporter.FileChecksums"
JAVA = JavaSide(
    settings={
        "spark.delta.logStore.file.impl": CLASS,
        "spark.sql.streaming.checkpointFileManagerClass": CHECKSUMS_CLASS,
    },
    sources=tuple(Path(__file__).with_name(f"{name.rpartition('.')[2]}.java") for name in (CLASS, CHECKSUMS_CLASS)),
    sync_setting="exporter.sync",  # without it all is synced
    not_synced=f"{CLASS}$NotSynced",
)

FREE_BYTES_MIN = 1 << 20
_A_VALUE = "é"
"""Stands for all values of columns that cut tables: Spark names a partition's folder by them."""
STANDING = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG,
     errno.EINVAL}
)  # fmt: skip
"""What no waiting changes. All else, such as a full or read-only file system, is an outage of the storage."""
NO_LINKS = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
NO_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True)
class FileStore:
    """A folder of a file system that this machine has mounted. root: its path, absolute."""

    root: str
    commits_are_exclusive: ClassVar[Literal[True]] = True  # a version is a hard link, which only one task can make
    syncs: ClassVar[bool] = True
    options: ClassVar[Mapping[str, str]] = {}
    java: ClassVar[JavaSide] = JAVA

    @classmethod
    def at(cls, root: str, options: Mapping[str, str] | None = None) -> FileStore:
        """The store at /path or file:///path. Raises ValueError for what is neither."""
        path = root.removeprefix("file://")
        if not path.startswith("/") or not root.isprintable():
            raise ValueError("should be an absolute path or file:///path")
        if path != root and "%" in path:
            raise ValueError("a file:// path is not decoded: write it plainly, without %-codes")
        return cls(str(Path(path)))

    def uri(self, path: str = "") -> str:
        if path.startswith("/") or ".." in path:
            _require_below(path)
        return os.path.join(self.root, path) if path else self.root

    def below(self, folder: str) -> FileStore:
        return FileStore(self.uri(folder))

    def write_once(self, path: str, body: pa.Buffer | bytes) -> None:
        """The day's folder may vanish under a VACUUM: it is made again once."""
        at = self.uri(path)
        for last in (False, True):
            Path(at).parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(at, "xb") as file:
                    file.write(memoryview(body))
                    return
            except FileNotFoundError:
                if last:
                    raise

    def create(self, path: str, body: bytes, sync: bool = True) -> None:
        """A hard link to a file that is complete, as a commit is one; what a crash leaves is hidden."""
        at = Path(self.uri(path))
        at.parent.mkdir(parents=True, exist_ok=True)
        hidden = at.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            hidden.write_bytes(body)
            if sync:
                _sync_if_it_can(hidden)
            os.link(hidden, at)
        finally:
            with suppress(OSError):
                hidden.unlink()
        if sync:
            for folder in at.parents[: len(Path(path).parts)]:  # whatever of these was made, by whomever
                _sync_if_it_can(folder)

    def replace(self, path: str, body: bytes) -> None:
        at = Path(self.uri(path))
        at.parent.mkdir(parents=True, exist_ok=True)
        hidden = at.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            hidden.write_bytes(body)
            os.replace(hidden, at)
        finally:
            hidden.unlink(missing_ok=True)

    def read(self, path: str) -> bytes:
        with open(self.uri(path), "rb") as file:
            return file.read()

    def reader(self, path: str) -> BinaryIO:
        return open(self.uri(path), "rb")

    def size(self, path: str) -> int | None:
        try:
            return os.stat(self.uri(path)).st_size
        except FileNotFoundError:
            return None

    def live_size(self, path: str) -> int | None:
        try:
            return os.stat(os.path.join(self.root, unquote(path).removeprefix("file://"))).st_size
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> bool:
        try:
            os.unlink(self.uri(path))
        except FileNotFoundError:
            return False
        return True

    def sync(self, path: str) -> None:
        kept.sync(Path(self.uri(path)))

    def names(self, folder: str = "", after: str = "") -> list[str]:
        at = self.uri(folder)
        try:
            return [name for name in os.listdir(at) if name > after]
        except OSError:
            if _mode(at):
                raise
            return []

    def files(self, folder: str = "") -> Iterator[Entry]:
        at = self.uri(folder)
        try:
            entries = [] if folder and os.path.islink(at) else [*os.scandir(at)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            try:
                if entry.is_file(follow_symlinks=False):
                    bytes_of = entry.stat(follow_symlinks=False).st_size
                    yield Entry(f"{folder}/{entry.name}" if folder else entry.name, bytes_of)
            except FileNotFoundError:
                continue

    def has_folder(self, path: str) -> bool:
        return stat.S_ISDIR(_mode(self.uri(path)))

    def has_file(self, path: str) -> bool:
        return stat.S_ISREG(_mode(self.uri(path)))

    def unwritable(self, path: str = "", sync: bool = False) -> ExporterError | None:
        folder = Path(self.uri(path))
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
        if not stat.S_ISDIR(mode := _mode(there)):
            what = "is a file" if mode else "leads nowhere"
            return ConfigError(
                f"{there} {what}, where a folder has to be",
                "move it away, or correct `table_root`: nothing was written",
            )
        return _tried(there, sync)

    def trouble(self) -> str:
        root = self.root
        try:
            with os.scandir(root) as entries:
                next(entries, None)
            free = os.statvfs(root)
        except OSError as error:
            return f"{root}: {error.strerror or error}"
        if free.f_flag & os.ST_RDONLY:
            return f"{root} is mounted read-only"
        return f"{root} is full" if free.f_bavail * free.f_frsize < FREE_BYTES_MIN else ""

    def require_same_names(self, encoding: Callable[[], str | None], values: bool = False) -> None:
        if self.root.isascii() and not values:
            return
        told, name = encoding(), f"{self.root}/{_A_VALUE}" if values else self.root
        try:
            same = name.encode(told or "") == os.fsencode(name)
        except (LookupError, UnicodeEncodeError):
            same = False
        if not same:
            raise ConfigError(
                f"Java writes file names as {told} here, and this process as {sys.getfilesystemencoding()}: "
                f"{name} would be two folders",
                "set LC_ALL to a UTF-8 locale that this machine has (`locale -a`), or "
                + ("take no `partition_columns`" if self.root.isascii() else "write table_root in ASCII"),
            )


def _mode(at: str | Path) -> int:
    """Of what stands at a path, as stat() says it; 0 where nothing does. Raises OSError where the system does not tell.

    From Python 3.14 on pathlib takes an outage for a no, as os.path always did.
    """
    try:
        return os.stat(at).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return 0
    except OSError as error:
        if error.errno == errno.ELOOP:
            return 0
        raise


def _require_below(path: str) -> None:
    """Raises ValueError for a path that leads out of the root."""
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} is no path below a store's root")


def _tried(folder: Path, sync: bool) -> ExporterError | None:
    """A file and a hard link to it: a commit is one."""
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
            return not_written(
                folder, reason, "give the user of this process the right to write there, or correct `table_root`"
            )
        return not_written(folder, reason)
    finally:
        for path in (link, file):
            with suppress(OSError):
                path.unlink()
    return None


def _sync_if_it_can(path: Path) -> None:
    """Raises OSError, but for a file system that never can: whoever asks for more is refused it at the start."""
    try:
        kept.sync(path)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise


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
