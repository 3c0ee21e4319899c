"""Partitions on their way to writers: when they are recovered, and what becomes of it.

    waiting ── no commit of ours under way, the log answers ──> recovery ──> writers
       ^  └── drain interrupted, broker or log silent: again later ──┘

Belongs to the loop's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from exporter.core.backoff import RETRY_SECS
from exporter.core.writers import Writer, WriterKey
from exporter.errors import BrokerSilent, JvmEnded
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.monitor.outages import KAFKA
from exporter.monitor.watch import Watch
from exporter.protocol.drain import Interrupted
from exporter.protocol.known import KnownTables
from exporter.protocol.recover import Recovery
from exporter.task.ownership import Ownership
from exporter.task.progress import position_bounds
from offsets.intents import WalUnreachable

log = get_logger(__name__)


class Recovering:
    """One task's."""

    def __init__(
        self,
        *,
        recovery: Recovery,
        known: KnownTables,
        ownership: Ownership,
        watch: Watch,
        alive: Callable[[], bool],
    ) -> None:
        """alive: whether the JVM that runs Spark is there."""
        self._recovery = recovery
        self._known = known
        self._ownership = ownership
        self._watch = watch
        self._alive = alive
        self._retry_at = float("-inf")
        self._stopped = False

    def pause_until(self, then: float) -> None:
        """Begin no reading before (monotonic seconds)."""
        self._retry_at = then

    def stop(self) -> None:
        """Begin nothing any more; a drain ends soon. Callable from every thread."""
        self._stopped = True

    def tick(self, now: float, may_begin: bool) -> dict[WriterKey, Writer]:
        """The writers that have come to be, from the tables alone; every reading is a fresh one (protocol 5.3).

        may_begin: no commit of ours is under way, and the log that has to answer does. Raises what recovery raises.
        """
        if not self._ownership.waiting or self._stopped or not may_begin or now < self._retry_at:
            return {}
        started = time.monotonic()
        point(Fault.BEFORE_POSITIONS)
        tps = self._ownership.begin_reading()
        try:
            with self._watch.busy():
                found = self._recovery.recover(
                    tps, unchanged=self._known.unchanged, go_on=self._go_on, tell=self._known.tell
                )
        except Exception as error:  # noqa: BLE001 - raised again unless it passes by itself
            self._ownership.end_reading(came_to_nothing=True)
            self._later(error, now)
            return {}
        writers = self._known.take(found, self._ownership.end_reading())
        point(Fault.AFTER_POSITIONS)
        secs = time.monotonic() - started
        self._watch.totals.took("recover", secs)
        floors = {str(tp): least + 1 for tp, (least, _) in sorted(position_bounds(writers).items())}
        log.info("positions_recovered", floors=floors, secs=round(secs, 2))
        return writers

    def _later(self, error: Exception, now: float) -> None:
        """When the partitions are read again. Raises an error that does not pass by itself."""
        match error:
            case BrokerSilent():
                self._watch.outages.seen(KAFKA, error.message, now)
                self._retry_at = now + RETRY_SECS
            case Interrupted():
                log.info("drain_interrupted", reason=str(error), pause_secs=round(error.pause_secs, 1))
                self._watch.storage_is_out(now)
                self._retry_at = time.monotonic() + error.pause_secs
            case WalUnreachable():
                pass  # it has been told; the keeper asks until it answers
            case _:
                raise error

    def _go_on(self) -> None:
        """Asked every moment by a drain. Raises JvmEnded, Interrupted to stop it."""
        if not self._alive():
            raise JvmEnded
        if self._stopped:
            raise Interrupted("told to stop")
        self._watch.still_busy()
