"""What all object stores have in common, over obstore: names are keys, and nothing is there in part.

    folder       what keys have before a slash; it comes and goes with them
    write_once   one PUT on the condition that nobody was first; two are never both told that they were

A PUT whose reply is lost may have arrived: it is tried again, and meets its own bytes. Only after such a doubt equal
bytes are taken for its own; else whoever finds the name taken is told so, whatever stands there. What a store does not
do now is an OSError (object_errors.py): none of obstore's own errors leaves this module.

How long a store that is silent, down or throttling is waited for has an end (object_client.py).
"""

from __future__ import annotations

import errno
import io
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal, TypeVar

from exporter.core.backoff import Backoff
from exporter.errors import ConfigError, ExporterError
from exporter.stores.object_client import PROBING, StorePatience, Waiting
from exporter.stores.object_errors import StoreRefused, is_standing, os_error, said
from exporter.stores.ranged import Ranged
from exporter.stores.rooted import RootedStore, not_written, require_plain
from exporter.stores.store import Entry, JavaSide

if TYPE_CHECKING:
    import pyarrow as pa

PAUSE = Backoff(0.2, 5.0)
WHOLE_BYTES_MAX = 4 << 20
"""A file up to which a reader takes all of it with its first request."""
RANGE_BYTES = 1 << 20
Answer = TypeVar("Answer")
_S = TypeVar("_S", bound="ObjectStore")
RIGHTS = "get, put, list and delete objects"
_patience = StorePatience()


