"""A lease on a place in a store: one holder at a time among those who look, also on other machines.

    create ── or is it there, and expired? ── replace ── read back: mine? ── held ── replaced by a thread ── deleted

The file says whose it is and until when. Clocks of machines may differ and two may take over the same expired lease at
the same moment: so nothing that must be right may rest on it. It saves work, and tells a person that somebody is there.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from exporter.stores.store import Store

LEASE_SECS = 60.0
RENEWALS = 3
"""How often a lease is renewed while it lasts."""


@contextmanager
def leased(
    store: Store, path: str, secs: float = LEASE_SECS, clock: Callable[[], float] = time.time
) -> Iterator[bool]:
    """Whether this caller holds it, until the end; that of a killed one is free after `secs`. Raises OSError.

    clock: seconds since 1970.
    """
    owner = uuid.uuid4().hex
    if not _taken(store, path, owner, secs, clock):
        yield False
        return
    over = threading.Event()
    renewing = threading.Thread(target=_renew, args=(store, path, owner, secs, clock, over), daemon=True)
    renewing.start()
    try:
        yield True
    finally:
        over.set()
        renewing.join()
        with suppress(OSError):  # it expires
            if _holder(store, path) == owner:
                store.delete(path)


def _taken(store: Store, path: str, owner: str, secs: float, clock: Callable[[], float]) -> bool:
    body = _body(owner, clock() + secs)
    with suppress(FileExistsError):
        store.create(path, body, sync=False)
        return True
    if _until(store, path) > clock():
        return False
    store.replace(path, body)
    return _holder(store, path) == owner


def _renew(
    store: Store, path: str, owner: str, secs: float, clock: Callable[[], float], over: threading.Event
) -> None:
    while not over.wait(secs / RENEWALS):
        with suppress(OSError):
            if _holder(store, path) != owner:
                return
            store.replace(path, _body(owner, clock() + secs))


def _body(owner: str, until: float) -> bytes:
    return json.dumps({"owner": owner, "until": until}).encode()


def _said(store: Store, path: str) -> dict[str, object]:
    """What the file says; nothing if it is gone, or was written by somebody else."""
    try:
        found = json.loads(store.read(path))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _holder(store: Store, path: str) -> object:
    return _said(store, path).get("owner")


def _until(store: Store, path: str) -> float:
    until = _said(store, path).get("until")
    return float(until) if isinstance(until, int | float) else 0.0
