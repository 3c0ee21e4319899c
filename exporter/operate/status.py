"""`exporter status`: how far the export is, from a task's health server, or straight from the tables. Reads only.

A task knows its own partitions, what it has staged and how it fares; the tables know all partitions, but only what is
committed. Both come as what /status serves; from the tables some of it is missing.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from exporter.errors import DependencyUnreachable, FoundProblem
from exporter.settings.model import Settings

ANSWER_SECS = 10.0
WATCH_SECS = 2.0
SCREEN_ROWS_MIN = 5
TABLE_LINES = 4
"""What a table takes beside its rows."""
SCREEN_LINES_SPARE = TABLE_LINES + 1
"""What a screen takes beside head and rows: the table's own lines, and the one that counts what was left out."""
COLUMNS = ("event type", "partition", "committed", "read", "end", "lag", "staged", "verdict")
NUMBERS = frozenset({"committed", "read", "end", "lag", "staged"})

Status = dict[str, Any]
Goals = dict[tuple[str, int], int]
"""(topic, partition) -> the offset after the last record that has to be committed."""


def server_url(settings: Settings) -> str:
    """Of the task that these settings start; empty if it has no health server."""
    if not settings.http_port:
        return ""
    host = settings.http_host
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.http_port}"


@contextmanager
def source(settings: Settings, url: str, tables: bool) -> Iterator[Callable[[], Status]]:
    """What tells the status, again and again: the task at the url, that of the settings if it answers, or the tables.

    tables: do not ask a task. The tables need a session of Spark, which is started once. Raises DependencyUnreachable.
    """
    asked = "" if tables else url or answering(server_url(settings))
    if asked:
        yield lambda: fetch(asked)
        return
    from exporter.workbench import open_workbench  # only who needs Spark waits for its start

    with open_workbench(settings) as bench:
        yield lambda: table_status(bench, settings)


def answering(url: str) -> str:
    """The url if a task answers there, else nothing."""
    try:
        fetch(url)
    except DependencyUnreachable:
        return ""
    return url


def fetch(url: str) -> Status:
    """What a task's /status says. Raises DependencyUnreachable."""
    if not url:
        raise DependencyUnreachable("the settings name no `http_port`")
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/status", timeout=ANSWER_SECS) as answer:
            found = json.loads(answer.read())
    except (OSError, ValueError) as error:
        raise DependencyUnreachable(f"no task answers at {url}: {error}", "is it running, with `http_port`?") from error
    if not isinstance(found, dict):
        raise DependencyUnreachable(f"no task answers at {url}: that is no status")
    return {"from": url, **found}


def table_status(bench: Any, settings: Settings) -> Status:
    """The committed positions of all partitions, from the tables, and the ends, from the broker."""
    from exporter.operate.offsets_view import offset_rows

    positions = [
        {
            "event_type": row.event_type, "topic": row.tp.topic, "partition": row.tp.partition,
            "committed": None if row.position is None else row.position.offset,
            "epoch": None if row.position is None else row.position.epoch,
            "read": None, "end": row.end, "lag": row.lag,
            "staged_rows": None, "staged_bytes": None, "owner": None, "verdict": row.verdict,
        }
        for row in offset_rows(bench, settings)
    ]  # fmt: skip
    return {"from": "tables", "app": settings.app, "positions": positions}


def goals(status: Status) -> Goals:
    """The ends that the partitions have now."""
    positions = status.get("positions", ())
    return {(one["topic"], one["partition"]): one["end"] for one in positions if one["end"] is not None}


def behind(status: Status, ends: Mapping[tuple[str, int], int]) -> int:
    """How many offsets are not committed yet up to these ends, over partitions, by each one's least position.

    Partitions without any position do not count (unknown()); nor do tables that are not anchored: they begin where the
    dead letters are.
    """
    least = _committed(status)
    return sum(max(0, end - 1 - least[tp]) for tp, end in ends.items() if tp in least)


def held_back(status: Status) -> str:
    """The open transaction that has kept records from being read for longest, if a task tells of one."""
    known = [one for one in status.get("partitions", ()) if one.get("open_transaction_secs")]
    worst = max(known, key=lambda one: float(one["open_transaction_secs"]), default=None)
    if worst is None:
        return ""
    secs = worst["open_transaction_secs"]
    return f"; a transaction has been open for {secs:,.0f} s in {worst['topic']}-{worst['partition']}"


