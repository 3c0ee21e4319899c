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
from exporter.core.coordination import Offer, OfferedClaim
from exporter.core.evolved import fitting
from exporter.core.outcome import Landed, Outcome, Prepared, Report, Settled, Stale, Unknown, resolve
from exporter.core.routing import DEAD_LETTERS
from exporter.core.user_metadata import claimed
from exporter.core.writers import Claim, staged_range_error
from exporter.errors import InvariantBroken
from offsets import Invariant
from offsets.names import AppId
from offsets.partitions import DAY
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import APP_PROPERTY, TableView, fingerprint_of

Rows = Sequence[tuple[str, str, OffsetRange]]
"""Of files: path, folder, offsets."""


@dataclass
class MemoryTable:
    """One table. commits: the ids under which each version is found, none where it is somebody else's.

    rows: (partition, folder of the files) -> their offsets. gone: paths of staged files that are not there any more.
    filtered: of each partition, over all commits.
    """

    positions: dict[TopicPartition, Position]
    table_id: str = "table-0"
    frame: str = "frame-0"
    schema_json: str = NO_COLUMNS
    commits: list[tuple[str, ...]] = field(default_factory=lambda: [()])
    rows: dict[tuple[TopicPartition, str], list[OffsetRange]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    filtered: Counter[TopicPartition] = field(default_factory=Counter)

    @property
    def version(self) -> int:
        return len(self.commits) - 1

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.frame, self.schema_json)

    def logged(self, after: int) -> dict[str, int]:
        """Id -> version, of the versions after this one."""
        later = range(after + 1, len(self.commits))
        return {commit_id: version for version in later for commit_id in self.commits[version]}


