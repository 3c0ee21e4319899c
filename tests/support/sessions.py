"""The tests' Spark session, for what would end it."""

from __future__ import annotations

from typing import Any


class Kept:
    """The session for verbs that stop theirs."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        """It goes on."""
