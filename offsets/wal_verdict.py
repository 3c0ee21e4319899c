"""The write-ahead log against the tables: one verdict per (event type, topic partition), and what to do about it. Pure.

The table is the truth; the log is evidence of what it held once, and can only stop us or be repaired. The log is read
first, then the tables (protocol 5.1), so that whatever the log says was completed must be in the table by then:

    log: completed through `new` ──┬─ the position is behind it ───────────────── Stop: rolled back
                                   └─ at or beyond it, its rows live or in doubt ─ Agree, or Stop: rows gone
    log: started ──┬─ its commit id is in the table's log ──────────── Finish: complete it with that version
                   ├─ it is not, the position is before its last ───── Pending: it may still land
                   └─ it is not, the position has reached its last ─── Dead: it can never land

Whether Delta has a started intent. Its commit lies after `checked_through`, which its owner had looked at before, so
the userMetadata of the versions after that answer it for certain (protocol 4.4). They need to be read only if the
position has reached `new`: landing sets the position to `new`, and a position never goes back (MONOTONE), so below
`new` it has not landed. The reverse does not hold: a position at `new` may be another task's commit of the same range.
A position beyond `expected` already shuts the intent out (FENCE), but `failed` is written by others only when the
position has reached its last offset, the test of protocol section 6: what is dead here is what the sweep may delete.

Where those versions are no longer in the table's log, the commit id cannot be looked for. Who landed is then unknown
and does not matter: within one epoch the rows of a range are a function of the records (ROUTE), so if the position is
at `new` or beyond, `rows` rows must be live between `first` and `last`, whoever wrote them. They are counted: all there
means finished; fewer means that the table was taken back by something that its log no longer tells. More are no alarm
here: a poison record's row is committed by itself, and what is twice is the audit's to find.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from offsets import Invariant
from offsets.intents import Intent, IntentState
from offsets.positions import Position


class Ruling(str, Enum):
    """What three views of one (event type, topic partition) say together; the gravest comes last."""

    IGNORED = "ignored"
    AGREE = "agree"
    REPAIR = "repair log"
    DEAD = "dead"
    FINISH = "finish log"
    PENDING = "pending"
    REFUSED = "refused"
    ROWS_GONE = "stop: rows gone"
    NAMES_AHEAD = "stop: names ahead"
    ROLLED_BACK = "stop: rolled back"
    REPLACED = "stop: replaced"
    GONE = "stop: gone"

    @property
    def stops(self) -> bool:
        return self.value.startswith("stop")


GRAVITY = {found: at for at, found in enumerate(Ruling)}


@dataclass(frozen=True)
class TableSays:
    """What one table says of one topic partition, in one snapshot that was taken after the log was read.

    table_id: None = there is no table. position: None = absent. epoch: the live one, or where the position is absent
    that of the partition. anchor: offset at which the live epoch began, None if it is not recorded. named_offset: as in
    crosscheck.PartitionState. version: the snapshot's. landed: commit id -> version, of the commits that were looked
    for. cleaned_through: newest version that is no longer in the table's log though it was looked for, -1 if none is
    missing. live_rows: commit id -> rows that are live between the intent's offsets, where they were counted.
    """

    table_id: str | None
    position: Position | None
    epoch: int = 0
    anchor: int | None = None
    named_offset: int = -1
    version: int = -1
    landed: Mapping[str, int] = field(default_factory=dict)
    cleaned_through: int = -1
    live_rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """One intent, or with intent None the table alone. version: for FINISH, the Delta version it is completed with."""

    verdict: Ruling
    says: str
    intent: Intent | None = None
    version: int | None = None


@dataclass(frozen=True)
class LogVerdict:
    """The verdict on one (event type, topic partition), and what each intent adds to it, the gravest first."""

    judged: tuple[Judged, ...]

    @property
    def verdict(self) -> Ruling:
        return self.judged[0].verdict

    @property
    def says(self) -> str:
        return self.judged[0].says

    def of(self, *verdicts: Ruling) -> tuple[Judged, ...]:
        return tuple(one for one in self.judged if one.verdict in verdicts)

    @property
    def invariant(self) -> Invariant:
        """The invariant at stake; meaningful only if the verdict stops."""
        return Invariant.NAMES if self.verdict is Ruling.NAMES_AHEAD else Invariant.MONOTONE


def to_find(table: TableSays, intents: Iterable[Intent]) -> tuple[Intent, ...]:
    """The started intents that may have landed: their commit ids are to be looked for after `checked_through`."""
    return tuple(one for one in _of_live_epoch(table, intents) if one.state is IntentState.STARTED)


def to_count(table: TableSays, intents: Iterable[Intent], unproven: bool) -> tuple[Intent, ...]:
    """The intents whose rows have to prove that a table was not taken back, because its log no longer tells.

    Started ones that cannot be looked for any more; with `unproven` the newest completed one too: nobody has looked
    at all operations since the app's last commit, and not all of them are in the table's log any more.
    """
    return tuple(
        one
        for one in _of_live_epoch(table, intents)
        if (unproven and one.state is IntentState.COMPLETED)
        or (
            one.state is IntentState.STARTED
            and one.commit_id not in table.landed
            and one.checked_through < table.cleaned_through
        )
    )


def _of_live_epoch(table: TableSays, intents: Iterable[Intent]) -> tuple[Intent, ...]:
    """The intents that the position has reached."""
    at = table.position
    return tuple(one for one in intents if at is not None and one.key.epoch == at.epoch and at.offset >= one.new)


def judge(
    table: TableSays,
    intents: Sequence[Intent],
    under_way: Collection[str] = (),
    routing: str = "",
    live: Collection[str] = (),
) -> LogVerdict:
    """The verdict on one (event type, topic partition) of one app.

    intents: what the log holds of it, of all epochs. under_way: ids of commits that this process settles itself.
    routing: its fingerprint. live: owners that have been seen at work since.
    """
    judged = [*_table_alone(table, bool(intents)), *(_intent(table, one, under_way, routing, live) for one in intents)]
    return LogVerdict(tuple(sorted(judged, key=lambda one: -GRAVITY[one.verdict])))


def _table_alone(table: TableSays, logged: bool) -> Iterator[Judged]:
    at = table.position
    if at is not None and table.named_offset > at.offset:
        yield Judged(Ruling.NAMES_AHEAD, f"files are named through offset {table.named_offset}, the position is {at}")
    if at is not None and not logged and at.offset != table.anchor:
        yield Judged(Ruling.REPAIR, f"no commit with rows is in the log, the table is at {at}")
    elif not logged:
        yield Judged(Ruling.AGREE, "neither knows of anything")


def _intent(
    table: TableSays, one: Intent, under_way: Collection[str], routing: str, live: Collection[str]
) -> Judged:
    at = table.position
    if one.key.epoch < (at.epoch if at is not None else table.epoch):
        return Judged(Ruling.IGNORED, f"epoch {one.key.epoch} is closed", one)
    if at is None or table.table_id is None:
        what = "the table is gone" if table.table_id is None else "the table has no position"
        return Judged(Ruling.GONE, f"{what}; the log had it at {_through(one)}", one)
    if one.table_id != table.table_id:
        return Judged(Ruling.REPLACED, f"the table is another one; the log had it at {_through(one)}", one)
    if one.key.epoch > at.epoch:
        if one.state is IntentState.STARTED and one.rows == 0:
            return Judged(Ruling.PENDING, f"a repair to offset {one.new} in epoch {one.key.epoch} was begun", one)
        return Judged(Ruling.ROLLED_BACK, f"the table is in epoch {at.epoch}, the log in {one.key.epoch}", one)
    if one.state is IntentState.COMPLETED:
        return _completed(table, at, one)
    return _started(table, at, one, under_way, routing, live)


def _completed(table: TableSays, at: Position, one: Intent) -> Judged:
    if one.new > at.offset:
        return Judged(Ruling.ROLLED_BACK, f"the table is at {at}, the log at {one.new}: {_missing(at, one)}", one)
    rows = table.live_rows.get(one.commit_id)
    if rows is not None and rows < one.rows:
        return Judged(Ruling.ROWS_GONE, _rows_gone(one, rows), one)
    return Judged(Ruling.AGREE, f"the log is at {one.new}", one)


def _started(
    table: TableSays, at: Position, one: Intent, under_way: Collection[str], routing: str, live: Collection[str]
) -> Judged:
    version = table.landed.get(one.commit_id)
    if one.expected > at.offset or (version is not None and one.new > at.offset):
        says = f"the table is at {at}, {one.owner} had it at {_through(one)}: {_missing(at, one)}"
        return Judged(Ruling.ROLLED_BACK, says, one)
    if one.commit_id in under_way:
        return Judged(Ruling.PENDING, f"this task's own commit to {one.new} is under way", one)
    if version is not None:
        return Judged(Ruling.FINISH, f"{one.owner} committed it as version {version}", one, version)
    if one.owner in live and one.routing != routing:
        return Judged(Ruling.REFUSED, f"{one.owner} is at work with configuration {one.routing}", one)
    if at.offset < one.last:
        return Judged(Ruling.PENDING, f"{one.owner} may still commit offsets {one.first}..{one.last}", one)
    if at.offset < one.new or one.checked_through >= table.cleaned_through:
        return Judged(Ruling.DEAD, f"{one.owner} did not commit it, the position has passed it", one)
    rows = table.live_rows.get(one.commit_id)
    if rows is None:
        return Judged(Ruling.PENDING, "the table's log no longer tells whether it was committed", one)
    if rows < one.rows:
        return Judged(Ruling.ROWS_GONE, _rows_gone(one, rows), one)
    return Judged(Ruling.FINISH, "its rows are there", one, table.version)


def _through(one: Intent) -> str:
    return f"{one.new if one.state is IntentState.COMPLETED else one.expected}"


def _missing(at: Position, one: Intent) -> str:
    most = one.new if one.state is IntentState.COMPLETED or one.expected <= at.offset else one.expected
    return f"offsets {at.offset + 1}..{most} are missing"


def _rows_gone(one: Intent, rows: int) -> str:
    of = f"of version {one.version} " if one.version is not None else ""
    return f"of the {one.rows} rows {of}only {rows} are left: offsets {one.first}..{one.last} are missing"