class ObjectStore(RootedStore):
    """A prefix of a bucket, or what else a store calls that.

    A subclass says how its client is made. shape: of a root. hints: what a person has to do, by a word of what the
    store says.
    """

    commits_are_exclusive: ClassVar[Literal[True]] = True
    syncs: ClassVar[bool] = False
    shape: ClassVar[str] = ""
    hints: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def at(cls: type[_S], root: str, options: Mapping[str, str] | None = None) -> _S:
        require_root(root, cls.shape)
        return cls(root.rstrip("/"), dict(options or {}))

    def _client(self, waiting: Waiting) -> Any:
        """obstore's store of the bucket. Raises StoreRefused."""
        raise NotImplementedError

    @property
    def java(self) -> JavaSide:
        """See Store."""
        raise NotImplementedError

    @property
    def _prefix(self) -> str:
        """The key of the root; empty: the bucket itself."""
        return self.root.partition("://")[2].partition("/")[2]

    def _key(self, path: str) -> str:
        if path:
            require_plain(path)
        return "/".join(part for part in (self._prefix, path) if part)

    # Files

    def write_once(self, path: str, body: pa.Buffer | bytes) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        key, content = self._key(path), memoryview(body).cast("B")
        doubt, until = False, time.monotonic() + _patience.secs(self.root)
        for failures in count():
            client = self._client(_patience.writing(self.root, len(content)))
            try:
                obstore.put(client, key, content, mode="create", use_multipart=False)
                _patience.regained(self.root)
                return
            except AlreadyExistsError as error:
                if doubt and self._holds(path, content):
                    return
                if self.has_file(path):
                    raise FileExistsError(self.uri(path)) from None
                met: Exception = error  # somebody else is at it, and may yet fail
            except (BaseError, OSError) as error:
                for_the_keys = self._is_for_the_keys(error, client)
                if isinstance(error, FileNotFoundError) or (is_standing(error) and not for_the_keys):
                    raise StoreRefused(errno.EACCES, said(error), self.uri(path)) from error
                met, doubt = error, doubt or not for_the_keys
            if time.monotonic() + (pause := PAUSE.after(failures)) > until:
                if doubt:  # else it answers
                    _patience.lost(self.root)
                raise os_error(met, self.uri(path)) from met
            time.sleep(pause)  # pace of the tries, bounded by `until`

    def _holds(self, path: str, content: memoryview) -> bool:
        """Whether a file is there, with these bytes. Of a large one some are read at a time."""
        if self.size(path) != len(content):
            return False
        with self.reader(path) as file:
            return all(
                file.read(RANGE_BYTES) == content[at : at + RANGE_BYTES] for at in range(0, len(content), RANGE_BYTES)
            )

    def create(self, path: str, body: bytes, sync: bool = True) -> None:
        self.write_once(path, body)

    def replace(self, path: str, body: bytes) -> None:
        import obstore

        key = self._key(path)
        self._asked(path, lambda client: obstore.put(client, key, body, use_multipart=False))

    def read(self, path: str) -> bytes:
        import obstore

        key = self._key(path)
        return self._asked(path, lambda client: bytes(obstore.get(client, key).bytes()))

    def reader(self, path: str) -> BinaryIO:
        import obstore

        key = self._key(path)

        def begun(client: Any) -> tuple[int, bytes]:
            found = obstore.get(client, key)
            size = int(found.meta["size"])
            return size, bytes(found.bytes()) if size <= WHOLE_BYTES_MAX else b""

        size, whole = self._asked(path, begun)
        if size <= WHOLE_BYTES_MAX:
            return io.BytesIO(whole)
        return io.BufferedReader(Ranged(lambda start, end: self._range(path, start, end), size), RANGE_BYTES)

    def _range(self, path: str, start: int, end: int) -> bytes:
        import obstore

        key = self._key(path)
        return self._asked(path, lambda client: bytes(obstore.get_range(client, key, start=start, end=end)))

    def size(self, path: str) -> int | None:
        import obstore

        key = self._key(path)
        try:
            return self._asked(path, lambda client: int(obstore.head(client, key)["size"]))
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> bool:
        """Two who delete at once may both be told that they did: the store itself does not say."""
        import obstore

        if self.size(path) is None:
            return False
        key = self._key(path)
        self._asked(path, lambda client: obstore.delete(client, key))
        return True

    def sync(self, path: str) -> None:
        """What is written is kept."""
        self._key(path)

    # Folders. Some clients, Hadoop's among them, stand for an empty one with an object whose key ends in a slash.

    def names(self, folder: str = "", after: str = "") -> list[str]:
        import obstore

        prefix = self._key(folder)
        begins = f"{prefix}/" if prefix else ""

        def keys(client: Any) -> list[str]:
            if after:
                found = obstore.list(client, prefix or None, offset=f"{begins}{after}")
                return [one["path"] for some in found for one in some]
            listed = obstore.list_with_delimiter(client, prefix or None)
            return [*listed["common_prefixes"], *(one["path"] for one in listed["objects"])]

        names = {key.removeprefix(begins).partition("/")[0] for key in self._asked(folder, keys) if key != prefix}
        return [name for name in names if name > after]  # some stores do not know an offset, and list all

    def files(self, folder: str = "") -> Iterator[Entry]:
        import obstore

        prefix = self._key(folder)
        listed = self._asked(folder, lambda client: obstore.list_with_delimiter(client, prefix or None))
        for one in listed["objects"]:
            if one["path"] != prefix:
                name = one["path"].rpartition("/")[2]
                yield Entry(f"{folder}/{name}" if folder else name, one["size"])

    def has_folder(self, path: str) -> bool:
        return self._has_some(path)

    def _has_some(self, path: str, waiting: Waiting | None = None) -> bool:
        import obstore

        prefix = self._key(path)

        def some(client: Any) -> bool:
            found = obstore.list(client, prefix or None, chunk_size=2)
            return any(one["path"] != prefix for one in next(iter(found), []))

        return self._asked(path, some, waiting)

    # The storage itself

    def unwritable(self, path: str = "", sync: bool = False) -> ExporterError | None:
        """Whether a condition is honoured too: of two that create one object the second one has to be refused."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        self._key(path)
        name = f".{uuid.uuid4().hex}.tmp"
        key = self._key(f"{path}/{name}" if path else name)

        def refuses(client: Any) -> bool:
            obstore.put(client, key, b"0", use_multipart=False)
            try:
                obstore.put(client, key, b"1", mode="create", use_multipart=False)
            except AlreadyExistsError:
                return True
            finally:
                obstore.delete(client, key)
            return False

        try:
            if self._asked(path, refuses):
                return None
        except (StoreRefused, FileNotFoundError) as error:
            words = str(error.strerror)
            hint = next((hint for word, hint in self.hints.items() if word in words), "")
            hint = hint or f"correct `table_root`, or the credentials and their rights: {RIGHTS}"
            return not_written(self.uri(path), words, hint)
        except OSError as error:
            return not_written(self.uri(path), str(error.strerror))
        return ConfigError(
            f"{self.uri(path)} is in a store that ignores `If-None-Match: *`: of two tasks that make the same log "
            "entry both would be told that they did, and one commit would be lost",
            "use a store, or a version of it, that knows conditional writes",
        )

    def trouble(self) -> str:
        try:
            self._has_some("", PROBING)
        except OSError as error:
            return f"{self.root}: {error.strerror or error}"
        return ""

    def _is_for_the_keys(self, error: Exception, client: Any) -> bool:
        """Whether a request may have been refused only because the keys that signed it have ended meanwhile."""
        return False

    def _asked(self, path: str, ask: Callable[[Any], Answer], waiting: Waiting | None = None) -> Answer:
        """What a client says. Raises OSError for what the store does not do, FileNotFoundError for what is not there.

        Where only the keys had ended it is asked again, which signs with others. waiting: None: as long as usual.
        """
        from obstore.exceptions import BaseError

        client = self._client(waiting or _patience.reading(self.root))
        failures, until = 0, time.monotonic() + _patience.secs(self.root)
        while True:
            try:
                answer = ask(client)
                _patience.regained(self.root)
                return answer
            except (FileNotFoundError, BaseError) as error:
                pause = PAUSE.after(failures)
                if not self._is_for_the_keys(error, client) or time.monotonic() + pause > until:
                    told = os_error(error, self.uri(path))
                    if not isinstance(told, StoreRefused | FileNotFoundError):
                        _patience.lost(self.root)
                    raise told from error
            time.sleep(pause)  # pace of the tries, bounded by `until`
            failures += 1


def require_root(root: str, schemes: str) -> None:
    """Raises ValueError for what is no scheme://bucket/path."""
    rest = root.partition("://")[2]
    bucket, *path = rest.rstrip("/").split("/")
    if not bucket or not root.isprintable() or any(part in ("", ".", "..") for part in path):
        raise ValueError(f"should be {schemes}")
