"""What commits say of valid_through: by which time a table has all rows (protocol 4.12).

    claims, frozen ── which partitions are there now? ──> strict: all of them in the claims
                                                      └─> idle_aware: what have the others beyond their position?
    ── never below what the log and the property said before ──> metadata, and the property now and then

Nothing of it stands in a commit's way: what cannot be told is not said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from exporter.core.valid_through import Mode, as_ms, as_text, idle, silent, valid_through
from exporter.errors import ExporterError
from exporter.lake.said import said_through
from exporter.lake.table import DeltaTable
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.text import first_line
from offsets.ranges import TopicPartition
from offsets.table_log import THROUGH, THROUGH_PROPERTY, LoggedCommit, TableView, own_metadata

log = get_logger(__name__)

SILENT_SECS = 30.0
"""For so long brokers that did not answer are not asked again: a commit waits for their answer."""


class ThroughSaid(NamedTuple):
    """Of one claim: its new position, and the greatest time through it, milliseconds since 1970; 0: none."""

    tp: TopicPartition
    new: int
    time_ms: int


class WholeExport(Protocol):
    """All that is to be exported, asked now, from whichever thread. Raises ExporterError."""

    def partitions(self) -> Collection[TopicPartition]: ...

    def high_watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, int]: ...


class ThroughTimes:
    """Of one process. For one table by one thread at a time.

    said: event type -> the greatest that is known to have been said of its table, milliseconds since 1970.
    """

    def __init__(
        self, app: str, mode: Mode, topics: WholeExport, clock: Callable[[], float], property_secs: float = 0.0
    ) -> None:
        """clock: monotonic seconds. property_secs: between two updates of a table's property; 0: with each commit."""
        self._app = app
        self._mode = mode
        self._topics = topics
        self._clock = clock
        self._property_secs = property_secs
        self._not_before = float("-inf")
        self._looked: dict[str, int] = {}
        self._property_at: dict[str, float] = {}
        self.said: dict[str, int] = {}

    def metadata(self, table: DeltaTable, view: TableView | None, claims: Iterable[ThroughSaid]) -> dict[str, str]:
        """What a commit's metadata say, or nothing. Asked after every claim was frozen. view: None: looked at now."""
        if (now := self._clock()) < self._not_before:
            return {}
        try:
            view = view or table.view()
            through = 0 if view is None else self._through(table, view, tuple(claims))
        except ExporterError as error:
            log.warning(Event.VALID_THROUGH_UNSAID, table=table.event_type, error=first_line(error))
            self._not_before = now + SILENT_SECS
            return {}
        return {THROUGH: as_text(through)} if through else {}

    def properties(self, event_type: str, view: TableView, told: Mapping[str, str]) -> dict[str, str]:
        """The properties that a commit with these metadata sets: a change that refuses commits of others (4.3)."""
        before, now = as_ms(view.properties.get(THROUGH_PROPERTY, "")), self._clock()
        if as_ms(told.get(THROUGH, "")) <= before:
            return {}
        if now - self._property_at.get(event_type, float("-inf")) < self._property_secs:
            return {}
        self._property_at[event_type] = now
        return {THROUGH_PROPERTY: told[THROUGH]}

    def landed(self, event_type: str, told: Mapping[str, str]) -> None:
        """A commit with these metadata is in the table."""
        self.said[event_type] = max(self.said.get(event_type, 0), as_ms(told.get(THROUGH, "")))

    def heard(self, event_type: str, commits: Iterable[LoggedCommit]) -> None:
        """These are in the table's log, whoever made them."""
        for commit in commits:
            self.landed(event_type, own_metadata(commit.user_metadata))

    def _through(self, table: DeltaTable, view: TableView, claims: Collection[ThroughSaid]) -> int:
        times = {one.tp: one.time_ms for one in claims}
        if not any(times.values()):
            return 0
        partitions = self._topics.partitions()
        quiet, left_out = silent(times, partitions), set[TopicPartition]()
        if quiet and self._mode == "idle_aware":
            found = {tp: view.position(self._app, tp) for tp in quiet}
            positions = {tp: at.offset for tp, at in found.items() if at is not None}
            moved = {one.tp: one.new for one in claims}
            left_out = idle(quiet, {**positions, **moved}, self._topics.high_watermarks(quiet))
        if quiet - left_out:
            return 0
        name = table.event_type
        before = max(self.said.get(name, 0), said_through(table, view, self._looked.get(name, -1)))
        self._looked[name], self.said[name] = view.version, before
        return valid_through(times, partitions, left_out, before)


def said_later(view: TableView, properties: Mapping[str, str]) -> bool:
    """Whether a table's property says more than these set it to: then it would go back."""
    now, then = view.properties.get(THROUGH_PROPERTY, ""), properties.get(THROUGH_PROPERTY)
    return then is not None and as_ms(now) > as_ms(then)