class MemoryCommitter:
    """Commits of one app, into tables that its maker knows."""

    def __init__(
        self,
        app: str = "app",
        footer: Mapping[str, str] | None = None,
        owner: str = "me",
        tables: dict[str, MemoryTable] | None = None,
    ) -> None:
        """owner: no other committer's of these tables. tables: that several committers share."""
        self.tables: dict[str, MemoryTable] = {} if tables is None else tables
        self.reports: list[Report] = []
        self.owner = owner
        self._app = app
        self._footer = dict(footer or {})
        self._topic_ids: dict[str, str] = {}
        self._trusted: dict[str, str] = {}
        self._checked: dict[str, int] = {}
        self._under_way: set[str] = set()
        self._lost: list[str] = []
        self._prepared: dict[str, str] = {}
        self._offers = 0
        self.found_dead_letters: TableView | None = None

    # what the world does

    def others_move(self, event_type: str, tp: TopicPartition, position: Position) -> None:
        """Another task commits, or a repair: the position of one partition is another one."""
        table = self.tables[event_type]
        table.positions[tp] = position
        table.commits.append(())

    def table_changes(self, event_type: str) -> None:
        """A user changes its constraints: what was staged does not fit any more."""
        table = self.tables[event_type]
        table.commits.append(())
        table.frame = f"frame-{table.version}"

    def columns_change(self, event_type: str, schema_json: str) -> None:
        """Another task, or a user, gives it other columns: what was staged fits if it fits these."""
        table = self.tables[event_type]
        table.commits.append(())
        table.schema_json = schema_json

    def file_vanishes(self, event_type: str, path: str) -> None:
        """VACUUM has taken a staged file."""
        self.tables[event_type].gone.add(path)

    def reply_is_lost(self, arrived: bool) -> None:
        """The next commit raises where its answer should be; arrived: it is in the table all the same."""
        self._lost.append("arrived" if arrived else "lost")

    def lost_reply(self) -> str:
        """What becomes of the next answer: nothing, or whether its commit arrived."""
        return self._lost.pop(0) if self._lost else ""

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

    def dead_letters(self) -> TableView | None:
        return self.found_dead_letters

    def require_ours(self, event_type: str, view: TableView | None) -> TableView:
        if view is None or view.table_id != self._trusted.get(event_type, view.table_id):
            raise broken(Invariant.MONOTONE, f"table {event_type} is not the one that was trusted")
        return view

    def commit(self, event_type: str, claims: Sequence[Claim]) -> Report:
        return self.land(self.prepare(event_type, claims))

    def prepare(self, event_type: str, claims: Sequence[Claim]) -> Prepared:
        self._require_whole(event_type, claims)
        table = self.tables.get(event_type)
        self.require_ours(event_type, self.view(event_type))
        gone = table.gone if table is not None else set()
        lacking = [claim for claim in claims if any(file.path in gone for file in claim.files)]
        aside = tuple(Settled(claim, Stale("a staged file cannot be read")) for claim in lacking)
        self._offers += 1
        commit_id = f"{self.owner}-{self._offers}"
        ready = tuple(replace(one, offers=(*one.offers, commit_id)) for one in claims if one not in lacking)
        self._prepared[event_type] = commit_id
        return Prepared(event_type, commit_id, ready, aside, {}, 0.0)

    def offer(self, prepared: Prepared, round_id: str) -> Offer:
        """As the lake's; its files are not `add` actions, but what MemoryMerger wants of them."""
        table, files = self.tables[prepared.event_type], [file for one in prepared.offers for file in one.files]
        adds = tuple(
            {"path": file.path, "first": file.offsets.first_offset, "last": file.offsets.last_offset,
             "tp": [*one.key.tp]}
            for one in prepared.offers
            for file in one.files
        )  # fmt: skip
        return Offer(
            app=self._app,
            id=prepared.commit_id,
            owner=self.owner,
            table=prepared.event_type,
            table_id=table.table_id,
            round_id=round_id,
            base_version=min(claim.base_version for claim in prepared.offers),
            claims=tuple(
                OfferedClaim(claim.key.tp, claim.epoch, claim.expected, claim.new, claimed(claim))
                for claim in prepared.offers
            ),
            adds=adds,
            fits=tuple(sorted({(file.fingerprint, file.columns) for file in files})),
        )

    def found(self, prepared: Prepared) -> Report | None:
        table = self.tables[prepared.event_type]
        self.require_ours(prepared.event_type, self._looked_at(prepared.event_type))
        settled = [Settled(claim, self._looked_up(table, claim, changed=False)) for claim in prepared.offers]
        if any(isinstance(one.outcome, Unknown) for one in settled):
            return None
        self._checked[prepared.event_type] = table.version
        version = table.logged(-1).get(prepared.commit_id)
        return self._reported(Report(prepared.event_type, version, 0.0, (*settled, *prepared.aside)))

    def fall_back(self, prepared: Prepared) -> Report:
        gone = self.tables[prepared.event_type].gone
        lacking = [claim for claim in prepared.offers if any(file.path in gone for file in claim.files)]
        if not lacking:
            return self.land(prepared)
        outcomes = {claim.key: Stale("a staged file cannot be read") for claim in lacking}
        settled = [Settled(claim, outcomes.get(claim.key, Unknown())) for claim in prepared.offers]
        return self._reported(Report(prepared.event_type, None, 0.0, (*settled, *prepared.aside), "files are gone"))

    def land(self, prepared: Prepared) -> Report:
        event_type = prepared.event_type
        gone = self.tables[event_type].gone if event_type in self.tables else set()
        if any(file.path in gone for claim in prepared.offers for file in claim.files):
            raise broken(Invariant.TEMP, f"{prepared.commit_id} names a file that is gone")
        if self._prepared.get(event_type) != prepared.commit_id:
            raise broken(Invariant.COVER, f"{prepared.commit_id} is landed, and is not what was prepared last")
        if event_type in self._under_way:
            raise broken(Invariant.COVER, f"two commits of table {event_type} at a time")
        self._under_way.add(event_type)
        try:
            return self._reported(self._committed(prepared))
        finally:
            self._under_way.discard(event_type)

    def _looked_at(self, event_type: str) -> TableView | None:
        view = self.view(event_type)
        if event_type == DEAD_LETTERS and view is not None:
            self.found_dead_letters = view
        return view

    def _reported(self, report: Report) -> Report:
        self.reports.append(report)
        return report

    def _require_whole(self, event_type: str, claims: Sequence[Claim]) -> None:
        if event_type not in self._trusted:
            raise broken(Invariant.MONOTONE, f"table {event_type} was never trusted")
        if not claims or len({claim.key for claim in claims}) < len(claims):
            raise broken(Invariant.COVER, f"table {event_type}: no claim, or two of one writer")
        for claim in claims:
            if claim.key.event_type != event_type:
                raise broken(Invariant.COVER, f"{claim.key} is offered to table {event_type}")
            if error := staged_range_error(claim):
                raise broken(Invariant.COVER, f"{claim.key}: {error}")
            known = self._offered_before(claim)
            if known is not None and replace(known, offers=()) != replace(claim, offers=()):
                raise broken(Invariant.COVER, f"{claim.key} is offered again, and is another claim")

    def _offered_before(self, claim: Claim) -> Claim | None:
        settled = (one.claim for report in reversed(self.reports) for one in report.settled)
        mine = (one for one in settled if one.key == claim.key)
        return next((one for one in mine if claim.offers and one.offers == claim.offers), None)

    def _committed(self, prepared: Prepared) -> Report:
        event_type, offers, aside = prepared.event_type, prepared.offers, prepared.aside
        table, view = self.tables.get(event_type), self._looked_at(event_type)
        if table is None or view is None or not offers:
            return Report(event_type, None, 0.0, aside)
        columns = fitting(view, [file for claim in offers for file in claim.files])
        changed = columns is None
        fits = all(table.positions.get(claim.key.tp) == Position(claim.epoch, claim.expected) for claim in offers)
        reply = self.lost_reply()
        error = "its metadata changed" if changed else "" if fits else "its positions moved"
        if not error and reply != "lost":
            for claim in offers:
                rows = [(file.path, file.folder, file.offsets) for file in claim.files]
                land(table, claim.key.tp, Position(claim.epoch, claim.new), rows)
                table.filtered[claim.key.tp] += claim.filtered
            table.commits.append((prepared.commit_id,))
            table.schema_json = columns or table.schema_json
        error = error or (f"the reply was lost: {reply}" if reply else "")
        self._checked[event_type] = table.version
        if not error:
            settled = [Settled(claim, Landed(Position(claim.epoch, claim.new))) for claim in offers]
            return Report(event_type, table.version, 0.0, (*settled, *aside))
        settled = [Settled(claim, self._looked_up(table, claim, changed)) for claim in offers]
        return Report(event_type, None, 0.0, (*settled, *aside), error)

    @staticmethod
    def _looked_up(table: MemoryTable, claim: Claim, changed: bool) -> Outcome | Stale:
        """Protocol 4.4: by the log and the positions, whatever went wrong."""
        outcome = resolve(claim, table.logged(claim.base_version), table.positions.get(claim.key.tp))
        return Stale("its metadata changed") if changed and isinstance(outcome, Unknown) else outcome


def land(table: MemoryTable, tp: TopicPartition, to: Position, files: Rows) -> None:
    """Let a partition's rows and its position land. Raises InvariantBroken where rows are there already."""
    for path, folder, offsets in files:
        of_folder = table.rows.setdefault((tp, folder), [])
        if any(offsets.overlaps(one) for one in of_folder):
            raise broken(Invariant.ONCE, f"{tp}: {path} holds rows that are in the table")
        of_folder.append(offsets)
    table.positions[tp] = to


def broken(invariant: Invariant, what: str) -> InvariantBroken:
    """What no caller may do."""
    return InvariantBroken(invariant, what, "correct what commits")
