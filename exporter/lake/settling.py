"""One commit on a table that is as it was read, and what became of it, whatever its call said (protocol 4.2, 4.4).

    Expect ── does the snapshot that the commit is based on hold it? ── no ──> what the check raises; nothing is written
                                                                    └─ yes ── the call
    the call ── told a version ─────────────────────────────────────────────> that version
             └─ raised, or told none ── look: a fresh snapshot, and the log between
                                        ├─ the commit's id is in it ────────> its version
                                        └─ it is not ───────────────────────> Unseen

Unseen is not final: what was offered may still land, until a position that it depends on has moved (FENCE). Who may
read everything again calls commit_or_moved(); who may not decides by what an Unseen has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.clock import sleep
from exporter.errors import ConfigError, ExporterError, InvariantBroken, StorageSilent, TableUnreadable, TableUnwritable
from exporter.lake.change import Change
from exporter.lake.properties import check_properties
from exporter.lake.table import Check, DeltaTable
from exporter.text import all_lines, first_line
from offsets.names import LOG_FOLDER
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import LoggedCommit, TableView

MOVED_SECS = 0.05
"""Pause before everything is read again because somebody else has written the table."""
DELTA_REFUSES = "[DELTA_"
"""So begins what Delta says of a table or a name that it does not take; it says the same every time."""


class Moved(Exception):
    """Another task was faster; read everything again."""


class Failed(Moved):
    """A commit failed, and nobody else has written the table: read everything again, but not for ever."""

    def __init__(self, table: DeltaTable, error: BaseException) -> None:
        super().__init__(f"table {table.event_type}: {first_line(error)}")
        self.table = table
        self._error = error

    @property
    def of_storage(self) -> bool:
        """Whether the error is about the storage, which may do a moment later what it did not do now."""
        return isinstance(self._error, OSError) or self.table.says_storage(self._error)

    def cause(self) -> ExporterError:
        """What to end with: what is in the way in the file system, what Delta refuses, or what was said."""
        if (found := self.table.store.unwritable(LOG_FOLDER)) is not None:
            return type(found)(f"table {self.table.event_type}: {found.message}", found.hint)
        return self.said()

    def said(self) -> ExporterError:
        """Judge by what was said alone, without trying anything."""
        if isinstance(self._error, ExporterError):
            return self._error
        says = first_line(self._error)
        if self.table.says_storage(self._error):  # Delta's own words then hide what was said
            return StorageSilent(f"table {self.table.event_type} cannot be written: {all_lines(self._error)}")
        if DELTA_REFUSES in says:
            return ConfigError(
                f"table {self.table.event_type}: Delta refuses it: {all_lines(self._error)}",
                "correct its columns in the settings, or what was done to the table: `exporter check` looks at both",
            )
        return TableUnwritable(f"table {self.table.event_type} cannot be written: {says}")


@dataclass(frozen=True)
class Expect:
    """What a table is to be for a commit to be right.

    view: as it was read; None: there is none. app: whose positions it has to have: positions. columns: whether its
    columns, and all else that files must fit, have to be the same. alone: whether no version may have come since.
    ours: whether it has to be the app's table of this type, with what exactly-once rests on.
    """

    view: TableView | None
    app: str = ""
    positions: Mapping[TopicPartition, Position | None] = field(default_factory=dict)
    columns: bool = False
    alone: bool = False
    ours: bool = False

    def require(self, name: str, now: TableView | None) -> None:
        """Raises Moved, and InvariantBroken for a table that is not the app's."""
        if why := self._changed(now):
            raise Moved(f"table {name} was {why} meanwhile")
        if now is None:
            return
        if self.ours:
            check_properties(name, now, self.app)
        for tp, position in self.positions.items():
            if (at := now.position(self.app, tp)) != position:
                raise Moved(f"table {name}, {tp}: {at} instead of {position}")

    def check(self, name: str, also: Callable[[TableView], str | None] | None = None) -> Check:
        """Requires all this, and what `also` asks of the table, if there is one."""

        def check(now: TableView | None) -> str | None:
            self.require(name, now)
            return also(now) if also is not None and now is not None else None

        return check

    def _changed(self, now: TableView | None) -> str:
        if now is None or self.view is None:
            return "" if now is self.view else "created or removed"
        if now.table_id != self.view.table_id:
            return "replaced"
        if self.alone and now.version != self.view.version:
            return "written"
        return "changed" if self.columns and now.fingerprint != self.view.fingerprint else ""


@dataclass(frozen=True)
class Unseen:
    """A commit that is not in the log now. error: of its call. view: fresh; None: no table.

    since: what the log says of the versions since the table was read. gone_on: whether it has others than when it was
    checked.
    """

    error: Exception
    view: TableView | None
    since: Sequence[LoggedCommit]
    gone_on: bool


def settled(table: DeltaTable, change: Change, check: Check, read: TableView | None) -> int | Unseen:
    """Commit a change; its version. read: the table as it was read.

    Raises what the check raises; InvariantBroken, and TableUnreadable where it cannot be looked.
    """
    checked: list[TableView | None] = [read]
    refusals: list[Exception] = []

    def remembered(view: TableView | None) -> str | None:
        checked.append(view)
        try:
            return check(view)
        except Exception as refusal:
            refusals.append(refusal)
            raise

    def offer() -> int:
        return table.commit(change, remembered)

    ended = told(table, change.user_metadata["commit_id"], read, offer, refusals)
    return replace(ended, gone_on=_version(ended.view) != _version(checked[-1])) if isinstance(ended, Unseen) else ended


def told(
    table: DeltaTable,
    commit_id: str,
    read: TableView | None,
    offer: Callable[[], int | None],
    refusals: Sequence[Exception] = (),
) -> int | Unseen:
    """The version that a call made, whatever it said. offer: makes it; its version if it tells one.

    refusals: errors that say that nothing was written.
    """
    error: Exception = ExporterError(f"table {table.event_type}: the commit is not in the table's log", "start again")
    try:
        version = offer()
        if version is not None:
            return version
    except (InvariantBroken, TableUnreadable):
        raise
    except Exception as failed:
        # By identity: an error of the same kind from the call itself says nothing about what was written.
        if any(failed is one for one in refusals):
            raise
        error = failed
    # A fresh snapshot, whatever the call said: Delta's retry may have met our commit and refused it (4.4).
    now = table.view()
    since = table.commits(_version(read), now.version) if now is not None else []
    made = versions_of(since).get(commit_id)
    return Unseen(error, now, since, _version(now) != _version(read)) if made is None else made


def commit_or_moved(
    table: DeltaTable, change: Change, expect: Expect, also: Callable[[TableView], None] | None = None
) -> int:
    """Commit a change if the table is as expected, and `also` raises nothing of it; its version.

    Whatever goes wrong is Moved, and Failed where nobody else has written the table. Raises ExporterError.
    """
    ended = settled(table, change, expect.check(table.event_type, also), expect.view)
    if not isinstance(ended, Unseen):
        return ended
    if isinstance(ended.error, ExporterError):
        raise ended.error
    says = f"table {table.event_type}: {first_line(ended.error)}"
    if ended.gone_on:
        sleep(MOVED_SECS)
        raise Moved(says) from ended.error
    raise Failed(table, ended.error) from ended.error


def versions_of(commits: Iterable[LoggedCommit]) -> dict[str, int]:
    """Commit id -> version, of commits and of the offers that they carry."""
    return {one: commit.version for commit in commits for one in commit.commit_ids}


def _version(view: TableView | None) -> int:
    return -1 if view is None else view.version
