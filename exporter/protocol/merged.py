"""The leader's commit: the offers of several tasks on one table, those that may land together, in one version.

    offers ── whole? well-formed? files there? ── choose() on a snapshot ── commit, on that same choice ── look
              └─ left out, with a reason ─────────┘                         └─ not returned: look, for each offer

The compare-and-set is the table's, as for a task's own commit (FENCE); what an offer says is verified again, for a
message says what was true once at best. Nothing here deletes a file.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from exporter.clock import sleep
from exporter.core.coordination import Merged, Offer
from exporter.core.merging import MergedOffers, beyond, choose, malformed, merged_metadata, settled
from exporter.core.valid_through import as_ms
from exporter.errors import InvariantBroken, TableUnreadable
from exporter.faults import Fault, point
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.settling import versions_of
from exporter.lake.table import DeltaTable
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.offering import whole
from exporter.protocol.through import ThroughSaid, ThroughTimes, said_later
from exporter.protocol.trusted import TrustedTables
from exporter.stores.many import each
from exporter.text import first_line
from offsets.names import AppId
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)

CONTENDED_MAX, CONTENDED_SECS = 10, 0.1
"""Commits beside others that change the table, and the longest pause before the second one."""


class _ChooseAgain(Exception):
    """The table has changed since the choice: nothing was written."""


@dataclass
class _Open:
    """The offers of one call that are not settled yet, and what became of the others."""

    offers: dict[str, Offer]
    landed: tuple[str, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)

    def settle(self, landed: Iterable[str], dropped: Mapping[str, str]) -> None:
        self.landed += (*landed,)
        self.dropped |= dropped
        for offer_id in (*self.landed, *dropped):
            self.offers.pop(offer_id, None)


@dataclass(eq=False, repr=False)
class MergedCommits:
    """Merged commits of one app. One per table at a time; tables may run in parallel threads.

    owner: the leader. routing: the fingerprint of its configuration. trusted: of this process's own commits. ends: the
    high watermarks, asked now, of those partitions that are there; raises ExporterError. through: of commits that say
    valid_through.
    """

    lake: Lake
    owner: str
    routing: str
    trusted: TrustedTables
    ends: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
    through: ThroughTimes | None = None

    def commit(self, event_type: str, offers: Sequence[Offer]) -> Merged:
        """Commit those that may land together, in their order. Raises InvariantBroken to stop, BrokerSilent.

        Whatever else is the matter, it is not known of some of them then: their tasks look, and commit by themselves.
        """
        open_, version, rows = _Open({offer.id: offer for offer in offers}), None, 0
        try:
            table = self.lake.table(event_type)
            if (view := self._view(table, open_)) is not None:
                version, rows = self._committed(table, view, open_)
        except TableUnreadable as error:
            log.warning(Event.TABLE_UNREADABLE, table=event_type, error=first_line(error))
        return Merged(version, rows, open_.landed, open_.dropped)

    def _view(self, table: DeltaTable, open_: _Open) -> TableView | None:
        """A fresh snapshot of a table that may be written; None if it may not, and then no offer is open any more.

        Of a table that this process does not know only a message says that it is there: that stops nobody.
        """
        view = table.view()
        if not self.trusted.table_id(table.event_type) and (why := self.trusted.meet(table, view)):
            open_.settle((), dict.fromkeys(open_.offers, why))
            return None
        return self.trusted.require(table.event_type, view)

    def _committed(self, table: DeltaTable, view: TableView, open_: _Open) -> tuple[int | None, int]:
        """Version and rows. What is left open may still land, or has never been offered.

        Where others have changed the table meanwhile, and nothing of it is against some of the offers, these are
        offered again at once (protocol 4.3). Raises TableUnreadable.
        """
        unfit = self._unfit(table, open_)
        for attempt in range(CONTENDED_MAX + 1):
            if attempt:
                sleep(random.uniform(0, CONTENDED_SECS * attempt))
            choice = choose(self.lake.app, view, [*open_.offers.values()], unfit)
            open_.settle((), choice.dropped)
            if not choice.offers:
                break
            commit_id, before = uuid.uuid4().hex, view.version
            try:
                version = self._offer(table, view, choice, commit_id)
            except InvariantBroken:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it was, the outcome is found by looking (protocol 4.4)
                view, logged = self._look(table, choice, before, open_)
                if commit_id in logged:
                    return logged[commit_id], choice.rows
                # Nobody else has written: a second try would meet the same, and tasks commit by
                # themselves after their time-out.
                if view.version == before or table.not_synced(error):
                    log.warning(Event.MERGE_FAILED, table=table.event_type, offers=len(choice.offers),
                                error=first_line(error))  # fmt: skip
                    break
                continue
            open_.settle((offer.id for offer in choice.offers), {})
            self.trusted.look_through(table, version, landed=True)
            return version, choice.rows
        return None, 0

    def _unfit(self, table: DeltaTable, open_: _Open) -> dict[str, str]:
        """Offer -> what is wrong with it by itself, with its files, or with how far it goes.

        What manifests hold is in the offers then.
        """
        read = each(lambda offer: self._read(table, offer), [*open_.offers.values()])
        open_.offers = {offer.id: offer for offer, _ in read}
        unfit = {offer.id: wrong for offer, wrong in read if wrong}
        formed = [offer for offer, wrong in read if not wrong]
        # Asked after the offers were heard: against earlier ends an honest one would go too far (4.11).
        unfit |= beyond(formed, self.ends({claim.tp for offer in formed for claim in offer.claims}))
        files = [(one.id, _named(add)) for one in formed if one.id not in unfit for add in one.adds]
        looked = each(lambda file: _missing(table, *file[1]), files)
        return unfit | {offer_id: why for (offer_id, _), why in zip(files, looked, strict=True) if why}

    def _read(self, table: DeltaTable, offer: Offer) -> tuple[Offer, str]:
        try:
            read = whole(table.store, offer)
        except (OSError, ValueError, TypeError, KeyError) as error:
            return offer, f"its manifest cannot be read: {first_line(error)}"
        return read, malformed(self.lake.app, table.event_type, read)

    def _offer(self, table: DeltaTable, view: TableView, choice: MergedOffers, commit_id: str) -> int:
        """The version. view: by which they were chosen.

        Raises _ChooseAgain if one of the offers could not land any more; whatever Delta raises.
        """
        app, event_type = self.lake.app, table.event_type
        claims = [(str(AppId(app, claim.tp, claim.epoch)), claim) for offer in choice.offers for claim in offer.claims]
        checked = self.trusted.checked_through(event_type)
        told, properties = self._through_told(table, view, choice)

        def check(view: TableView | None) -> str | None:
            view = self.trusted.fresh(table, view)
            # The transaction may be based on a newer snapshot than the choice was: it must be the same
            # choice there.
            again = choose(app, view, choice.offers, {})
            if again.offers != choice.offers:
                raise _ChooseAgain("; ".join(again.dropped.values()))
            if said_later(view, properties):
                raise _ChooseAgain("another leader has said more of valid_through")
            return None if again.schema_json == view.schema_json else again.schema_json

        change = Change(
            expected=tuple(app_id for app_id, _ in claims),
            positions={app_id: claim.new for app_id, claim in claims},
            user_metadata={
                **merged_metadata(commit_id, app, checked, choice.offers, self.owner, self.routing),
                **told,
            },
            properties=properties,
            adds=tuple(add for offer in choice.offers for add in offer.adds),
        )
        point(Fault.BEFORE_MERGED_COMMIT, event_type)
        version = table.commit(change, check)
        point(Fault.AFTER_MERGED_COMMIT, event_type)
        if self.through is not None:
            self.through.landed(event_type, told)
        return version

    def _through_told(
        self, table: DeltaTable, view: TableView, choice: MergedOffers
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """What the commit's metadata say of valid_through, and the properties that it sets."""
        if self.through is None:
            return {}, {}
        claims = [claim for offer in choice.offers for claim in offer.claims]
        told = self.through.metadata(
            table, view, [ThroughSaid(one.tp, one.new, as_ms(one.said.get("time", ""))) for one in claims]
        )
        return told, self.through.properties(table.event_type, view, told)

    def _look(
        self, table: DeltaTable, choice: MergedOffers, before: int, open_: _Open
    ) -> tuple[TableView, dict[str, int]]:
        """A fresh snapshot, and id -> version of what is in the log since `before`, where all of them could land.

        Raises TableUnreadable.
        """
        view = self.trusted.fresh(table, table.view())
        logged = versions_of(table.commits(before, view.version))
        found = settled(self.lake.app, view, choice.offers, logged)
        open_.settle(found.landed, found.dropped)
        return view, logged


def _named(add: Mapping[str, Any]) -> tuple[str, int]:
    return unquote(add["path"]), add["size"]


def _missing(table: DeltaTable, path: str, size_bytes: int) -> str:
    """Why a file cannot be committed, or empty."""
    try:
        table.require(path, size_bytes)
    except (OSError, ValueError) as error:
        return f"a file of it is not there as it was staged: {first_line(error)}"
    return ""
