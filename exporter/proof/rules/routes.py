"""Which tables take a record, by what it says of its event type: renames, matches, and what none takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.shapes import COUNT, TO_DEAD_LETTERS
from exporter.proof.codes import DEAD_LETTER, UNROUTED
from offsets.names import BadName, table_folder

TEXTS_MAX = 10_000
"""Event types whose tables are remembered."""
_DOLLAR = re.compile(r"\$(\$|\d+|\{\w+\})")


def has_routes(routing: Routing) -> bool:
    """Whether the event type that a record says is not always the name of its table."""
    return bool(routing.renames or routing.matches or routing.unrouted != TO_DEAD_LETTERS)


class Routes:
    """Of one configuration. codes: event type -> code, for every type with a table or declared somewhere."""

    def __init__(self, routing: Routing, codes: Mapping[str, int]) -> None:
        self._codes = codes
        self._takes_new = routing.new_type == "table"
        self._unrouted = routing.unrouted
        self._renames = [(re.compile(one.match), one.to) for one in routing.renames]
        self._patterns = {name: re.compile(pattern) for name, pattern in routing.matches}
        self._declared = frozenset(name for name, _ in routing.types)
        self._folders = {table_folder(name).lower() for name in (*self._declared, DEAD_LETTERS)}
        self._known: dict[str, tuple[int, ...]] = {}

    def takers(self, text: str | None) -> tuple[int, ...]:
        """The codes of the tables, ascending; DEAD_LETTER or UNROUTED alone if there is none."""
        if not text:
            return (DEAD_LETTER,)
        if (found := self._known.get(text)) is None:
            found = self._takers(text)
            if len(self._known) < TEXTS_MAX:
                self._known[text] = found
        return found

    def _takers(self, text: str) -> tuple[int, ...]:
        name = self._renamed(text)
        names = {one for one, pattern in self._patterns.items() if pattern.fullmatch(name)}
        if name in self._declared and name not in self._patterns:
            names.add(name)
        if not names and self._is_new(name):
            return (self._codes.get(name, DEAD_LETTER),)
        if not names and self._unrouted == COUNT:
            return (UNROUTED,)
        if not names and self._unrouted != TO_DEAD_LETTERS:
            names.add(self._unrouted)
        return tuple(sorted(self._codes[one] for one in names)) or (DEAD_LETTER,)

    def _renamed(self, text: str) -> str:
        for pattern, to in self._renames:
            if (found := pattern.fullmatch(text)) is not None:
                return _DOLLAR.sub(lambda dollar: _filled(found, dollar[1]), to)
        return text

    def _is_new(self, name: str) -> bool:
        """Whether it has a table without being declared."""
        if not self._takes_new or name in self._declared:
            return False
        try:
            return table_folder(name).lower() not in self._folders
        except BadName:
            return False


def _filled(found: re.Match[str], group: str) -> str:
    """What stands for `$1`, `${name}` or `$$`; a group that took no part is empty."""
    if group == "$":
        return group
    return found.group(int(group) if group.isdigit() else group.strip("{}")) or ""
