"""A Committer whose tables are values in memory, stricter than the one of the lake: for tests of what commits.

It refuses what the lake would only notice later, or never: a table that was not trusted, a claim that is not whole, two
claims of one writer, a second commit of a table while one is under way, an offer again with other files, a row twice.
What the world does meanwhile is called by its name: `others_move`, `table_changes`, `file_vanishes`, `reply_is_lost`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.core.columns import NO_COLUMNS
from exporter.core.evolved import fitting
from exporter.core.outcome import Landed, Outcome, Report, Settled, Stale, Unknown, resolve
from exporter.core.writers import Claim, staged_range_error
from exporter.errors import InvariantBroken
from offsets import Invariant
from offsets.names import AppId
from offsets.partitions import DAY
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import APP_PROPERTY, TableView, fingerprint_of


@dataclass
class MemoryTable:
    """One table. commits: the commit id of each version, empty where it is somebody else's.

    rows: (partition, folder of the files) -> their offsets. gone: paths of staged files that are not there any more.
    filtered: of each partition, over all commits.
    """

    positions: dict[TopicPartition, Position]
    table_id: str = "table-0"
    frame: str = "frame-0"
    schema_json: str = NO_COLUMNS
    commits: list[str] = field(default_factory=lambda: [""])
    rows: dict[tuple[TopicPartition, str], list[OffsetRange]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    filtered: Counter[TopicPartition] = field(default_factory=Counter)

    @property
    def version(self) -> int:
        return len(self.commits) - 1

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.frame, self.schema_json)


class MemoryCommitter:
    """Commits of one app, into tables that its maker knows."""

    def __init__(self, app: str = "app", footer: Mapping[str, str] | None = None) -> None:
        self.tables: dict[str, MemoryTable] = {}
        self.reports: list[Report] = []
        self._app = app
        self._footer = dict(footer or {})
        self._topic_ids: dict[str, str] = {}
        self._trusted: dict[str, str] = {}
        self._checked: dict[str, int] = {}
        self._under_way: set[str] = set()
        self._lost: list[str] = []
        self._offers = 0

    # what the world does

    def others_move(self, event_type: str, tp: TopicPartition, position: Position) -> None:
        """Another task commits, or a repair: the position of one partition is another one."""
        table = self.tables[event_type]
        table.positions[tp] = position
        table.commits.append("")

    def table_changes(self, event_type: str) -> None:
        """A user changes its constraints: what was staged does not fit any more."""
        table = self.tables[event_type]
        table.commits.append("")
        table.frame = f"frame-{table.version}"

    def columns_change(self, event_type: str, schema_json: str) -> None:
        """Another task, or a user, gives it other columns: what was staged fits if it fits these."""
        table = self.tables[event_type]
        table.commits.append("")
        table.schema_json = schema_json

    def file_vanishes(self, event_type: str, path: str) -> None:
        """VACUUM has taken a staged file."""
        self.tables[event_type].gone.add(path)

    def reply_is_lost(self, arrived: bool) -> None:
        """The next commit raises where its answer should be; arrived: it is in the table all the same."""
        self._lost.append("arrived" if arrived else "lost")

    def view(self, event_type: str) -> TableView | None:
        """One snapshot; None if there is no such table."""
        if (table := self.tables.get(event_type)) is None:
            return None
        versions = {str(AppId(self._app, tp, at.epoch)): at.offset for tp, at in table.positions.items()}
        properties = {APP_PROPERTY: self._app}
        return TableView(
            table.version, table.table_id, table.fingerprint, versions, properties, DAY.column_names, table.schema_json,
            frame=table.frame,
        )  # fmt: skip

    # the Committer

    def trust(self, event_type: str, view: TableView) -> None:
        self._trusted[event_type] = view.table_id
        self._checked[event_type] = view.version

    def trust_topics(self, topic_ids: Mapping[str, str]) -> None:
        self._topic_ids |= topic_ids

    def footer(self, tp: TopicPartition) -> dict[str, str]:
        known = {"topic_id": self._topic_ids[tp.topic]} if tp.topic in self._topic_ids else {}
        return {**self._footer, **known}

    def checked_through(self, event_type: str) -> int:
        return self._checked.get(event_type, -1)

    def require_ours(self, event_type: str, view: TableView | None, offers: Sequence[Claim] = ()) -> TableView:
        if view is None or view.table_id != self._trusted.get(event_type, view.table_id):
            raise _broken(Invariant.MONOTONE, f"table {event_type} is not the one that was trusted")
        return view

    def commit(self, event_type: str, claims: Sequence[Claim]) -> Report:
        self._require_whole(event_type, claims)
        self._under_way.add(event_type)
        try:
            report = self._committed(event_type, claims)
        finally:
            self._under_way.discard(event_type)
        self.reports.append(report)
        return report

    def _require_whole(self, event_type: str, claims: Sequence[Claim]) -> None:
        if event_type not in self._trusted:
            raise _broken(Invariant.MONOTONE, f"table {event_type} was never trusted")
        if event_type in self._under_way:
            raise _broken(Invariant.COVER, f"two commits of table {event_type} at a time")
        if not claims or len({claim.key for claim in claims}) < len(claims):
            raise _broken(Invariant.COVER, f"table {event_type}: no claim, or two of one writer")
        for claim in claims:
            if claim.key.event_type != event_type:
                raise _broken(Invariant.COVER, f"{claim.key} is offered to table {event_type}")
            if error := staged_range_error(claim):
                raise _broken(Invariant.COVER, f"{claim.key}: {error}")
            known = self._offered_before(claim)
            if known is not None and replace(known, offers=()) != replace(claim, offers=()):
                raise _broken(Invariant.COVER, f"{claim.key} is offered again, and is another claim")

    def _offered_before(self, claim: Claim) -> Claim | None:
        settled = (one.claim for report in reversed(self.reports) for one in report.settled)
        mine = (one for one in settled if one.key == claim.key)
        return next((one for one in mine if claim.offers and one.offers == claim.offers), None)

    def _committed(self, event_type: str, claims: Sequence[Claim]) -> Report:
        table = self.tables.get(event_type)
        view = self.require_ours(event_type, self.view(event_type), claims)
        gone = table.gone if table is not None else set()
        lacking = [claim for claim in claims if any(file.path in gone for file in claim.files)]
        aside = [Settled(claim, Stale("a staged file cannot be read")) for claim in lacking]
        ready = [claim for claim in claims if claim not in lacking]
        if table is None or not ready:
            return Report(event_type, None, 0.0, tuple(aside))
        self._offers += 1
        commit_id = f"commit-{self._offers}"
        offers = [replace(claim, offers=(*claim.offers, commit_id)) for claim in ready]
        columns = fitting(view, [file for claim in offers for file in claim.files])
        changed = columns is None
        fits = all(table.positions.get(claim.key.tp) == Position(claim.epoch, claim.expected) for claim in offers)
        reply = self._lost.pop(0) if self._lost else ""
        error = "its metadata changed" if changed else "" if fits else "its positions moved"
        if not error and reply != "lost":
            self._land(table, offers, commit_id)
            table.schema_json = columns or table.schema_json
        error = error or (f"the reply was lost: {reply}" if reply else "")
        self._checked[event_type] = table.version
        if not error:
            settled = [Settled(claim, Landed(Position(claim.epoch, claim.new))) for claim in offers]
            return Report(event_type, table.version, 0.0, (*settled, *aside))
        settled = [Settled(claim, self._looked_up(table, claim, changed)) for claim in offers]
        return Report(event_type, None, 0.0, (*settled, *aside), error)

    def _land(self, table: MemoryTable, offers: Sequence[Claim], commit_id: str) -> None:
        for claim in offers:
            for file in claim.files:
                of_folder = table.rows.setdefault((claim.key.tp, file.folder), [])
                if any(file.offsets.overlaps(one) for one in of_folder):
                    raise _broken(Invariant.ONCE, f"{claim.key}: {file.path} holds rows that are in the table")
                of_folder.append(file.offsets)
            table.positions[claim.key.tp] = Position(claim.epoch, claim.new)
            table.filtered[claim.key.tp] += claim.filtered
        table.commits.append(commit_id)

    @staticmethod
    def _looked_up(table: MemoryTable, claim: Claim, changed: bool) -> Outcome | Stale:
        """Protocol 4.4: by the log and the positions, whatever went wrong."""
        outcome = resolve(claim, table.commits[claim.base_version + 1 :], table.positions.get(claim.key.tp))
        return Stale("its metadata changed") if changed and isinstance(outcome, Unknown) else outcome


def _broken(invariant: Invariant, what: str) -> InvariantBroken:
    return InvariantBroken(invariant, what, "correct what commits")
