"""What became of a commit: found by looking at the table, never by the exception's class. Pure.

    offered ──> Landed    a commit id of these files is in the log after the base version
            ──> Unknown   no such commit, and the position is still the expected one: may be offered again
            ──> Refused   no such commit, and the position has changed: drop, read again

None of the three deletes a file (TEMP). Source: protocol, section 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from exporter.core.writers import Claim
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import TableView


@dataclass(frozen=True)
class Landed:
    """The claim is in the table; `position` is what the table says now: the claim's own, or already past it."""

    position: Position


@dataclass(frozen=True)
class Unknown:
    """Not in the table, and nobody else was: the same files may be offered again."""


@dataclass(frozen=True)
class Refused:
    """Somebody else moved the position (or closed the epoch); `position` is what the table says now."""

    position: Position | None


Outcome = Landed | Unknown | Refused


def resolve(claim: Claim, logged_ids: Collection[str], position: Position | None) -> Outcome:
    """The outcome of one partition's claim, from one fresh snapshot.

    logged_ids: the commit ids of all versions after the claim's base version.
    """
    # The id before the position: others may have moved on from what landed, and it is no refusal (4.4).
    if any(commit_id in logged_ids for commit_id in claim.offers):
        return Landed(position if position is not None else Position(claim.epoch, claim.new))
    if position == Position(claim.epoch, claim.expected):
        return Unknown()
    return Refused(position)


@dataclass(frozen=True)
class Stale:
    """The staged files cannot be committed (one is gone, or the table has changed): drop and stage again."""

    reason: str


@dataclass(frozen=True)
class Held:
    """Not offered: the write-ahead log could not be told, or the partition's lease is lost. To be offered later."""

    reason: str


@dataclass(frozen=True)
class Unwritten:
    """Not offered: one of its files could not be written, or looked at. Nothing of it is lost.

    storage: why the storage did not answer right then, whatever the table; empty if it did.
    """

    reason: str
    storage: str = ""


@dataclass(frozen=True)
class Settled:
    """One claim as it was offered, and what became of it."""

    claim: Claim
    outcome: Outcome | Stale | Held | Unwritten


@dataclass(frozen=True)
class Report:
    """One commit: event type, Delta version (None if it did not return normally), seconds, claims."""

    event_type: str
    version: int | None
    secs: float
    settled: tuple[Settled, ...]
    error: str = ""


@dataclass(frozen=True)
class Prepared:
    """Claims whose files are there and whose intents are written: they may land, under one id, all of them or none.

    offers: the claims with the id. aside: what is settled already, and not among them. tokens: of leases. started:
    monotonic seconds.
    """

    event_type: str
    commit_id: str
    offers: tuple[Claim, ...]
    aside: tuple[Settled, ...]
    tokens: Mapping[TopicPartition, int]
    started: float


class Committer(Protocol):
    """Offers the claims of one app to its tables. Called from several threads, for one event type by one at a time.

    The compare-and-set is its own duty (FENCE): a claim lands only if the table is where the claim expects it.
    """

    def trust(self, event_type: str, view: TableView) -> None:
        """Go on from this view: its table id is the right one, its operations have been looked at."""

    def trust_topics(self, topic_ids: Mapping[str, str]) -> None:
        """topic_ids: topic -> id, of topics that are those which the tables know."""

    def footer(self, tp: TopicPartition) -> dict[str, str]:
        """The key-values that every file of the partition carries."""

    def checked_through(self, event_type: str) -> int:
        """The newest version of a table whose operations this process has looked at; -1 if none."""

    def dead_letters(self) -> TableView | None:
        """As the last commit to them has found them; None before the first one."""

    def commit(self, event_type: str, claims: Sequence[Claim]) -> Report:
        """Offer the claims in one commit and settle each. Deletes nothing (TEMP). Raises InvariantBroken to stop."""

    def require_ours(self, event_type: str, view: TableView | None) -> TableView:
        """The view, if the table is the trusted one and may be written. Raises InvariantBroken."""
