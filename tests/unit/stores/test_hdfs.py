"""HDFS as its client tells of it: what a root is, whose trouble an error is, and what a lost reply leaves."""

from __future__ import annotations

import errno
import time
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from exporter.core.backoff import Backoff
from exporter.errors import ConfigError, DependencyUnreachable
from exporter.local.server import free_ports
from exporter.stores import hdfs, hdfs_client
from exporter.stores.hdfs import HdfsStore
from exporter.stores.hdfs_client import os_error
from exporter.stores.stores import open_store


def refusal(kind: str, message: str) -> str:
    """What hdfs-native says of an error of the NameNode's, whose stack follows the message."""
    return f'RPCError("org.apache.hadoop.{kind}", "{message}\\n\\tat org.apache.hadoop.hdfs.server.X.y(X.java:1)")'


DENIED = refusal("security.AccessControlException", r'Permission denied: user=a, access=WRITE, inode=\"/a\":b:c:drwx')
SAFE = refusal("hdfs.server.namenode.SafeModeException", "Cannot create file /a. Name node is in safe mode.")
NO_ROOM = refusal("hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota of /a is exceeded")
PARENT = refusal("fs.ParentNotDirectoryException", "/a/x (is not a directory)")
LISTED = refusal("security.AccessControlException", "/a/x (is not a directory)")
RECOVERING = refusal("hdfs.protocol.RecoveryInProgressException", "Failed to CREATE_FILE /a")


class FakeNameNode:
    """A file system of names without folders.

    lost: so many renames are made without an answer. unreported: so often a file is read without its last block.
    """

    def __init__(self, lost: int = 0, refused: str = "") -> None:
        self.files: dict[str, bytes] = {}
        self.unreported = 0
        self.lost, self.refused = lost, refused

    def get_file_info(self, path: str) -> Any:
        if path not in self.files:
            raise FileNotFoundError(path)
        return type("Status", (), {"path": path, "isdir": False, "length": len(self.files[path])})

    def create(self, path: str, options: Any) -> Any:
        if self.refused:
            raise RuntimeError(self.refused)
        if path in self.files:
            raise FileExistsError(path)
        self.files[path] = b""
        return Writer(self, path)

    def read(self, path: str) -> Reader:
        body, self.unreported = b"" if self.unreported else self.files[path], max(0, self.unreported - 1)
        return Reader(body)

    def rename(self, source: str, target: str, overwrite: bool) -> None:
        if source not in self.files:
            raise FileNotFoundError(source)
        if target in self.files and not overwrite:
            raise FileExistsError(target)
        self.files[target] = self.files.pop(source)
        if self.lost:
            self.lost -= 1
            raise OSError("the reply was lost")

    def delete(self, path: str, recursive: bool) -> bool:
        return self.files.pop(path, None) is not None


class Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def file_length(self) -> int:
        return len(self._body)

    def read_range(self, offset: int, length: int) -> bytes:
        assert offset + length <= len(self._body), "the library's process would be aborted"
        return self._body[offset : offset + length]


class Writer:
    def __init__(self, node: FakeNameNode, path: str) -> None:
        self._node, self._path = node, path

    def write(self, part: bytes) -> None:
        self._node.files[self._path] += part

    def hsync(self) -> None: ...

    def close(self) -> None: ...


def store_of(monkeypatch: pytest.MonkeyPatch, node: Any) -> HdfsStore:
    monkeypatch.setattr(hdfs_client, "_client", _kept(node))
    monkeypatch.setattr(hdfs, "PAUSE", Backoff(0.0, 0.0))
    return HdfsStore.at("hdfs://namenode:8020/lake")


def _kept(node: Any) -> Any:
    def client(authority: str, process: int) -> Any:
        return node

    client.cache_clear = lambda: None  # type: ignore[attr-defined]
    return client


@pytest.mark.parametrize("root", ["hdfs://namenode:8020", "hdfs://namenode:8020/", "hdfs://lake/a/b", "hdfs://n-1.x:1/a"])
def test_a_root_is_a_name_node_or_a_nameservice_and_a_path(root: str) -> None:
    """What its uri says opens the same store."""
    store = open_store(root)
    assert store.uri() == root.rstrip("/") and open_store(store.uri()) == store


