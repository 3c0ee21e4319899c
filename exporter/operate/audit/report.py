"""What an audit found, as a value: totals, tables, examples; as text lines and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

FINDINGS = ("missing", "twice", "wrong_table", "unfiltered", "different", "foreign", "outside")
"""Verdicts on one offset that are findings.

missing: at or below the positions and in no table. twice: more than one row, in one or several tables.
wrong_table: in a table that neither its type nor the dead letters account for. unfiltered: in a table or the dead
letters, though it is only to be counted. different: values, contents, day or dead-letter bytes are not the record's.
foreign: a row without a record of the topic. outside: a row at an offset that its table does not claim to cover (beyond
its position, or before its anchor).
"""
EXAMPLES_MAX = 20
RANGES_MAX = 12
"""Offset ranges shown in one example."""

_LABELS = {
    "missing": "missing",
    "twice": "twice",
    "wrong_table": "in another table",
    "unfiltered": "in a table, but only to be counted",
    "different": "different values",
    "foreign": "row without a record",
    "outside": "outside the table's position",
}


@dataclass(frozen=True)
class BadOffset:
    """One offset with a finding. table: where it is, or should be if it is nowhere; topic, partition, offset None:
    the row has no such coordinate. other: the second table of a record that is twice, or the table it should be in."""

    kind: str
    table: str
    topic: str | None
    partition: int | None
    record_offset: int | None
    other: str = ""


@dataclass(frozen=True)
class Example:
    """Some findings of one kind, table and topic partition. offsets: compressed, '17..20, 25'."""

    kind: str
    table: str
    topic: str | None
    partition: int | None
    offsets: str
    other: str = ""

    def __str__(self) -> str:
        where = f"{self.table} {_partition(self.topic, self.partition)}: {self.offsets}"
        says = {"twice": f"also in {self.other}", "wrong_table": f"expected in {self.other}"}.get(self.kind, "")
        return f"{_LABELS.get(self.kind, self.kind)}: {where}" + (f" ({says})" if says and self.other else "")


@dataclass(frozen=True)
class Differing:
    """A row whose contents are not its record's: where first, and at how many places.

    path: in the value, `$.items[0].at`. in_topic, in_table: what stands there; of a long value the beginning alone.
    """

    table: str
    topic: str
    partition: int
    record_offset: int
    path: str
    in_topic: str
    in_table: str
    places: int

    def __str__(self) -> str:
        where = f"{self.table} {_partition(self.topic, self.partition)}: {self.record_offset} {self.path}"
        more = f" (and {self.places - 1} more)" if self.places > 1 else ""
        return f"contents: {where}: {self.in_topic} in the topic, {self.in_table} in the table{more}"


@dataclass(frozen=True)
class Missing:
    """The offsets of one table and topic partition that are missing: how many, the first and the last."""

    table: str
    topic: str
    partition: int
    count: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True)
class AbsentFile:
    """A live file that is not on disk with its size. first/last_offset: of its rows, as far as its tags tell.

    day: what the table is cut by, of this file.
    """

    table: str
    path: str
    day: str
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    why: Literal["absent", "another size"] = "absent"

    def __str__(self) -> str:
        offsets = "offsets unknown"
        if self.last_offset is not None:
            first = "?" if self.first_offset is None else self.first_offset
            offsets = f"{_partition(self.topic, self.partition)}, offsets {first}..{self.last_offset}"
        return f"live file {self.why}: {self.table}/{self.path} ({offsets})"


@dataclass(frozen=True)
class TableCount:
    """What a table holds at the audited version. days: into how many it is cut, be they hours, months or values."""

    event_type: str
    rows: int
    files: int
    days: int
    version: int


@dataclass(frozen=True)
class AuditReport:
    """Counts are offsets unless the name says otherwise.

    checked: records of the topics that were compared. pending: beyond the position of their table; no finding.
    dead_letters: of the `once`. before_first: below the recorded first position, still in the log. left_out: below the
    offsets from which on it was asked for. next_since: what `--since` takes to go on after this audit.
    gone: rows whose record is no longer in its topic (compacted, expired); no finding. aged: records without a row
    whose table says that it keeps none of their time any more (`retention_days`); no finding. erased: records without a
    row that were erased (`exporter erase`); no finding.
    replaying: rows still in the dead letters though a replay has put them into their table; they count as the table's.
    unchecked: records whose routing configuration is not recorded or cannot be read. filtered: tombstones that are to
    be counted and to stand in no table; unrouted: the same of records whose event type no table takes;
    filtered_by_table: of those that the filter of a table takes out of it. contents: rows whose columns and `_rescued`
    were compared with the whole value; contents_skipped: it is too long for that, or its schema is not decided.
    A record that several tables take is checked once, and counts for each of them in the other numbers.
    """

    topics: tuple[str, ...]
    checked: int = 0
    once: int = 0
    missing: int = 0
    twice: int = 0
    wrong_table: int = 0
    unfiltered: int = 0
    different: int = 0
    foreign: int = 0
    outside: int = 0
    pending: int = 0
    dead_letters: int = 0
    before_first: int = 0
    left_out: int = 0
    next_since: str = ""
    gone: int = 0
    aged: int = 0
    erased: int = 0
    unchecked: int = 0
    filtered: int = 0
    unrouted: int = 0
    filtered_by_table: Mapping[str, int] = field(default_factory=dict)
    replaying: int = 0
    contents: int = 0
    contents_skipped: int = 0
    absent_files: int = 0
    absent: tuple[AbsentFile, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    missing_by_table: tuple[Missing, ...] = ()
    differing: tuple[Differing, ...] = ()
    tables: tuple[TableCount, ...] = ()
    checked_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    secs: float = 0.0

    @property
    def findings(self) -> int:
        """Offsets with a finding, absent files and problems of whole tables or partitions."""
        return sum(int(getattr(self, kind)) for kind in FINDINGS) + self.absent_files + len(self.problems)

    @property
    def clean(self) -> bool:
        return self.findings == 0

    def as_dict(self) -> dict[str, object]:
        """The report ready for JSON, the totals first."""
        return {"clean": self.clean, **asdict(self)}

    def as_text(self) -> str:
        """Plain lines: tables, totals, findings with examples, verdict."""
        width = max([len("event type"), *(len(row.event_type) for row in self.tables)])
        lines = [f"{'event type':{width}}  {'rows':>10}  {'files':>6}  {'days':>5}"]
        lines += [f"{t.event_type:{width}}  {t.rows:>10}  {t.files:>6}  {t.days:>5}" for t in self.tables]
        of = f"topic {self.topics[0]}" if len(self.topics) == 1 else f"topics {', '.join(self.topics) or '-'}"
        lines += ["", f"{of}: {self.checked} records checked in {self.secs:.1f} s"]
        lines.append(
            f"  once {self.once} (dead letters {self.dead_letters}), pending {self.pending}, "
            f"before the first position {self.before_first}, gone from the topic {self.gone}"
        )
        if self.contents or self.contents_skipped:
            long = f", {self.contents_skipped} cannot be" if self.contents_skipped else ""
            lines.append(f"  contents compared whole: {self.contents}{long}")
        lines += [f"  {_LABELS[kind]} {getattr(self, kind)}" for kind in FINDINGS if getattr(self, kind)]
        if self.left_out:
            lines.append(f"  left out {self.left_out}, before --since: of these, and of their rows, nothing is said")
        lines += [f"  aged out of their tables {self.aged}"] if self.aged else []
        lines += [f"  erased {self.erased}"] if self.erased else []
        lines += [f"  live files absent {self.absent_files}"] if self.absent_files else []
        lines += [f"  not checked {self.unchecked}"] if self.unchecked else []
        lines += [f"  tombstones, which are in no table {self.filtered}"] if self.filtered else []
        lines += [f"  records that no table takes {self.unrouted}"] if self.unrouted else []
        lines += [f"  filtered from {table} {count}" for table, count in self.filtered_by_table.items()]
        if self.replaying:
            lines.append(
                f"note: {self.replaying} dead letters are in their tables as well, a replay was interrupted: "
                "`exporter dead-letters replay --apply` takes them out"
            )
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"finding: {text}" for text in (*self.problems, *map(str, self.absent), *map(str, self.examples))]
        lines += [f"finding: {text}" for text in map(str, self.differing)]
        each = "each offset that was looked at" if self.left_out else "each offset"
        lines.append(f"{each} is where it must be exactly once" if self.clean else f"findings: {self.findings}")
        return "\n".join(lines)


def _partition(topic: str | None, partition: int | None) -> str:
    return "-" if topic is None and partition is None else f"{topic or '?'}-{'?' if partition is None else partition}"


def compress(offsets: Iterable[int], ranges_max: int = RANGES_MAX) -> str:
    """17, 18, 19, 20, 25 -> '17..20, 25'; what is beyond `ranges_max` ranges is left out and said so."""
    ranges: list[list[int]] = []
    for one in sorted(set(offsets)):
        if ranges and one == ranges[-1][1] + 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    shown = [f"{first}" if first == last else f"{first}..{last}" for first, last in ranges[:ranges_max]]
    return ", ".join(shown) + (", ..." if len(ranges) > ranges_max else "")


def examples(found: Iterable[BadOffset], examples_max: int = EXAMPLES_MAX) -> tuple[Example, ...]:
    """Findings grouped by kind, table and topic partition; every kind gets its share of `examples_max`."""
    groups: dict[tuple[str, str, str | None, int | None, str], list[int]] = {}
    for bad in found:
        offsets = groups.setdefault((bad.kind, bad.table, bad.topic, bad.partition, bad.other), [])
        if bad.record_offset is not None:
            offsets.append(bad.record_offset)
    by_kind: dict[str, list[Example]] = {}
    for (kind, table, topic, partition, other), offsets in groups.items():
        shown = compress(offsets) if offsets else "no offset"
        by_kind.setdefault(kind, []).append(Example(kind, table, topic, partition, shown, other))
    ordered: list[Example] = []
    for rank in range(max((len(some) for some in by_kind.values()), default=0)):
        ordered += [by_kind[kind][rank] for kind in FINDINGS if rank < len(by_kind.get(kind, []))]
    return tuple(sorted(ordered[:examples_max], key=lambda example: FINDINGS.index(example.kind)))
