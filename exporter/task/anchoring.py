"""The manifest that waits for tables: no type of it is integrated before its position is there (ANCHOR).

    a manifest with new types ── the dead letters committed? ── anchor the types, in a thread ──> their writers
                                                                 Moved, BrokerSilent: again a second later
                                                                 Switched: its partitions are read again

However long it takes it waits (protocol 3.6), but for what no waiting changes: with that the task ends. Told to stop,
it is given up: its files are the sweep's. Belongs to the loop's thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

from exporter.core.backoff import RETRY_SECS
from exporter.core.manifest import RoundResult
from exporter.core.new_types import unanchored
from exporter.core.outcome import Committer
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import Writer, WriterKey, Writers, park
from exporter.errors import BrokerSilent, ConfigError
from exporter.lake.settling import Failed, Moved
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.anchor import FAILURES_MAX, Switched
from exporter.protocol.known import KnownTables
from exporter.text import first_line
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)

Staying = Mapping[TopicPartition, int]
"""The partitions that are ours to stay, with their ownership epochs."""


@dataclass(kw_only=True, eq=False, repr=False)
class Anchoring:
    """One task's. waits: whether a manifest does.

    anchor: as MetTypes.anchor, called in the pool. read_again: these partitions are to be recovered.
    """

    app: str
    anchor: Callable[[Mapping[WriterKey, Position]], Mapping[str, TableView]]
    known: KnownTables
    committer: Committer
    read_again: Callable[[Collection[TopicPartition]], None]
    pool: Executor
    waking: Callable[[Future[Any]], Future[Any]]

    def __post_init__(self) -> None:
        self._manifest: RoundResult | None = None
        self._running: Future[Mapping[str, TableView]] | None = None
        self._retry_at = float("-inf")
        self._patience = Counter[str]()

    @property
    def waits(self) -> bool:
        return self._manifest is not None

    @property
    def idle(self) -> bool:
        """Whether no table is being anchored any more."""
        return self._running is None or self._running.done()

    def wait_for(self, manifest: RoundResult) -> None:
        """Of the round that has just been read; there is none other."""
        self._manifest = manifest

    def drop(self) -> None:
        """The manifest counts for nothing any more."""
        self._manifest = None

    def dead_letters_waited_for(self, writers: Writers, staying: Staying) -> list[WriterKey]:
        """The dead-letter writers, staged or not, that have to be committed before new types are anchored."""
        dead_letters = self._dead_letters(writers, self._wanted(writers, staying))
        return [w.key for w in dead_letters if w.frontier > w.covered and w.claim is None and w.parked is None]

    def tick(
        self, now: float, writers: dict[WriterKey, Writer], staying: Staying, stopping: bool, held: bool = False
    ) -> RoundResult | None:
        """The manifest, once every type of it has its writer; None while there is none, or it waits.

        writers: get those of new types. held: begin no anchoring now. Raises ConfigError.
        """
        if self._manifest is None:
            return None
        if self._running is not None and self._running.done():
            running, self._running = self._running, None
            self._take(running, now, writers, staying)
        wanted = self._wanted(writers, staying)
        if not wanted:
            ready, self._manifest = self._manifest, None
            return ready
        if stopping:
            self._manifest = None
            return None
        level = all(w.covered == w.frontier and w.claim is None for w in self._dead_letters(writers, wanted))
        if level and not held and self._running is None and now >= self._retry_at:
            self._running = self.waking(self.pool.submit(self.anchor, wanted))
        return None

    def _wanted(self, writers: Writers, staying: Staying) -> dict[WriterKey, Position]:
        return unanchored(writers, staying, self._manifest) if self._manifest is not None else {}

    @staticmethod
    def _dead_letters(writers: Writers, wanted: Collection[WriterKey]) -> list[Writer]:
        """The dead letters of the partitions: a new type is anchored at their position (protocol 3.1)."""
        return [writers[WriterKey(DEAD_LETTERS, tp)] for tp in sorted({key.tp for key in wanted})]

    def _take(
        self,
        anchoring: Future[Mapping[str, TableView]],
        now: float,
        writers: dict[WriterKey, Writer],
        staying: Staying,
    ) -> None:
        """Writers at the positions that the new types have now: anchored by us, or adopted (protocol 4.7)."""
        wanted = self._wanted(writers, staying)
        try:
            views = anchoring.result()
        except Switched as switched:
            log.info(Event.MANIFEST_DISCARDED, reason=str(switched))
            self.read_again({key.tp for key in wanted})
            return
        except (Moved, BrokerSilent) as error:
            log.warning(Event.ANCHORS_MISSING, tables=len(wanted), error=first_line(error))
            self._retry_at = now + RETRY_SECS
            self._bear(error)
            return
        self._patience.clear()
        unfillable: dict[str, str] = {}
        for name, view in views.items():
            if name not in self.known.tables:
                self.committer.trust(name, view)
                unfillable[name] = self.known.accept(name, view)
        for key, anchor in wanted.items():
            position = views[key.event_type].position(self.app, key.tp) if key.event_type in views else None
            if position is not None and position.epoch == anchor.epoch:
                ownership = staying[key.tp]
                writer = Writer(key, position.epoch, ownership, position.offset, position.offset, now)
                reason = unfillable.get(key.event_type)
                writers[key] = park(writer, reason, now) if reason else writer

    def _bear(self, error: Exception) -> None:
        """Raises ConfigError for what is in a table's way and no waiting changes, once it has lasted a while."""
        if not isinstance(error, Failed):
            return
        self._patience[name := error.table.event_type] += 1
        if self._patience[name] < FAILURES_MAX:
            return
        del self._patience[name]
        if isinstance(cause := error.cause(), ConfigError):
            raise cause from error
