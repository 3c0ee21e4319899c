"""HDFS: whoever renames first has made the log entry, for a NameNode does one thing at a time.

    write_once   created under its final name, which a NameNode gives once; a writer that is killed leaves a part of a
                 file, which no commit names, and nobody takes for its own
    create       a hidden file, closed, then renamed over nothing
    replace      the same, renamed over what is there

Versions are Delta's own HDFSLogStore's to write, by such a rename. Java's client tells a NameNode which request it
sends again after a lost reply; here a rename that may have been done is asked for again, and where the hidden name is
gone it was ours: nobody else knows that.

A file that is closed is in the memory of as many machines as have copies of it, and is lost only with all of them: a
power cut of the whole cluster can take what was closed within some seconds before, log entries too, unless its
DataNodes have `dfs.datanode.synconclose`. NameNodes lose nothing then: such a file has its name and its size, and
cannot be read, so nobody goes on from another place. What `create` is told to sync is on their disks.

close() waits until a DataNode has told the NameNode of the last block: hdfs-native asks at once, then after 0.5 s; so
does Java, after 0.4 s by default and after 20 ms here. A NameNode with `dfs.namenode.file.close.num-committed-allowed`
closes at once; the last block of a file may then be unknown to a reader for a moment, who waits for it.

The user is $HADOOP_USER_NAME or that of the process, or with Kerberos (core-site.xml) that of the ticket cache or the
keytab which the environment names; the NameNodes of a nameservice are told by the files in $HADOOP_CONF_DIR. Both
hold here as in the JVM, and in the workers by their own environment; nothing of it is in a setting or an order.
"""

from __future__ import annotations

import errno
import io
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal

from exporter.core.backoff import Backoff
from exporter.errors import ConfigError, ExporterError
from exporter.stores.hdfs_client import PROBE_SECS, ask, require_library
from exporter.stores.ranged import Ranged
from exporter.stores.rooted import RootedStore, not_written, require_plain
from exporter.stores.store import Entry, JavaSide

if TYPE_CHECKING:
    import pyarrow as pa

PART_BYTES = 4 << 20
"""Of a file that is read or written: what has to be done before a question's end."""
BUFFER_BYTES = 1 << 20
RENAMES = 3
"""How often a rename is asked for whose reply was lost."""
PAUSE = Backoff(0.5, 5.0)
REPORTED_SECS, REPORTED_SECS_MAX = 0.05, 30.0
"""Until a NameNode is asked again whether it knows a file's last block, and until that is given up."""
STANDING = frozenset({errno.EACCES, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL})
"""What no waiting changes. All else, such as a full or starting HDFS, is an outage of the storage."""
HINTS = {
    errno.EACCES: "give the user of this process the right to write there, or a Kerberos ticket",
    errno.EINVAL: "correct `table_root`, or say by HADOOP_CONF_DIR where the NameNodes of a nameservice are",
}
JAVA = JavaSide(
    settings={
        "spark.delta.logStore.hdfs.impl": "io.delta.storage.HDFSLogStore",  # Delta's default too
        # Until a NameNode knows a file's last block: 20 ms, 40 ms ... 10 s, where Hadoop waits 0.4 s ... 6.4 s
        "spark.hadoop.dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "20",
        "spark.hadoop.dfs.client.block.write.locateFollowingBlock.retries": "10",
        # As long as hdfs_client waits for a NameNode; Hadoop's own is two minutes, and a quarter of an hour to connect
        "spark.hadoop.ipc.client.rpc-timeout.ms": "60000",
        "spark.hadoop.ipc.client.connect.max.retries.on.timeouts": "2",
    }
)
_ROOT = re.compile(r"hdfs://(?P<authority>[A-Za-z0-9._-]+(?::[0-9]{1,5})?)(?P<path>/[^:]*)?")


