"""The page of a task that runs: what its /status says, drawn, and charts of its last hour. Pure.

A pure function of what /status serves, so that it shows nothing else. The page brings itself up to date: its one
script asks for the same page again and takes over what is new.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exporter.display.html import Cell, Html, join, page, paragraph, table, tiles, verdict
from exporter.display.plots import lines, over_time
from exporter.display.status import (
    behind,
    beside,
    complete_lines,
    concerns,
    day_time,
    first_line,
    goals,
    headline_of,
    of_rounds,
    since_start,
    tables_of,
    times,
    under_way,
    unknown,
)
from exporter.display.units import clock, secs_span, size

ROWS_MAX = 100
"""Of each table: those that are furthest behind."""
REFRESH_MS = 5000
LOST = "The task does not answer: what stands here is of the time above. It is asked again and again."

# Where nothing is new nothing is touched; what is selected, scrolled to or unfolded stays.
SCRIPT = """
const lost = document.getElementById("lost");
const kept = () => [...document.querySelectorAll(".wide")].map(one => one.scrollLeft);
async function again() {
  if (document.hidden || getSelection().type === "Range") return;
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(PERIOD) });
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const from = next.querySelector("main"), to = document.querySelector("main");
    if (!from) throw new Error("no page");
    lost.hidden = true;
    document.title = next.title;
    if (from.innerHTML === to.innerHTML) return;
    const scrolled = kept();
    to.replaceWith(from);
    document.querySelectorAll(".wide").forEach((one, at) => { one.scrollLeft = scrolled[at] || 0; });
  } catch (error) {
    lost.hidden = false;
  }
}
setInterval(again, PERIOD);
document.addEventListener("visibilitychange", again);
""".replace("PERIOD", str(REFRESH_MS))


@dataclass(frozen=True)
class Point:
    """One moment. at_ms: since 1970. lag: offsets, None if unknown; the others are sums since the task began."""

    at_ms: int
    lag: int | None
    records: int
    committed: int
    dead_letters: int


def live_page(status: Mapping[str, Any], points: Sequence[Point]) -> str:
    """The whole page. points: the oldest first."""
    title, at = f"Export {status.get('app', '')}", status.get("at_ms")
    head = [verdict(concerns(status), under_way(status)), paragraph(first_line(status))]
    if at is not None:
        up = f"task {status['owner']}, up for {secs_span(status['up_secs'])}, as of {day_time(at)} UTC"
        head = [paragraph(up, "faint"), *head, tiles(_figures(status, points))]
    head += [paragraph(line, "faint") for line in (*since_start(status), *complete_lines(status))]
    tab = f"{title}: {headline_of(status)}"
    return page(title, _sections(status, points), join(head), tab, Html(f'<p id="lost" hidden>{LOST}</p>'), SCRIPT)


def _figures(status: Mapping[str, Any], points: Sequence[Point]) -> Iterator[tuple[str, Cell]]:
    """The figures of the tiles, with their names."""
    rates = _rates(points)
    dark = unknown(status)
    yield "consumer lag, records", None if dark else behind(status, goals(status))
    yield "records read a second", round(rates[-1][1]) if rates else None
    yield "rows committed", status["rows_committed"]
    yield "dead letters", status["dead_letters"]
    yield "tables", len(status["tables"])


def _sections(status: Mapping[str, Any], points: Sequence[Point]) -> Iterator[tuple[str, Html]]:
    if points:
        yield "The last hour", _hour(points)
    if "positions" not in status:
        return
    yield "Tables", _tables(status)
    yield "Partitions", _partitions(status)
    lines_ = [*beside(status)]
    if coordination := status.get("coordination"):
        lines_.append(of_rounds(coordination))
    if lines_:
        yield "Beside the export", join(paragraph(line) for line in lines_)
    if spent := status.get("secs"):
        yield "Where the time went", paragraph(times(spent))


def _hour(points: Sequence[Point]) -> Html:
    """Charts over the points of the last hour."""
    known = [(float(one.at_ms), float(one.lag)) for one in points if one.lag is not None]
    return join(
        [
            lines({"lag": known}, "Consumer lag, records", clock),
            lines({"read": _rates(points)}, "Records read a second", clock),
            _dead_letters(points),
        ]
    )


def _rates(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Records read a second, from one point to the next."""
    return [
        (float(one.at_ms), max(0.0, (one.records - before.records) * 1000 / (one.at_ms - before.at_ms)))
        for before, one in itertools.pairwise(points)
        if one.at_ms > before.at_ms
    ]


def _dead_letters(points: Sequence[Point]) -> Html:
    """New dead letters over the time of the points."""
    new = [
        (float(one.at_ms), "dead letters", float(one.dead_letters - before.dead_letters))
        for before, one in itertools.pairwise(points)
        if one.dead_letters > before.dead_letters
    ]
    if not new:
        return paragraph("No dead letter in this time.", "faint")
    within = float(points[0].at_ms), float(points[-1].at_ms)
    return over_time(new, "New dead letters", clock, within, {"dead letters"})


def _tables(status: Mapping[str, Any]) -> Html:
    found = sorted(tables_of(status), key=lambda one: -(one.behind or 0))
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        staged = None if one.staged_bytes is None else size(one.staged_bytes)
        rows.append((one.name, one.behind, one.staged_rows, staged, one.complete))
    return table(("table", "lag", "staged rows", "staged", "complete through, UTC"), rows, ROWS_MAX)


def _partitions(status: Mapping[str, Any]) -> Html:
    """Those that are furthest behind."""
    found = sorted(status["partitions"], key=lambda one: -(one["lag"] or 0))
    rows = [
        (
            f"{one['topic']}-{one['partition']}", one["lag"],
            None if one["lag_secs"] is None else secs_span(one["lag_secs"]), _plain(one["committed"]),
            _plain(one["read"]), _plain(one["end"]), one["verdict"],
        )
        for one in found
    ]  # fmt: skip
    return table(("partition", "lag", "oldest", "committed", "read", "end", "verdict"), rows, ROWS_MAX)


def _plain(offset: int | None) -> str | None:
    """As flags and other tools take it."""
    return None if offset is None else str(offset)
