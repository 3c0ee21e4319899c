"""The tables of event types that are met while records are read (protocol 4.7, 5.2).

    a table with the position is adopted ─── one without it gets it ─── none is made, with it
    then the dead letters, still where they were, list every one of them; nobody writes rows into a table before

The listing is what a switch runs into: it seals every table that the dead letters list. Had they moved, whoever moved
them might have looked for a record in all tables before this one was there (protocol 3.7).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from exporter import threads
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import WriterKey
from exporter.errors import InvariantBroken
from exporter.kafka.topics import TopicReader
from exporter.lake.properties import check_properties
from exporter.lake.settling import Failed, Moved
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.anchor import ATTEMPTS_MAX, Anchors, Switched
from exporter.protocol.reading import TABLE_THREADS, TablesReader
from offsets import Invariant
from offsets.crosscheck import TableState
from offsets.positions import Position
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)


class MetTypes:
    """Anchors the types that one task's rounds meet. Keeps nothing; callable from every thread."""

    def __init__(self, *, anchors: Anchors, topics: TopicReader, reader: TablesReader) -> None:
        self._lake = anchors.lake
        self._anchors = anchors
        self._topics = topics
        self._reader = reader

    def anchor(
        self, wanted: Mapping[WriterKey, Position], schemas: Mapping[str, str] | None = None
    ) -> dict[str, TableView]:
        """Event type -> its table, in which each wanted position is present and which the dead letters list.

        wanted: (undeclared type, partition) -> the dead letters' position there as this task knows it. schemas: of
        tables that are to be made with more columns than a new one has. Raises Switched; Moved and BrokerSilent to be
        tried again; InvariantBroken.
        """
        identities = self._topics.identities_of({key.tp.topic for key in wanted})
        by_name: dict[str, dict[TopicPartition, Position]] = defaultdict(dict)
        for key, position in wanted.items():
            by_name[key.event_type][key.tp] = position
        with threads.pool(TABLE_THREADS, "anchor") as pool:
            done = {
                name: pool.submit(self._anchor, name, at, identities, (schemas or {}).get(name))
                for name, at in by_name.items()
            }
        views = {name: future.result() for name, future in done.items()}
        table = self._lake.table(DEAD_LETTERS)
        dead_letters = table.view()
        if dead_letters is None:
            raise InvariantBroken(Invariant.MONOTONE, f"table {DEAD_LETTERS} is gone", "put it back")
        self._reader.named_since(table, dead_letters)  # what is registered says that all before it was looked at (4.5)
        at = {key.tp: position for key, position in wanted.items()}
        self._anchors.require_dead_letters(dead_letters, at)
        self._anchors.register({DEAD_LETTERS: dead_letters, **views}, at)
        return views

    def widen(self, name: str, view: TableView, schema: str, looked_through: int) -> None:
        """Give a table wider types, as `Anchors.widen` does."""
        self._anchors.widen(name, view, schema, looked_through)

    def _anchor(
        self,
        name: str,
        anchors: Mapping[TopicPartition, Position],
        identities: Mapping[str, TopicIdentity],
        schema: str | None,
    ) -> TableView:
        """A position that is there is adopted; one that is not is added, with the table if there is none.

        A table that is refused with the columns that are planned for it is made without: they are its own trouble
        when its first files come (protocol 4.7).
        """
        table = self._lake.table(name)
        for _ in range(ATTEMPTS_MAX):
            view = table.view()
            if view is not None:
                check_properties(name, view, self._lake.app)
                self._reader.named_since(table, view)
            absent = {}
            for tp, anchor in anchors.items():
                state = self._reader.state(tp, name, view, {}) if view is not None else TableState(None)
                if state.position is None or state.left_behind(anchor.epoch):
                    absent[tp] = anchor
                elif state.position.epoch != anchor.epoch:
                    raise Switched(f"table {name}, {tp}: {state.position} is not in epoch {anchor.epoch}")
            if view is not None and not absent:
                return view
            try:
                self._anchors.anchor_type(name, view, absent, identities, schema)
            except Failed as failed:
                if view is not None or schema is None or failed.of_storage or self._lake.store.trouble():
                    raise  # nobody else has made it: the manifest waits, and the cause is told
                log.error(Event.COLUMNS_REFUSED, table=name, error=str(failed))
                schema = None
            except Moved as moved:
                log.info(Event.ANCHOR_ADOPTED, table=name, reason=str(moved))
        raise Moved(f"table {name} could not be anchored")
