"""The progress line: numbers where they are known, and never a 0 for what nobody has looked at."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
import time

import pyte
import pytest
from rich.console import Console

from exporter.cli.progress import ProgressDisplay
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


@pytest.mark.parametrize(("lag", "says"), [(None, "unknown behind"), (0, "0 behind"), (1234, "1,234 behind")])
def test_the_bar_says_unknown_as_long_as_it_is(lag: int | None, says: str) -> None:
    """Also before the first look at the ends; where there is no terminal the event says null."""
    console = Console(force_terminal=True, file=io.StringIO(), width=200)
    with ProgressDisplay(console) as display:
        display.update(Progress(0, 0, 0, lag, 0, 0, 1, 0))
        assert f"{says} 0:00:00" in display._bar.tasks[0].description


def test_the_bar_tells_what_comes_and_goes_on_when_it_is_full() -> None:
    """Records per second of the last ten, rows and dead letters; a million more or less is of no interest."""
    now = 100.0
    display = ProgressDisplay(Console(force_terminal=True, file=io.StringIO(), width=200), lambda: now)
    said = []
    for now, records in ((105.0, 500), (110.0, 1_000), (120.0, 1_000), (4000.0, 12_345_678)):
        said.append(display._says(Progress(records, records // 2, 3, 0, 500, 0, 1, 0), now))
    assert said[:3] == [
        "500 read 100/s, 250 committed, 3 dead, 0 behind 0:00:05",
        "1,000 read 100/s, 500 committed, 3 dead, 0 behind 0:00:10",
        "1,000 read 0/s, 500 committed, 3 dead, 0 behind 0:00:20",
    ]
    assert said[3].startswith("12.35M read ") and said[3].endswith(" 1:05:00")


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
    display._bar.refresh()
    sys.stderr.write("\x1b[7m[shown]\x1b[0m\n")
    time.sleep(60)
"""


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_of_the_log_stand_above_the_bar_and_break_at_words(columns: int) -> None:
    """On a real terminal: one bar, below all lines, whole; each line of the log is there and no word is cut."""
    screen = pyte.Screen(columns, 60)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 60, columns, 0, 0))
    command = [sys.executable, "-c", SHOWN]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as shown:
        os.close(theirs)
        deadline = time.monotonic() + 60
        while not (any("[shown]" in line for line in screen.display) and "4,000 read" in "".join(screen.display)):
            assert time.monotonic() < deadline, screen.display
            stream.feed(os.read(ours, 1 << 16))
        shown.kill()
    os.close(ours)
    lines = [line.rstrip() for line in screen.display if line.strip()]
    bars = [at for at, line in enumerate(lines) if " read " in line]
    assert bars == [len(lines) - 1], lines
    assert lines[-1].endswith("3,600 committed, 3 dead, 0 behind 0:00:00") and "100%" in lines[-1]
    words = " ".join(lines[:-1]).split()
    assert sum("commit_landed" in word for word in words) == 3 and words.count("'shop.events-8':") == 3, lines
