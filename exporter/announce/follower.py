"""Tells one sink of every version with rows, per table in order and at least once (protocol 4.13).

    begin    what is kept is gone on from; where nothing is kept, each table begins at the version that it is at
    a turn   of each table the next version with rows ── taken by the sink ──> its pointer moves ──> it is kept

Of one table the next message is sent only once the one before is acknowledged: should one be lost and be sent again,
no later one may have come first, for whoever has seen that skips what is older. Deals with the logs' files alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from exporter.announce.message import NONE_YET, Message, Skipped, announced, as_json
from exporter.announce.pointers import Pointer
from exporter.announce.seams import KeptPointers, Logs, Sink, Trouble
from exporter.clock import monotonic
from exporter.stores.many import each

RELOOK_SECS = 60.0
"""So often it is looked whether a table that seems to stand still has lost what was to be announced, or is new."""
PASSED_MAX = 100
"""Versions without rows that one turn passes of one table."""
SAVE_SECS = 1.0
KEEP_SECS = 3600.0
"""After so long what has not changed is kept once more: brokers forget what nobody writes."""


class _Found(NamedTuple):
    """Of one table. looked: the version that was looked at last. more: whether there may be another turn's worth."""

    message: Message | None
    looked: int
    more: bool
    trouble: str = ""


class Passed(NamedTuple):
    """One turn: messages that were taken, versions that were told as skipped, what was in the way, and which tables
    found no room where pointers are kept."""

    messages: int
    skipped: int
    trouble: str
    left_out: tuple[str, ...]


class Follower:
    """Of one sink. For one thread."""

    def __init__(
        self, app: str, logs: Logs, sink: Sink, kept: KeptPointers, clock: Callable[[], float] = monotonic
    ) -> None:
        self._app = app
        self._logs = logs
        self._sink = sink
        self._kept = kept
        self._clock = clock
        self._pointers: dict[str, Pointer] | None = None
        self._changed = False
        self._left_out: tuple[str, ...] = ()
        self._saved_at = float("-inf")
        self._looked_at: dict[str, float] = {}

    def begin(self) -> dict[str, int] | None:
        """Know how far it has gone; where it begins, table -> version, if nothing was kept. Raises Trouble.

        The versions are asked first and what is kept then, once more: whoever has begun meanwhile, and has gone on
        from there, is not overtaken.
        """
        if self._pointers is not None:
            return None
        began: dict[str, int] | None = None
        pointers = self._kept.load()
        if pointers is None:
            tables = [*self._logs.tables()]
            newest = zip(tables, each(self._logs.newest, tables), strict=True)
            pointers = self._kept.load()
            if pointers is None:
                began = {table: NONE_YET if version is None else version for table, version in newest}
                pointers = {table: Pointer(version, version) for table, version in began.items()}
                self._left_out = tuple(self._kept.save(pointers))
        self._pointers = pointers
        return began

    def forget(self) -> None:
        """Somebody else goes on from here."""
        self._pointers = None

    def close(self) -> None:
        """Close the sink and the pointers, without waiting for them."""
        self._sink.close()
        self._kept.close()

    def passed(self, may_go_on: Callable[[], bool]) -> Passed:
        """Announce what is new, until nothing is, or not any more. After begin(). Raises Trouble.

        What a table or the sink is in the way of is told in the end, and the other tables go on.
        """
        messages = skipped = 0
        trouble = ""
        moving = [*self._logs.tables()]
        while moving and may_go_on():
            found = dict(zip(moving, each(self._next, moving), strict=True))
            told = {table: one.message for table, one in found.items() if one.message is not None}
            failed = self._sink.send({table: as_json(message) for table, message in told.items()}) if told else {}
            for table, one in found.items():
                if table not in failed:
                    self._move(table, one)
            messages += len(told) - len(failed)
            skipped += sum(isinstance(told[table], Skipped) for table in told.keys() - failed.keys())
            trouble = trouble or next(iter(failed.values()), "")
            trouble = trouble or next((one.trouble for one in found.values() if one.trouble), "")
            moving = [table for table, one in found.items() if one.more and table not in failed]
            self._save(SAVE_SECS)
        self._save(0.0)
        return Passed(messages, skipped, trouble, self._left_out)

    def _next(self, table: str) -> _Found:
        """The next version with rows, or as far as there is none."""
        pointer = self._pointer(table)
        looked = pointer.looked
        try:
            for version in range(pointer.looked + 1, pointer.looked + 1 + PASSED_MAX):
                lines = self._logs.lines(table, version)
                if lines is None:
                    return self._found_none(table, Pointer(pointer.announced, looked))
                if message := _read(self._app, table, version, pointer.announced, lines):
                    return _Found(message, version, True)
                looked = version
        except Trouble as error:
            return _Found(None, looked, False, str(error))
        return _Found(None, looked, True)

    def _found_none(self, table: str, pointer: Pointer) -> _Found:
        """The next version is not there: not yet, or not any more. Raises Trouble."""
        now, nothing = self._clock(), _Found(None, pointer.looked, False)
        if now - self._looked_at.get(table, float("-inf")) < RELOOK_SECS:
            return nothing
        newest = self._logs.newest(table)
        if newest is None:
            raise Trouble(f"table {table}: its log lacks an entry")
        self._looked_at[table] = now
        if newest == pointer.looked:
            return nothing
        if newest < pointer.looked:  # another table has its name
            return _Found(None, Pointer().looked, True)
        oldest = self._logs.oldest(table, pointer.looked)
        if oldest == pointer.looked + 1:  # it came meanwhile
            return _Found(None, pointer.looked, True)
        return _Found(Skipped(self._app, table, pointer.looked + 1, oldest - 1, pointer.announced), oldest - 1, True)

    def _move(self, table: str, found: _Found) -> None:
        before = self._pointer(table)
        announced = before.announced if found.message is None else found.message.version
        after = Pointer(min(announced, found.looked), found.looked)
        if after != before and self._pointers is not None:
            self._pointers[table] = after
            self._changed = True

    def _pointer(self, table: str) -> Pointer:
        return (self._pointers or {}).get(table, Pointer())

    def _save(self, pause_secs: float) -> None:
        """Keep the pointers, if it is time to. Raises Trouble."""
        now = self._clock()
        if self._pointers is not None and now - self._saved_at >= (pause_secs if self._changed else KEEP_SECS):
            self._saved_at = now
            self._left_out = tuple(self._kept.save(self._pointers))
            self._changed = False


def _read(app: str, table: str, version: int, after: int, lines: list[str]) -> Message | None:
    """The message of a table's version, if it has one. Raises Trouble."""
    try:
        return announced(app, table, version, after, lines)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Trouble(f"table {table}: version {version} cannot be read: {error}") from error
