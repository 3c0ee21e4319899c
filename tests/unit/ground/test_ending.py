"""How a task ends: whatever comes at whatever moment, the process is gone in time, with the right exit code.

The signals are real; the process that they would end is a list of exit codes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import ending as module
from exporter.ending import Ending
from exporter.errors import InvariantBroken
from offsets import Invariant
from tests.support.lakes import wait_until

ROOT = Path(__file__).parents[3]


class Ended:
    """What a process would have ended with."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def __call__(self, code: int) -> None:
        self.codes.append(code)

    def with_(self, code: int) -> None:
        wait_until(lambda: self.codes, 10, f"the end with {code}")
        assert self.codes[0] == code


@pytest.fixture
def ended() -> Ended:
    """Nothing yet."""
    return Ended()


@pytest.fixture
def ending(ended: Ended) -> Iterator[Ending]:
    """One that has taken the signals over, until the end of the test."""
    before = {number: signal.getsignal(number) for number in module.SIGNALS}
    made = Ending(ended)
    made.install(["run", "--until-caught-up"])
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


def stop_now(number: int = signal.SIGTERM) -> None:
    """The signal, to this process."""
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", module.SIGNALS)
def test_a_signal_ends_at_once_with_0_as_long_as_nothing_is_held(ending: Ending, ended: Ended, number: int) -> None:
    """Nobody waits for a group to be left, nothing is staged."""
    stop_now(number)
    ended.with_(0)


def test_a_signal_that_comes_while_the_group_is_joined_stops_the_loop_before_it_begins(
    ending: Ending, ended: Ended
) -> None:
    """It is noted, not lost: the moment between joining and working has no end of its own."""
    ending.hold()
    stop_now()
    wait_until(lambda: ending._asked, 10, "it is noted")
    stops: list[str] = []
    with ending.stopping(lambda: stops.append("stop"), 20):
        assert stops == ["stop"]
    assert ended.codes == []


def test_a_signal_asks_the_loop_to_stop_and_a_second_one_ends_at_once(ending: Ending, ended: Ended) -> None:
    """128 + its number, as a shell tells it, also if the first one asked in vain."""
    asked = threading.Event()
    with ending.stopping(asked.set, 20):
        stop_now()
        assert asked.wait(10)
        assert ended.codes == []
        stop_now(signal.SIGINT)
        ended.with_(128 + signal.SIGINT)


def test_a_signal_on_the_way_out_changes_nothing(ending: Ending, ended: Ended) -> None:
    """It ends anyway, with the exit code of what it has done."""
    with ending.stopping(lambda: None, 20):
        pass
    stop_now()
    wait_until(lambda: ending._asked, 10, "it has come")
    assert ended.codes == []


def test_a_stop_that_does_not_end_is_ended(ending: Ending, ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop waits for a JVM that does not answer: its budget and the way out are over."""
    monkeypatch.setattr(module, "LEAVE_SECS", 0.05)
    with ending.stopping(lambda: None, 0.05):
        stop_now()
        ended.with_(module.HANGS)


def test_a_way_out_that_does_not_end_is_ended_with_the_code_of_its_error(
    ending: Ending, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the error is told, although nobody gets to where errors are told."""
    monkeypatch.setattr(module, "LEAVE_SECS", 0.05)
    told: list[BaseException | None] = []

    def tell(error: BaseException | None) -> int | None:
        told.append(error)
        return getattr(error, "exit_code", None)

    ending.tell = tell
    broken = InvariantBroken(Invariant.FENCE, "two at once")
    try:
        raise broken
    except InvariantBroken:
        ending.leave()
    ended.with_(70)
    assert told == [broken]


def test_what_cannot_be_told_does_not_keep_the_process(
    ending: Ending, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads what it writes, or the telling itself fails."""
    monkeypatch.setattr(module, "LEAVE_SECS", 0.05)
    monkeypatch.setattr(module, "TELL_SECS", 0.05)
    forever = threading.Event()
    ending.tell = lambda error: 1 if forever.wait(60) else None
    ending.leave()
    ended.with_(0)
    forever.set()


def test_verbs_that_are_no_tasks_end_by_a_signal_as_any_program_does() -> None:
    """An audit that was cut short has not ended well."""
    made = Ending()
    before = signal.getsignal(signal.SIGTERM)
    for words in (["audit", "--day", "2026-01-01"], ["derive", "audit"], ["derive"], [], ["--help"]):
        made.install(words)
    assert not made.installed and signal.getsignal(signal.SIGTERM) == before


def test_signals_are_taken_over_before_anything_that_takes_long_is_loaded() -> None:
    """Else the first half second of a start answers to SIGTERM with 143."""
    script = "import sys, exporter.entry; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"click", "rich", "pydantic", "logging", "kafka", "pyspark"} & set(done.stdout.split())
