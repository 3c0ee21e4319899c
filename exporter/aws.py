"""AWS's standard chain of credentials, for all here that asks AWS: botocore's, but for when keys are renewed.

    asked for ──────── half of their life ──── renewed ──── over
                       15 min before the end, if that is later

botocore renews them 15 min before they end. Those that live no longer would be asked for before each request: of a
process, or of STS, which throttles. A chain that fails is no trouble for as long as the keys live that it gave.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from exporter.text import first_line

AHEAD_SECS = 900.0
LEAST_SECS = 0.5
"""Keys that have less left are renewed for each request."""


def session() -> Any:
    """A session of botocore's. Raises BotoCoreError for a profile that is not there, or a file that cannot be read."""
    import botocore.session  # 0.1 s

    made = botocore.session.get_session()
    made.register_component("credential_provider", _Chain(made.get_component("credential_provider")))
    return made


@contextmanager
def _told() -> Iterator[None]:
    """Whatever a chain raises, as an error of botocore's."""
    from botocore.exceptions import BotoCoreError, CredentialRetrievalError

    try:
        yield
    except BotoCoreError:
        raise
    except Exception as error:  # a process, a file, an answer of STS
        raise CredentialRetrievalError(provider="AWS's standard chain", error_msg=first_line(error)) from error


class _Chain:
    """What a session asks for credentials."""

    def __init__(self, chain: Any) -> None:
        self._chain = chain

    def load_credentials(self) -> Any:
        """Raises BotoCoreError, whatever it was: a program that is not there is no file that is not there."""
        with _told():
            found = self._chain.load_credentials()
        return Keys(found) if hasattr(found, "refresh_needed") else found


class Keys:
    """Credentials of botocore's that end and are renewed.

    All that is asked of them is of the same keys: whatever else is asked of what was found renews that, unseen here.
    """

    def __init__(self, found: Any) -> None:
        """found: botocore's RefreshableCredentials, or others that never end."""
        self._found = found
        self._frozen: Any = None
        self._ends = 0.0
        self._ahead_secs = AHEAD_SECS
        self._one = threading.Lock()

    @property
    def method(self) -> str:
        """Where in the chain they come from."""
        return str(self._found.method)

    @property
    def expires(self) -> float:
        """When the keys that were given last end, in seconds since 1970."""
        return float(self._ends)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.get_frozen_credentials(), name)

    def get_deferred_property(self, name: str) -> Any:
        """A function that gives one of their fields."""
        return lambda: getattr(self, name)

    def get_frozen_credentials(self) -> Any:
        """Keys that are good now. Raises BotoCoreError if there are none any more, and no others."""
        with self._one:
            if self._frozen is None or self._found.refresh_needed(self._ahead_secs):
                self._renew()
            return self._frozen

    def _renew(self) -> None:
        from botocore.exceptions import BotoCoreError

        try:
            with _told():
                self._frozen = self._found.get_frozen_credentials()
                self._ends = self._found._expiry_time.timestamp()  # botocore tells it nowhere else
        except BotoCoreError:
            if self._frozen is None or self._found.refresh_needed(0):
                raise
        self._ahead_secs = AHEAD_SECS
        while self._ahead_secs > LEAST_SECS and self._found.refresh_needed(2 * self._ahead_secs):
            self._ahead_secs /= 2
