"""The token of this process: one for all its clients, renewed in time for as long as somebody asks for it.

    got ──────────── half of its life ──────────── over
        kept                          renewed by a thread, again and again until it succeeds
                                                   got anew by whoever asks

So no client waits for it but the first, and an endpoint that does not answer is no trouble while the token lives. A
broker ends a session with the token that began it: Kafka's clients log in again shortly before that, with a new one.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from exporter.errors import ExporterError
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.secrets import forget_secret, keep_secret, masked

log = get_logger(__name__)

LEAST_SECS = 1.0
"""A token that has less left is not given any more."""
TOLD_SECS = 60.0
"""Between two warnings that it cannot be renewed."""
LAST_SECS = 1e12
"""No token lives so long, nor ends so late: it would never be renewed."""
RETRY_SECS = 1.0
"""Between two tries of a source that gives none: clients that connect again ask as often as they please."""


@dataclass(frozen=True)
class Token:
    """value: as the brokers take it. expires: seconds since 1970."""

    value: str = field(repr=False)
    expires: float


def secs_of(said: object) -> float | None:
    """A number of seconds that somebody says; None for what is no number, or beyond LAST_SECS."""
    try:
        found = float(said) if isinstance(said, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < LAST_SECS else None


class TokenSource(Protocol):
    """Where tokens come from; equal ones give the same."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """Who logs in by them, for a person."""
        ...

    def new(self) -> Token:
        """A new one. Raises ConfigError for what is refused, DependencyUnreachable for what does not answer."""
        ...


class Tokens:
    """The token of this process, renewed in time; any thread may ask."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._token = Token("", 0.0)
        self._former = ""
        self._renew_at = 0.0
        self._asked = False
        self._keeper: threading.Thread | None = None
        self._failed: tuple[float, ExporterError] | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Who logs in by them, for a person."""
        return self._source.name

    def current(self) -> Token:
        """A token that is good now. Raises what its source raises."""
        with self._lock:
            self._asked = True
            if self._token.expires - time.time() <= LEAST_SECS:
                self._get()
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, name="kafka-tokens", daemon=True)
                self._keeper.start()
            return self._token

    def _get(self) -> None:
        """The first one, or one after an outage."""
        now = time.monotonic()
        if self._failed is not None and now - self._failed[0] < RETRY_SECS:
            raise self._failed[1]
        try:
            self._take(self._source.new())
        except ExporterError as error:
            self._failed = (now, error)
            raise

    def _take(self, token: Token) -> None:
        keep_secret(token.value)
        if self._former not in ("", token.value):
            forget_secret(self._former)
        self._former, self._token, self._failed = self._token.value, token, None
        now = time.time()
        self._renew_at = now + (token.expires - now) / 2

    def _keep(self) -> None:
        """Renew it at half of its life. Ends when nobody has asked since then, or when it is over."""
        tell_at = 0.0
        while self._due():
            try:
                token = self._source.new()
            except ExporterError as error:
                if time.monotonic() >= tell_at:
                    left_secs = round(self._token.expires - time.time())
                    log.warning(Event.TOKEN_NOT_RENEWED, error=masked(error.message), left_secs=left_secs)
                    tell_at = time.monotonic() + TOLD_SECS
                time.sleep(RETRY_SECS)
                continue
            tell_at = 0.0
            with self._lock:
                self._take(token)
                self._asked = False

    def _due(self) -> bool:
        """Waits until it is to be renewed; False if it need not be."""
        while (secs := self._renew_at - time.time()) > 0:
            time.sleep(secs)
        with self._lock:
            if self._asked and self._token.expires - time.time() > LEAST_SECS:
                return True
            self._keeper = None
            return False
