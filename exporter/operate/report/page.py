"""What `exporter report` shows: facts in, one HTML page out. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING

from exporter.core.routing import DEAD_LETTERS
from exporter.core.standing import TableStanding
from exporter.display.html import Html, bars, join, page, paragraph, table, verdict
from exporter.display.plots import BINARY, BINS, SECONDS, columns, lines, over_time
from exporter.display.style import COLOURS
from exporter.display.units import moment, secs_span, size, sums
from exporter.operate.report.model import DayFiles, Facts, FailedCommit, Happened
from exporter.operate.report.verdict import report_concerns

if TYPE_CHECKING:
    from exporter.operate.dead_letters.listing import DeadLetterCount

VERSIONS_MAX = 500
"""Newest commits of each table that are looked at."""
DAYS_MAX = 60
"""Days of the calendar that the plots show, up to the newest with files."""
FAILED_MAX = 50
FAILED = "failed"
BARS_MAX = 40
OTHERS = "others"
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


def report_page(facts: Facts) -> str:
    """The whole report as one page of HTML."""
    head = [paragraph(f"{facts.root}, {facts.made_at:%Y-%m-%d %H:%M:%S} UTC", "faint")]
    lag = [place.behind for place in facts.places if place.behind is not None]
    dead = sum(count.rows for count in facts.dead_letters)
    types = len({place.event_type for place in facts.places})
    summary = f"{types:,} tables, {sum(day.files for day in facts.days):,} files of "
    summary += f"{size(sum(day.bytes for day in facts.days))}, {dead:,} dead letters in them"
    head.append(paragraph(f"{summary}, a consumer lag of {max(lag):,} offsets at most" if lag else summary))
    head.insert(1, verdict(report_concerns(facts)))
    sections = [
        ("Lag", join([_ages(facts.happened), _lag(facts.places)])),
        ("Commits", _commits(facts.happened, facts.failed)),
        ("Files per event day", _files(facts.days)),
        ("Dead letters", join([_dead_letters(facts.dead_letters), _new_dead_letters(facts.happened)])),
        ("Positions", _positions(facts.places)),
    ]
    return page(f"Export {facts.app}", sections, join(head))


def _lag(places: Sequence[TableStanding]) -> Html:
    known = [(f"{one.event_type}, {one.tp}", one.behind) for one in places if one.behind is not None]
    if not known:
        return paragraph("the ends of the topics are not known", "faint")
    behind = sorted(((label, lag) for label, lag in known if lag), key=lambda item: -item[1])
    if not behind:
        return paragraph(f"none: all {len(known):,} tables and partitions have what was in the topics")
    says = paragraph("Offsets between each table's position and the end of the partition, the furthest first.", "faint")
    return join([says, bars(behind, most=BARS_MAX)])


def _ages(happened: Sequence[Happened]) -> Html:
    """How late records came into the tables, commit by commit: of the commits of one column the latest."""
    aged = [(one.at_ms, max(0.0, (one.at_ms - one.oldest_ms) / 1000)) for one in happened if one.oldest_ms is not None]
    if not aged:
        return paragraph("How old the records were that commits brought is not known.", "faint")
    first, last = min(at for at, _ in aged), max(at for at, _ in aged)
    width, greatest = max(1.0, (last - first + 1) / BINS), dict[int, tuple[int, float]]()
    for at, secs in aged:
        column = int((at - first) / width)
        greatest[column] = max(greatest.get(column, (at, -1.0)), (at, secs), key=lambda found: found[1])
    caption = "Age of the oldest record as it was committed"
    return lines({"": [*greatest.values()]}, caption, moment, secs_span, base=SECONDS)


def _commits(happened: Sequence[Happened], failed: Sequence[FailedCommit] | None) -> Html:
    events = [(one.at_ms, one.event_type, one.outcome) for one in happened]
    events += [(one.at_ms, one.event_type, FAILED) for one in failed or ()]
    if not events:
        return join([paragraph("none", "faint"), _failures(failed)])
    first, last = min(at for at, _, _ in events), max(at for at, _, _ in events)
    by_table: dict[str, Counter[str]] = defaultdict(Counter)
    for _, event_type, outcome in events:
        by_table[event_type][outcome] += 1
    kinds = [kind for kind, _ in Counter(outcome for _, _, outcome in events).most_common()]
    counted = [(float(at), outcome, 1.0) for at, _, outcome in events]
    rows = sums((one.event_type, one.rows) for one in happened)
    return join(
        [
            over_time(counted, "Commits by outcome", moment, (first, last), {FAILED}),
            _progress(happened, rows, first, last),
            table(
                ("table", "rows added", *kinds),
                [
                    (name, rows.get(name, 0), *(counts[kind] for kind in kinds))
                    for name, counts in sorted(by_table.items())
                ],
            ),
            paragraph(
                f"Rows added: by the newest {VERSIONS_MAX} commits of each table, as far as its log goes back. A table "
                "holds more where it is older, and less where rows were taken out since: dead letters that were "
                "replayed, for example, still count as added here and no longer stand among the dead letters below.",
                "faint",
            ),
            _failures(failed),
        ]
    )


def _failures(failed: Sequence[FailedCommit] | None) -> Html:
    """The newest commits that never landed."""
    if failed is None:
        return paragraph("Which commits failed is not known: only a write-ahead log remembers them.", "faint")
    if not failed:
        return paragraph("No commit failed, as far as the write-ahead log goes back.", "faint")
    newest = sorted(failed, key=lambda one: -one.at_ms)
    rows = [
        (one.event_type, moment(one.at_ms), str(one.tp), f"{one.offsets[0]} to {one.offsets[1]}", one.rows, one.owner)
        for one in newest
    ]
    says = "Commits that never landed, the newest first; another task was faster, or the table or the storage refused "
    says += "them. What they held was read again, here or by that task: none of it is lost."
    headers = ("table", "begun", "partition", "offsets", "rows", "task")
    return join([paragraph(says, "faint"), table(headers, rows, most=FAILED_MAX)])


def _progress(happened: Sequence[Happened], rows: Mapping[str, int], first: float, last: float) -> Html:
    """Rows committed so far, table by table, over the time that is shown."""
    shown = sorted([name for name, count in rows.items() if count][:COLOURS])
    series: dict[str, list[tuple[float, float]]] = {name: [(first, 0.0)] for name in shown}
    for one in sorted(happened, key=lambda one: one.at_ms):
        if one.event_type in series and one.rows:
            so_far = series[one.event_type][-1][1]
            series[one.event_type].append((float(one.at_ms), so_far + one.rows))
    for name, points in series.items():
        points.append((last, float(rows[name])))
    return lines(series, "Rows committed in this time, the largest tables", moment, steps=True)


def _files(days: Sequence[DayFiles]) -> Html:
    calendar = _calendar(one.day for one in days)
    on_it = set(calendar)
    shown = [one for one in days if one.day in on_it]
    kinds = _largest(shown)
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
            columns(_stacked(shown, calendar, kinds, lambda one: one.files), "Live files per event day"),
            columns(_stacked(shown, calendar, kinds, lambda one: one.bytes), "Their size", size, base=BINARY),
            *_left_out([one for one in days if one.day not in on_it]),
            table(("table", "days", "files", "size", "mean file", "event days"), rows),
        ]
    )


def _calendar(days: Iterable[str]) -> list[str]:
    """Every day from the earliest of them to the newest, but for so many; those without a file are gaps in a plot."""
    known = {day for day in days if _DAY.match(day)}
    if not known:
        return []
    newest, earliest = date.fromisoformat(max(known)), date.fromisoformat(min(known))
    count = min(DAYS_MAX, (newest - earliest).days + 1)
    return [(newest - timedelta(back)).isoformat() for back in range(count - 1, -1, -1)]


def _left_out(days: Sequence[DayFiles]) -> list[Html]:
    """What the plots do not show. days: all that lie on no day of the calendar."""
    earlier, dayless = [one for one in days if _DAY.match(one.day)], [one for one in days if not _DAY.match(one.day)]
    says = []
    if earlier:
        files, first = sum(one.files for one in earlier), min(one.day for one in earlier)
        says.append(f"Not shown: files of earlier days: {files:,}, from {first} on.")
    if dayless:
        says.append(f"Files without an event day: {sum(one.files for one in dayless):,}.")
    return [paragraph(one, "faint") for one in says]


def _largest(days: Sequence[DayFiles]) -> list[str]:
    """The tables that get a colour of their own, in both plots the same; all the others share one."""
    totals = sums((one.event_type, one.bytes) for one in days)
    if len(totals) <= COLOURS:
        return sorted(totals)
    return [*sorted(list(totals)[: COLOURS - 1]), OTHERS]


def _stacked(
    days: Sequence[DayFiles], calendar: Sequence[str], kinds: Sequence[str], value: Callable[[DayFiles], float]
) -> list[tuple[str, dict[str, float]]]:
    """Per day of the calendar the value of each kind."""
    found: dict[str, dict[str, float]] = {day: dict.fromkeys(kinds, 0.0) for day in calendar}
    for one in days:
        found[one.day][one.event_type if one.event_type in kinds else OTHERS] += value(one)
    return list(found.items())


def _dead_letters(dead_letters: Sequence[DeadLetterCount]) -> Html:
    if not dead_letters:
        return paragraph("none", "faint")
    reasons: Counter[str] = Counter()
    by_type: Counter[tuple[str, str]] = Counter()
    days: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in dead_letters:
        key = one.event_type or "-", one.code
        reasons[one.code] += one.rows
        by_type[key] += one.rows
        days[key].add(one.day)
    rows = [(*key, count, f"{min(days[key])} to {max(days[key])}") for key, count in by_type.most_common()]
    says = paragraph("Rows that stand in dead_letters now, by the Kafka timestamp's day.", "faint")
    made = table(("event type", "reason", "rows", "days"), rows)
    return join([says, bars(reasons.most_common(), most=BARS_MAX), made])


def _new_dead_letters(happened: Sequence[Happened]) -> Html:
    """Dead letters over the time of all commits."""
    dead_letters = (one for one in happened if one.event_type == DEAD_LETTERS)
    brought = [(float(one.at_ms), "dead letters", float(one.rows)) for one in dead_letters]
    if not any(rows for _, _, rows in brought):
        return paragraph("No commit that is shown has brought any.", "faint")
    within = min(one.at_ms for one in happened), max(one.at_ms for one in happened)
    return over_time(brought, "Dead letters committed", moment, within, {"dead letters"})


def _positions(places: Sequence[TableStanding]) -> Html:
    rows = [(one.event_type, str(one.tp), *one.at, one.end, one.behind) for one in places]
    return table(("table", "partition", "position", "epoch", "end", "lag"), rows, most=1000)
