"""What the write-ahead log holds of one commit, its keys, and what can be asked of it. Pure.

The tables are the truth. The log can be lost at any time, is rebuilt from them and never moves a position by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from offsets.leases import Leases
from offsets.names import APP, TOPIC, BadName, event_type_of, table_folder
from offsets.ranges import TopicPartition

FORMAT = 1
"""Version of the items; stored in each."""

_COMMIT_ID = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_EPOCH_DIGITS = 10
_OFFSET_DIGITS = 20


@dataclass(frozen=True, order=True)
class IntentKey:
    """One writer's line of commits. epoch: that of the appId."""

    event_type: str
    tp: TopicPartition
    epoch: int


class IntentState(str, Enum):
    """started before the Delta commit, one of the others after it."""

    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class Intent:
    """One commit with files, as far as one (event type, topic partition, epoch) is concerned.

    owner: process that offers it. expected, new: the position that it replaces (-1: before offset 0) and sets, both
    inclusive. first, last: offsets of its records, inclusive. rows: in its files. checked_through: table version
    whose operations the owner had looked at. table_id: Delta's. routing: fingerprint. started_ms: wall clock, for the
    reader only. version: the table version that the commit became; None unless completed.
    """

    key: IntentKey
    commit_id: str
    owner: str
    expected: int
    new: int
    first: int
    last: int
    rows: int
    checked_through: int
    table_id: str
    routing: str
    started_ms: int
    state: IntentState = IntentState.STARTED
    version: int | None = None

    def __post_init__(self) -> None:
        if (self.version is not None) != (self.state is IntentState.COMPLETED):
            raise ValueError(f"a completed intent, and no other, has a table version: {self!r}")


def partition_key(app: str, tp: TopicPartition) -> str:
    """The log's key of an app's partition. Raises BadName."""
    if not (APP.match(app) and TOPIC.match(tp.topic)) or tp.partition < 0:
        raise BadName(f"cannot build a key of {app!r} and {tp!r}")
    return f"{app}/{tp.topic}/{tp.partition}"


def sort_key(key: IntentKey, new: int, commit_id: str) -> str:
    """The log's key of an intent within its partition. Raises BadName."""
    if not (0 <= key.epoch < 10**_EPOCH_DIGITS and 0 <= new < 10**_OFFSET_DIGITS and _COMMIT_ID.match(commit_id)):
        raise BadName(f"cannot build a key of epoch {key.epoch}, position {new} and commit {commit_id!r}")
    folder = table_folder(key.event_type)
    return f"intent/{folder}/{key.epoch:0{_EPOCH_DIGITS}d}/{new:0{_OFFSET_DIGITS}d}/{commit_id}"


def parse_keys(pk: str, sk: str) -> tuple[str, IntentKey, int, str]:
    """The inverse of both: (app, key, new, commit id). Raises BadName if they are not an intent's of ours."""
    where, what = pk.split("/"), sk.split("/")
    wrong = BadName(f"not an intent of ours: {pk!r} {sk!r}")
    if len(where) != 3 or len(what) != 5:
        raise wrong
    numbers = (where[2], what[2], what[3])
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise wrong
    tp = TopicPartition(where[1], int(where[2]))
    parsed = where[0], IntentKey(event_type_of(what[1]), tp, int(what[2])), int(what[3]), what[4]
    if (partition_key(parsed[0], tp), sort_key(*parsed[1:])) != (pk, sk):
        raise wrong
    return parsed


class WalUnreachable(Exception):
    """The log did not answer within the deadline, or refused whatever was asked.

    table_missing: it answers, but what it is kept in is not there. code: its own word for what is wrong; may be empty.
    """

    def __init__(self, message: str, table_missing: bool = False, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.table_missing = table_missing
        self.code = code


class WalMismatch(Exception):
    """What the log holds, or what it is kept in, is not what this code writes; trying again would not help."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WriteAheadLog(Leases, Protocol):
    """The log of one app. Any call may raise WalUnreachable, and then may have been done all the same.

    Every method may be called again after that with the same arguments, and from several threads. What a call is given
    is written as a whole or, where WalMismatch is raised, not at all; more of it than the log's store writes at once
    may be written in part.
    """

    @property
    def counts(self) -> Mapping[str, int]:
        """Operation -> how often it was asked, whatever came of it."""
        ...

    @property
    def calls(self) -> Mapping[tuple[str, str], int]:
        """(call, answered, refused or unreachable) -> how often, so far."""
        ...

    def start(self, intents: Sequence[Intent]) -> None:
        """Write all intents of one commit, none of which may be there. WalMismatch if one is, in another state."""
        ...

    def complete(self, intents: Sequence[Intent], version: int) -> None:
        """They landed, all in this version of the table. Idempotent; an intent that is gone is written whole."""
        ...

    def record(self, intents: Sequence[Intent]) -> None:
        """Completed intents, of their own versions: own ones, or read from a table's history after the log was lost.

        Of an IntentKey only the newest stays for ever. WalMismatch if an item says that it failed, or landed elsewhere.
        """
        ...

    def fail(self, intents: Sequence[Intent]) -> None:
        """They never landed and never will; when that may be said is for the caller (protocol, section 6).

        One that is not there is passed over. WalMismatch if one has landed.
        """
        ...

    def read(self, tp: TopicPartition) -> tuple[Intent, ...]:
        """Every started intent, and per IntentKey the newest completed one, by key and position.

        Raises WalMismatch for items that this version cannot read.
        """
        ...

    def failed(self, tp: TopicPartition) -> tuple[tuple[Intent, ...], bool]:
        """The intents that never landed, oldest first, as long as they are remembered; and whether that is all of them.

        For people: nothing is decided by it.
        """
        ...
