"""hdfs-native as threads use it: every question has an end, and what it says is an OSError.

The library waits for a NameNode without end. So its questions run in one thread of each process, and whoever has waited
long enough goes on without an answer; what comes next gets a connection of its own, to another NameNode if there is
one. What changes something is asked once: the library does not ask again what may have been done (0.14.7 and later).
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar

from exporter.errors import ConfigError
from exporter.text import first_line

T = TypeVar("T")

ANSWER_SECS = 60.0
FAILOVER_SECS = 150.0
"""Where there are several NameNodes: longer than a system tries to connect to a host that is gone (Linux: 127 s), else
the others would never be asked."""
PROBE_SECS = 15.0

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


def ask(authority: str, question: Callable[[Any], Awaitable[T]], uri: str, secs: float = 0.0) -> T:
    """The answer to a question that is put to an AsyncClient. Raises OSError, FileNotFoundError, FileExistsError.

    authority: namenode:port, or a nameservice. uri: what it is about. secs: how long to wait, if not as always.
    """
    waited = secs or (ANSWER_SECS if ":" in authority else FAILOVER_SECS)

    async def answered() -> T:
        return await asyncio.wait_for(question(_client(authority, os.getpid())), waited)

    try:
        return asyncio.run_coroutine_threadsafe(answered(), _loop(os.getpid())).result()
    except asyncio.TimeoutError as error:
        _client.cache_clear()
        raise OSError(errno.ETIMEDOUT, f"no answer within {waited:.0f} s", uri) from error
    except Exception as error:
        raise os_error(error, uri) from error


def require_library() -> None:
    """Raises ConfigError if it is not installed."""
    from importlib.util import find_spec

    if find_spec("hdfs_native") is None:
        what = "hdfs:// needs hdfs-native, which is not installed"
        raise ConfigError(what, "pip install 'kafka-delta-exporter[hdfs]'")


def os_error(error: Exception, uri: str) -> OSError:
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
        return first_line(Exception(text))
    kind, message = remote.groups()
    line = message.partition("\\n")[0].replace('\\"', '"')
    return f"{kind}: {line}"


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Of this process; a child has none of its parent's threads."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="hdfs", daemon=True).start()
    return loop


@cache
def _client(authority: str, process: int) -> Any:
    """With its connections, and the user and configuration that the environment tells."""
    from hdfs_native import AsyncClient

    return AsyncClient(f"hdfs://{authority}")
