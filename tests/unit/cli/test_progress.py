"""The progress line: numbers where they are known, and never a 0 for what nobody has looked at."""

from __future__ import annotations

import io

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
def test_the_bar_says_unknown_as_long_as_it_is(lag, says) -> None:
    """Also before the first look at the ends; where there is no terminal the event says null."""
    console = Console(force_terminal=True, file=io.StringIO(), width=200)
    with ProgressDisplay(console) as display:
        display.update(Progress(0, 0, 0, lag, 0, 0, 1, 0))
        assert display._bar.tasks[0].fields["detail"] == f"0 read, {says}"