def test_without_its_library_a_root_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """hdfs-native is an extra."""
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"hdfs-native.*\n.*\[hdfs\]"):
        open_store("hdfs://namenode:8020/lake")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (DENIED, errno.EACCES), (SAFE, errno.EROFS), (NO_ROOM, errno.EDQUOT), (PARENT, errno.ENOTDIR),
        (LISTED, errno.ENOTDIR), (RECOVERING, errno.EEXIST), ("GSSAPIError(...)", errno.EACCES),
        ('InvalidArgument("No NameNode hosts found")', errno.EINVAL), ("DataTransferError(\"x\")", errno.EIO),
    ],
)  # fmt: skip
def test_an_error_has_its_number_and_one_line(text: str, number: int) -> None:
    """Whoever works with files knows it by that."""
    error = os_error(RuntimeError(text), "hdfs://n/a")
    assert error.errno == number and "\\n" not in str(error) and "\n" not in str(error)


def test_a_refusal_is_told_in_the_name_node_s_words() -> None:
    """With the kind of its error, without its stack."""
    said = os_error(RuntimeError(DENIED), "hdfs://n/a").strerror
    assert said == (
        'AccessControlException: Permission denied: user=a, access=WRITE, inode="/a":b:c:drwx'
    )


@pytest.mark.parametrize("lost", [1, 2])
def test_a_rename_whose_reply_is_lost_is_known_by_the_hidden_name_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """It is asked for again, and is not told as somebody else's."""
    store = store_of(monkeypatch, node := FakeNameNode(lost))
    store.create("x", b"1")
    store.replace("x", b"2")
    assert node.files == {"/lake/x": b"2"}


@pytest.mark.parametrize("size", [10, 3 * hdfs.PART_BYTES + 1])
def test_a_file_whose_last_block_is_not_reported_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Where NameNodes close files early: a log entry would be read as empty."""
    store = store_of(monkeypatch, node := FakeNameNode())
    store.write_once("x", body := bytes(range(256)) * (size // 256 + 1))
    node.unreported = 2
    assert store.read("x") == body


def test_who_comes_second_is_told_so_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the first one comes after it has looked."""
    store = store_of(monkeypatch, node := FakeNameNode())
    store.create("x", b"1")
    monkeypatch.setattr(HdfsStore, "_kind", lambda *_: None)
    with pytest.raises(FileExistsError):
        store.create("x", b"2")
    assert node.files == {"/lake/x": b"1"}


def test_a_name_node_that_is_silent_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next question is another connection's."""

    class Silent:
        def get_file_info(self, path: str) -> Any:
            time.sleep(60)

    store = store_of(monkeypatch, Silent())
    forgotten = []
    hdfs_client._client.cache_clear = lambda: forgotten.append(1)  # type: ignore[method-assign]
    monkeypatch.setattr(hdfs_client, "ANSWER_SECS", 0.05)
    with pytest.raises(OSError, match="no answer within"):
        store.size("x")
    monkeypatch.setattr(hdfs, "PROBE_SECS", 0.05)
    assert store.trouble().startswith("hdfs://namenode:8020/lake: no answer within")
    assert len(forgotten) == 2


def test_a_name_node_that_is_not_there_is_an_outage() -> None:
    """By the library itself: nobody listens at that port."""
    store = HdfsStore.at(f"hdfs://127.0.0.1:{free_ports(1)[0]}/lake")
    for call in (store.size, store.read, store.names, lambda path: store.write_once(path, b"1")):
        with pytest.raises(OSError, match="refused"):
            call("x")
    assert "refused" in store.trouble() and isinstance(store.unwritable("order"), DependencyUnreachable)


def test_a_nameservice_that_nobody_knows_is_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the library itself; one whose NameNodes are all gone is an outage."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(hdfs_client, "SEVERAL", "1")
    assert isinstance(HdfsStore.at("hdfs://nobody/lake").unwritable(), ConfigError)
    told = {"dfs.ha.namenodes.gone": "a,b"}
    told |= {f"dfs.namenode.rpc-address.gone.{name}": f"127.0.0.1:{free_ports(1)[0]}" for name in "ab"}
    lines = [f"<property><name>{name}</name><value>{text}</value></property>" for name, text in told.items()]
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    assert isinstance(HdfsStore.at("hdfs://gone/lake").unwritable(), DependencyUnreachable)


@pytest.mark.parametrize(
    ("refused", "kind"), [(DENIED, ConfigError), (SAFE, DependencyUnreachable), (NO_ROOM, DependencyUnreachable)]
)
def test_what_no_waiting_changes_is_the_settings_and_all_else_an_outage(
    monkeypatch: pytest.MonkeyPatch, refused: str, kind: type[Exception]
) -> None:
    """A right that is missing; a NameNode that takes no file for now."""

    class There(FakeNameNode):
        def get_file_info(self, path: str) -> Any:
            return type("Status", (), {"path": path, "isdir": True, "length": 0})

    store = store_of(monkeypatch, There(refused=refused))
    assert type(store.unwritable("order")) is kind
    assert store.trouble()
