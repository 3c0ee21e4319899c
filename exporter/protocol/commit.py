"""Offering claims to a table, and finding out what became of them (FENCE, ORDER, TEMP).

    prepare   merge small files -> files are there? -> started in the write-ahead log
    land      -> snapshot: same positions, same table? -> commit -> look -> completed in the log
    found     what became of claims that somebody else was to commit, under the same id (protocol 4.11)

One commit per event type carries the claims of several partitions. Whatever exception comes
back, the outcome is found by looking at the log. Nothing here deletes a file.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from exporter.clock import monotonic, sleep, wall_ms
from exporter.core.coordination import Offer, OfferedClaim
from exporter.core.evolved import fitting
from exporter.core.order import StagingBudget
from exporter.core.outcome import Held, Landed, Outcome, Prepared, Refused, Report, Settled, Stale, Unknown, resolve
from exporter.core.user_metadata import claimed, user_metadata
from exporter.core.writers import Claim, StagedFile
from exporter.errors import InvariantBroken, TableUnreadable
from exporter.faults import Fault, point
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.settling import versions_of
from exporter.lake.table import DeltaTable
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.offering import lightened
from exporter.protocol.ready import FileWriter
from exporter.protocol.through import ThroughSaid, ThroughTimes
from exporter.protocol.trusted import TrustedTables
from exporter.text import first_line
from exporter.wal.journal import Journal
from offsets.intents import Intent, IntentKey
from offsets.names import AppId
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)

CONTENDED_MAX, CONTENDED_SECS = 10, 0.1
"""Offers beside those of others that change the table's columns, and the longest pause before the second one.
It is random: two tasks that have met once would else meet each time."""


class _PositionsMoved(Exception):
    """The positions have moved: the snapshot says so, and nothing was written."""


class _TableChanged(Exception):
    """The table's metadata are not those that the files were staged against."""


class _Undecided(Exception):
    """Nothing went wrong: it is asked whether somebody else has committed."""


