"""What a repair goes by: one reading of every table of an app, and what follows from it. Writes nothing.

Where the tables cannot decide what would be right, it says so and names what can (CannotRepair).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.errors import CannotRepair, LogCleaned
from exporter.lake.accidents import AccidentLoss, AppHistory
from exporter.lake.change import TABLE_PROPERTIES
from exporter.lake.lake import Lake
from exporter.lake.schema import table_schema
from exporter.lake.views import views_of
from offsets.erased import ERASED_PROPERTY
from offsets.names import AppId, event_type_of
from offsets.partitions import Spec
from offsets.positions import Position, first_epoch
from offsets.ranges import TopicPartition
from offsets.rewind import first_anchor, live_positions, same_since
from offsets.table_log import (
    APP_PROPERTY,
    CLUSTER_PROPERTY,
    CONFIG_PROPERTY,
    EMPTY,
    ROUTING_PROPERTY,
    TABLE_PROPERTY,
    TOPIC_PROPERTY,
    TableView,
)


class NothingToRepair(CannotRepair):
    """All is as it should be already: for the verb that is no failure."""


@dataclass(frozen=True)
class Lost:
    """A table that the dead letters list: it is gone, or another one without our positions has its name."""

    name: str
    view: TableView | None


class RepairReading:
    """One reading of every table of an app, the dead letters last, and what follows from it. Writes nothing."""

    def __init__(self, lake: Lake, app: str, known_as: str = "") -> None:
        """known_as: a second app whose tables are read too. Raises CannotRepair without dead letters of the app."""
        self.lake = lake
        self.app = app
        self.views: dict[str, TableView] = {}
        self.others: dict[str, TableView] = {}
        self.histories: dict[str, AppHistory] = {}
        self.cleaned: dict[str, LogCleaned] = {}
        self._recorded: dict[str, Routing] = {}
        for name, view in views_of(lake, others="keep"):
            if view.properties.get(APP_PROPERTY) in {app, known_as} or live_positions(view.transactions, app):
                self.views[name] = view
                self._look(name, AppHistory(lake.table(name), app, view))
            else:
                self.others[name] = view
        if self.views and DEAD_LETTERS not in self.views:
            raise undecided(DEAD_LETTERS, "is gone", "it alone knows the configuration: put its folder back")
        if not self.views:
            raise CannotRepair(f"there is no table of app {app} under {lake.root}", "correct `app` or `table_root`")

    def _look(self, name: str, history: AppHistory) -> None:
        try:
            history.since  # noqa: B018 - reads the log now
        except LogCleaned as cleaned:
            self.cleaned[name] = cleaned
        else:
            self.histories[name] = history

    @property
    def dead_letters(self) -> TableView:
        """The dead letters, which record what the app knows of itself."""
        return self.views[DEAD_LETTERS]

    @cached_property
    def dead_letters_properties(self) -> dict[str, str]:
        """What the dead letters record, as it was before an accident took it back."""
        return {**self.dead_letters.properties, **self.trusted_properties(DEAD_LETTERS)}

    def partitions(self) -> list[TopicPartition]:
        """Those that any table has a position of."""
        found = {tp for view in self.views.values() for tp in live_positions(view.transactions, self.app)}
        return sorted(found)

    def positions(self, tp: TopicPartition, left_behind: bool = True) -> dict[str, Position]:
        """Table -> position. Raises CannotRepair if the dead letters have none.

        left_behind: with the undeclared types that were anchored in an epoch which had been closed already; they
        count as absent.
        """
        found = {name: at for name, view in self.views.items() if (at := view.position(self.app, tp)) is not None}
        if DEAD_LETTERS not in found:
            raise undecided(DEAD_LETTERS, f"has no position for {tp}", "put it back as it was")
        if left_behind:
            return found
        routing, epoch = self.in_force(tp)[1], found[DEAD_LETTERS].epoch
        return {
            name: at
            for name, at in found.items()
            if not (routing.is_new(name) and at.epoch < epoch and self._unused(name, tp, at))
        }

    def _unused(self, name: str, tp: TopicPartition, position: Position) -> bool:
        anchor = str(AppId(self.app, tp, position.epoch, "anchor"))
        return self.views[name].transactions.get(anchor) == position.offset

    def losses(self, tp: TopicPartition) -> dict[str, AccidentLoss]:
        """Of the tables that an accident hit. Raises CannotRepair if a log no longer tells what the table held."""
        found = {}
        for name, history in self.histories.items():
            try:
                if history.accidents and tp in history.losses:
                    found[name] = history.losses[tp]
            except LogCleaned as cleaned:
                raise undecided(
                    name, f"was taken back, and its log does not tell how far: {cleaned.message}",
                    "RESTORE it to a version whose log is still there, then start the repair again",
                ) from cleaned  # fmt: skip
        return found

    def interrupted(self, tp: TopicPartition, action: str) -> bool:
        """True if a repair of this kind has moved a table beyond the dead letters' epoch, and ended there."""
        at = self.positions(tp)
        ahead = {name: one.epoch for name, one in at.items() if one.epoch > at[DEAD_LETTERS].epoch}
        return any(
            name in self.histories and self.histories[name].begun_by(tp, epoch) == action
            for name, epoch in ahead.items()
        )

    def refuse_accidents(self, what: str) -> None:
        """Raises CannotRepair if an accident hit any table, or if its log does not tell."""
        for name, cleaned in self.cleaned.items():
            raise CannotRepair(f"table {name} cannot be {what}: {cleaned.message}", cleaned.hint)
        for name, history in self.histories.items():
            if history.accidents:
                broken = history.broken()
                raise CannotRepair(f"table {name} cannot be {what}: {broken.message}", broken.hint)

    def trusted_properties(self, name: str) -> dict[str, str]:
        """The exporter's own properties as they were before an accident; empty where there was none."""
        history = self.histories.get(name)
        if history is None or not history.accidents or history.accidents[0].version == 0:
            return {}
        return trusted(self.lake.table(name).view_at(history.accidents[0].version - 1).properties)

    def history_of(self, tp: TopicPartition) -> dict[int, str]:
        """Epoch -> fingerprint of the configuration in force."""
        text = self.dead_letters_properties.get(f"{ROUTING_PROPERTY}{tp}", "{}")
        return {int(epoch): fingerprint for epoch, fingerprint in json.loads(text).items()}

    def in_force(self, tp: TopicPartition) -> tuple[str, Routing]:
        """Fingerprint and configuration in force. Raises CannotRepair if the dead letters do not tell it."""
        epoch = self.positions(tp)[DEAD_LETTERS].epoch
        fingerprint = self.history_of(tp).get(epoch)
        text = self.dead_letters_properties.get(f"{CONFIG_PROPERTY}{fingerprint}")
        if fingerprint is None or text is None:
            raise undecided(DEAD_LETTERS, f"records no configuration for epoch {epoch} of {tp}", "put it back")
        if fingerprint not in self._recorded:
            self._recorded[fingerprint] = self._read(fingerprint, text)
        return fingerprint, self._recorded[fingerprint]

    def _read(self, fingerprint: str, text: str) -> Routing:
        try:
            return Routing.from_json(text)
        except (ValueError, TypeError, KeyError) as error:
            raise CannotRepair(
                f"routing configuration {fingerprint} cannot be read by this version: {error!r}",
                "repair with the version that wrote it",
            ) from error

    def fingerprint(self) -> str:
        """The configuration in force for the first partition, for the reader of the history."""
        return next((self.in_force(tp)[0] for tp in self.partitions()), "")

    def declared_schema(self, name: str, spec: Spec) -> str | None:
        """Spark schema JSON of a table, cut so, by the configurations in force; None for a type that none declares."""
        if name == DEAD_LETTERS:
            return table_schema(None)
        for tp in self.partitions():
            routing = self.in_force(tp)[1]
            if (declared := routing.schemas.get(name)) is not None or routing.is_new(name):
                return table_schema(declared or routing.columns_of(name), spec)
        return None

    def identity_properties(self) -> dict[str, str]:
        """Cluster and topic ids as the dead letters record them."""
        recorded = self.dead_letters_properties.items()
        return {k: text for k, text in recorded if k == CLUSTER_PROPERTY or k.startswith(TOPIC_PROPERTY)}

    def lost(self) -> list[Lost]:
        """Tables that the dead letters list and that have no position of ours: gone, or made anew by others."""
        found = []
        for folder, table_id in listed_tables(self.dead_letters_properties):
            name = event_type_of(folder)
            if name not in self.views:
                other = self.others.get(name)
                if other is not None and APP_PROPERTY in other.properties:
                    raise undecided(name, f"is one of app {other.properties[APP_PROPERTY]} now", "move that one away")
                found.append(Lost(name, other))
            elif self.views[name].table_id != table_id and not live_positions(self.views[name].transactions, self.app):
                found.append(Lost(name, self.views.pop(name)))
        return found

    def check_boundary(self, name: str, tp: TopicPartition, target: int) -> None:
        """Raises CannotRepair where the missing records were exported under a configuration that is not in force."""
        if (began := self.otherwise(name, tp, target)) is not None:
            raise undecided(
                name,
                f"lost records of {tp} from offset {target + 1} on, which were exported under an earlier configuration"
                + began,
                self._brings_back(name),
            )

    def otherwise(self, name: str, tp: TopicPartition, target: int) -> str | None:
        """None if all that a table has beyond an offset is of the configuration in force; else where that one began."""
        transactions, position = self.views[name].transactions, self.positions(tp)
        since = first_epoch(transactions, self.app, tp)
        in_force = position[DEAD_LETTERS].epoch
        if position[name].epoch < in_force:
            return ""
        begins = first_anchor(transactions, self.app, tp, same_since(self.history_of(tp), in_force, since))
        return None if begins is None or target >= begins else f" (the one in force began after offset {begins})"

    def _brings_back(self, name: str) -> str:
        """What is to be done before a repair where no rewind exports again what a table lost."""
        history = self.histories.get(name)
        last = history.accidents[-1] if history and history.accidents else None
        if last is not None and last.operation == EMPTY:
            return (
                f"no version of the table has them: put version {last.version} of its _delta_log back from a copy, "
                "then start the tasks again"
            )
        at = self.views[name].version if last is None else last.version - 1
        return (
            f"RESTORE TABLE {self.lake.table(name).sql_name} TO VERSION AS OF {at} brings them back; "
            "then start the repair again"
        )

    def beginning(self, name: str, tp: TopicPartition) -> int:
        """Where a table that is gone has to begin. Raises CannotRepair if an earlier configuration filled it too."""
        history, dead_letters = self.history_of(tp), self.dead_letters
        since = first_epoch(dead_letters.transactions, self.app, tp)
        epoch = self.positions(tp)[DEAD_LETTERS].epoch
        earliest = same_since(history, epoch, since)
        for one in sorted(e for e in history if since <= e < earliest):
            text = self.dead_letters_properties.get(f"{CONFIG_PROPERTY}{history[one]}")
            if text is None or name in Routing.from_json(text).active_with(()):
                raise undecided(name, "is gone, and an earlier configuration filled it too", "put its folder back")
        begins = first_anchor(dead_letters.transactions, self.app, tp, earliest)
        if begins is None:
            raise undecided(name, f"is gone, and where {tp} began is not recorded", "put its folder back")
        return begins


def undecided(table: str, what: str, hint: str) -> CannotRepair:
    """To be raised where the tables alone do not tell what would be right."""
    return CannotRepair(f"table {table} {what}", hint)


def trusted(before: Mapping[str, str]) -> dict[str, str]:
    """Of a table's properties before an accident those that are the exporter's, and true whatever became of its rows:
    that it has none of erased records is not (ERASED, protocol 4.16)."""
    own = {name: text for name, text in before.items() if name.startswith("exporter.") or name in TABLE_PROPERTIES}
    return {name: text for name, text in own.items() if name != ERASED_PROPERTY}


def listed_tables(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """(folder, table id) of every table that the dead letters list."""
    return [
        (prop.removeprefix(TABLE_PROPERTY), text)
        for prop, text in sorted(properties.items())
        if prop.startswith(TABLE_PROPERTY)
    ]
