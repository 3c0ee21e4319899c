"""The comparison of an audit: records of the topics beside the rows of the tables, some offsets at a time.

    both ── plain.py ── which are surely right ─────────────────────┐
    records ── opinion.py, rules/ ── what each asks of its offset ──┼─ verdicts.py ── tally.py
    rows ── known.py, contents/ ── where each stands, what it holds ┘

Knows no driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from exporter.arrow.kafka_time import NO_DAY
from exporter.core.record_columns import has_cdc
from exporter.core.value_format import ValueFormat
from exporter.operate.audit.batch import At, ComparedBatch, Numbers
from exporter.operate.audit.job import AuditJob
from exporter.operate.audit.known import Known
from exporter.operate.audit.opinion import JudgedRecord, Opinion, Taker, is_plain
from exporter.operate.audit.pin import PinnedTables, Region
from exporter.operate.audit.plain import Plain
from exporter.operate.audit.records import WHOLE_BYTES_MAX, AuditedRecord, AuditedStretch
from exporter.operate.audit.rows import AuditedTable, TableRow, TableRows
from exporter.operate.audit.tally import AuditTally, Place
from exporter.operate.audit.verdicts import (
    WHOLE_SLOT,
    WHOLE_STAGES,
    ExpectedSlot,
    SlotExpects,
    Stands,
    Verdict,
    verdicts,
)
from exporter.proof.codes import DEAD_LETTER, EARLIER, EITHER, NOT_HERE, UNKNOWN, WHOLE
from exporter.proof.contents import changes
from exporter.proof.contents.compare import NOTHING_SURE, Configured, Difference
from exporter.proof.contents.times import DAY_US
from exporter.proof.readers.reader import SentValue, Undecided
from exporter.proof.readers.reading import Readings
from exporter.proof.rules.computing import Computed, ComputedFrom, Computing

_NO_DAY = (NO_DAY - type(NO_DAY)(1970, 1, 1)).days


class ComparedRecord(NamedTuple):
    """A record, and what the configurations make of it. own: the one that held; None where none is known.

    takers: by the index of a configuration, filters looked at.
    """

    seen: JudgedRecord
    own: Region | None
    takers: dict[int, list[Taker]]


@dataclass(frozen=True)
class Comparison:
    """Compares the records of one audit with the rows of its tables."""

    job: AuditJob
    pinned: PinnedTables
    known: Known
    tables: Sequence[AuditedTable]
    tally: AuditTally

    @cached_property
    def _judges(self) -> list[Opinion]:
        readings = Readings(self.pinned.schemas, self.pinned.replayed_through)
        return [Opinion(one, self.pinned.codes, readings) for one in self.pinned.routings]

    @cached_property
    def _in_slots(self) -> bool:
        """Whether several tables may take one record."""
        return any(one.routing.matches for one in self._judges)

    @property
    def _replays(self) -> bool:
        return bool(self.pinned.replayed)

    @cached_property
    def _computing(self) -> Computing:
        return Computing(self.pinned.routings, self.tally.names)

    @cached_property
    def _plain(self) -> list[Plain]:
        return [Plain(one, self.tables) for one in self.pinned.routings]

    @cached_property
    def _configured(self) -> dict[tuple[int, int, str], Configured]:
        return {}

    @cached_property
    def _day(self) -> int | None:
        return None if self.job.day is None else (self.job.day - type(self.job.day)(1970, 1, 1)).days

    def compare(self, stretches: Sequence[AuditedStretch], held: Sequence[TableRows]) -> None:
        """All offsets of some stretches."""
        batch = ComparedBatch.of(stretches, held)
        right = self._right(batch)
        self.tally.right(int(right.sum()))
        told = self._told({batch.at(number): batch.records[number] for number in np.flatnonzero(~right).tolist()})
        rows: dict[At, list[TableRow]] = defaultdict(list)
        for one in batch.standing:
            left = ~one.of_record(right, False)
            for at, row in zip(one.places(left), one.held.rows(one.numbers[left]) if left.any() else (), strict=True):
                rows[at].append(row)
        computed = self._computed(rows, told)
        for at in sorted({*told, *rows}):
            self._judged(at, told.get(at), rows.get(at, ()), computed)

    def _right(self, batch: ComparedBatch) -> Numbers:
        """The records whose only row is surely right where it stands (plain.py); all others are looked at."""
        right = np.zeros(len(batch.records), bool)
        if self._replays or self._in_slots or self._day is not None:
            return right
        alone, routings = batch.counts == 1, batch.each(self.known.routings)
        for routing in np.unique(routings[alone]).tolist():
            if routing < 0:
                continue
            some = np.flatnonzero(alone & (routings == routing))
            number = np.full(len(batch.records), -1)
            number[some] = np.arange(len(some))
            asked = []
            for one in batch.standing:
                inside = one.each(partial(self.known.may_stand, one.held.table.code))
                inside &= one.of_record(number, -1) >= 0
                asked.append((one.held, one.numbers[inside], number[one.records[inside]]))
            sent = [batch.records[at] for at in some.tolist()]
            right[some[list(self._plain[routing].right(sent, [one for one in asked if len(one[1])]))]] = True
        return right

    def strays(self, held: TableRows) -> None:
        """The rows of a table that say no place, or not all of one."""
        some: dict[tuple[Place, int], list[TableRow]] = defaultdict(list)
        for place, row in zip(held.coordinates(held.nowhere), held.rows(held.nowhere), strict=True):
            if self._day is None or row.day == self._day:
                some[place, self._slot_of(row)].append(row)
        for (place, _), rows in some.items():
            self.tally.add(Verdict("foreign", rows[0].code, DEAD_LETTER, 0, False), place, len(rows))

    def _told(self, records: Mapping[At, AuditedRecord]) -> dict[At, ComparedRecord]:
        found: dict[At, ComparedRecord] = {}
        sifting: dict[tuple[int, int], list[tuple[ComparedRecord, int]]] = defaultdict(list)
        for at, record in records.items():
            region = self.known.region(*at)
            told = found[at] = ComparedRecord(JudgedRecord(record), region, {})
            if region is None:
                continue
            for number in {region.routing, *(self.known.since(*at) if self._replays else ())}:
                judge = self._judges[number]
                told.takers[number] = judge.takers(told.seen)
                for place, one in enumerate(told.takers[number]):
                    if one.code in judge.filters:
                        sifting[number, one.code].append((told, place))
        for (number, code), some in sifting.items():
            judge = self._judges[number]
            documents = [judge.document(told.seen) for told, _ in some]
            seen = [told.seen.record.as_seen() for told, _ in some]
            for (told, place), expected in zip(some, judge.filters[code].judged(documents, seen), strict=True):
                told.takers[number][place] = Taker(code, expected)
        return found

    def _computed(
        self, rows: Mapping[At, Sequence[TableRow]], told: Mapping[At, ComparedRecord]
    ) -> Mapping[tuple[At, int, int], Computed]:
        """What computed columns must hold: by offset, code of the table and index of a configuration."""
        asked = []
        for at, some in rows.items():
            if (one := told.get(at)) is None or one.own is None:
                continue
            for row in some:
                for number in self._may(at, one.own, row.code):
                    if self._computing.computes(number, row.code):
                        judge = self._judges[number]
                        what = judge.document(one.seen), one.seen.record.as_seen()
                        asked.append(ComputedFrom((at, row.code, number), number, row.code, *what))
        return self._computing.of(asked) if asked else {}

    def _may(self, at: At, own: Region, code: int) -> list[int]:
        """The configurations that may have written a row, the one of its offset first."""
        since = self.known.since(*at) if self.known.is_replayed(code, *at) else ()
        return [*dict.fromkeys([own.routing, *since])]

    def _judged(
        self,
        at: At,
        told: ComparedRecord | None,
        rows: Sequence[TableRow],
        computed: Mapping[tuple[At, int, int], Computed],
    ) -> None:
        slots = {one.number: one for one in self._slots(at, told)} if told is not None else {}
        for row in rows:
            number = self._slot_of(row)
            slot = slots.setdefault(number, ExpectedSlot(number, None))
            slot.rows.append(self._stands(at, row, told, slot, computed))
        place = (at[0].topic, at[0].partition, at[1])
        for slot, verdict in verdicts([*slots.values()], told is not None, self._in_slots, self._replays):
            if self._is_wanted(slot, told):
                self.tally.add(verdict, place)
                if verdict.kind == "different" and (places := slot.rows[0].places):
                    self.tally.differs(verdict.code, place, places)

    def _slot_of(self, row: TableRow) -> int:
        if not self._in_slots:
            return WHOLE_SLOT
        if row.code != DEAD_LETTER:
            return row.code
        is_whole = row.of["stage"] in WHOLE_STAGES
        return WHOLE_SLOT if is_whole else self.pinned.codes.get(row.of["event_type"], WHOLE_SLOT)

    def _is_wanted(self, slot: ExpectedSlot, told: ComparedRecord | None) -> bool:
        """Whether its row, or its record, is of the day that was asked for."""
        if self._day is None:
            return True
        if slot.rows:
            return any(row.day == self._day for row in slot.rows)
        if told is None:
            return False
        time = None if told.own is None else self._judges[told.own.routing].time(told.seen)
        return (_kafka_day(told.seen.record) if time is None else time // DAY_US) == self._day

    def _slots(self, at: At, told: ComparedRecord) -> Iterator[ExpectedSlot]:
        """What a record asks of each slot of its offset."""
        if told.own is None:
            yield ExpectedSlot(WHOLE_SLOT, SlotExpects(UNKNOWN, must=False))
            return
        takers = told.takers[told.own.routing]
        later = [number for number in told.takers if self._replays]
        if self._in_slots:
            moved = {one.code for number in later for one in told.takers[number] if one.code > DEAD_LETTER}
            some = [*takers, *(Taker(code, NOT_HERE) for code in sorted(moved - {one.code for one in takers}))]
            some += [Taker(WHOLE, WHOLE)] if takers[0].code > DEAD_LETTER else []
        else:
            some = takers[:1]
        for place, taker in enumerate(some):
            number = max(taker.code, WHOLE_SLOT) if self._in_slots else WHOLE_SLOT
            expected = self._judges[told.own.routing].expected(told.seen, taker)
            must = self.known.must(expected, *at, told.own)
            again = [self._again(told, one, number) for one in later]
            gone = self._may_be_gone(at, told, taker.code if expected < DEAD_LETTER else expected) if must else ""
            yield ExpectedSlot(number, SlotExpects(expected, must, place == 0, again, gone))

    def _may_be_gone(self, at: At, told: ComparedRecord, code: int) -> str:
        """Why the table of this code need not have a row of the record any more; empty if it must."""
        if self.known.is_erased(*at):
            return "erased"
        return "aged" if self._has_aged(told, code) else ""

    def _has_aged(self, told: ComparedRecord, code: int) -> bool:
        """Whether the table of this code keeps no row of the record any more: by its own time, as the table is cut."""
        if code == DEAD_LETTER or told.own is None:
            return self.known.has_aged(DEAD_LETTER, told.seen.record.micros)
        return self.known.has_aged(code, self._judges[told.own.routing].time(told.seen))

    def _again(self, told: ComparedRecord, number: int, slot: int) -> int:
        """Where a record belongs by a configuration that has come since, in a slot."""
        takers = told.takers[number]
        if self._in_slots:
            takers = [one for one in takers if max(one.code, WHOLE_SLOT) == slot]
        return self._judges[number].expected(told.seen, takers[0] if takers else Taker(NOT_HERE, NOT_HERE))

    def _stands(
        self,
        at: At,
        row: TableRow,
        told: ComparedRecord | None,
        slot: ExpectedSlot,
        computed: Mapping[tuple[At, int, int], Computed],
    ) -> Stands:
        stands = Stands(
            row.code,
            row.day,
            outside=not self.known.may_stand(row.code, *at),
            checkable=not row.is_poison and self.known.is_checkable(*at),
            replayed=self.known.is_replayed(row.code, *at),
            faulty=row.faulty,
            is_poison=row.is_poison,
            unread=row.unread,
        )
        if told is None or told.own is None:
            return stands
        if row.code == DEAD_LETTER:
            stands.fits = _is_dead_letter_of(row, told.seen.record)
            return stands
        places: Sequence[Difference] | None = ()
        again = dict(zip(told.takers, slot.expect.again, strict=False)) if slot.expect is not None else {}
        for number in self._may(at, told.own, row.code):
            found = self._differences(row, told.seen, number, computed.get((at, row.code, number), NOTHING_SURE))
            fits = not found and self._says_right(row, told.seen, number)
            if number == told.own.routing:
                places, stands.fits = found, fits
            else:
                stands.fits_again |= fits and again.get(number) in (row.code, EITHER, EARLIER)
            places = places and found and places
        stands.places = places or ()
        self.tally.skipped += places is None
        self.tally.contents += places is not None
        return stands

    def _differences(
        self, row: TableRow, seen: JudgedRecord, number: int, computed: Mapping[str, Any] | None
    ) -> Sequence[Difference] | None:
        """Where a row differs from what its record holds, by one configuration; None where nothing can be said."""
        judge, topic = self._judges[number], seen.record.tp.topic
        key = (row.code, number, topic)
        if key not in self._configured:
            name, plain = self.tally.names[row.code], is_plain(judge.format_of(topic))
            others = {one.columns_of(name) for one in self.pinned.routings} - {judge.routing.columns_of(name)}
            made = Configured.of(judge.routing, name, self.pinned.views[name].schema_json, sorted(others))
            self._configured[key] = made if plain else replace(made, time=None)
        configured, sent = self._configured[key], list[SentValue]()

        def document(_: bytes) -> Any:
            sent.append(judge.row_sent(seen))
            return sent[0].document

        try:
            found = configured.differences(seen.record.value, row.of, row.rescued, row.time, document, computed)
        except (Undecided, RecursionError):
            return None
        if not sent or not row.change or not has_cdc(judge.routing):
            return found
        return [*found, *_changes(configured, judge.format_of(topic), row, seen.record, sent[0])]

    def _says_right(self, row: TableRow, seen: JudgedRecord, number: int) -> bool:
        """Whether what a row says of its record is right, where it says it: day, times, key, headers."""
        record, judge = seen.record, self._judges[number]
        time = judge.time(seen)
        if time is not None and row.day != time // DAY_US:
            return False
        if None not in (time, row.time) and row.time != time and judge.says_time(row.code):
            return False
        if row.micros != record.micros or (row.key is not None and row.key != record.key):
            return False
        if row.kind is not None and row.kind != record.kind:
            return False
        return row.headers is None or list(row.headers) == record.headers


def _changes(
    configured: Configured, form: ValueFormat, row: TableRow, record: AuditedRecord, sent: SentValue
) -> Iterable[Difference]:
    """Where a row does not say what was done to it."""
    fields = configured.root.fields if configured.made is None else {}
    columns = {name: fields.get(name) for name in form.before}
    return changes.differences(sent.change, record.key, sent.document, row.change, columns)


def _is_dead_letter_of(row: TableRow, record: AuditedRecord) -> bool:
    """Whether a dead letter has what it keeps of its record."""
    kept = record.value if record.value is None else record.value[:WHOLE_BYTES_MAX]
    same = row.micros == record.micros and row.of["key"] == record.key and row.of["value"] == kept
    return same and list(row.of["headers"] or ()) == record.headers and row.day == _kafka_day(record)


def _kafka_day(record: AuditedRecord) -> int:
    return _NO_DAY if record.micros is None else record.micros // DAY_US
