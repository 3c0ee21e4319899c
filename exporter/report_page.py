"""What `exporter report` shows: facts in, one HTML page out. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeVar

from exporter.html_page import COLOURS, Html, bars, columns, join, lines, page, paragraph, table
from offsets.ranges import TopicPartition

if TYPE_CHECKING:
    from exporter.letters import LetterCount

BINS = 60
"""Columns over the time that is shown."""
DAYS_MAX = 60
"""Newest event days that the plots show."""
BARS_MAX = 40
OTHERS = "others"
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Place:
    """One table and partition. position None: not anchored. end None: the broker was not asked or did not answer."""

    event_type: str
    tp: TopicPartition
    position: int | None
    epoch: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Offsets, not records."""
        return None if self.end is None else max(0, self.end - 1 - (-1 if self.position is None else self.position))


@dataclass(frozen=True)
class Happened:
    """One commit, or one that failed. outcome: with rows, empty marker, failed, or what else was done."""

    at_ms: int
    event_type: str
    outcome: str
    rows: int = 0


@dataclass(frozen=True)
class DayFiles:
    """The live files of one table and event day."""

    event_type: str
    day: str
    files: int
    bytes: int


@dataclass(frozen=True)
class Facts:
    """All that the page tells. notes: what could not be asked or is left out."""

    app: str
    root: str
    made_at: datetime
    places: Sequence[Place] = ()
    happened: Sequence[Happened] = ()
    days: Sequence[DayFiles] = ()
    letters: Sequence[LetterCount] = ()
    notes: Sequence[str] = ()


def report_page(facts: Facts) -> str:
    """The whole page."""
    head = [paragraph(f"{facts.root}, {facts.made_at:%Y-%m-%d %H:%M:%S} UTC", "faint")]
    lag = [place.lag for place in facts.places if place.lag is not None]
    dead = sum(count.rows for count in facts.letters)
    types = len({place.event_type for place in facts.places})
    summary = f"{types:,} tables, {sum(day.files for day in facts.days):,} files of "
    summary += f"{size(sum(day.bytes for day in facts.days))}, {dead:,} dead letters"
    head.append(paragraph(f"{summary}, at most {max(lag):,} offsets behind" if lag else summary))
    head += [paragraph(note, "bad") for note in facts.notes]
    sections = [
        ("Lag", _lag(facts.places)),
        ("Commits", _commits(facts.happened)),
        ("Files per event day", _files(facts.days)),
        ("Dead letters", _letters(facts.letters)),
        ("Positions", _positions(facts.places)),
    ]
    return page(f"Export {facts.app}", sections, join(head))


def _lag(places: Sequence[Place]) -> Html:
    known = [(f"{one.event_type}, {one.tp}", one.lag) for one in places if one.lag is not None]
    if not known:
        return paragraph("the ends of the topics are not known", "faint")
    behind = sorted(((label, lag) for label, lag in known if lag), key=lambda item: -item[1])
    if not behind:
        return paragraph(f"none: all {len(known):,} tables and partitions have what was in the topics")
    says = paragraph("Offsets between each table's position and the end of the partition, the furthest first.", "faint")
    return join([says, bars(behind, most=BARS_MAX)])


def _commits(happened: Sequence[Happened]) -> Html:
    if not happened:
        return paragraph("none", "faint")
    first, last = min(one.at_ms for one in happened), max(one.at_ms for one in happened)
    width = max(1.0, (last - first + 1) / BINS)
    counted: list[Counter[str]] = [Counter() for _ in range(BINS)]
    for one in happened:
        counted[int((one.at_ms - first) / width)][one.outcome] += 1
    order = Counter(one.outcome for one in happened).most_common()
    bins = [
        (moment(first + number * width), {kind: float(counts[kind]) for kind, _ in order})
        for number, counts in enumerate(counted)
    ]
    by_table: dict[str, Counter[str]] = defaultdict(Counter)
    rows: Counter[str] = Counter()
    for one in happened:
        by_table[one.event_type][one.outcome] += 1
        rows[one.event_type] += one.rows
    kinds = [kind for kind, _ in order]
    return join(
        [
            columns(bins, f"Commits by outcome, {span(width)} a column"),
            _progress(happened),
            table(
                ("table", "rows added", *kinds),
                [(name, rows[name], *(counts[kind] for kind in kinds)) for name, counts in sorted(by_table.items())],
            ),
        ]
    )


