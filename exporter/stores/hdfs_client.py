"""hdfs-native with an end to each question, and errors that are OSErrors.

The library waits for a NameNode without end. So each question has a thread of its own, and whoever has waited long
enough goes on without an answer; what comes next gets a connection of its own, to another NameNode if there is one.
What changes something is asked once: the library does not ask again what may have been done (0.14.7 and later).
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import cache
from typing import Any, TypeVar

from exporter.errors import ConfigError
from exporter.secrets import masked
from exporter.text import escaped

T = TypeVar("T")

ANSWER_SECS = 60.0
FAILOVER_SECS = 150.0
"""Where there are several NameNodes: longer than a system tries to connect to a host that is gone (Linux: 127 s), else
the others would never be asked."""
PROBE_SECS = 15.0
ALONE, SEVERAL = "0", "8"
"""How often NameNodes that refuse or stand by are asked again, within some seconds; the library's own takes minutes."""

_KINDS = {
    "(is not a directory)": errno.ENOTDIR,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "AccessControlException": errno.EACCES,
    "AuthorizationException": errno.EACCES,
    "GSSAPIError": errno.EACCES,
    "SASLError": errno.EACCES,
    "NoSASLMechanism": errno.EACCES,
    "RecoveryInProgressException": errno.EEXIST,
    "InvalidPathException": errno.EINVAL,
    "PathComponentTooLongException": errno.ENAMETOOLONG,
    "No NameNode hosts found": errno.EINVAL,
    "QuotaExceededException": errno.EDQUOT,
    "SafeModeException": errno.EROFS,
}
"""What the library's text says -> the error's number; the first that is found."""
_REMOTE = re.compile(r'RPCError\("[\w.$]*?(\w+)", "(.*)"\)\Z', re.DOTALL)


def ask(authority: str, question: Callable[[Any], T], uri: str, secs: float = 0.0) -> T:
    """The answer to a question that is put to a client. Raises OSError, FileNotFoundError, FileExistsError.

    authority: namenode:port, or a nameservice. uri: what it is about. secs: how long to wait, if not as always.
    """
    answered: Future[T] = Future()

    def put() -> None:
        try:
            answered.set_result(question(_client(authority, os.getpid())))
        except BaseException as error:  # noqa: BLE001 - of the library's too, which are no Exceptions
            answered.set_exception(error)

    threading.Thread(target=put, name="hdfs", daemon=True).start()
    waited = secs or (ANSWER_SECS if ":" in authority else FAILOVER_SECS)
    if not wait([answered], waited).done:
        _client.cache_clear()
        raise OSError(errno.ETIMEDOUT, f"no answer within {waited:.0f} s", uri)
    if (error := answered.exception()) is not None:
        raise os_error(error, uri) from error
    return answered.result()


def require_library() -> None:
    """Raises ConfigError if it is not installed."""
    from importlib.util import find_spec

    if find_spec("hdfs_native") is None:
        what = "hdfs:// needs hdfs-native, which is not installed"
        raise ConfigError(what, "pip install 'kafka-delta-exporter[hdfs]'")


def os_error(error: BaseException, uri: str) -> OSError:
    """The error as who works with files knows it: by its number, in one line. uri: what it is about."""
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "not there", uri)
    if isinstance(error, FileExistsError):
        return FileExistsError(errno.EEXIST, "there already", uri)
    text = str(error)
    number = next((number for mark, number in _KINDS.items() if mark in text), errno.EIO)
    return OSError(number, said(text), uri)


def said(text: str) -> str:
    """The first line of what a server says, with the kind of its error; the library's own words otherwise."""
    if (remote := _REMOTE.search(text)) is None:
        return escaped(masked(text.partition("\n")[0]))
    kind, message = remote.groups()
    line = message.partition("\\n")[0].replace('\\"', '"')
    return escaped(masked(f"{kind}: {line}"))


@cache
def _client(authority: str, process: int) -> Any:
    """With its connections, and the user and configuration that the environment tells. A child makes its own.

    It is the one that Client wraps: files of Client's are closed by whoever forgets them, and so told to be complete.
    """
    from hdfs_native import Client

    tries = {"dfs.client.failover.max.attempts": ALONE if ":" in authority else SEVERAL}
    return Client(f"hdfs://{authority}", tries).inner