def _committed(status: Status) -> Goals:
    """(topic, partition) -> the least position of its tables, where there is one."""
    least: Goals = {}
    for one in status.get("positions", ()):
        if one["committed"] is not None:
            tp = one["topic"], one["partition"]
            least[tp] = min(one["committed"], least.get(tp, one["committed"]))
    return least


def unknown(status: Status) -> str:
    """Why it cannot be told of all partitions how far behind they are; empty if it can."""
    if "positions" not in status:
        return str(status.get("not_ready") or "it tells no positions")
    told = status["partitions" if "partitions" in status else "positions"]
    known, ends = _committed(status), {(one["topic"], one["partition"]): one["end"] for one in told}
    for what, missing in (
        ("position", [tp for tp in ends if tp not in known]), ("end", [tp for tp, end in ends.items() if end is None])
    ):  # fmt: skip
        if missing:
            return f"{len(missing)} of {len(ends)} partitions without a known {what}"
    return ""


def wait_caught_up(
    ask: Callable[[], Status],
    timeout_secs: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Status:
    """Ask until everything that is in the topics now is committed; the last answer.

    A task that does not answer or is not ready is waited for as well. Raises FoundProblem after `timeout_secs`.
    """
    deadline, ends = clock() + timeout_secs, Goals()
    while True:
        try:
            status = ask()
        except DependencyUnreachable as error:
            why = error.message
        else:
            ends = {**goals(status), **ends}
            left = behind(status, ends)
            dark = unknown(status)
            if status.get("ready", True) and not left and not dark:
                return status
            why = status.get("not_ready") or dark or f"{left:,} offsets are not committed{held_back(status)}"
        if clock() >= deadline:
            raise FoundProblem(f"not caught up after {timeout_secs:.0f} s: {why}")
        sleep(min(WATCH_SECS, max(0.1, deadline - clock())))


class Screen(Protocol):
    """A terminal. width and height: in characters and lines."""

    width: int
    height: int

    def lines(self, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: Sequence[int]) -> int:
        """How many lines a table takes on it."""


@dataclass(frozen=True)
class Page:
    """What one look at a status shows.

    numbers: the places of the columns that hold numbers. left_out: the rows without room, none of them further behind.
    """

    head: list[str]
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numbers: tuple[int, ...]
    left_out: int


def page_of(status: Status, screen: Screen | None = None) -> Page:
    """All of the status, or as much of it as the screen shows at once."""
    head = head_lines(status)
    if screen is None:
        shown, left_out = rows(status)
        return Page(head, *fitted(shown, None), left_out)
    room = max(SCREEN_ROWS_MIN, screen.height - len(head) - SCREEN_LINES_SPARE)
    shown, left_out = rows(status, room)
    page = Page(head, *fitted(shown, screen.width), left_out)
    lines = screen.lines(page.columns, page.rows, page.numbers)
    if lines > room + TABLE_LINES:  # long names take several lines each
        shown, left_out = rows(status, max(1, len(shown) * room // lines))
        page = Page(head, *fitted(shown, screen.width), left_out)
    return page


def head_lines(status: Status) -> list[str]:
    """What stands above the table: who says it, whether all is well, and through which time tables are complete."""
    total, dark = behind(status, goals(status)), unknown(status)
    how_far = f"{total:,} behind" if not dark else f"{total:,} behind and unknown" if total else "behind: unknown"
    parts = [f"app {status.get('app', '-')}", f"from {status['from']}", f"{how_far}, {dark}" if dark else how_far]
    if "owner" in status:
        parts.insert(1, f"task {status['owner']}")
    lines = [", ".join(parts)]
    if "ready" in status:
        lines.append("ready" if status["ready"] else f"NOT READY: {status['not_ready']}")
    for name, outage in status.get("outages", {}).items():
        lines.append(f"OUTAGE of {name} for {outage['secs']:.0f} s: {outage['error']}")
    if open_transaction := held_back(status):
        lines.append(f"behind{open_transaction}")
    for table in status.get("tables", ()):
        if table["parked"]:
            lines.append(f"PARKED: table {table['event_type']}: {table['parked']}")
    for table in status.get("tables", ()):
        if columns := table.get("outgrown"):
            what = "what does not fit is in _rescued, `exporter schema` counts it"
            lines.append(f"OUTGROWN: table {table['event_type']}: {', '.join(columns)}: {what}")
    left_out = [f"{name} {count:,}" for name, count in status.get("filtered", {}).items()]
    if unrouted := status.get("unrouted"):
        left_out.append(f"of no table {unrouted:,}")
    if left_out:
        lines.append(f"records left out by filters: {', '.join(left_out)}")
    lines += [_of_job(job) for job in status.get("derive", ())]
    if coordination := status.get("coordination"):
        lines.append(_of_rounds(coordination))
    lines += [_of_sink(sink) for sink in status.get("events", ())]
    complete = [table["complete_through_ms"] for table in status.get("tables", ())]
    if complete and None not in complete:
        at = datetime.fromtimestamp(min(complete) / 1000, timezone.utc)
        lines.append(f"all tables are complete through {at:%Y-%m-%d %H:%M:%S} UTC")
    valid = [table.get("valid_through") for table in status.get("tables", ())]
    if any(valid):
        unsaid = valid.count(None)
        least = min(at for at in valid if at)
        lines.append(f"tables are valid through {least}{f', {unsaid} without' if unsaid else ''}")
    if spent := status.get("secs"):
        lines.append(f"where the time went: {times(spent)}")
    return lines


def _of_rounds(coordination: Mapping[str, Any]) -> str:
    """What a task does in coordinated mode, and what keeps it from it."""
    if trouble := coordination["trouble"]:
        return f"CONTROL TOPIC SILENT, this task commits by itself: {trouble}"
    ended = coordination["ended"]
    alone = f", {sum(ended.values()) - ended.get('answered', 0):,} of {sum(ended.values()):,} offers unanswered"
    rounds, merged = sum(coordination["rounds"].values()), f"{coordination['merged']:,} offers"
    led = f"leads: {rounds:,} rounds, {coordination['commits']:,} commits of {merged}" if coordination["leads"] else ""
    return f"coordinated, {led or 'follows'}{alone if sum(ended.values()) else ''}"


def _of_job(job: Mapping[str, Any]) -> str:
    """How a job of [derive] fares that runs in the task."""
    if job["error"]:
        return f"derive {job['job']}: {'ENDED: ' if job['ended'] else ''}{job['error']}"
    return f"derive {job['job']}: {job['rows']:,} rows in {job['runs']:,} runs, {job['behind_secs']:.0f} s behind"


def _of_sink(sink: Mapping[str, Any]) -> str:
    """What the task has told of versions; another one may be at it."""
    held_up = f", HELD UP: {sink['error']}" if sink["error"] else ""
    return f"events to {sink['sink']}: {sink['announced']:,} messages by this task{held_up}"


def times(secs: Mapping[str, float]) -> str:
    """Seconds by stage of the loop, and of a stage with steps (`stage.step`) the share of each step."""
    told = []
    for stage, spent in secs.items():
        steps = {name.partition(".")[2]: of for name, of in secs.items() if name.startswith(f"{stage}.")}
        whole = sum(steps.values()) or 1.0
        shares = ", ".join(f"{step} {of / whole:.0%}" for step, of in steps.items())
        if "." not in stage:
            told.append(f"{stage} {spent:,.1f} s" + (f" ({shares})" if shares else ""))
    return ", ".join(told)


def rows(status: Status, most: int | None = None) -> tuple[list[tuple[str, ...]], int]:
    """The rows of COLUMNS, and how many were left out: of more than `most` those that are furthest behind are shown."""
    positions = list(status.get("positions", ()))
    shown = positions
    if most is not None and len(positions) > most:
        shown = sorted(positions, key=lambda one: -(one["lag"] or 0))[:most]
    made = [
        (one["event_type"], f"{one['topic']}-{one['partition']}",
         *(_offset(one[name]) for name in ("committed", "read", "end")),
         *(_count(one[name]) for name in ("lag", "staged_rows")), one["verdict"] or "-")
        for one in shown
    ]  # fmt: skip
    return made, len(positions) - len(shown)


def fitted(
    shown: Sequence[tuple[str, ...]], width: int | None
) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[int, ...]]:
    """Columns, rows and which columns are numbers. width: of the screen, in characters; None for as wide as it takes.

    Where not all fits, `read` and `end` are left out, not the names squeezed: the lag says what they would.
    """
    wide = sum(max(map(len, column)) + 2 for column in zip(COLUMNS, *shown, strict=True))
    kept = [name for name in COLUMNS if width is None or wide <= width or name not in ("read", "end")]
    at = [COLUMNS.index(name) for name in kept]
    numbers = tuple(kept.index(name) for name in kept if name in NUMBERS)
    return tuple(kept), [tuple(row[index] for index in at) for row in shown], numbers


def _offset(offset: int | None) -> str:
    """As flags and other tools take it."""
    return "-" if offset is None else str(offset)


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
