"""What a store is: where the bytes of all tables are, and what commits to tables there need of the JVM.

    open_store(table_root) ── Store ─┬─ below("order") ── Store     the folder of one table
                                     └─ java ── JavaSide            what the session is started with

Paths are text, relative to the store's root, of names with `/` between them: no empty name, no `.`, no `..`. What Delta
and Spark call a place is uri(), and open_store() takes that too: so a store is told to Spark's workers by a text.

Nothing here writes to a table's log. That is Delta's, through the log store class of the Java side, and all of FENCE
rests on it: of two tasks that make the same version exactly one may be told that it did. A store whose log store looks
first and writes then loses commits without a word; there is none of that kind (`commits_are_exclusive`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, Protocol

from exporter.errors import ExporterError

if TYPE_CHECKING:
    import pyarrow as pa


JAR_SETS = ("s3", "azure", "gcs")
"""Of jars.txt, what some stores need beside Spark's own; nobody else fetches them."""


class Entry(NamedTuple):
    """One file. path: from the store's root."""

    path: str
    bytes: int


@dataclass(frozen=True)
class JavaSide:
    """What the JVM needs to commit to tables of a store; empty where it brings that along.

    settings: Spark's, the log store class among them. sources: Java files of one class each, compiled at the session's
    start. jar_sets: of spark/jars.txt, behind Spark's own; jars_first: before them, where they stand for some of them.
    sync_setting: Hadoop's name for whether a commit is on disk before its writer is told. not_synced: the class of the
    error that says that it could not be brought there. of_storage: how the names of those begin by which its client
    says that the storage did not do something now; empty: none is known.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Path, ...] = ()
    jar_sets: tuple[str, ...] = ()
    jars_first: bool = False
    sync_setting: str = ""
    not_synced: str = ""
    of_storage: str = ""


class Store(Protocol):
    """A root and all below it. Cheap to make and to send to a worker; holds no connection of its own.

    Methods raise OSError for what the storage does not do, FileNotFoundError where nothing is there, and ValueError
    for a path that is none.
    """

    @property
    def commits_are_exclusive(self) -> Literal[True]:
        """Whether the log store class makes each log entry at most once, whoever else tries at that moment."""
        ...

    @property
    def syncs(self) -> bool:
        """Whether sync() does something: what is written is not safe from a power cut by itself."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """What open_store() has to be told beside uri() to make this one again, in another process too; no secret."""
        ...

    @property
    def java(self) -> JavaSide: ...

    def uri(self, path: str = "") -> str:
        """What Delta, Spark, messages and open_store() call a place."""
        ...

    def below(self, folder: str) -> Store:
        """The same store with a folder for its root, which need not be there."""
        ...

    # Files: written whole, once, and read

    def write_once(self, path: str, body: pa.Buffer | bytes) -> None:
        """Create a file, and the folders above it. Raises FileExistsError if it is there (NAMES)."""
        ...

    def create(self, path: str, body: bytes, sync: bool = True) -> None:
        """As write_once, of a small file that others look for by its name: they find it whole or not at all.

        sync: whether it survives a power cut once this returns, as far as the storage can promise that. Raises
        FileExistsError if it is there.
        """
        ...

    def replace(self, path: str, body: bytes) -> None:
        """Create or replace a small file; of several at once any one's stays, whole. For what is a hint only."""
        ...

    def read(self, path: str) -> bytes:
        """All bytes of a file. Raises OSError."""
        ...

    def reader(self, path: str) -> BinaryIO:
        """A file that is open, to be read in parts and closed; it can seek."""
        ...

    def size(self, path: str) -> int | None:
        """Bytes of a file; None if it is not there."""
        ...

    def live_size(self, path: str) -> int | None:
        """As size(), of a live file as a table's log calls it: URL-encoded, below this root or a whole URI."""
        ...

    def delete(self, path: str) -> bool:
        """Delete a file; False if somebody else has already. For the sweep alone (TEMP)."""
        ...

    def sync(self, path: str) -> None:
        """A file's bytes, or the names in a folder, survive a power cut from here on. Only where the store `syncs`."""
        ...

    # Folders

    def names(self, folder: str = "", after: str = "") -> list[str]:
        """The names of all files and folders directly in a folder, in no order; none if it is not there.

        after: only those that are greater, byte for byte; a store that lists in order asks for these only.
        """
        ...

    def files(self, folder: str = "") -> Iterator[Entry]:
        """The files directly in a folder, in no order; none if it is not there. Links lead nowhere here."""
        ...

    def has_folder(self, path: str) -> bool: ...

    def has_file(self, path: str) -> bool: ...

    # The storage itself

    def unwritable(self, path: str = "", sync: bool = False) -> ExporterError | None:
        """Why nothing can be written to a folder, which need not be there yet; None if it can. It is tried.

        sync: whether what is written also has to be brought to disk. ConfigError for what no waiting changes,
        DependencyUnreachable for an outage.
        """
        ...

    def trouble(self) -> str:
        """Why nothing here can be read or written now, whatever a table; empty if the storage seems to answer."""
        ...

    def require_same_names(self, encoding: Callable[[], str | None], values: bool = False) -> None:
        """Raises ConfigError if the JVM would call the root otherwise, or a folder that bears a value.

        encoding: how it writes file names. values: whether there are such folders.
        """
        ...
