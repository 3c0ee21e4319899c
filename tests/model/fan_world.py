"""The world of world.py, with records that belong to several tables, and rows that filters leave out and count (3.9).

Declared are D (the dead letters), A and C. Which tables take an event type is the routing's own answer; what is
decided on a row there, and what follows for every table, is written down for each kind of record. The count of a table
is what its commits say they left out; for D that is of unrouted records. It has to be exact in every state.

    kind        o row   x dead letter   - left out by the filter
    A  "a"      A o                 f  "ac"     A o   C -
    b  "ac"     A o   C o           g  "ac"     A -   C -
    l  "ac"     A x   C o           L  "ac"     A x   C x
    u  "u"      no table: counted   n  "C"      the same: the pattern of C does not fit its own name
    D           no event type: a dead letter
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.shapes import COUNT
from tests.model.world import TYPES, Others, Scope, State

ROUTING = Routing(
    TypeFrom("key"),
    EventTime("record"),
    types=(("A", "{}"), ("C", "{}")),
    matches=(("A", "ac?"), ("C", "a?c")),
    unrouted=COUNT,
)
ROW, DEAD_LETTER, LEFT_OUT = "row", "dead letter", "left out"
KINDS = {
    "A": ("a", {"A": ROW}),
    "b": ("ac", {"A": ROW, "C": ROW}),
    "f": ("ac", {"A": ROW, "C": LEFT_OUT}),
    "g": ("ac", {"A": LEFT_OUT, "C": LEFT_OUT}),
    "l": ("ac", {"A": DEAD_LETTER, "C": ROW}),
    "L": ("ac", {"A": DEAD_LETTER, "C": DEAD_LETTER}),
    "u": ("u", {DEAD_LETTERS: LEFT_OUT}),
    "n": ("C", {DEAD_LETTERS: LEFT_OUT}),
    "D": ("", {DEAD_LETTERS: ROW}),
}
"""Kind of a record -> its event type, and what it has to come to in each table that it belongs to."""


@dataclass(frozen=True)
class FanScope(Scope):
    """log: the kind of the record at each offset."""

    log: str = "b"

    @property
    def types(self) -> tuple[str, ...]:
        return TYPES

    @property
    def declared(self) -> tuple[str, ...]:
        return TYPES


class FanWorld(Others):
    """Searched with two processes, and with one against all others."""

    def rows(self, name: str, offsets: Iterable[int]) -> State:
        """As a task finds them."""
        return tuple(offset for offset in offsets for fate in self._fates(name, self.scope.log[offset]) if fate == ROW)

    def left_out(self, name: str, offsets: Iterable[int]) -> int:
        return sum(fate == LEFT_OUT for offset in offsets for fate in self._fates(name, self.scope.log[offset]))

    def _fates(self, name: str, kind: str) -> list[str]:
        """What becomes of a record in one table: nothing, one row, or several dead letters of one record in D."""
        text, decided = KINDS.get(kind, ("", {}))
        tables = ROUTING.tables_of(text)
        if name != DEAD_LETTERS:
            return [decided.get(name, ROW)] if name in tables and decided.get(name) != DEAD_LETTER else []
        if not tables:
            return [LEFT_OUT] if text and ROUTING.unrouted == COUNT else [ROW] * bool(decided)
        return [ROW for one in tables if decided.get(one) == DEAD_LETTER]

    def integrated(self, writers: State, round_: State) -> tuple[str, State, int]:
        """What is integrated between a freeze and its landing matters for the counts: no order is left out."""
        text, after, _ = super().integrated(writers, round_)
        return text, after, sum(1 << (3 + index) for index in range(len(self.types)))

    def broken(self, tables: State) -> str:
        """ONCE holds per table, and COVER says what is counted as well."""
        for index, name in enumerate(self.types):
            position, committed, counted = tables[index]
            through = range(0 if position is None else position + 1)
            for offset in range(len(self.scope.log)):
                due, found = due_in(name, self.scope.log[offset]), committed.count(offset)
                if found > due.count(ROW):
                    return f"ONCE: record {offset} has {found} rows in {name}, not {due.count(ROW)}"
                if offset in through and found < due.count(ROW):
                    return f"COVER: {name} is at {position}, and has {found} rows of record {offset}"
            left_out = sum(due_in(name, self.scope.log[offset]).count(LEFT_OUT) for offset in through)
            if counted != left_out:
                rule = "ONCE" if counted > left_out else "COVER"
                return f"{rule}: {name} is at {position}, and has counted {counted} of {left_out} that are left out"
        return ""


def due_in(name: str, kind: str) -> list[str]:
    """What a record has to be in a table, by the table above alone."""
    decided = KINDS.get(kind, ("", {}))[1]
    if name == DEAD_LETTERS:
        own = [decided[DEAD_LETTERS]] if DEAD_LETTERS in decided else []
        return [*(ROW for fate in decided.values() if fate == DEAD_LETTER), *own]
    return [decided[name]] if decided.get(name, DEAD_LETTER) != DEAD_LETTER else []
