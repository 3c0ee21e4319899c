"""The object store: all files in memory, listed by folder; each call is a request over the network.

    sim://lake/order/_delta_log/00000000000000000007.json
"""

from __future__ import annotations

import errno
import io
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal

from exporter.errors import DependencyUnreachable, ExporterError
from exporter.stores.rooted import RootedStore, require_plain
from exporter.stores.store import Entry, JavaSide
from tests.sim.network import STORE, Network

if TYPE_CHECKING:
    import pyarrow as pa

SCHEME = "sim://"


class Disk:
    """All files by their path, and the names in each folder. written: told of each file that is new or changed;
    taken: of each that is deleted."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.names: dict[str, dict[str, None]] = {"": {}}
        self.written: Callable[[str, bytes], None] = lambda path, body: None
        self.taken: Callable[[str], None] = lambda path: None

    def put(self, path: str, body: bytes, once: bool) -> None:
        """Raises FileExistsError."""
        if once and path in self.bodies:
            raise FileExistsError(path)
        is_new, below = path not in self.bodies, path
        self.bodies[path] = body
        while is_new and below:
            folder, _, name = below.rpartition("/")
            is_new = folder not in self.names
            self.names.setdefault(folder, {})[name] = None
            below = folder
        self.written(path, body)

    def take(self, path: str) -> bool:
        """Delete a file; folders that are empty then are none any more."""
        if self.bodies.pop(path, None) is None:
            return False
        self.taken(path)
        while path:
            folder, _, name = path.rpartition("/")
            del self.names[folder][name]
            if self.names[folder] or not folder:
                break
            del self.names[folder]
            path = folder
        return True

    def get(self, path: str) -> bytes:
        """Raises FileNotFoundError."""
        if (found := self.bodies.get(path)) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return found


@lru_cache(1 << 14)
def _on_disk(root: str, path: str) -> str:
    """A path below a store's root, as the disk has it. Raises ValueError for one that is not plain."""
    return SimStore(root).uri(path)[len(SCHEME) :]


class There:
    """The world that stores are in now: there is one at a time."""

    disk = Disk()
    network: Network


def _silent(what: str) -> OSError:
    return OSError(errno.EIO, f"503: {what}")


class SimStore(RootedStore):
    """A folder of the disk. root: sim://name, and names below it."""

    commits_are_exclusive: ClassVar[Literal[True]] = True
    syncs: ClassVar[bool] = False
    java: ClassVar[JavaSide] = JavaSide()

    @classmethod
    def at(cls, root: str, options: Mapping[str, str] | None = None) -> SimStore:
        """Raises ValueError for what is no root here."""
        if not root.startswith(SCHEME):
            raise ValueError(f"{root!r} should be {SCHEME}name")
        require_plain(root.removeprefix(SCHEME))
        return cls(root)

    def below(self, folder: str) -> SimStore:
        return SimStore(self.uri(folder))

    def _path(self, path: str) -> str:
        return _on_disk(self.root, path)

    def _read(self, effect: Callable[[], Any], kind: str = "GET") -> Any:
        """kind: of the request that it is in an object store."""
        return There.network.read(STORE, effect, _silent, f"{STORE}: {kind}")

    def _write(self, effect: Callable[[], Any], may_be_late: bool = False) -> Any:
        return There.network.write(STORE, effect, _silent, may_be_late)

    def asked(self, effect: Callable[[], Any]) -> Any:
        """What a job over many files finds, as one request."""
        return self._read(effect)

    def write_once(self, path: str, body: pa.Buffer | bytes) -> None:
        at, told = self._path(path), bytes(memoryview(body))
        self._write(lambda: There.disk.put(at, told, once=True))

    def make_entry(self, path: str, body: bytes, also: Callable[[], None]) -> None:
        """Make a log entry, as Delta does: of two that try only one does. also: follows at once where it was made.

        Raises FileExistsError.
        """
        at = self._path(path)

        def make() -> None:
            There.disk.put(at, body, once=True)
            also()

        self._write(make, may_be_late=True)

    def create(self, path: str, body: bytes, sync: bool = True) -> None:
        self.write_once(path, body)

    def replace(self, path: str, body: bytes) -> None:
        at = self._path(path)
        self._write(lambda: There.disk.put(at, body, once=False))

    def read(self, path: str) -> bytes:
        at = self._path(path)
        found: bytes = self._read(lambda: There.disk.get(at))
        return found

    def reader(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path))

    def size(self, path: str) -> int | None:
        at = self._path(path)
        body = self._read(lambda: There.disk.bodies.get(at), "HEAD")
        return None if body is None else len(body)

    def delete(self, path: str) -> bool:
        at = self._path(path)
        found: bool = self._write(lambda: There.disk.take(at))
        return found

    def sync(self, path: str) -> None:
        """Nothing is lost here once it was written."""

    def names(self, folder: str = "", after: str = "") -> list[str]:
        at = self._path(folder)
        found: list[str] = self._read(lambda: [*There.disk.names.get(at, ())], "LIST")
        found.sort()
        return found[bisect_right(found, after) :] if after else found

    def files(self, folder: str = "") -> Iterator[Entry]:
        at, disk = self._path(folder), There.disk
        for name in self.names(folder):
            if (body := disk.bodies.get(f"{at}/{name}")) is not None:
                yield Entry(f"{folder}/{name}" if folder else name, len(body))

    def has_folder(self, path: str) -> bool:
        at = self._path(path)
        found: bool = self._read(lambda: at in There.disk.names, "LIST")
        return found

    def unwritable(self, path: str = "", sync: bool = False) -> ExporterError | None:
        why = self.trouble()
        return DependencyUnreachable(f"nothing can be written to {self.uri(path)}: {why}") if why else None

    def trouble(self) -> str:
        """What a write and a read of a small file say, as those of the real stores do."""
        try:
            self._write(lambda: None)
        except OSError as error:
            return str(error)
        return ""
