"""`exporter repair --adopt`: tables of another app become ours, positions and all (protocol 5.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.core.routing import DEAD_LETTERS, dead_letters_last
from exporter.errors import CannotRepair
from exporter.lake.lake import Lake
from exporter.operate.repair.reading import RepairReading, listed_tables, undecided
from exporter.operate.repair.steps import RepairRow, TableRepair
from offsets.names import table_folder
from offsets.ranges import TopicIdentity
from offsets.rewind import adopted_transactions, live_positions
from offsets.table_log import APP_PROPERTY, TOPIC_PROPERTY, TableView


@dataclass(frozen=True)
class Adopt:
    """One lake, and the app whose tables are taken over. Every plan reads the tables afresh and writes nothing.

    identities: the topics as they are now. former: the other app.
    """

    lake: Lake
    identities: Mapping[str, TopicIdentity]
    former: str

    def plan(self) -> list[TableRepair]:
        """Protocol 5.6: every table of `former` becomes ours, with all that it remembers."""
        app, former = self.lake.app, self.former
        if former == app:
            raise CannotRepair(
                f"the tables are asked to be those of {app}, which is the app itself", "name the other app"
            )
        reading = RepairReading(self.lake, former, known_as=app)
        todo = {name: view for name, view in reading.views.items() if view.properties.get(APP_PROPERTY) == former}
        if not todo:
            return []
        dead_letters = todo.get(DEAD_LETTERS)
        if dead_letters is None:
            raise undecided(DEAD_LETTERS, f"is not one of {former}'s", "both apps have written here: move one away")
        reading.refuse_accidents(f"adopted; start with app = {former!r} and repair them first")
        for topic, identity in self.identities.items():
            if dead_letters.properties.get(f"{TOPIC_PROPERTY}{topic}") != identity.topic_id:
                raise undecided(
                    DEAD_LETTERS, f"knows nothing of topic {topic} with the id {identity.topic_id}",
                    f"only tables of the same topic can be adopted; was it created again? start with app = {former!r}",
                )  # fmt: skip
        listed = dict(listed_tables(dead_letters.properties))
        ids = {table_folder(name): view.table_id for name, view in reading.views.items()}
        if missing := sorted(folder for folder, table_id in listed.items() if ids.get(folder) != table_id):
            raise undecided(missing[0], "is gone or another one", f"start with app = {former!r} and repair it first")
        if both := sorted(name for name, view in todo.items() if live_positions(view.transactions, app)):
            raise undecided(both[0], f"has positions of both {former} and {app}", "they cannot be told apart")
        return [self._step(name, todo[name]) for name in dead_letters_last(todo)]

    def _step(self, name: str, view: TableView) -> TableRepair:
        rows = tuple(
            RepairRow(name, tp, position, position, 0, f"was {self.former}'s, becomes {self.lake.app}'s")
            for tp, position in live_positions(view.transactions, self.former).items()
        )
        versions = adopted_transactions(view.transactions, self.former, self.lake.app)
        return TableRepair(name, view, versions, rows, {APP_PROPERTY: self.lake.app})
