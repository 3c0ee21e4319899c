"""A server that starts slowly is waited for as long as it gets on, and one that does not is given up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from exporter.errors import DependencyUnreachable
from exporter.local import patience
from exporter.local.patience import CPU_SECS, IDLE_SECS_MAX, START_SECS_MAX, StartPatience, cpu_secs
from exporter.local.server import LocalServer


class Start:
    """A start whose clock, log and CPU time the test sets."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.computed, self.log = 0.0, 0.0, folder / "log"
        monkeypatch.setattr(patience, "cpu_secs", lambda pid: self.computed)
        self.patience = StartPatience(1, self.log, lambda: self.now)

    def after(self, secs: float, said: str = "", computed: float = 0.0) -> str:
        """What is said after so many seconds more, in which the log and the CPU time have grown so much."""
        self.now += secs
        self.computed += computed
        with self.log.open("a") as log:
            log.write(said)
        return self.patience.over()


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    return Start(tmp_path, monkeypatch)


def test_a_start_is_waited_for_while_it_speaks_or_computes(start: Start) -> None:
    """For minutes on end, on a loaded machine; a log that is not there yet is no hindrance."""
    for _ in range(4):
        assert start.after(IDLE_SECS_MAX, "loaded\n") == ""
        assert start.after(IDLE_SECS_MAX, computed=CPU_SECS) == ""


def test_a_start_without_progress_is_given_up(start: Start) -> None:
    """What an idle JVM computes is no progress."""
    assert start.after(IDLE_SECS_MAX, computed=CPU_SECS / 4) == ""
    assert start.after(1.0) == f"no answer, and no progress for {IDLE_SECS_MAX:.0f} s"


def test_a_start_that_gets_on_for_ever_is_given_up_in_the_end(start: Start) -> None:
    """One that writes the same line again and again is no better."""
    says = [start.after(30.0, "again\n") for _ in range(int(START_SECS_MAX / 30) + 1)]
    assert not any(says[:-1]) and says[-1] == f"it was not up after {START_SECS_MAX:.0f} s"


def test_what_a_process_has_computed_grows() -> None:
    """Of this one; one that is gone tells nothing."""
    before = cpu_secs(os.getpid())
    while cpu_secs(os.getpid()) <= before and sys.platform == "linux":
        sum(range(100_000))
    assert cpu_secs(1 << 30) == 0.0


class Sleeper(LocalServer):
    """Runs one command, whose answer never comes."""

    def __init__(self, folder: Path, command: str) -> None:
        super().__init__("the sleeper", "sleeper", folder)
        self._line = ["/bin/sh", "-c", command]

    def _command(self) -> list[str]:
        return self._line

    def _ready(self) -> bool:
        return False


def test_a_real_process_is_given_up_with_its_reason_and_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends is told at once, one that sleeps when its time is over."""
    monkeypatch.setattr(patience, "IDLE_SECS_MAX", 0.3)
    for command, says in (
        ("echo port taken; exit 1", "it ended while starting\n    port taken"),
        ("echo half way; exec sleep 60", "no answer, and no progress for 0 s"),
    ):
        sleeper = Sleeper(tmp_path, command)
        with pytest.raises(DependencyUnreachable) as found:
            sleeper.start()
        sleeper.close()
        assert found.value.message.startswith(f"the sleeper did not start on {sleeper.endpoint}: {says}")
        assert str(tmp_path / "sleeper.log") in found.value.hint
