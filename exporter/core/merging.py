"""Which offers go into one commit of their table, and why others do not (protocol 4.11). Pure.

    offers ─┬─ malformed()   what is wrong with one by itself: names, ranges, positions, sizes
            └─ choose()      against one snapshot, in their order ─┬─ go together into one commit
                                                                   └─ are left out, each with a reason

What an offer says is only what a message said. Of an offer all partitions land, or none does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from exporter.core.coordination import Merged, Offer, OfferedClaim
from exporter.core.evolved import fitting_all
from exporter.core.user_metadata import Said, user_metadata
from offsets.names import OFFER_ID, DataFile
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition, first_overlap
from offsets.table_log import OFFERS, TableView

OFFER_BYTES_MAX = 200_000
"""Of an offer's files and what they fit, as JSON in a message; what takes more is said in a file."""


@dataclass(frozen=True)
class MergedOffers:
    """offers: that go together. dropped: offer -> why it is not among them. schema_json: the table's by that commit."""

    offers: tuple[Offer, ...]
    dropped: Mapping[str, str]
    schema_json: str

    @property
    def rows(self) -> int:
        return sum(int(claim.said.get("rows", 0)) for offer in self.offers for claim in offer.claims)


def choose(app: str, view: TableView, offers: Sequence[Offer], unfit: Mapping[str, str]) -> MergedOffers:
    """Of offers in their order each that may land beside those before it. unfit: offer -> what is known against it.

    The compare-and-set is the commit's own: whoever commits what is chosen here does so on `view`, or chooses again.
    """
    chosen: dict[str, Offer] = {}
    dropped: dict[str, str] = {}
    taken: set[TopicPartition] = set()
    fits: frozenset[tuple[str, str]] = frozenset()
    schema_json = view.schema_json
    for offer in offers:
        if offer.id in chosen or offer.id in dropped:
            continue
        wanted = fits.union(offer.fits)
        columns = schema_json if wanted == fits else fitting_all(view, wanted)
        if why := unfit.get(offer.id, "") or _unmet(app, view, offer, taken):
            dropped[offer.id] = why
        elif columns is None:
            dropped[offer.id] = "its files do not fit the table, or those of another offer"
        else:
            chosen[offer.id], fits, schema_json = offer, wanted, columns
            taken |= {claim.tp for claim in offer.claims}
    return MergedOffers(tuple(chosen.values()), dropped, schema_json)


def _unmet(app: str, view: TableView, offer: Offer, taken: Collection[TopicPartition]) -> str:
    """Why an offer cannot land on a snapshot beside others, or empty."""
    if offer.table_id != view.table_id:
        return f"it is for the table {offer.table_id}, which is {view.table_id} now"
    for claim in offer.claims:
        if claim.tp in taken:
            return f"another offer has {claim.tp}"
        position = view.position(app, claim.tp)
        if position != Position(claim.epoch, claim.expected):
            return f"{claim.tp}: {position}, expected {claim.expected} in epoch {claim.epoch}"
    return ""


def beyond(offers: Sequence[Offer], ends: Mapping[TopicPartition, int]) -> dict[str, str]:
    """Offer -> why it moves a position to where nobody can have read yet. ends: the high watermarks, looked at after
    the offers were heard; of a partition that is not there, none."""
    found: dict[str, str] = {}
    for offer in offers:
        for claim in offer.claims:
            if claim.new >= ends.get(claim.tp, 0):
                found[offer.id] = f"{claim.tp}: it goes to {claim.new}, the partition ends at {ends.get(claim.tp, 0)}"
    return found


def settled(app: str, view: TableView, offers: Sequence[Offer], logged: Collection[str]) -> Merged:
    """What became of offers whose commit did not return normally, by one fresh snapshot (protocol 4.4).

    logged: the ids in the log since a snapshot on which all of them could land.
    """
    landed = tuple(offer.id for offer in offers if offer.id in logged)
    others = (offer for offer in offers if offer.id not in logged)
    return Merged(landed=landed, dropped={offer.id: why for offer in others if (why := _unmet(app, view, offer, ()))})


