"""What became of one offset: its record and its rows side by side, and the first verdict that holds. Pure.

Where several tables may take a record, its offset has a slot for each of them, with a verdict of its own:

    slot     code of a table, or WHOLE_SLOT, that of a dead letter of the record as a whole
    a whole dead letter    accounts for all slots of its offset, and then no table has a row; but that of a poison
                           record only for those without one (protocol 3.9)

A replay of dead letters judges a record anew, by a later configuration, and moves its row into a type's table. So a row
may be right by any configuration since its record was exported, and while a replay is interrupted it stands twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from exporter.proof.codes import (
    DEAD_LETTER,
    EARLIER,
    EARLIER_UNROUTED,
    EITHER,
    FILTERED,
    NOT_HERE,
    SIFTED,
    UNKNOWN,
    UNROUTED,
    WHOLE,
)

WHOLE_SLOT = 0
WHOLE_STAGES = ("size", "route", "condemned", "gap")
"""Stages of dead letters that are of a record as a whole."""
DONE = "done"
"""Verdict on a slot of which another one of its offset tells."""
COUNTED = (FILTERED, UNROUTED, EARLIER_UNROUTED)
"""What is only to be counted; so is what a filter takes out."""


class SlotExpects(NamedTuple):
    """What a record asks of a slot. must: it certainly has a row. leads: the slot counts the record.

    again: expected codes by each configuration that has come since, where there are replays. gone: the verdict where
    its row may be gone: `aged`, for the table keeps none that old, or `erased`; empty where it may not.
    """

    expected: int
    must: bool
    leads: bool = True
    again: Sequence[int] = ()
    gone: str = ""


@dataclass
class Stands:
    """What is known of one row. fits: it holds what its record says, by the configuration of then, or a later one.

    day: by which it is found. checkable: its record can be seen. replayed: a replay may have added it. places: where
    its contents differ.
    """

    code: int
    day: int | None
    outside: bool = False
    checkable: bool = False
    replayed: bool = False
    faulty: bool = False
    is_poison: bool = False
    unread: bool = False
    fits: bool = True
    fits_again: bool = False
    places: Sequence[Any] = ()


@dataclass
class ExpectedSlot:
    """One slot of an offset: what its record expects of it, and its rows."""

    number: int
    expect: SlotExpects | None
    rows: list[Stands] = field(default_factory=list)
    twin: bool = False
    expected: int | None = None
    belongs: int = DEAD_LETTER

    def __post_init__(self) -> None:
        if self.expect is not None:
            self.expected = self.expect.expected
            self.belongs = max(self.expected, DEAD_LETTER)

    @property
    def code(self) -> int:
        """Of the table that has the row; of several the first."""
        return min(row.code for row in self.rows)

    @property
    def again_table(self) -> bool:
        """Whether a configuration since then accounts for the row's table."""
        return any(row.replayed and _here(row.code, self._again) for row in self.rows)

    @property
    def _again(self) -> Sequence[int]:
        return self.expect.again if self.expect is not None else ()

    def without_twin(self) -> None:
        """One row in the dead letters, one in a table that had a replay: it was interrupted before its DELETE."""
        if len(self.rows) != 2:
            return
        dead_letter, other = sorted(self.rows, key=lambda row: row.code)
        if dead_letter.code == DEAD_LETTER != other.code and other.replayed:
            self.rows, self.twin = [other], True


class Verdict(NamedTuple):
    """code: of the table that has the row, or should. other: another one that is concerned. counts: of the record."""

    kind: str
    code: int
    other: int
    counts: int
    twin: bool


def verdicts(
    slots: Sequence[ExpectedSlot], is_there: bool, in_slots: bool, replays: bool
) -> list[tuple[ExpectedSlot, Verdict]]:
    """On each slot of an offset. is_there: its record is in the topic. in_slots: several tables may take one record."""
    if replays:
        for slot in slots:
            slot.without_twin()
    if not in_slots:
        return [(slot, _verdict(slot, _kind(slot, is_there), int(is_there))) for slot in slots]
    whole = [slot for slot in slots if slot.number == WHOLE_SLOT and slot.rows]
    lone = any(not any(row.is_poison for row in slot.rows) for slot in whole)
    moved = any(slot.number != WHOLE_SLOT and slot.rows and slot.again_table for slot in slots)
    first = max((s.expected for s in slots if s.number == WHOLE_SLOT and s.expected is not None), default=NOT_HERE)
    of_all = first if first in (EARLIER, EITHER, UNKNOWN) else NOT_HERE
    theirs = max((max(slot.expected, DEAD_LETTER) for slot in slots if slot.expected is not None), default=DEAD_LETTER)
    found = []
    for slot in slots:
        slot.belongs = slot.expected if slot.expected is not None and slot.expected >= DEAD_LETTER else theirs
        if slot.expected is None and is_there:
            slot.expected = of_all
        slot.twin |= slot.number == WHOLE_SLOT and bool(slot.rows) and moved
        if not slot.rows and slot.expected in (None, WHOLE, NOT_HERE):
            continue
        elsewhere = slot.number != WHOLE_SLOT and is_there
        if (slot.number == WHOLE_SLOT and moved) or (elsewhere and whole and not slot.rows):
            kind = DONE
        elif elsewhere and lone and not slot.again_table:
            kind = "twice"
        else:
            kind = _kind(slot, is_there)
        leads = slot.expect is not None and slot.expect.leads
        found.append((slot, _verdict(slot, kind, int(leads))))
    return found


def _verdict(slot: ExpectedSlot, kind: str, counts: int) -> Verdict:
    expected = DEAD_LETTER if slot.expected is None else slot.expected
    asked = expected if kind == "filtered" else max(expected, DEAD_LETTER)
    code = slot.code if slot.rows else asked
    other = slot.belongs
    if kind == "twice":  # beside the only row: the dead letter of the whole record
        other = max(row.code for row in slot.rows) if len(slot.rows) > 1 else DEAD_LETTER
    return Verdict(kind, code, other, counts, slot.twin)


def _kind(slot: ExpectedSlot, is_there: bool) -> str:
    """The verdict on one slot by itself; the first that holds."""
    expected = slot.expected
    counted = expected is not None and (expected in COUNTED or expected <= SIFTED)
    if len(slot.rows) > 1:
        return "twice"
    if slot.rows:
        return _of_row(slot, slot.rows[0], is_there, counted)
    if expected == UNKNOWN:
        return "unchecked"
    if counted:
        return "filtered"
    if slot.expect is None or not slot.expect.must:
        return "pending"
    return slot.expect.gone or "missing"


def _of_row(slot: ExpectedSlot, row: Stands, is_there: bool, counted: bool) -> str:
    if row.outside:
        return "outside"
    if not is_there:
        return "foreign" if row.checkable else "gone"
    if slot.expected == UNKNOWN:
        return "unchecked"
    no_dead_letter = slot.expected in (FILTERED, UNROUTED, NOT_HERE) and not row.unread
    accounted = (row.code == DEAD_LETTER and not no_dead_letter) or _here(row.code, [slot.expected])
    if not accounted and not slot.again_table:
        return "unfiltered" if counted else "wrong_table"
    right = row.unread or (accounted and row.fits) or row.fits_again
    return "once" if right and not row.faulty else "different"


def _here(code: int, expected: Sequence[int | None]) -> bool:
    return any(code == one or one in (EITHER, EARLIER) for one in expected)


