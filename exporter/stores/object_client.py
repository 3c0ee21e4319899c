"""How long a client of an object store waits and tries, and that it is made once for a process.

    30 s a request, tried again for 30 s ── fails ── out: 5 s a request, tried once ── it answers, or 30 s have passed

Who is told of a failure tries again by the rules of an outage. Until the store answers again nobody else in this
process waits as long: a worker may have a file for each of a hundred tables.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

REQUEST_SECS = 30
"""Of one request, until its answer is there whole."""
CONNECT_SECS = 5
RETRY_SECS = 30.0
"""For which one is tried again. Later its failure is told."""
PROBE_SECS = 5
"""Of a request that only asks whether the store answers, and of a small one while it does not."""
BYTES_PER_SEC_MIN = 1 << 20
"""Of the way to the store; a large file has as much more time."""


class Waiting(NamedTuple):
    """How long a client waits for an answer, and whether it asks again by itself: for what changes nothing."""

    secs: int = REQUEST_SECS
    again: bool = True

    def told(self, **options: Any) -> dict[str, Any]:
        """Arguments of each of obstore's stores. options: further ones of its HTTP client."""
        waits = {"timeout": f"{self.secs}s", "connect_timeout": f"{min(self.secs, CONNECT_SECS)}s"}
        retries = {"max_retries": 10 if self.again else 0, "retry_timeout": timedelta(seconds=RETRY_SECS)}
        return {"client_options": {**waits, **options}, "retry_config": retries}


PATIENT, PROBING = Waiting(), Waiting(PROBE_SECS, again=False)


class StorePatience:
    """What is known of stores that were given up. Stores are told apart by what comes before their path."""

    def __init__(self) -> None:
        self._out: dict[str, float] = {}

    def secs(self, root: str) -> float:
        """For how long a write may be tried again."""
        return 0.0 if self._is_out(root) else RETRY_SECS

    def reading(self, root: str) -> Waiting:
        """How long a call that changes nothing is tried again."""
        return PROBING if self._is_out(root) else PATIENT

    def writing(self, root: str, size: int) -> Waiting:
        """Of one write of so many bytes. Some lengths only, for each is a client with connections of its own."""
        secs = PROBE_SECS if self._is_out(root) else REQUEST_SECS
        while size > secs * BYTES_PER_SEC_MIN:
            secs *= 2
        return Waiting(secs, again=False)

    def lost(self, root: str) -> None:
        if not self._is_out(root):
            self._out[_bucket(root)] = time.monotonic()

    def regained(self, root: str) -> None:
        self._out.pop(_bucket(root), None)

    def _is_out(self, root: str) -> bool:
        return time.monotonic() - self._out.get(_bucket(root), float("-inf")) < RETRY_SECS


def _bucket(root: str) -> str:
    scheme, _, rest = root.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def kept_client(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a client, once for all that ask with the same: it keeps connections and credentials.

    Raises RuntimeError in a fork of a process that has asked, where a client would never answer.
    """
    made_in: set[int] = set()

    @cache
    def made(*of: Any) -> Any:
        return make(*of)

    def kept(*of: Any) -> Any:
        made_in.add(os.getpid())
        if len(made_in) > 1:
            raise RuntimeError("a process that has asked an object store was forked")
        return made(*of)

    return kept
