"""The tables in a catalog, best effort: in a thread of its own, for which nothing ever waits.

    tables that are new to this task, or have other columns ── one after the other ──> the catalog
                    one that fails ends the turn and is the last of the next one, a pause later

Nothing is read back, and no other step of the loop asks how it went (protocol 5.7). Belongs to the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from exporter.aside import aside
from exporter.catalog.registrar import CatalogOutcome
from exporter.core.order import TableTarget
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.watch import Watch
from exporter.text import first_line

log = get_logger(__name__)

PAUSE_SECS = 60.0
"""Between two turns, whatever became of the first."""
SILENT_SECS = 60.0
"""A call of so many seconds is told; it is waited for by nobody."""


class _Turn(NamedTuple):
    """registered: event type -> what became of it. failed: the one at which it ended, and why."""

    registered: Mapping[str, CatalogOutcome]
    failed: str = ""
    error: str = ""


class Registering:
    """Tells the catalog of a task's tables, beside the loop."""

    def __init__(self, *, register: Callable[[str], CatalogOutcome] | None, watch: Watch) -> None:
        """register: one table, by its event type; None where the settings name no catalog."""
        self._register = register
        self._watch = watch
        self._registered: dict[str, CatalogOutcome] = {}
        self._failed = ""
        self._running: Future[_Turn] | None = None
        self._began = self._next = float("-inf")
        self._silent = False

    def tick(self, now: float, tables: Mapping[str, TableTarget]) -> None:
        """tables: as this task knows them."""
        if self._register is None:
            return
        if self._running is not None:
            if not self._running.done():
                if now - self._began >= SILENT_SECS:
                    self._tell(f"no answer for {now - self._began:.0f} s")
                return
            self._take(self._running.result())
            self._running = None
        due = [name for name, one in tables.items() if not self._is_registered(name, one.fingerprint)]
        taken = sum(one.outcome == "elsewhere" for one in self._registered.values())
        self._watch.unregistered = taken + sum(name not in self._registered for name in due)
        if due and now >= self._next:
            self._began, self._next = now, now + PAUSE_SECS
            ordered, register = sorted(due, key=lambda name: (name == self._failed, name)), self._register
            self._running = aside("catalog", lambda: _passed(ordered, register))

    def _is_registered(self, name: str, fingerprint: str) -> bool:
        return name in self._registered and self._registered[name].fingerprint == fingerprint

    def _take(self, turn: _Turn) -> None:
        for name, one in turn.registered.items():
            was, self._registered[name] = self._registered.get(name), one
            if one.outcome == "elsewhere" and (was is None or was.outcome != "elsewhere"):
                log.warning(Event.CATALOG_NAME_TAKEN, table=name, name=one.name, location=one.location)
            elif one.outcome in ("made", "updated"):
                log.info(Event.TABLE_REGISTERED, table=name, name=one.name, outcome=one.outcome)
        self._failed = turn.failed
        if turn.failed:
            self._tell(turn.error)
        elif self._silent:
            self._silent = False
            log.info(Event.CATALOG_REACHED)

    def _tell(self, error: str) -> None:
        """Once, until it answers again."""
        if not self._silent:
            self._silent = True
            log.warning(Event.CATALOG_SILENT, error=error)


def _passed(names: list[str], register: Callable[[str], CatalogOutcome]) -> _Turn:
    """In a thread of its own."""
    registered: dict[str, CatalogOutcome] = {}
    for name in names:
        try:
            registered[name] = register(name)
        except Exception as error:  # noqa: BLE001 - whatever it is, the export goes on
            return _Turn(registered, name, f"table {name}: {first_line(error)}")
    return _Turn(registered)