class DeltaCommitter:
    """Commits for one app. One commit per event type at a time; types may run in parallel threads."""

    def __init__(
        self,
        lake: Lake,
        owner: str,
        footer: Mapping[str, str],
        journal: Journal | None = None,
        lease: Callable[[TopicPartition], int | None] | None = None,
        room: StagingBudget | None = None,
        through: ThroughTimes | None = None,
        others_commit: bool = False,
    ) -> None:
        """owner: who commits, for the history. footer: key-values of every file. journal: of the write-ahead log.

        lease: the fencing token of a partition that is this task's now, else None; asked right before each commit.
        room: of each merging. through: of commits that say valid_through. others_commit: whether somebody else may
        commit what is prepared; its files are on disk before.
        """
        self._lake = lake
        self._owner = owner
        self._footer = dict(footer)
        self._journal = journal or Journal()
        self._lease = lease
        self._files = FileWriter(lake, room or StagingBudget())
        self.through = through
        self._others_commit = others_commit
        self._topic_ids: dict[str, str] = {}
        self.trusted = TrustedTables(lake.app)
        self._based_on: dict[str, int] = {}

    def trust(self, event_type: str, view: TableView) -> None:
        """Start from this view: its table id is the right one, its operations have been looked at."""
        self.trusted.trust(event_type, view)

    def trust_topics(self, topic_ids: Mapping[str, str]) -> None:
        """topic_ids: of topics that are the ones that the tables know."""
        self._topic_ids |= topic_ids

    def footer(self, tp: TopicPartition) -> dict[str, str]:
        """The key-values that every file of the partition and its tags carry besides the coordinates."""
        return self._footer | ({"topic_id": self._topic_ids[tp.topic]} if tp.topic in self._topic_ids else {})

    def checked_through(self, event_type: str) -> int:
        """The newest version of a table whose operations this process has looked at; -1 if none."""
        return self.trusted.checked_through(event_type)

    def dead_letters(self) -> TableView | None:
        """As the last commit to them has found them, whoever made it; None before the first one."""
        return self.trusted.dead_letters

    def require_ours(self, event_type: str, view: TableView | None) -> TableView:
        """The view, if the table is the one this process knows and may be written. Raises InvariantBroken."""
        return self.trusted.require(event_type, view)

    def commit(self, event_type: str, claims: Sequence[Claim]) -> Report:
        """Offer the claims in one commit and settle each. Raises InvariantBroken to stop.

        Where others have changed the table meanwhile, and nothing of it is against these claims, they are offered
        again at once (protocol 4.3): each such change refuses all commits that were under way.
        """
        return self._again_beside_others(self.land(self.prepare(event_type, claims)))

    def fall_back(self, prepared: Prepared) -> Report:
        """Commit by itself what a leader was to commit and has not: as `commit`, and under its id as long as it can.

        Its files may have gone meanwhile: then it cannot land any more, for it lands whole or not at all.
        """
        there, gone = self._files.there(self._lake.table(prepared.event_type), prepared.offers)
        if gone:
            settled = [*gone, *(Settled(claim, Unknown()) for claim in there)]  # a leader may still land it
            return _report(prepared, settled, error="files of others in the same offer are gone")
        return self._again_beside_others(self.land(prepared))

    def _again_beside_others(self, report: Report) -> Report:
        event_type = report.event_type
        for attempt in range(CONTENDED_MAX):
            is_newer = self.checked_through(event_type) > self._based_on[event_type]
            if not (is_newer and _all_unknown(report)):  # else nothing is wrong but that the table has gone on
                break
            sleep(random.uniform(0, CONTENDED_SECS * (attempt + 1)))
            report = self.land(self.prepare(event_type, [settled.claim for settled in report.settled]))
        return report

    def prepare(self, event_type: str, claims: Sequence[Claim]) -> Prepared:
        """Claims that may land under one new id from here on, by whoever commits them. Raises InvariantBroken."""
        started = monotonic()
        table = self._lake.table(event_type)
        ready, aside = self._prepare(table, claims)
        if self._others_commit:
            ready, unsynced = self._files.synced(table, ready)
            aside += unsynced
        self._based_on[event_type] = self.checked_through(event_type)
        # A new id for each offer: under a former one the log would say that other rows landed as well (4.1).
        commit_id = uuid.uuid4().hex
        if held := self._journal.begin(event_type, self._intents(event_type, ready, commit_id)):
            ready, aside = [], [*aside, *(Settled(claim, Held(held)) for claim in ready)]
        # Asked after the log was: that call may have taken as long as a lease lasts.
        tokens, lost = self._leased(ready)
        if lost:  # never offered: failed for certain, which the next start would else have to find out
            self._journal.settle(event_type, {}, [(claim.key.tp, commit_id) for claim in lost])
            ready = [claim for claim in ready if claim not in lost]
            aside += [Settled(claim, Held("its lease is lost")) for claim in lost]
        offers = tuple(replace(claim, offers=(*claim.offers, commit_id)) for claim in ready)
        return Prepared(event_type, commit_id, offers, tuple(aside), tokens, started)

    def offer(self, prepared: Prepared, round_id: str) -> Offer:
        """What the leader is told of prepared claims; there is at least one. Raises OSError."""
        store, name, claims = self._lake.table(prepared.event_type).store, prepared.event_type, prepared.offers
        files = [(claim, file) for claim in claims for file in claim.files]
        offer = Offer(
            app=self._lake.app,
            id=prepared.commit_id,
            owner=self._owner,
            table=name,
            table_id=self.trusted.table_id(name),
            round_id=round_id,
            base_version=min(claim.base_version for claim in claims),
            claims=tuple(self._offered(claim, prepared.tokens.get(claim.key.tp)) for claim in claims),
            adds=tuple(self._add(claim, file, prepared.commit_id) for claim, file in files),
            fits=tuple(sorted({(file.fingerprint, file.columns) for _, file in files})),
        )
        return lightened(store, offer)

    def _offered(self, claim: Claim, token: int | None) -> OfferedClaim:
        said = {**claimed(claim, token), "routing": self._footer.get("routing", "")}
        return OfferedClaim(claim.key.tp, claim.epoch, claim.expected, claim.new, said)

    def land(self, prepared: Prepared) -> Report:
        """Commit what was prepared, all of it under its id, and settle each claim. Raises InvariantBroken."""
        event_type, offers, commit_id = prepared.event_type, prepared.offers, prepared.commit_id
        if not offers:
            return _report(prepared, ())
        table = self._lake.table(event_type)
        try:
            version = self._offer(table, offers, commit_id, prepared.tokens)
        except InvariantBroken:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the outcome is found by looking (protocol 4.4)
            settled, logged = self._look_or_unknown(table, offers, error)
            self._settle(event_type, settled, logged)
            return _report(prepared, settled, error=first_line(error))
        # A RESTORE between our snapshot and this version does not conflict with an append (4.5).
        self.trusted.look_through(table, version, landed=True)
        settled = [Settled(claim, Landed(Position(claim.epoch, claim.new))) for claim in offers]
        self._settle(event_type, settled, {commit_id: version})
        return _report(prepared, settled, version)

    def found(self, prepared: Prepared) -> Report | None:
        """What has become of it by now, as the table says; None while it may still land (protocol 4.4, 4.11).

        Raises InvariantBroken, TableUnreadable.
        """
        if not prepared.offers:
            return _report(prepared, ())
        table = self._lake.table(prepared.event_type)
        settled, logged = self._look(table, prepared.offers, _Undecided("the leader says so"))
        if any(isinstance(one.outcome, Unknown) for one in settled):
            return None
        self._settle(prepared.event_type, settled, logged)
        return _report(prepared, settled, logged.get(prepared.commit_id))

    def _leased(self, claims: Sequence[Claim]) -> tuple[dict[TopicPartition, int], list[Claim]]:
        """Fencing tokens, and the claims whose partition is leased by another now; both empty without leases."""
        if self._lease is None:
            return {}, []
        tokens = {claim.key.tp: self._lease(claim.key.tp) for claim in claims}
        lost = [claim for claim in claims if tokens[claim.key.tp] is None]
        return {tp: token for tp, token in tokens.items() if token is not None}, lost

    def _intents(self, event_type: str, claims: Sequence[Claim], commit_id: str) -> list[Intent]:
        """What the log is told of the claims with files; heartbeats write none."""
        now_ms, through = wall_ms(), self.checked_through(event_type)
        return [
            Intent(
                IntentKey(event_type, claim.key.tp, claim.epoch), commit_id, self._journal.owner, claim.expected,
                claim.new, min(file.offsets.first_offset for file in claim.files),
                max(file.offsets.last_offset for file in claim.files), claim.rows, through,
                self.trusted.table_id(event_type), self._journal.routing, now_ms,
            )
            for claim in claims
            if claim.files
        ]  # fmt: skip

    def _settle(self, event_type: str, settled: Sequence[Settled], logged: Mapping[str, int]) -> None:
        """Tell the log. logged: commit id -> version, of this app's commits that were found in the table's log.

        Only its own process says of an offer that it failed: once the position has changed, no offer of the claim can
        land any more (FENCE); one that was given up before it was written is certain by itself, unless a leader may
        still write it. That one and an Unknown one stay started; a re-offer has an id, and an intent, of its own.
        """
        landed: dict[tuple[TopicPartition, str], int] = {}
        failed: list[tuple[TopicPartition, str]] = []
        for one in settled:
            tp, offers = one.claim.key.tp, one.claim.offers
            if isinstance(one.outcome, Landed):
                landed |= {(tp, commit_id): logged[commit_id] for commit_id in offers if commit_id in logged}
            if isinstance(one.outcome, Landed | Refused):
                failed += [(tp, commit_id) for commit_id in offers if commit_id not in logged]
            elif isinstance(one.outcome, Stale) and not self._others_commit:
                failed += [(tp, commit_id) for commit_id in offers[-1:]]
        self._journal.settle(event_type, landed, failed)

    def _prepare(self, table: DeltaTable, claims: Sequence[Claim]) -> tuple[list[Claim], list[Settled]]:
        return self._files.ready(table, [(claim, self.footer(claim.key.tp)) for claim in claims])

    def _offer(
        self, table: DeltaTable, offers: Sequence[Claim], commit_id: str, tokens: Mapping[TopicPartition, int]
    ) -> int:
        def check(view: TableView | None) -> str | None:
            return self._check(table, view, offers)

        told = {} if self.through is None else self.through.metadata(table, None, _times(offers))
        change = Change(
            expected=tuple(_app_id(self._lake.app, claim) for claim in offers),
            positions={_app_id(self._lake.app, claim): claim.new for claim in offers},
            user_metadata={**self._user_metadata(table.event_type, offers, commit_id, tokens), **told},
            adds=tuple(self._add(claim, file, commit_id) for claim in offers for file in claim.files),
        )
        point(Fault.BEFORE_DELTA_COMMIT, table.event_type)
        version = table.commit(change, check)
        point(Fault.AFTER_DELTA_COMMIT, table.event_type)
        if self.through is not None:
            self.through.landed(table.event_type, told)
        return version

    def _check(self, table: DeltaTable, view: TableView | None, offers: Sequence[Claim]) -> str | None:
        """Check 4.2 on the snapshot that the commit is based on; the schema that the commit gives the table, if any.

        An accident is named before its consequences.
        """
        event_type = table.event_type
        view = self.trusted.fresh(table, view, _expected(offers))
        self._based_on[event_type] = view.version
        columns = fitting(view, [file for claim in offers for file in claim.files])
        if columns is None:
            raise _TableChanged(f"the metadata of table {event_type} changed since its files were staged")
        for claim in offers:
            # In the transaction's snapshot: Delta refuses the commit if the appId changes after it (FENCE).
            position = view.position(self._lake.app, claim.key.tp)
            if position != Position(claim.epoch, claim.expected):
                raise _PositionsMoved(f"{claim.key.tp}: {position}, expected {claim.expected} in epoch {claim.epoch}")
        return None if columns == view.schema_json else columns

    def _look_or_unknown(
        self, table: DeltaTable, offers: Sequence[Claim], error: BaseException
    ) -> tuple[list[Settled], dict[str, int]]:
        """_look, or Unknown for all while the table cannot be read: a re-offer finds out by compare-and-set.

        Files that could not be synced are offered once: the system may have given up their bytes, and would say of a
        second time that all is well. To drop them is safe whatever became of the commit (FENCE).
        """
        try:
            return self._look(table, offers, error)
        except TableUnreadable as unreadable:
            log.warning(Event.TABLE_UNREADABLE, table=table.event_type, error=str(unreadable))
            lost = Stale(first_line(error)) if table.not_synced(error) else Unknown()
            return [Settled(claim, lost) for claim in offers], {}

    def _look(
        self, table: DeltaTable, offers: Sequence[Claim], error: BaseException
    ) -> tuple[list[Settled], dict[str, int]]:
        """What became of the claims (protocol 4.4), and commit id -> version. Raises TableUnreadable."""
        view = self.trusted.fresh(table, table.view(), _expected(offers))
        base = min(claim.base_version for claim in offers)  # what is before a claim's own says nothing of it (4.4)
        commits = table.commits(base, view.version)
        if self.through is not None:
            self.through.heard(table.event_type, commits)
        logged = versions_of(commits)
        settled = []
        for claim in offers:
            ids = {commit_id for commit_id, version in logged.items() if version > claim.base_version}
            outcome: Outcome | Stale | Held = resolve(claim, ids, view.position(self._lake.app, claim.key.tp))
            # Unknown may be offered again as it is: these files never fit, or their bytes may be lost by then.
            if isinstance(outcome, Unknown) and (isinstance(error, _TableChanged) or table.not_synced(error)):
                outcome = Stale(first_line(error) if table.not_synced(error) else str(error))
            settled.append(Settled(claim, outcome))
            if isinstance(outcome, Refused):
                _tell_refused(claim, outcome, error)
        return settled, logged

    def _user_metadata(
        self, event_type: str, offers: Sequence[Claim], commit_id: str, tokens: Mapping[TopicPartition, int]
    ) -> dict[str, Any]:
        return user_metadata(
            commit_id,
            app=self._lake.app,
            checked_through=self.checked_through(event_type),
            partitions={claim.key.tp: claimed(claim, tokens.get(claim.key.tp)) for claim in offers},
            more={
                "owner": self._owner,
                "routing": self._footer.get("routing", ""),
                "table_id": self.trusted.table_id(event_type),
            },
        )

    def _add(self, claim: Claim, file: StagedFile, commit_id: str) -> dict[str, Any]:
        return self._files.add(claim, file, commit_id, self.footer(claim.key.tp))


def _all_unknown(report: Report) -> bool:
    return bool(report.settled) and all(isinstance(settled.outcome, Unknown) for settled in report.settled)


def _report(prepared: Prepared, settled: Sequence[Settled], version: int | None = None, error: str = "") -> Report:
    secs = monotonic() - prepared.started
    return Report(prepared.event_type, version, secs, (*settled, *prepared.aside), error)


def _tell_refused(claim: Claim, refused: Refused, why: BaseException) -> None:
    log.warning(
        Event.COMMIT_REFUSED, table=claim.key.event_type, partition=str(claim.key.tp), expected=claim.expected,
        new=claim.new, found=str(refused.position), reason=first_line(why),
    )  # fmt: skip


def _expected(offers: Sequence[Claim]) -> dict[TopicPartition, int]:
    return {claim.key.tp: claim.expected for claim in offers}


def _times(offers: Sequence[Claim]) -> list[ThroughSaid]:
    return [ThroughSaid(claim.key.tp, claim.new, claim.time_ms) for claim in offers]


def _app_id(app: str, claim: Claim) -> str:
    return str(AppId(app, claim.key.tp, claim.epoch))
