"""The drill's report: one HTML file that needs nothing else, from the book alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.display.html import Cell, Html, join, page, paragraph, table
from exporter.display.plots import Lane, PlottedMark, PlottedSpan, columns, timeline
from exporter.drill.record import PARTS, Book, RunRecord, recoveries, summary

COLUMNS = 16
"""Of the picture of recovery times."""
PARTS_SAY = {
    "process": "Python and its imports, Spark's launcher",
    "jvm": "the JVM, until Spark begins in it",
    "spark": "Spark",
    "join": "until the group has given it partitions (a killed member's session has to end)",
    "positions": "positions, read back from the tables and compared with the log",
    "round": "the first round of records, read and staged",
    "commit": "the first commit",
}


def as_html(book: Book) -> str:
    """The report of all runs as one page."""
    told = summary(book.runs)
    verdict = f"{told['clean']} of {told['runs']} runs clean; nothing lost, nothing doubled"
    if told["failed"]:
        verdict = f"{len(told['failed'])} of {told['runs']} runs are not clean"
    head = paragraph(verdict, "bad" if told["failed"] else "")
    sections = [
        ("Scenarios", _scenarios(book.runs)),
        ("From kill -9 to the first new commit", _recovery(book.runs)),
        *((f"The worst run: {one.scenario} {one.run}", _story(one)) for one in _worst(book.runs)),
        ("Environment", table(("what", "version"), sorted(book.environment.items()))),
    ]
    if book.failed_before:
        rows = [(one.scenario, one.run, one.failure) for one in book.failed_before]
        sections.insert(1, ("Not clean before, done again", table(("scenario", "run", "why"), rows)))
    return page(f"Drill, seed {book.seed}", sections, join([head, _totals(book.runs)]))


def _totals(runs: Sequence[RunRecord]) -> Html:
    told = summary(runs)
    return paragraph(
        f"{told['lives']} lives of exporters, {told['strikes']} strikes ({told['kills']} kill -9), {told['records']:,} "
        f"records, {told['reread']:,} read again, {told['commits']:,} commits, {told['refused']} refused, "
        f"{told['checks']} naive checks, {told['audits']} audits, {told['minutes']} minutes",
        "faint",
    )


def _scenarios(runs: Iterable[RunRecord]) -> Html:
    names = ("scenario", "run", "clean", "s", "records", "read again", "strikes", "recovered, s", "refused", "orphans")
    rows: list[tuple[Cell, ...]] = []
    for one in runs:
        secs = [strike.recovered_secs for strike in one.strikes if strike.recovered_secs is not None]
        clean: Cell = "yes" if one.ok else Html('<span class="bad">no</span>')
        spread = " - ".join(dict.fromkeys(f"{found(secs):.1f}" for found in (min, max))) if secs else None
        rows.append(
            (
                one.scenario,
                one.run,
                clean,
                round(one.secs),
                one.records,
                one.reread,
                len(one.strikes),
                spread,
                one.refused,
                one.orphans,
            )
        )
    failures = [paragraph(f"{one.scenario} {one.run}: {one.failure}", "bad") for one in runs if not one.ok]
    return join([*failures, table(names, rows)])


def _recovery(runs: Sequence[RunRecord]) -> Html:
    secs = [one.recovered_secs for one in recoveries(runs, kills_only=True) if one.recovered_secs is not None]
    if not secs:
        return paragraph("no task was killed and recovered from", "faint")
    width = max(1.0, max(secs) / COLUMNS)
    bins = dict.fromkeys(range(int(max(secs) // width) + 1), 0.0)
    for one in secs:
        bins[int(one // width)] += 1
    told = summary(runs)
    spread = ", ".join(f"{name} {value} s" for name, value in told["recovery_secs"].items())
    medians = told["recovery_parts_median_secs"]
    parts = [(part, medians[part], PARTS_SAY[part]) for part in PARTS if part in medians]
    return join(
        [
            paragraph(f"{len(secs)} recoveries: {spread}. A start that was struck again before its commit counts not."),
            columns([(f"{n * width:.0f} s", {"recoveries": count}) for n, count in bins.items()], "how often how long"),
            table(("part", "median s", "what it is"), parts),
        ]
    )


def _worst(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """One that is not clean, else the one with the longest recovery; none without runs."""
    bad = [one for one in runs if not one.ok]
    slow = sorted(runs, key=lambda one: max((s.recovered_secs or 0.0 for s in one.strikes), default=0.0))
    return (bad or slow)[-1:]


def _story(record: RunRecord) -> Html:
    """Who owned what, which commits landed or were refused."""
    lanes = [_lane(record, task) for task in dict.fromkeys(mark.task for mark in record.marks)]
    schedule = [paragraph(f"drawn: {'; '.join(record.schedule)}", "faint")] if record.schedule else []
    picture = timeline(lanes, "seconds since the run began; a lane for each task", lambda at: f"{at:.1f} s")
    return join([*schedule, picture])


def _lane(record: RunRecord, task: str) -> Lane:
    """Spans: the task lives, and owns partitions. Marks: commits; in the colour of trouble strikes and refusals."""
    mine = [mark for mark in record.marks if mark.task == task]
    end = max((mark.at for mark in mine if mark.kind in ("strike", "end")), default=mine[-1].at)
    end = max(end, mine[-1].at)
    spans: list[PlottedSpan] = []
    since, owned = mine[0].at, frozenset[str]()
    for mark in mine:
        if mark.kind not in ("owns", "gives"):
            continue
        spans.append(_span(since, mark.at, owned))
        since, owned = mark.at, owned | {mark.text} if mark.kind == "owns" else owned - {mark.text}
    spans.append(_span(since, end, owned))
    marks = [
        PlottedMark(mark.at, f"{mark.kind} {mark.text}".strip(), mark.kind in ("strike", "refused"))
        for mark in mine
        if mark.kind in ("commit", "strike", "refused", "end")
    ]
    return Lane(task, [span for span in spans if span.end > span.start], marks)


def _span(start: float, end: float, owned: frozenset[str]) -> PlottedSpan:
    numbers = sorted(int(name.rpartition("-")[2]) for name in owned)
    shown = "+".join(map(str, numbers))
    return PlottedSpan(start, end, f"owns {shown}" if numbers else "owns nothing", shown)
