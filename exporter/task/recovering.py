"""Partitions on their way to writers: a reading of their tables is a state of the loop, in a thread of its own.

    waiting ── no commit of ours under way, the log answers ──> being read (recovery: read, anchor, drain, seal)
       ^                                                             │
       ├── drain interrupted, broker, log or storage silent: later ──┤
       └── taken away meanwhile, or asked for again ─────────────────┤
                                                     what counts of it: writers

The thread gets frozen values and changes nothing of the task's; the loop goes on meanwhile: group changes, `rolled` of
leaving partitions, the write-ahead log, a stop. What a reading found counts for the partitions that are still as they
were when it began (protocol 5.3). Belongs to the loop's thread; `stop` may be called from any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from exporter import threads
from exporter.clock import monotonic
from exporter.core.backoff import RETRY_SECS
from exporter.core.writers import Writer, WriterKey
from exporter.errors import (
    BrokerSilent,
    Fenced,
    InvariantBroken,
    JvmEnded,
    LogCleaned,
    RegistryUnreachable,
    TableUnreadable,
    TableUnwritable,
)
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.outages import KAFKA, REGISTRY, STORAGE
from exporter.monitor.watch import Watch
from exporter.protocol.drain import Interrupted
from exporter.protocol.known import KnownTables
from exporter.protocol.recover import Recovered, Recovery
from exporter.task.ownership import Ownership
from exporter.task.progress import position_bounds
from exporter.text import first_line
from offsets.intents import WalUnreachable
from offsets.ranges import TopicPartition

log = get_logger(__name__)

CLOSE_SECS = 2.0
"""What the end of a task waits for its reading: a drain ends sooner, a table that is read may take longer."""


class _StorageOut(Exception):
    """The storage did not answer at the moment when the reading failed: what it said of the tables counts for nothing.

    trouble: what was in the way.
    """

    def __init__(self, trouble: str) -> None:
        super().__init__(trouble)
        self.trouble = trouble


@dataclass(kw_only=True, eq=False, repr=False)
class Recovering:
    """The readings of one task.

    running: whether a reading is under way. draining: whether it has come to commit by itself.

    alive: whether the JVM that runs Spark is there.
    """

    recovery: Recovery
    known: KnownTables
    ownership: Ownership
    watch: Watch
    alive: Callable[[], bool]
    waking: Callable[[Future[Any]], Future[Any]]

    def __post_init__(self) -> None:
        self._pool = threads.pool(1, "recover")
        self._reading: Future[Recovered] | None = None
        self._began = 0.0
        self._retry_at = float("-inf")
        self._stopped = False
        self._unwanted = ""
        self._registry_is_out = False
        self.draining = False

    @property
    def running(self) -> bool:
        return self._reading is not None

    def pause_until(self, then: float) -> None:
        """Begin no reading before (monotonic seconds)."""
        self._retry_at = then

    def stop(self) -> None:
        """Begin nothing any more; a drain ends soon. Callable from every thread."""
        self._stopped = True

    def close(self) -> None:
        """Wait a moment for the reading; nobody takes what it finds."""
        self.stop()
        if self._reading is not None:
            threads.wait([self._reading], CLOSE_SECS)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def tick(self, now: float, may_begin: bool, waited_for: bool = False) -> dict[WriterKey, Writer]:
        """The writers that have come to be, from the tables alone; every reading is a fresh one (protocol 5.3).

        may_begin: no commit of ours is under way, and the log that has to answer does. waited_for: partitions on their
        way out are to be committed first; no two commit to a table at a time, so a drain ends for them. Raises what
        recovery raises.
        """
        if self._reading is not None:
            taken_away = "" if self.ownership.reading_is_whole else "a partition of it was taken away"
            self._unwanted = taken_away or ("others are on their way out" if waited_for else "")
            return self._taken(self._reading, now) if self._reading.done() else {}
        may_begin = may_begin and not waited_for and not self._stopped and now >= self._retry_at
        if self.ownership.waiting and may_begin:
            point(Fault.BEFORE_POSITIONS)
            self._unwanted, self.draining, self._began = "", False, monotonic()
            tps = self.ownership.begin_reading()
            self._reading = self.waking(self._pool.submit(self._read, tps, self.known.unchanged))
        return {}

    def _read(self, tps: Mapping[TopicPartition, int], unchanged: frozenset[str]) -> Recovered:
        """In the thread. What fails while the storage is out says nothing of the tables."""
        try:
            with self.watch.busy():
                return self.recovery.recover(tps, unchanged=unchanged, go_on=self._go_on, tell=self.known.tell)
        except (TableUnreadable, TableUnwritable, InvariantBroken) as error:
            if not isinstance(error, LogCleaned) and (trouble := self.watch.probe()):
                raise _StorageOut(trouble) from error
            raise

    def _go_on(self) -> None:
        """Asked by a drain every moment, and before it commits; in the thread. Raises JvmEnded, Interrupted."""
        self.draining = True  # first: the loop says that it is unwanted, then looks here, then offers
        if not self.alive():
            raise JvmEnded
        if self._stopped:
            raise Interrupted("told to stop")
        if self._unwanted:
            raise Interrupted(self._unwanted)
        self.watch.still_busy()

    def _taken(self, reading: Future[Recovered], now: float) -> dict[WriterKey, Writer]:
        self._reading, self.draining = None, False
        error, whole = reading.exception(), self.ownership.reading_is_whole
        if self._registry_is_out and not isinstance(error, RegistryUnreachable):
            self._registry_is_out = False
            self.watch.outages.over(REGISTRY, now)
        counts = self.ownership.end_reading(came_to_nothing=error is not None)
        if error is not None:
            self._later(error, whole, now)
            return {}
        if not counts:
            return {}
        writers = self.known.take(reading.result(), counts)
        point(Fault.AFTER_POSITIONS)
        secs = monotonic() - self._began
        self.watch.totals.took("recover", secs)
        floors = {str(tp): least + 1 for tp, (least, _) in sorted(position_bounds(writers).items())}
        log.info(Event.POSITIONS_RECOVERED, floors=floors, secs=round(secs, 2))
        return writers

    def _later(self, error: BaseException, whole: bool, now: float) -> None:
        """When the partitions are read again. Raises an error that does not pass by itself.

        whole: all partitions of the reading are as they were. If not, what it said of tables is not believed: it may be
        about one that others have worked on since.
        """
        match error:
            case BrokerSilent():
                self.watch.outages.seen(KAFKA, error.message, now)
                self._retry_at = now + RETRY_SECS
            case RegistryUnreachable():
                self._registry_is_out = True
                waiting = ", ".join(map(str, sorted(self.recovery.undecided())))
                self.watch.outages.seen(REGISTRY, f"{error.message}; {waiting} waits for it", now)
                self._retry_at = now + self.watch.outages.pause_secs(REGISTRY, now)
            case Interrupted():
                log.info(Event.DRAIN_INTERRUPTED, reason=str(error), pause_secs=round(error.pause_secs, 1))
                self.watch.storage_is_out(now)
                self._retry_at = monotonic() + error.pause_secs
            case _StorageOut():
                self.watch.outages.seen(STORAGE, error.trouble, now)
                self._retry_at = now + self.watch.outages.pause_secs(STORAGE, now)
            case WalUnreachable():
                pass  # it has been told; the keeper asks until it answers
            case InvariantBroken() | Fenced() | TableUnreadable() if not whole:
                log.info(Event.READING_RESTARTED, reason=first_line(error))
            case _:
                raise error
