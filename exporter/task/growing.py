"""The columns that follow from a finished round: planned, and what lacks them is read again (protocol 4.10).

    seen in `_rescued`,  ── no column follows ──> integrated as it is
    schemas that were   ── columns follow ──────> planned; the fragments that lack them are read again with them
    met first                                     three times in a row already: integrated as it is, they come later

What follows from a schema is asked once, when the first of its records comes.

Belongs to the loop's thread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import replace

from exporter.core.manifest import RoundResult
from exporter.core.seen import Seen
from exporter.core.writers import Fragment, WriterKey
from exporter.errors import TableUnreadable
from exporter.lake.lake import Lake
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.known import KnownTables
from exporter.text import first_line

log = get_logger(__name__)

AGAIN_MAX = 3
"""Times in a row that the rows of one writer are read again for columns: then they wait no longer."""
AGAIN = "its new fields are to be columns"


class Growing:
    """One task's. to_make: event type -> the schema of a table that a manifest waits for."""

    def __init__(self, *, lake: Lake, known: KnownTables) -> None:
        self._lake = lake
        self._known = known
        self._again: Counter[WriterKey] = Counter()
        self._met: dict[str, set[str]] = defaultdict(set)
        self.to_make: dict[str, str] = {}

    def plan(self, result: RoundResult) -> RoundResult:
        """The round's result, with what is to be read again marked as such."""
        seen: dict[str, Seen] = defaultdict(Seen)
        for fragment in result.fragments:
            for name, one in fragment.seen.items():
                seen[name].merge(one)
        schemas = self._schemas_of(result)
        if not seen and not self._again and not schemas and not any(map(self._lacking, result.fragments)):
            return result
        self.to_make = {}
        news = {
            WriterKey(name, fragment.plan.tp)
            for fragment in result.fragments
            for name in fragment.files
            if self._is_news(fragment, name)
        }
        grows = {key.event_type for key in news}
        for name in sorted(seen.keys() | schemas):
            if name not in self._known.fingerprints:
                self.to_make[name] = self._known.planned.to_make(name, seen[name])
            elif name in grows:
                self._grow(name, seen[name])
        return replace(result, fragments=tuple(self._marked(fragment, news) for fragment in result.fragments))

    def _schemas_of(self, result: RoundResult) -> set[str]:
        """Event types of which columns are planned now, because of schemas whose records came first."""
        found = set[str]()
        for fragment in result.fragments:
            for name, keys in fragment.met.items():
                for key in sorted(keys - self._met[name]):
                    self._met[name].add(key)
                    if self._known.foresee(name, key):
                        found.add(name)
        return found

    def _lacking(self, fragment: Fragment) -> list[str]:
        """The types of a fragment whose files may lack columns that follow from their schemas."""
        now = self._known.fingerprints
        return [
            name
            for name in fragment.met
            if any(file.fingerprint not in ("", now.get(name)) for file in fragment.files.get(name, ()))
        ]

    def _grow(self, name: str, seen: Seen) -> None:
        """Plan on the table as it is now: another task may have added the columns already."""
        try:
            view = self._lake.table(name).view()
        except TableUnreadable as error:
            log.warning(Event.TABLE_UNREADABLE, table=name, error=first_line(error))
            return
        if view is not None:
            self._known.grow(name, view, seen)
            log.info(Event.COLUMNS_PLANNED, table=name, version=view.version)

    def _is_news(self, fragment: Fragment, name: str) -> bool:
        seen, planned = fragment.seen.get(name), self._known.planned
        staged_for = {file.fingerprint for file in fragment.files.get(name, ()) if file.fingerprint}
        if name in fragment.met and any(planned.lacks(name, one) for one in staged_for):
            return True
        return seen is not None and any(planned.is_news(name, one, seen) for one in staged_for)

    def _marked(self, fragment: Fragment, news: Collection[WriterKey]) -> Fragment:
        again: dict[str, str] = {}
        for name in fragment.files:
            key = WriterKey(name, fragment.plan.tp)
            if key not in news or self._again[key] >= AGAIN_MAX:
                self._again.pop(key, None)
                continue
            self._again[key] += 1
            again[name] = AGAIN
        return replace(fragment, again=again) if again else fragment


def fitted(fragment: Fragment, known: KnownTables) -> Fragment:
    """The fragment with the columns of the table that its files were staged for."""
    files = {
        name: tuple(replace(one, columns=known.planned.schema_of(name, one.fingerprint)) for one in staged)
        for name, staged in fragment.files.items()
    }
    return replace(fragment, files=files)
