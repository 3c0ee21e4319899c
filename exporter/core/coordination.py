"""What tasks tell each other over the control topic, and how it travels. Pure (protocol 4.11).

    Begin    leader -> all      a round begins: whoever has staged something rolls it
    Offer    task -> leader     one task's claims on one table, under one id: all of them land in one commit, or none
    Ready    task -> leader     what the task has for the round is offered; for these partitions
    Outcome  leader -> all      what became of offers; a hint, which the task verifies in the table's log

None of them has to arrive, or to arrive once. They are stored nowhere for longer than the topic keeps them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from exporter.core.due import Occasion
from exporter.core.outcome import Prepared, Report
from exporter.core.writers import Claim
from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class Begin:
    """A round of the leader. number: of this leader's rounds, from 1. round_id: of this round alone."""

    app: str
    leader: str
    round_id: str
    number: int


@dataclass(frozen=True)
class OfferedClaim:
    """One partition of an offer. said: what the commit's metadata say of it (user_metadata.claimed)."""

    tp: TopicPartition
    epoch: int
    expected: int
    new: int
    said: Mapping[str, Any]


@dataclass(frozen=True)
class Offer:
    """One task's claims on one table. id: the commit id under which they are found in the log, whoever commits them.

    round_id: of the round that it was rolled for; empty: it rolled by its own limits, and the leader commits it at
    once. base_version: the least of the claims. adds: Delta `add` actions. fits: what the files were staged for, as
    (fingerprint, columns) of each StagedFile. manifest: path, relative to the table's folder, of the file that holds
    adds and fits where they are more than a message should hold; both are empty then.
    """

    app: str
    id: str
    owner: str
    table: str
    table_id: str
    round_id: str
    base_version: int
    claims: tuple[OfferedClaim, ...]
    adds: tuple[Mapping[str, Any], ...] = ()
    fits: tuple[tuple[str, str], ...] = ()
    manifest: str = ""


@dataclass(frozen=True)
class Ready:
    """All that a task has for a round is offered. partitions: all that are the task's, idle ones too."""

    app: str
    owner: str
    round_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of offers on one table. version: of the commit; None if none landed by it.

    landed: ids of offers. dropped: id -> why it is in no commit of the leader. rows: of the commit.
    """

    app: str
    leader: str
    round_id: str
    table: str
    version: int | None
    rows: int = 0
    landed: tuple[str, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)


Message = Begin | Offer | Ready | Outcome


@dataclass(frozen=True)
class Merged:
    """What became of offers on one table that a leader was to put into one commit. As in Outcome.

    An id in neither `landed` nor `dropped`: that is not known, also after looking; nobody is told anything of it.
    """

    version: int | None = None
    rows: int = 0
    landed: tuple[str, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)


class Merging(Protocol):
    """The leader's commits: offers of several tasks on one table in one. For one table by one thread at a time."""

    def commit(self, table: str, offers: Sequence[Offer]) -> Merged:
        """Commit what of them passes the checks of 4.11, in their order. Raises ExporterError."""


class Preparing(Protocol):
    """A task's commits in two steps, of which a leader may make the second."""

    def commit(self, event_type: str, claims: Sequence[Claim]) -> Report:
        """Both steps at once, as `Committer.commit` has them."""

    def prepare(self, event_type: str, claims: Sequence[Claim]) -> Prepared:
        """Claims that may land under one new id from here on, by whoever commits them. Raises InvariantBroken."""

    def offer(self, prepared: Prepared, round_id: str) -> Offer:
        """What a leader has to know to commit it. Raises OSError: its manifest cannot be written."""

    def land(self, prepared: Prepared) -> Report:
        """Commit it under its id, whole, and settle each claim; right after it was prepared. Raises InvariantBroken."""

    def fall_back(self, prepared: Prepared) -> Report:
        """The same, some time later: its files are looked at again. Raises InvariantBroken."""

    def found(self, prepared: Prepared) -> Report | None:
        """What has become of it by now; None while it may still land. Raises InvariantBroken, TableUnreadable."""


@dataclass(frozen=True)
class CoordinationState:
    """What a task tells of its coordinated commits; numbers are sums since its start.

    open_offers: whose outcome it waits for. ended: its offers by what ended that waiting (coordinate/member.py).
    rounds: closed by it as the leader, by what closed them: ready or late. commits, merged: its merged commits, and the
    offers that landed by them. left_out: offers that were in none. failed: merged commits without a known outcome.
    trouble: why nothing can be said or heard, or empty.
    """

    leads: bool = False
    open_offers: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)
    rounds: Mapping[str, int] = field(default_factory=dict)
    commits: int = 0
    merged: int = 0
    left_out: int = 0
    failed: int = 0
    trouble: str = ""


class Channel(Protocol):
    """The control topic, as a task uses it. Lossy by contract: messages may be lost, doubled, late. Raises nothing."""

    def say(self, messages: Sequence[Message]) -> None:
        """Send, in order; returns at once. Callable from every thread."""

    def hear(self, timeout_secs: float) -> list[Message]:
        """What has come since the last call, this task's own messages too. For one thread."""

    @property
    def trouble(self) -> str:
        """Why nothing can be said or heard right now, or empty."""

    def close(self) -> None:
        """Send what is left, for a moment, and let go."""


class Leadership(Protocol):
    """Who leads: a hint too. Nobody, or two at once, costs commits and never a record."""

    def is_mine(self) -> bool:
        """Whether this task is the leader now. Called often, from one thread; does not block."""

    def close(self) -> None:
        """Give the leadership up, for the next task to take."""


class Commits(Protocol):
    """How the frozen claims of the loop come to be committed: by this task itself, or by rounds of a leader."""

    def occasion(self, flushing: bool) -> Occasion:
        """What the loop commits in this iteration, of which one begins here; asked if a round waits for this task.

        flushing: as in Occasion. By itself no round begins.
        """

    def submit(self, event_type: str, claims: Sequence[Claim], in_hurry: bool) -> Future[Report]:
        """Offer them; done once each is settled. For one event type by one at a time.

        in_hurry: they wait for no round, not for the end of one that has begun either.
        """

    def rolled(self, partitions: Collection[TopicPartition]) -> None:
        """All that the loop commits in this iteration is submitted. partitions: all that are this task's."""

    def hurry(self) -> None:
        """The task ends: commit by itself what is open and what comes (claims keep their ids)."""

    def close(self) -> None:
        """Say and hear no more."""
