"""Offers are signed: who made one can read what the tasks keep beside the tables (protocol 4.11).

    {"kind":"offer", ...}  ->  {"kind":"offer", ...,"signature":"<HMAC-SHA256 of the message without it, in hex>"}

The signature is of the bytes, at their very end: nothing has to be written the same way twice.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable

from exporter.clock import monotonic

AGAIN_SECS = 10.0
"""The key is looked for again so often, while there is none or something is signed with another one."""
SIGNATURE_PATTERN = "^[0-9a-f]{64}$"
_SIGNED = re.compile(rb',"signature":"([0-9a-f]{64})"}\Z')


class Signature:
    """One app's. For every thread.

    A key that somebody took away and that was made anew is found by all tasks: each hears what the others sign.
    """

    def __init__(self, key: Callable[[], bytes], clock: Callable[[], float] = monotonic) -> None:
        """key: the one that is kept now; raises OSError, and ValueError for one that is damaged."""
        self._look = key
        self._clock = clock
        self._key = b""
        self._next_look = float("-inf")

    def put_on(self, message: bytes) -> bytes:
        """The message, a JSON object, with its signature. Raises OSError and ValueError: there is no key now."""
        if not self._key:
            self._key = self._look()
        return b'%s,"signature":"%s"}' % (message[:-1], _signature(message, self._key))

    def is_on(self, message: bytes) -> bool:
        """Whether a message has the signature of the key that is kept now."""
        return self._fits(message) or (self._looked_again() and self._fits(message))

    def _fits(self, message: bytes) -> bool:
        found = _SIGNED.search(message)
        if found is None or not self._key:
            return False
        return hmac.compare_digest(found[1], _signature(message[: found.start()] + b"}", self._key))

    def _looked_again(self) -> bool:
        """Whether the key is another one than it was."""
        before, now = self._key, self._clock()
        if now < self._next_look:
            return False
        self._next_look = now + AGAIN_SECS
        try:
            self._key = self._look()
        except (OSError, ValueError):
            return False
        return self._key != before


def _signature(message: bytes, key: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).hexdigest().encode()
