"""A store in this process's memory, for tests: stricter than any that holds data.

    memory://name/folder   one such disk per name, as long as this process lives

Whoever works with it works with all others: it takes no path that has to be normalised, creates nothing a second time,
not even after a delete, tells a listing of new files only when it likes (`lists_late`), and a file that is deleted can
no longer be read by who had opened it. Register it in `STORES` under "memory", then open_store() finds it.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Literal

from exporter.errors import ExporterError
from exporter.stores.rooted import RootedStore, require_plain
from exporter.stores.store import Entry, JavaSide

if TYPE_CHECKING:
    import pyarrow as pa

SCHEME = "memory://"


@dataclass
class Disk:
    """All files of one name, by their full path. unwritable, trouble: what the store is to say of itself."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)
    synced: list[str] = field(default_factory=list)
    lists_late: bool = False
    unwritable: ExporterError | None = None
    trouble: str = ""
    alone: threading.Lock = field(default_factory=threading.Lock)

    def settle(self) -> None:
        """Let a listing tell of all that is there."""
        self.unlisted.clear()


DISKS: dict[str, Disk] = {}


class MemoryStore(RootedStore):
    """A folder of a disk. root: memory://name, and names below it."""

    commits_are_exclusive: ClassVar[Literal[True]] = True
    syncs: ClassVar[bool] = True
    java: ClassVar[JavaSide] = JavaSide()

    @classmethod
    def at(cls, root: str, options: Mapping[str, str] | None = None) -> MemoryStore:
        """Raises ValueError for what is no root here."""
        if not root.startswith(SCHEME):
            raise ValueError(f"{root!r} should be {SCHEME}name")
        require_plain(root.removeprefix(SCHEME))
        return cls(root)

    @property
    def disk(self) -> Disk:
        """What a test looks at and changes."""
        return DISKS.setdefault(self.root.removeprefix(SCHEME).partition("/")[0], Disk())

    def write_once(self, path: str, body: pa.Buffer | bytes) -> None:
        at, disk = self.uri(path), self.disk
        with disk.alone:
            above = at
            while (above := above.rpartition("/")[0]) != SCHEME.removesuffix("/"):
                if above in disk.bodies:
                    raise NotADirectoryError(above)
            if at in disk.bodies or at in disk.deleted or self.has_folder(path):
                raise FileExistsError(at)
            disk.bodies[at] = bytes(memoryview(body))
            if disk.lists_late:
                disk.unlisted.add(at)

    def create(self, path: str, body: bytes, sync: bool = True) -> None:
        self.write_once(path, body)

    def replace(self, path: str, body: bytes) -> None:
        self.disk.bodies[self.uri(path)] = body

    def read(self, path: str) -> bytes:
        return self._body(self.uri(path))

    def reader(self, path: str) -> BinaryIO:
        return _Opened(self.disk, self.uri(path), self.read(path))

    def size(self, path: str) -> int | None:
        body = self.disk.bodies.get(self.uri(path))
        return None if body is None else len(body)

    def delete(self, path: str) -> bool:
        at = self.uri(path)
        with self.disk.alone:
            found = self.disk.bodies.pop(at, None) is not None
            self.disk.deleted |= {at} if found else set()
        return found

    def sync(self, path: str) -> None:
        if not self.has_folder(path):
            self.read(path)
        self.disk.synced.append(self.uri(path))

    def names(self, folder: str = "", after: str = "") -> list[str]:
        return sorted(name for name in {path.partition("/")[0] for path in self._listed(folder)} if name > after)

    def files(self, folder: str = "") -> Iterator[Entry]:
        for path in self._listed(folder):
            if "/" not in path:
                path = f"{folder}/{path}" if folder else path
                yield Entry(path, len(self.disk.bodies[self.uri(path)]))

    def has_folder(self, path: str) -> bool:
        return any(at.startswith(f"{self.uri(path)}/") for at in self.disk.bodies)

    def unwritable(self, path: str = "", sync: bool = False) -> ExporterError | None:
        self.uri(path)
        return self.disk.unwritable

    def trouble(self) -> str:
        return self.disk.trouble

    def _body(self, at: str) -> bytes:
        if at not in self.disk.bodies:
            raise FileNotFoundError(at)
        return self.disk.bodies[at]

    def _listed(self, folder: str) -> list[str]:
        """Paths from a folder, of what is below it at any depth."""
        begins = f"{self.uri(folder)}/"
        there = sorted(self.disk.bodies.keys() - self.disk.unlisted)
        return [at.removeprefix(begins) for at in there if at.startswith(begins)]


class _Opened(io.BytesIO):
    """A file that is open for reading as long as it is there."""

    def __init__(self, disk: Disk, at: str, body: bytes) -> None:
        super().__init__(body)
        self._disk, self._at = disk, at

    def read(self, size: int | None = -1, /) -> bytes:
        if self._at not in self._disk.bodies:
            raise FileNotFoundError(self._at)
        return super().read(size)

    def writable(self) -> bool:
        return False
