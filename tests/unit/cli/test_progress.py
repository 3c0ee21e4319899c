"""The progress line: numbers where they are known, and never a 0 for what nobody has looked at."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

import pyte
import pytest
from rich.console import Console
from structlog.testing import capture_logs

from exporter.cli.progress import BAR_WIDTH_MIN, AuditDisplay, ProgressDisplay, elapsed, line_of
from exporter.task.progress import Progress, lag_of
from tests.support.snapshots import P0, P1


@pytest.mark.parametrize(
    ("owned", "positions", "ends", "expected"),
    [
        ((P0, P1), {P0: 9, P1: 4}, {P0: 31, P1: 5}, 21),
        ((P0, P1), {P0: 30, P1: 7}, {P0: 31, P1: 5}, 0),
        ((P0, P1), {P0: 30}, {P0: 31, P1: 5}, None),
        ((P0, P1), {P0: 30, P1: 4}, {P0: 31}, None),
        ((P0,), {}, {}, None),
        ((), {P0: 1}, {P0: 31}, 0),
    ],
    ids=["behind", "at the ends", "one is not recovered", "one end is not read", "nothing is known", "owns nothing"],
)
def test_the_lag_is_known_once_all_positions_and_ends_are(owned, positions, ends, expected) -> None:
    """Of what the task owns, no more and no less."""
    assert lag_of(owned, positions, ends) == expected


@pytest.mark.parametrize(("lag", "says"), [(None, "lag unknown"), (0, "lag 0"), (1234, "lag 1,234")])
def test_the_bar_says_unknown_as_long_as_it_is(lag: int | None, says: str) -> None:
    """Also before the first look at the ends; where there is no terminal the event says null."""
    console = Console(force_terminal=True, file=io.StringIO(), width=200)
    with ProgressDisplay(console) as display:
        display.update(Progress(0, 0, 0, lag, 0, 0, 1, 0))
        assert f"{says} 0:00:00" in display.line()


def test_the_bar_tells_what_comes_and_goes_on_when_it_is_full() -> None:
    """Records per second of the last ten, rows and dead letters; a million more or less is of no interest."""
    now = 100.0
    display = ProgressDisplay(Console(force_terminal=True, file=io.StringIO(), width=200), lambda: now)
    said = []
    for at, records in ((105.0, 500), (110.0, 1_000), (120.0, 1_000), (4000.0, 12_345_678)):
        now = at
        display.update(Progress(records, records // 2, 3, 0, 500, 0, 1, 0))
        said.append(display.line())
    assert said[:3] == [
        "500 read 100/s, 250 committed, 3 dead, lag 0 0:00:05",
        "1,000 read 100/s, 500 committed, 3 dead, lag 0 0:00:10",
        "1,000 read 0/s, 500 committed, 3 dead, lag 0 0:00:20",
    ]
    assert said[3].startswith("12.35M read ") and said[3].endswith(" 1:05:00")
    now = 4060.0
    assert display.line().endswith(" 1:06:00"), "time goes on while a step takes long"


def test_the_bar_tells_that_it_starts_and_for_how_long() -> None:
    """A JVM takes its time; the seconds show that it is not hung."""
    now = 100.0
    display = ProgressDisplay(Console(force_terminal=True, file=io.StringIO(), width=200), lambda: now)
    now = 117.0
    assert display.line() == "starting 0:00:17"


def test_time_is_told_in_few_characters() -> None:
    """From a day on without seconds."""
    assert [elapsed(secs) for secs in (0, 59.9, 86_399, 86_400, 400_000)] == [
        "0:00:00", "0:00:59", "23:59:59", "1d 00:00", "4d 15:06",
    ]  # fmt: skip


@pytest.mark.parametrize("digits", range(1, 13))
def test_rate_rows_and_dead_letters_fit_into_80_columns_however_many_there_are(digits: int) -> None:
    """Numbers become short; on a narrower screen the lesser ones go."""
    many = 10**digits - 1
    moment = Progress(many, many, many, many, many, 0, 4, 9)
    line = line_of(moment, many, "23:59:59", 80 - BAR_WIDTH_MIN)
    assert len(line) <= 80 - BAR_WIDTH_MIN
    assert all(word in line for word in (" read ", "/s, ", " committed, ", " dead, ", " lag ", " 23:59:59"))
    assert len(line_of(moment, many, "23:59:59", 31)) <= 37


def test_the_bar_is_full_only_when_nothing_is_behind() -> None:
    """Not for half a percent; and one that falls behind again is not full any more."""
    display = ProgressDisplay(Console(force_terminal=True, file=io.StringIO(), width=200))
    shown = []
    for lag in (1_000, 1, 0, 500, 5_000):
        display.update(Progress(1, 1, 0, lag, 1_000, 0, 1, 0))
        shown.append(display._bar.tasks[0].percentage)
    assert shown == [0, 99, 100, 50, 0]


def test_an_audit_tells_how_far_it_is_and_how_long_it_will_take() -> None:
    """As fast as it was so far; as long as nothing is compared it says that it looks at the tables."""
    now = 100.0
    display = AuditDisplay(Console(force_terminal=True, file=io.StringIO(), width=200), lambda: now)
    now = 103.0
    assert display.line() == "looking at the tables 0:00:03"
    display.update(0, 40_000)
    assert display.line() == "0 of 40,000 offsets"
    now = 110.0
    display.update(10_000, 40_000)
    assert display.line() == "10,000 of 40,000 offsets, 0:00:30 left"
    assert display._bar.tasks[0].percentage == 25


def test_an_audit_tells_it_to_the_log_where_there_is_no_terminal() -> None:
    """An event every ten seconds."""
    now = 100.0
    display = AuditDisplay(Console(file=io.StringIO()), lambda: now)
    with capture_logs() as told:
        for at, done in ((105.0, 10), (110.0, 20), (119.0, 30), (120.0, 40)):
            now = at
            display.update(done, 80)
    assert [(one["event"], one["offsets"], one["of"], one["secs_left"]) for one in told] == [
        ("audit_progress", 20, 80, 30), ("audit_progress", 40, 80, 20),
    ]  # fmt: skip


GOES_ON = re.compile(r"3,600 committed, 3 dead, lag 0 0:0(0:0[2-9]|0:[1-5]|[1-9])")
"""Two seconds after it began, or later."""
SHOWN = r"""
import logging, sys, time
from exporter import log
from exporter.cli.progress import ProgressDisplay
from exporter.log_events import Event
from exporter.task.progress import Progress
log.configure()
with ProgressDisplay() as display:
    for number in range(1, 4):
        display.update(Progress(number * 1000, number * 900, number, 3000 - number * 1000, 3000, 0, 4, 1))
        display._bar.refresh()
        positions = {"shop.events-%d" % one: one for one in range(9)}
        log.get_logger("exporter.x").info(Event.COMMIT_LANDED, table="order", positions=positions)
    display.update(Progress(4000, 3600, 3, 0, 3000, 0, 4, 1))
    sys.stderr.write("\x1b[7m[shown]\x1b[0m\n")
    time.sleep(60)
"""


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_of_the_log_stand_above_the_bar_and_break_at_words(columns: int) -> None:
    """On a real terminal: one bar, below all lines, whole; each line of the log is there and no word is cut.

    All that was read is committed, nobody tells the bar anything any more, and its time goes on.
    """
    screen = pyte.Screen(columns, 60)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 60, columns, 0, 0))
    command = [sys.executable, "-c", SHOWN]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as shown:
        os.close(theirs)
        deadline = time.monotonic() + 60
        while not (any("[shown]" in line for line in screen.display) and GOES_ON.search("".join(screen.display))):
            assert time.monotonic() < deadline, screen.display
            stream.feed(os.read(ours, 1 << 16))
        shown.kill()
    os.close(ours)
    lines = [line.rstrip() for line in screen.display if line.strip()]
    bars = [at for at, line in enumerate(lines) if " read " in line]
    assert bars == [len(lines) - 1], lines
    assert GOES_ON.search(lines[-1]) and "100%" in lines[-1]
    words = " ".join(lines[:-1]).split()
    assert sum("commit_landed" in word for word in words) == 3 and words.count("'shop.events-8':") == 3, lines
