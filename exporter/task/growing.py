"""The columns that follow from a finished round: planned, and what lacks them is read again (protocol 4.10).

    seen in `_rescued`,  ── no column follows ──> integrated as it is
    schemas that were   ── columns follow ──────> planned; the fragments that lack them are read again with them
    met first                                     three times in a row already: integrated as it is, they come later
                                                  the table cannot be read: the type is parked, and looked at again

What follows from a schema is asked once, when the first of its records comes. A wider type that it says of a column is
given to the table at once, by a commit of metadata alone, if the settings widen; else it is told once as outgrown.

Belongs to the loop's thread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from exporter.core.manifest import RoundResult
from exporter.core.routing import DEAD_LETTERS
from exporter.core.schemas import CARRIED
from exporter.core.seen import Seen
from exporter.core.writers import Fragment, WriterKey
from exporter.errors import TableUnreadable
from exporter.lake.lake import Lake
from exporter.lake.promoting import Outgrown
from exporter.lake.settling import Moved
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.known import KnownTables
from exporter.text import first_line
from offsets.table_log import TableView

log = get_logger(__name__)

CARRIED_MAX = 1_000
"""Schemas of one type that are remembered where records bring their own: of garbage each record may have another."""
AGAIN = "its new fields are to be columns"
WIDENING_TRIES_MAX = 3
"""Commits of one table that are tried for the same wider types; what has them not by then keeps what does not fit."""

Widen = Callable[[str, TableView, str, int], None]
"""As MetTypes.widen."""


class Growing:
    """One task's. to_make: event type -> the schema of a table that a manifest waits for."""

    def __init__(self, *, lake: Lake, known: KnownTables, widen: Widen | None = None) -> None:
        """widen: None where no column gets a wider type."""
        self._lake = lake
        self._known = known
        self._widen = widen
        self._widenings: Counter[tuple[str, tuple[Outgrown, ...]]] = Counter()
        self._widened: set[str] = set()
        self._met: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.to_make: dict[str, str] = {}

    def plan(self, result: RoundResult) -> RoundResult:
        """The round's result, with what is to be read again marked as such."""
        seen: dict[str, Seen] = defaultdict(Seen)
        for fragment in result.fragments:
            for name, one in fragment.seen.items():
                seen[name].merge(one)
        schemas = self._schemas_of(result)
        widened = self._promote()
        looked_at = seen or self._known.again or schemas or widened
        if not looked_at and not any(map(self._lacking, result.fragments)):
            return result
        self.to_make = {}
        news = {
            WriterKey(name, fragment.plan.tp)
            for fragment in result.fragments
            for name in fragment.files
            if self._is_news(fragment, name)
        }
        grows = widened | {key.event_type for key in news}
        unreadable: dict[str, str] = {}
        for name in sorted(seen.keys() | schemas | widened):
            if name not in self._known.tables:
                self.to_make[name] = self._known.planned.to_make(name, seen[name])
            elif name in grows and (why := self._grow(name, seen[name])):
                unreadable[name] = why
        marked = (self._marked(fragment, news, unreadable) for fragment in result.fragments)
        return replace(result, fragments=tuple(marked))

    def _schemas_of(self, result: RoundResult) -> set[str]:
        """Event types of which columns are planned now, because of schemas or formats whose records came first."""
        found = set[str]()
        for fragment in result.fragments:
            topic = fragment.plan.tp.topic
            named = fragment.files.keys() - {DEAD_LETTERS}
            found |= {name for name in named if self._known.foreseeing.topic(name, topic)}
            for name, keys in fragment.met.items():
                for key in sorted(keys):
                    if key.startswith(CARRIED) and len(self._met[name]) >= CARRIED_MAX:
                        continue
                    if (key, topic) not in self._met[name]:
                        self._met[name].add((key, topic))
                        found |= {name} if self._known.foresee(name, key, topic) else set()
        return found

    def _promote(self) -> set[str]:
        """Give tables the wider types that schemas say of their columns; those that have them now (protocol 4.10).

        Without the setting it is told of each column once that its schema has outgrown it.
        """
        done = set[str]()
        for name, columns in [*self._known.planned.outgrown.items()]:
            self._widenings[name, columns] += 1
            tries = self._widenings[name, columns]
            if columns and self._widen is None and tries == 1:
                for one in columns:
                    log.warning(Event.COLUMN_OUTGROWN, table=name, **one._asdict())
            elif columns and self._widen is not None and tries <= WIDENING_TRIES_MAX and self._promoted(name, columns):
                done.add(name)
        self._widened |= done
        return done

    def _promoted(self, name: str, columns: Sequence[Outgrown]) -> bool:
        """Whether the table has the wider types of its columns now, as it is now."""
        try:
            view = self._lake.table(name).view()
            schema = view and self._known.planned.promoted(name, view)
            if view is not None and schema and schema != view.schema_json and self._widen is not None:
                self._widen(name, view, schema, self._known.looked_through(name))
        except (Moved, TableUnreadable) as error:
            log.warning(Event.COLUMNS_NOT_WIDENED, table=name, error=first_line(error))
            return False
        log.info(Event.COLUMNS_WIDENED, table=name, columns="; ".join(map(str, columns)))
        return view is not None

    def _lacking(self, fragment: Fragment) -> list[str]:
        """The types of a fragment whose files may lack columns that follow from their schemas."""
        now = {name: one.fingerprint for name, one in self._known.tables.items()}
        return [
            name
            for name in (fragment.files if self._known.foreseeing.has_several else fragment.met)
            if any(file.fingerprint not in ("", now.get(name)) for file in fragment.files.get(name, ()))
        ]

    def _grow(self, name: str, seen: Seen) -> str:
        """Plan on the table as it is now: another task may have added the columns already. Why not, or empty."""
        try:
            view = self._lake.table(name).view()
        except TableUnreadable as error:
            log.warning(Event.TABLE_UNREADABLE, table=name, error=first_line(error))
            return first_line(error)
        if view is not None:
            self._known.grow(name, view, seen)
            log.info(Event.COLUMNS_PLANNED, table=name, version=view.version)
        return ""

    def _is_news(self, fragment: Fragment, name: str) -> bool:
        seen, planned = fragment.seen.get(name), self._known.planned
        staged_for = {file.fingerprint for file in fragment.files.get(name, ()) if file.fingerprint}
        if name in self._widened and any(planned.is_narrow(name, one) for one in staged_for):
            return True
        may_lack = name in fragment.met or (self._known.foreseeing.has_several and name != DEAD_LETTERS)
        if may_lack and any(planned.lacks(name, one) for one in staged_for):
            return True
        return seen is not None and any(planned.is_news(name, one, seen) for one in staged_for)

    def _marked(self, fragment: Fragment, news: Collection[WriterKey], unreadable: Mapping[str, str]) -> Fragment:
        """unreadable: of tables that gave no view, why: their rows are read again, and that is not one time of three.
        """
        again: dict[str, str] = {}
        unwritten: dict[str, str] = {}
        for name in fragment.files:
            if WriterKey(name, fragment.plan.tp) not in news:
                self._known.again.taken(fragment.plan, name)
            elif name in unreadable:
                unwritten[name] = unreadable[name]
            elif self._known.again.once_more(fragment.plan, name):
                again[name] = AGAIN
        if not again and not unwritten:
            return fragment
        files = {name: files for name, files in fragment.files.items() if name not in unwritten}
        return replace(fragment, files=files, again=again, unwritten={**fragment.unwritten, **unwritten})


def fitted(fragment: Fragment, known: KnownTables) -> Fragment:
    """The fragment with the columns of the table that its files were staged for."""
    files = {
        name: tuple(replace(one, columns=known.planned.schema_of(name, one.fingerprint)) for one in staged)
        for name, staged in fragment.files.items()
    }
    return replace(fragment, files=files)
