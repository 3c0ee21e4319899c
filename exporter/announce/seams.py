"""What announcing stands on: the tables' logs, who takes messages, and who keeps how far it has gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from exporter.announce.pointers import Pointer, Pointers


class Trouble(Exception):
    """Something does not answer, or not as it should; it is tried again."""


class Logs(Protocol):
    """The logs of all tables of a root. Every method raises Trouble."""

    def tables(self) -> Collection[str]:
        """The event types that have a table."""

    def newest(self, table: str) -> int | None:
        """Its newest version; None if the log does not tell."""

    def oldest(self, table: str, after: int) -> int:
        """The oldest version that the log still has after a version, if it has not the next one."""

    def lines(self, table: str, version: int) -> list[str] | None:
        """One entry, on disk by then; None if it is not there."""


class Sink(Protocol):
    """A place to which messages of new versions are sent."""

    def send(self, messages: Mapping[str, bytes]) -> Mapping[str, str]:
        """Table -> message. Whatever was not acknowledged: table -> why not. Raises nothing."""

    def close(self) -> None:
        """Release what is open, without waiting for anything."""


class KeptPointers(Protocol):
    """How far one sink has acknowledged the versions. Every method raises Trouble, but close()."""

    def load(self) -> dict[str, Pointer] | None:
        """None if nothing was ever kept for it."""

    def save(self, pointers: Pointers) -> Collection[str]:
        """Keep these in place of all others; the tables for which there was no room."""

    def close(self) -> None:
        """Release what is open, without waiting for anything."""
