"""The key that offers are signed with: a file beside the tables, made once (protocol 4.11).

<table_root>/_control.keys/<app>    64 hexadecimal digits
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress

from exporter.stores.store import Store
from offsets.names import key_file

_KEY = re.compile(rb"[0-9a-f]{64}\Z")


def control_key(store: Store, app: str, sync: bool = True) -> bytes:
    """The app's key, made if there is none. store: of all tables. sync: whether it has to survive a power cut.

    Raises OSError, and ValueError for a file that is none of ours.
    """
    path = key_file(app)
    try:
        return _read(store, path)
    except FileNotFoundError:
        with suppress(FileExistsError):  # somebody else was faster
            store.create(path, secrets.token_hex(32).encode(), sync)
    return _read(store, path)


def _read(store: Store, path: str) -> bytes:
    if not _KEY.match(key := store.read(path)):
        raise ValueError(f"{store.uri(path)} is no key; move it away, and a new one is made")
    return key