class HdfsStore(RootedStore):
    """A folder of HDFS. root: hdfs://namenode:port/path or hdfs://nameservice/path."""

    commits_are_exclusive: ClassVar[Literal[True]] = True  # one who renames over nothing is first
    syncs: ClassVar[bool] = False
    java: ClassVar[JavaSide] = JAVA

    @classmethod
    def at(cls, root: str, options: Mapping[str, str] | None = None) -> HdfsStore:
        """The store at a root. Raises ValueError for what is none, ConfigError if hdfs-native is not installed."""
        found = _ROOT.fullmatch(root)
        if found is None:
            raise ValueError("should be hdfs://namenode:port/path or hdfs://nameservice/path, without a colon in path")
        if path := (found["path"] or "").strip("/"):
            require_plain(path)
        require_library()
        return cls(root.rstrip("/"))

    @property
    def _authority(self) -> str:
        return self.root.split("/")[2]

    def _path(self, path: str = "") -> str:
        """As a NameNode calls it."""
        return self.uri(path).removeprefix(f"hdfs://{self._authority}") or "/"

    def _ask(self, path: str, question: Callable[[Any], Any], secs: float = 0.0) -> Any:
        return ask(self._authority, question, self.uri(path), secs)

    # Files

    def write_once(self, path: str, body: pa.Buffer | bytes) -> None:
        self._write(path, body)

    def create(self, path: str, body: bytes, sync: bool = True) -> None:
        if self._kind(path) is not None:
            raise FileExistsError(errno.EEXIST, "there already", self.uri(path))
        self._write_aside(path, body, sync, overwrite=False)

    def replace(self, path: str, body: bytes) -> None:
        self._write_aside(path, body, sync=False, overwrite=True)

    def _write(self, path: str, body: pa.Buffer | bytes, sync: bool = False) -> None:
        at, content = self._path(path), memoryview(body)
        writer = self._ask(path, partial(_created, at))
        for start in range(0, len(content), PART_BYTES):
            self._ask(path, partial(_write_part, writer, bytes(content[start : start + PART_BYTES])))
        if sync and content:
            with suppress(NotImplementedError):  # an erasure-coded file cannot be
                self._ask(path, lambda _: writer.hsync())
        self._ask(path, lambda _: writer.close())

    def _write_aside(self, path: str, body: bytes, sync: bool, overwrite: bool) -> None:
        folder, _, _ = path.rpartition("/")
        hidden = f"{folder}/.{uuid.uuid4().hex}.tmp".lstrip("/")
        try:
            self._write(hidden, body, sync)
            self._rename(hidden, path, overwrite)
        except BaseException:
            with suppress(OSError):
                self.delete(hidden)
            raise

    def _rename(self, hidden: str, path: str, overwrite: bool) -> None:
        """Raises FileExistsError if somebody else's file is there: a NameNode looks for the hidden one first."""
        source, target = self._path(hidden), self._path(path)
        for attempt in range(RENAMES):
            try:
                self._ask(path, lambda client: client.rename(source, target, overwrite))
                return
            except FileNotFoundError:
                if not attempt:
                    raise
                return
            except FileExistsError:
                raise
            except OSError:
                if attempt == RENAMES - 1:
                    raise
            time.sleep(PAUSE.after(attempt))  # pace of the tries, bounded by their number

    def read(self, path: str) -> bytes:
        with self.reader(path) as file:
            return file.read()

    def reader(self, path: str) -> BinaryIO:
        opened = self._ask(path, partial(_opened, self._path(path)))
        size = opened.file_length()

        def between(start: int, end: int) -> bytes:
            parts = [(one, min(end - one, PART_BYTES)) for one in range(start, end, PART_BYTES)]
            return b"".join(self._ask(path, partial(_read_part, opened, *part)) for part in parts)

        if size <= PART_BYTES:
            return io.BytesIO(between(0, size))
        return io.BufferedReader(Ranged(between, size), BUFFER_BYTES)

    def size(self, path: str) -> int | None:
        found = self._kind(path)
        return None if found is None or found.isdir else int(found.length)

    def delete(self, path: str) -> bool:
        at = self._path(path)
        return bool(self._ask(path, lambda client: client.delete(at, False)))

    def sync(self, path: str) -> None:
        """What is closed is as safe as it ever will be."""
        self.uri(path)

    # Folders

    def names(self, folder: str = "", after: str = "") -> list[str]:
        return [name for name in (_name(one) for one in self._listed(folder)) if name > after]

    def files(self, folder: str = "") -> Iterator[Entry]:
        for one in self._listed(folder):
            if not one.isdir:
                yield Entry(f"{folder}/{_name(one)}" if folder else _name(one), int(one.length))

    def _listed(self, folder: str) -> list[Any]:
        """What stands directly in a folder; of a file HDFS lists that file."""
        at = self._path(folder)
        try:
            found = self._ask(folder, lambda client: [*client.list_status(at, False)])
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [one for one in found if one.path != at]

    def _kind(self, path: str, secs: float = 0.0) -> Any | None:
        """What a NameNode says of a file or folder; None if it is not there."""
        at = self._path(path)
        try:
            return self._ask(path, lambda client: client.get_file_info(at), secs)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def has_folder(self, path: str) -> bool:
        found = self._kind(path)
        return found is not None and bool(found.isdir)

    # The storage itself

    def unwritable(self, path: str = "", sync: bool = False) -> ExporterError | None:
        """In the deepest folder that is there: a file, which is renamed as a log entry is."""
        there = self.below(path) if path else self
        try:
            while (found := there._kind("")) is None:
                there = HdfsStore(there.root.rpartition("/")[0])
            if not found.isdir:
                return ConfigError(
                    f"{there.root} is a file, where a folder has to be",
                    "move it away, or correct `table_root`: nothing was written",
                )
            there._try()
        except OSError as error:
            hint = HINTS.get(error.errno, "correct `table_root`") if error.errno in STANDING else ""
            return not_written(there.root, error.strerror or str(error), hint)
        return None

    def _try(self) -> None:
        name = f".{uuid.uuid4().hex}.tmp"
        self._write_aside(name, b"0", sync=False, overwrite=False)
        self.delete(name)

    def trouble(self) -> str:
        """A file is written, if the root is there: HDFS can be read while it takes none, as after its start."""
        try:
            if self._kind("", PROBE_SECS) is not None:
                self._try()
        except OSError as error:
            return f"{self.root}: {error.strerror or error}"
        return ""

def _name(status: Any) -> str:
    return str(status.path).rpartition("/")[2]


def _created(at: str, client: Any) -> Any:
    """A writer; over nothing, with the folders above it."""
    from hdfs_native import WriteOptions

    return client.create(at, WriteOptions())


def _write_part(writer: Any, part: bytes, client: Any) -> None:
    writer.write(part)


def _read_part(reader: Any, start: int, length: int, client: Any) -> bytes:
    return bytes(reader.read_range(start, length))


def _opened(at: str, client: Any) -> Any:
    """A reader that knows all blocks: of a file that was closed a moment ago the last one may be missing."""
    deadline = time.monotonic() + REPORTED_SECS_MAX
    while True:
        reader, known = client.read(at), client.get_file_info(at)
        if reader.file_length() == known.length:
            return reader
        if time.monotonic() > deadline:
            raise OSError(errno.EAGAIN, "its last block is not reported")
        time.sleep(REPORTED_SECS)  # pace of the asking, bounded by the deadline
