"""`exporter status`: how far the export is, from a task's health server, or straight from the tables. Reads only.

A task knows its own partitions, what it has staged and how it fares; the tables know all partitions, but only what is
committed. Both come as what /status serves; from the tables some of it is missing.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from exporter.display.concerns import verdict_lines
from exporter.display.status import (
    Goals,
    behind,
    beside,
    complete_lines,
    concerns,
    first_line,
    goals,
    held_back,
    protocol_lines,
    since_start,
    tables_of,
    under_way,
    unknown,
)
from exporter.errors import DependencyUnreachable, FoundProblem
from exporter.settings.model import Settings

ANSWER_SECS = 10.0
WATCH_SECS = 2.0
SCREEN_ROWS_MIN = 5
TABLE_LINES = 4
"""What a table takes beside its rows."""
SCREEN_LINES_SPARE = TABLE_LINES + 1
"""What a screen takes beside head and rows: the table's own lines, and the one that counts what was left out."""
TABLE_COLUMNS = ("table", "lag", "staged", "complete through, UTC")
COLUMNS = ("event type", "partition", "committed", "read", "end", "lag", "staged", "verdict")
"""Of the tables; of each position of each table, in the protocol's words."""
NUMBERS = frozenset({"committed", "read", "end", "lag", "staged"})

Status = dict[str, Any]
T = TypeVar("T")


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

    positions = [row.as_status(row.verdict, says=row.says) for row in offset_rows(bench, settings)]
    return {"from": "tables", "app": settings.app, "positions": positions}


def wait_caught_up(
    ask: Callable[[], Status],
    timeout_secs: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Status:
    """Ask until everything that is in the topics now is committed; the last answer.

    A task that does not answer or is not ready is waited for as well, and so is one that has not asked for the topics'
    ends since this began: it would call itself done by ends of before. Raises FoundProblem after `timeout_secs`.
    """
    began, ends = clock(), Goals()
    deadline = began + timeout_secs
    while True:
        asked = clock()
        try:
            status = ask()
        except DependencyUnreachable as error:
            why = error.message
        else:
            ends = {**goals(status), **ends}
            left = behind(status, ends)
            dark = unknown(status)
            old = (status.get("ends_secs") or 0.0) > asked - began
            if status.get("ready", True) and not left and not dark and not old:
                return status
            why = status.get("not_ready") or dark or f"{left:,} offsets are not committed{held_back(status)}"
            if old and not left:
                why = "the ends of the topics were not asked for since"
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


def page_of(status: Status, verbose: bool = False, screen: Screen | None = None) -> Page:
    """All of the status, or as much of it as the screen shows at once."""
    head = head_lines(status, verbose)
    pick = position_rows if verbose else table_rows
    if screen is None:
        shown, left_out = pick(status, None)
        return Page(head, *fitted(shown, None, verbose), left_out)
    above = sum(max(1, -(-len(line) // screen.width)) for line in head)
    room = max(SCREEN_ROWS_MIN, screen.height - above - SCREEN_LINES_SPARE)
    shown, left_out = pick(status, room)
    page = Page(head, *fitted(shown, screen.width, verbose), left_out)
    lines = screen.lines(page.columns, page.rows, page.numbers)
    if lines > room + TABLE_LINES:  # long names take several lines each
        shown, left_out = pick(status, max(1, len(shown) * room // lines))
        page = Page(head, *fitted(shown, screen.width, verbose), left_out)
    return page


def head_lines(status: Status, verbose: bool = False) -> list[str]:
    """What stands above the table: what the export does, whether all is well, what it has done, and who says so."""
    lines = [first_line(status), *verdict_lines(concerns(status), under_way(status)), *since_start(status)]
    lines += [*beside(status), *complete_lines(status)]
    if verbose:
        lines += protocol_lines(status)
    who = f"task {status['owner']} at {status['from']}" if "owner" in status else status["from"]
    return [*lines, f"asked: {who}"]


def table_rows(status: Status, most: int | None = None) -> tuple[list[tuple[str, ...]], int]:
    """The rows of TABLE_COLUMNS, and how many were left out: as position_rows()."""
    shown, left_out = _furthest(tables_of(status), lambda one: one.behind or 0, most)
    return [(one.name, _count(one.behind), _count(one.staged_rows), one.complete or "-") for one in shown], left_out


def position_rows(status: Status, most: int | None = None) -> tuple[list[tuple[str, ...]], int]:
    """The rows of COLUMNS, and how many were left out: of more than `most` those that are furthest behind are shown."""
    shown, left_out = _furthest(status.get("positions", ()), lambda one: one["lag"] or 0, most)
    made = [
        (one["event_type"], f"{one['topic']}-{one['partition']}",
         *(_offset(one[name]) for name in ("committed", "read", "end")),
         *(_count(one[name]) for name in ("lag", "staged_rows")), one["verdict"] or "-")
        for one in shown
    ]  # fmt: skip
    return made, left_out


def _furthest(some: Sequence[T], behind_by: Callable[[T], int], most: int | None) -> tuple[list[T], int]:
    """All in their order, or the furthest behind."""
    if most is None or len(some) <= most:
        return [*some], 0
    return sorted(some, key=lambda one: -behind_by(one))[:most], len(some) - most


def fitted(
    shown: Sequence[tuple[str, ...]], width: int | None, verbose: bool = True
) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[int, ...]]:
    """Columns, rows and which columns are numbers. width: of the screen, in characters; None for as wide as it takes.

    Where not all fits, `read` and `end` are left out, not the names squeezed: the lag says what they would.
    """
    names = COLUMNS if verbose else TABLE_COLUMNS
    wide = sum(max(map(len, column)) + 2 for column in zip(names, *shown, strict=True))
    kept = [name for name in names if width is None or wide <= width or name not in ("read", "end")]
    at = [names.index(name) for name in kept]
    numbers = tuple(kept.index(name) for name in kept if name in NUMBERS)
    return tuple(kept), [tuple(row[index] for index in at) for row in shown], numbers


def _offset(offset: int | None) -> str:
    """As flags and other tools take it."""
    return "-" if offset is None else str(offset)


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
