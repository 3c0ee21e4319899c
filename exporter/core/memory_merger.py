"""A Merging whose tables are values in memory, those of MemoryCommitters: for tests of what leads.

What goes together it chooses as the lake's does; it is stricter about who calls it, and a row lands once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.core.coordination import Merged, Offer, OfferedClaim
from exporter.core.memory_committer import MemoryCommitter, MemoryTable, Rows, broken, land
from exporter.core.merging import beyond, choose
from offsets import Invariant
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition


class MemoryMerger:
    """Merged commits of one app into tables in memory, by the lake's own choice. calls: what was asked of it.

    ends: the high watermarks, where a test has any.
    """

    def __init__(self, tables: dict[str, MemoryTable], app: str = "app") -> None:
        self.calls: list[tuple[Offer, ...]] = []
        self._world = MemoryCommitter(app, tables=tables)
        self._app = app
        self._made = 0
        self.under_way: set[str] = set()
        self.ends: Mapping[TopicPartition, int] | None = None

    def reply_is_lost(self, arrived: bool) -> None:
        """As of a committer: the next commit raises where its answer should be."""
        self._world.reply_is_lost(arrived)

    def commit(self, event_type: str, offers: Sequence[Offer]) -> Merged:
        """Stricter than the lake's: no two at a time of one table, no offer twice."""
        if event_type in self.under_way or len({offer.id for offer in offers}) < len(offers) or not offers:
            raise broken(Invariant.COVER, f"table {event_type}: two commits at a time, or no offers, or one twice")
        self.calls.append(tuple(offers))
        self.under_way.add(event_type)
        try:
            return self._merged(event_type, offers)
        finally:
            self.under_way.discard(event_type)

    def _merged(self, event_type: str, offers: Sequence[Offer]) -> Merged:
        table, view = self._world.tables.get(event_type), self._world.view(event_type)
        if table is None or view is None:
            return Merged(dropped={offer.id: "there is no such table" for offer in offers})
        gone = {one.id: "a file is gone" for one in offers if any(add["path"] in table.gone for add in one.adds)}
        unfit = gone if self.ends is None else {**beyond(offers, self.ends), **gone}
        choice, reply = choose(self._app, view, offers, unfit), self._world.lost_reply()
        if not choice.offers:
            return Merged(dropped=choice.dropped)
        ids = tuple(offer.id for offer in choice.offers)
        if reply == "lost":
            return Merged(dropped=choice.dropped)
        self._made += 1
        for offer in choice.offers:
            for claim in offer.claims:
                land(table, claim.tp, Position(claim.epoch, claim.new), _files(offer, claim))
                table.filtered[claim.tp] += claim.said.get("filtered", 0)
        table.commits.append((f"merged-{self._made}", *ids))
        table.schema_json = choice.schema_json
        return Merged(table.version, choice.rows, ids, choice.dropped)


def _files(offer: Offer, claim: OfferedClaim) -> Rows:
    """Those of one claim of an offer of a MemoryCommitter."""
    return [
        (add["path"], add["path"].rpartition("/")[0], OffsetRange(add["first"], add["last"]))
        for add in offer.adds
        if tuple(add["tp"]) == claim.tp
    ]
