"""Verdicts counted: what a report is made of, of one part of an audit, and of parts put together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.operate.audit.report import (
    EXAMPLES_MAX,
    FINDINGS,
    AuditReport,
    BadOffset,
    Differing,
    Missing,
    examples,
)
from exporter.operate.audit.verdicts import Verdict
from exporter.proof.codes import DEAD_LETTER, FILTERED, sifted_from
from exporter.proof.contents.compare import Difference
from offsets.ranges import TopicPartition

BAD_OFFSETS_MAX = 1_000
"""Offsets of each kind of finding that are kept for the examples; all are counted."""
OTHERS = ("once", "pending", "gone", "unchecked", "aged", "erased")
"""Verdicts that are no findings."""
TOMBSTONES = "/tombstones"
NO_TABLE = "/no table"
"""What is counted and belongs to no table; no event type's name."""
Place = tuple[str | None, int | None, int | None]
"""Topic, partition and offset of a row."""


@dataclass
class AuditTally:
    """names: code -> event type. bad: by kind, (code, place, other code)."""

    names: Mapping[int, str]
    kinds: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    dead_letters: int = 0
    twins: int = 0
    contents: int = 0
    skipped: int = 0
    taken_out: Counter[str] = field(default_factory=Counter)
    bad: dict[str, list[tuple[int, Place, int]]] = field(default_factory=dict)
    missing: dict[tuple[int, TopicPartition], tuple[int, int, int]] = field(default_factory=dict)
    differing: list[tuple[int, Place, Difference, int]] = field(default_factory=list)

    def add(self, verdict: Verdict, place: Place, amount: int = 1) -> None:
        """One verdict. amount: of the offsets or rows that it is on."""
        kind, code = verdict.kind, verdict.code
        self.kinds[kind] += amount
        self.twins += verdict.twin
        self.checked += verdict.counts if kind != "unchecked" else 0
        self.dead_letters += amount if kind == "once" and code == DEAD_LETTER else 0
        if kind == "filtered":
            self.taken_out[self._taken_out_of(code)] += amount
        elif kind in FINDINGS:
            self.bad.setdefault(kind, []).append((code, place, verdict.other))
            if len(self.bad[kind]) > 2 * BAD_OFFSETS_MAX:
                self.bad[kind] = _first(self.bad[kind])
        if kind == "missing" and place[0] is not None and place[1] is not None and place[2] is not None:
            tp, offset = TopicPartition(place[0], place[1]), place[2]
            count, least, most = self.missing.get((code, tp), (0, offset, offset))
            self.missing[code, tp] = count + 1, min(least, offset), max(most, offset)

    def right(self, count: int) -> None:
        """Records that stand once in the table of a type, with all that they hold."""
        self.kinds["once"] += count
        self.checked += count
        self.contents += count

    def differs(self, code: int, place: Place, places: Sequence[Difference]) -> None:
        """A row whose contents are not its record's: the first place that differs, and how many do."""
        self.differing.append((code, place, places[0], len(places)))
        if len(self.differing) > 2 * BAD_OFFSETS_MAX:
            self.differing = sorted(self.differing, key=lambda one: one[:2])[:EXAMPLES_MAX]

    def join(self, other: AuditTally) -> None:
        """Add what was counted of other offsets."""
        self.kinds += other.kinds
        self.taken_out += other.taken_out
        for name in ("checked", "dead_letters", "twins", "contents", "skipped"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, some in other.bad.items():
            self.bad[kind] = _first([*self.bad.get(kind, []), *some])
        for key, (count, least, most) in other.missing.items():
            mine = self.missing.get(key, (0, least, most))
            self.missing[key] = count + mine[0], min(least, mine[1]), max(most, mine[2])
        self.differing += other.differing

    def _taken_out_of(self, code: int) -> str:
        """The table whose filter takes records out, or what they are that no table gets to see."""
        table = sifted_from(code)
        if table is not None:
            return self.names[table]
        return TOMBSTONES if code == FILTERED else NO_TABLE

    def report(self, topics: tuple[str, ...], columns: Mapping[str, tuple[str, ...]]) -> AuditReport:
        """columns: of each table, those that were compared."""
        names = self.names
        bad = [
            BadOffset(kind, names[code], *place, other=names[other])
            for kind in FINDINGS
            for code, place, other in _first(self.bad.get(kind, []))
        ]
        missing = [
            Missing(names[code], tp.topic, tp.partition, count, least, most)
            for (code, tp), (count, least, most) in self.missing.items()
        ]
        differing = [
            Differing(names[code], *place, *first, places)  # type: ignore[arg-type]  # its row has a place
            for code, place, first, places in sorted(self.differing, key=lambda one: one[:2])[:EXAMPLES_MAX]
        ]
        taken_out = Counter(self.taken_out)
        wanted: dict[str, Any] = {name: self.kinds[name] for name in (*FINDINGS, *OTHERS)}
        return AuditReport(
            topics,
            checked=self.checked,
            dead_letters=self.dead_letters,
            replaying=self.twins,
            filtered=taken_out.pop(TOMBSTONES, 0),
            unrouted=taken_out.pop(NO_TABLE, 0),
            filtered_by_table=dict(sorted(taken_out.items())),
            examples=examples(bad, EXAMPLES_MAX),
            missing_by_table=tuple(sorted(missing, key=lambda one: (one.table, one.topic, one.partition))),
            contents=self.contents,
            contents_skipped=self.skipped,
            differing=tuple(differing),
            checked_columns=columns,
            **wanted,
        )


def _first(bad: list[tuple[int, Place, int]]) -> list[tuple[int, Place, int]]:
    """The first offsets of a kind."""
    return sorted(bad, key=lambda one: (one[0], [(part is not None, part) for part in one[1]]))[:BAD_OFFSETS_MAX]