def _progress(happened: Sequence[Happened]) -> Html:
    """Rows committed so far, table by table."""
    totals: Counter[str] = Counter()
    for one in happened:
        totals[one.event_type] += one.rows
    shown = {name for name, rows in totals.most_common(COLOURS) if rows}
    series: dict[str, list[tuple[float, float]]] = {name: [] for name in sorted(shown)}
    so_far: Counter[str] = Counter()
    for one in sorted(happened, key=lambda one: one.at_ms):
        if one.event_type in shown and one.rows:
            so_far[one.event_type] += one.rows
            series[one.event_type].append((float(one.at_ms), float(so_far[one.event_type])))
    return lines(series, "Rows committed in this time, the largest tables", moment)


def _files(days: Sequence[DayFiles]) -> Html:
    newest = sorted({one.day for one in days})[-DAYS_MAX:]
    files = _stacked(days, newest, lambda one: one.files)
    sizes = _stacked(days, newest, lambda one: one.bytes)
    by_table: dict[str, list[DayFiles]] = defaultdict(list)
    for one in days:
        by_table[one.event_type].append(one)
    rows = []
    for name, some in sorted(by_table.items()):
        count, volume = sum(one.files for one in some), sum(one.bytes for one in some)
        span_of = f"{min(one.day for one in some)} to {max(one.day for one in some)}"
        rows.append((name, len(some), count, size(volume), size(volume / count), span_of))
    return join(
        [
            columns(files, "Live files per event day"),
            columns(sizes, "Their size", size),
            table(("table", "days", "files", "size", "mean file", "event days"), rows),
        ]
    )


def _stacked(
    days: Sequence[DayFiles], shown: Sequence[str], value: Callable[[DayFiles], float]
) -> list[tuple[str, dict[str, float]]]:
    """Per day the value of each table; all but the largest together."""
    totals: Counter[str] = Counter()
    for one in days:
        totals[one.event_type] += int(value(one))
    largest = [name for name, _ in totals.most_common(COLOURS - 1 if len(totals) > COLOURS else COLOURS)]
    largest.sort()  # as everywhere on the page, so that a table has one colour
    kinds = [*largest, *([OTHERS] if len(totals) > len(largest) else [])]
    found: dict[str, dict[str, float]] = {day: dict.fromkeys(kinds, 0.0) for day in shown}
    for one in days:
        if one.day in found:
            found[one.day][one.event_type if one.event_type in largest else OTHERS] += value(one)
    return list(found.items())


def _letters(letters: Sequence[LetterCount]) -> Html:
    if not letters:
        return paragraph("none", "faint")
    reasons = sums((count.code, count.rows) for count in letters)
    by_type = sums(((count.event_type or "-", count.code), count.rows) for count in letters)
    days = {key: [c.day for c in letters if (c.event_type or "-", c.code) == key] for key in by_type}
    rows = [(*key, count, f"{min(days[key])} to {max(days[key])}") for key, count in by_type.items()]
    return join([bars(list(reasons.items()), most=BARS_MAX), table(("event type", "reason", "rows", "days"), rows)])


def _positions(places: Sequence[Place]) -> Html:
    rows = [(one.event_type, str(one.tp), one.position, one.epoch, one.end, one.lag) for one in places]
    return table(("table", "partition", "position", "epoch", "end", "lag"), rows, most=1000)


def sums(pairs: Iterable[tuple[T, int]]) -> dict[T, int]:
    """Added up by key, the largest first."""
    found: Counter[T] = Counter()
    for key, amount in pairs:
        found[key] += amount
    return dict(found.most_common())


def size(number: float) -> str:
    """Bytes as a person reads them, never broken over two lines."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f}\u00a0{unit}" if unit == "B" else f"{number:.1f}\u00a0{unit}"
        number /= 1024
    return f"{number:,.1f}\u00a0TiB"


def moment(at_ms: float) -> str:
    """UTC, to the second."""
    return f"{datetime.fromtimestamp(at_ms / 1000, timezone.utc):%m-%d %H:%M:%S}"


def span(width_ms: float) -> str:
    """How long, in the largest unit that fits."""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if width_ms >= length:
            return f"{width_ms / length:.1f} {unit}"
    return f"{width_ms:.0f} ms"