def merged_metadata(
    commit_id: str, app: str, checked_through: int, offers: Sequence[Offer], owner: str, routing: str
) -> dict[str, Any]:
    """The userMetadata of a merged commit. owner, routing: the leader's; of a partition, whose offer it is.

    What a partition says of its routing stays where it is another one.
    """
    partitions: dict[TopicPartition, Said] = {}
    for offer in offers:
        for claim in offer.claims:
            said = {key: value for key, value in claim.said.items() if (key, value) != ("routing", routing)}
            partitions[claim.tp] = {**said, "offer": offer.id, "owner": offer.owner}
    more = {"owner": owner, "routing": routing, "table_id": offers[0].table_id, OFFERS: [one.id for one in offers]}
    return user_metadata(commit_id, app=app, checked_through=checked_through, partitions=partitions, more=more)


def malformed(app: str, table: str, offer: Offer) -> str:
    """What is wrong with an offer by itself, whole (its manifest has been read), or empty.

    The same rules as for a claim of one's own (protocol 4.2), of what a message or a file says.
    """
    tps = [claim.tp for claim in offer.claims]
    if offer.app != app or offer.table != table or not OFFER_ID.match(offer.id):
        return f"it is of app {offer.app}, for table {offer.table}, called {offer.id[:64]!r}"
    if not tps or len({*tps}) < len(tps):
        return "it has no claim, or two of one partition"
    if bool(offer.adds) != bool(offer.fits):
        return "it does not say what its files were staged for"
    try:
        return next((wrong for claim in offer.claims if (wrong := _wrong_claim(claim))), "") or _wrong_files(offer)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"what it says cannot be read: {type(error).__name__}: {str(error)[:200]}"


def _wrong_claim(claim: OfferedClaim) -> str:
    """Why a claim cannot be committed, as `_wrong_files` says it; empty if it can."""
    said = claim.said
    if (said.get("epoch"), said.get("expected"), said.get("new")) != (claim.epoch, claim.expected, claim.new):
        return f"{claim.tp}: what is to be said of it is not what is claimed"
    if type(said.get("filtered", 0)) is not int or said.get("filtered", 0) < 0:
        return f"{claim.tp}: {said['filtered']!r} is no number of records"
    if claim.epoch < 0 or not -1 <= claim.expected < claim.new < 1 << 63:
        return f"{claim.tp}: it cannot go from {claim.expected} to {claim.new} in epoch {claim.epoch}"
    return ""


def _wrong_files(offer: Offer) -> str:
    """Raises what anything does that is not of the expected shape."""
    claims = {claim.tp: claim for claim in offer.claims}
    ranges: dict[tuple[TopicPartition, str], list[OffsetRange]] = {}
    rows = dict.fromkeys(claims, 0)
    for add in offer.adds:
        path, tags = unquote(add["path"]), add["tags"]
        name = DataFile.parse(path)
        claim = claims.get(name.tp)
        offsets = OffsetRange(int(tags["first_offset"]), int(tags["last_offset"]))
        if claim is None or (name.app, name.epoch, name.replay) != (offer.app, claim.epoch, None):
            return f"{path} is no file of its claims"
        if offsets.first_offset <= claim.expected or offsets.last_offset > claim.new:
            return f"{path} holds {offsets}, outside ({claim.expected}, {claim.new}]"
        told = (tags["app"], tags["topic"], int(tags["partition"]), int(tags["epoch"]), tags["event_type"])
        if told != (offer.app, *name.tp, name.epoch, offer.table) or tags["commit_id"] != offer.id:
            return f"{path} has tags of another offer"
        if offsets.last_offset != name.last_offset or add["partitionValues"] != name.partition.values:
            return f"{path} is not called by what it holds"
        if add.keys() != ADD_KEYS or add["dataChange"] is not True or not 0 < add["size"] < 1 << 63:
            return f"{path} is not added as rows that are new"
        ranges.setdefault((name.tp, path.rpartition("/")[0]), []).append(offsets)
        rows[name.tp] += json.loads(add["stats"])["numRecords"]
    if clash := next((clash for one in ranges.values() if (clash := first_overlap(one))), None):
        return f"two of its files share offsets: {clash[0]} and {clash[1]}"
    for tp, claim in claims.items():
        held = [one for (of, _), some in ranges.items() if of == tp for one in some]
        first = min((one.first_offset for one in held), default=None)
        last = max((one.last_offset for one in held), default=None)
        if (claim.said["rows"], claim.said["first"], claim.said["last"]) != (rows[tp], first, last):
            return f"{tp}: its files do not have the rows that are said of it"
    return ""


ADD_KEYS = frozenset({"path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags"})
"""Of an `add` action of ours."""
