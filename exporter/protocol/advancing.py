"""What has to be done before partitions may run, one step after each reading (protocol 5.2 to 5.5).

    the topics and tables are the known ones ── else stop
    new partitions     anchor the dead letters
    gaps               record and pass them, or stop
    switches           drain under the configuration in force, then seal
    absent positions   anchor them; let the dead letters list every table
    earlier versions   their tables get the column `_event_time`

After each of them everything is read again. Every commit is a compare-and-set on what was read; none names a file that
was staged by the export, and none deletes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from exporter import threads
from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError
from exporter.kafka.topics import TopicReader
from exporter.lake.accidents import gone
from exporter.lake.fillable import unfillable
from exporter.lake.properties import check_identity
from exporter.lake.schema import with_event_time
from exporter.lake.settling import Failed
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.anchor import Anchors
from exporter.protocol.gap_rows import GapRows, refuse
from exporter.protocol.judging import ToDo, in_force
from exporter.protocol.reading import TABLE_THREADS, Reading
from exporter.protocol.rehearsal import rehearse
from exporter.protocol.switch import Switcher
from exporter.protocol.truncation import check_truncation
from offsets.gaps import find_gaps, recorded_gaps
from offsets.names import event_type_of, table_folder
from offsets.positions import Position
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)

Identities = Mapping[str, TopicIdentity]


class Advance:
    """The steps of one task's recoveries. Keeps nothing from one step to the next."""

    def __init__(self, *, anchors: Anchors, topics: TopicReader, switcher: Switcher, on_gap: str) -> None:
        """on_gap: stop or record, as the settings say."""
        self._lake = anchors.lake
        self._anchors = anchors
        self._topics = topics
        self._switcher = switcher
        self._gap_rows = GapRows(anchors)
        self._records_gaps = on_gap == "record"

    def step(
        self, reading: Reading, to_do: ToDo, identities: Identities, unchanged: set[str], go_on: Callable[[], None]
    ) -> bool:
        """Do the next thing that has to be done; False if there is nothing.

        unchanged: tables whose columns could not be changed; grows. go_on: as in drain.py.

        Raises InvariantBroken, ConfigError; Moved, BrokerSilent and Interrupted to be called again with a new reading.
        """
        self.check_lake(reading, identities)
        if to_do.new:
            self._anchors.anchor_dead_letters(reading.dead_letters, to_do.new, identities)
            return True
        if self._close_gaps(reading, to_do.drained):
            return True
        if to_do.switches:
            recorded = in_force(reading, to_do.switches)
            self._switcher.switch(reading.views, to_do.switches, recorded, identities, go_on)
            return True
        if self._anchor(reading, to_do.unanchored, identities) or self._anchors.register(reading.views):
            return True
        agreed = to_do.positions
        filled = {name: reading.views[name] for positions in agreed.values() for name in positions}
        return self._add_event_times(filled, unchanged) or self._close_gaps(reading, agreed)

    def check_lake(self, reading: Reading, identities: Identities) -> None:
        """Raises InvariantBroken for what stops every partition: another topic, a table that is gone.

        And ConfigError for the tables that the settings would cut otherwise than they were made.
        """
        positions = {
            tp: max((state.position.offset for state in states.values() if state.position), default=-1)
            for tp, states in reading.states.items()
        }
        check_identity(reading.dead_letters.properties if reading.dead_letters else {}, identities, positions)
        self._check_listed(reading)
        self._check_specs(reading)

    def rehearse(self, reading: Reading, to_do: ToDo) -> None:
        """Raises what would stand in the way of the switches; only whether files can be written is not tried."""
        if to_do.switches:
            recorded = in_force(reading, to_do.switches)
            rehearse(self._anchors, reading.views, to_do.switches, recorded, writing=False)

    def _check_listed(self, reading: Reading) -> None:
        """A table that the dead letters list must still be there, with its id (protocol 5.2)."""
        dead_letters = reading.dead_letters
        by_folder = {table_folder(name): view for name, view in reading.views.items()}
        for folder, table_id in (dead_letters.listed_tables() if dead_letters else {}).items():
            view = by_folder.get(folder)
            if view is None or view.table_id != table_id:
                known = {tp: state[DEAD_LETTERS].position for tp, state in reading.states.items()}
                far = {tp: position.offset for tp, position in known.items() if position is not None}
                absent = view is None and self._lake.table(event_type_of(folder)).view() is None
                raise gone(folder, "is gone" if absent else "was replaced", far)

    def _check_specs(self, reading: Reading) -> None:
        """No file is moved from one spec to another, and one table has one; of what is not filled nothing is asked."""
        specs, routing = self._lake.specs, self._anchors.routing
        filled = {name: view for name, view in reading.views.items() if name in routing.schemas or routing.is_new(name)}
        if unfit := [error for name, view in sorted(filled.items()) if (error := specs.refused(name, view))]:
            raise ConfigError.of(unfit, "tables are cut otherwise than the settings say")

    def _anchor(
        self, reading: Reading, missing: Mapping[str, Mapping[TopicPartition, Position]], identities: Identities
    ) -> bool:
        """Anchor the absent positions, several tables at a time; False if there are none."""
        with threads.pool(TABLE_THREADS, "anchor") as pool:
            done = [pool.submit(self._anchors.anchor_type, name, reading.views.get(name), positions, identities)
                    for name, positions in sorted(missing.items())]  # fmt: skip
        # Raised only now that all have ended: none goes on writing beside the next reading.
        for future in done:
            future.result()
        return bool(missing)

    def _add_event_times(self, views: Mapping[str, TableView], unchanged: set[str]) -> bool:
        """Tables of earlier versions get the column `_event_time`; False if no table has changed.

        It asks for no switch: where records go is the same. A table that cannot be changed is one type's trouble, told
        when it is filled: until then files have the column though the table has not, and readers go by the table.
        """
        lacking = lacking_event_time(views) - unchanged
        with threads.pool(TABLE_THREADS, "event-time") as pool:
            done = {name: pool.submit(self._anchors.add_event_time, name, views[name]) for name in sorted(lacking)}
        for name, future in done.items():
            try:
                future.result()
            except Failed as failed:
                log.warning(Event.EVENT_TIME_NOT_ADDED, table=name, error=str(failed))
                unchanged.add(name)
        return bool(lacking)

    def _close_gaps(
        self, reading: Reading, positions: Mapping[TopicPartition, Mapping[str, Position | None]]
    ) -> bool:
        """Retention gaps and truncation (protocol 5.4, 5.5): before a drain, and after every type has its anchor.

        False if there is no gap. Raises InvariantBroken, or Moved.
        """
        present = {tp: {n: at for n, at in types.items() if at is not None} for tp, types in positions.items()}
        present = {tp: types for tp, types in present.items() if types}
        if not present or reading.dead_letters is None:
            return False
        check_truncation(self._topics, {tp: max(at.offset for at in types.values()) for tp, types in present.items()})
        recorded = recorded_gaps(reading.dead_letters.transactions, self._lake.app)
        gaps = find_gaps(present, self._topics.first_offsets(present.keys()), recorded)
        if not self._records_gaps:
            refuse([gap for gap in gaps if not gap.recorded])
        if gaps:
            self._gap_rows.close(reading.views, gaps)
        return bool(gaps)


def lacking_event_time(views: Mapping[str, TableView]) -> set[str]:
    """The tables of an earlier version that are to get the column `_event_time`."""
    lacking = {name for name, view in views.items() if with_event_time(view.schema_json) != view.schema_json}
    return {name for name in lacking - {DEAD_LETTERS} if not unfillable(views[name])}
