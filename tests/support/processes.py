"""Exporters as processes of their own, started as the drill starts them, and what can be seen of any process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from exporter.drill.tasks import Task
from tests.support.lakes import Export, mixed, wait_until
from tests.support.services import fresh_name

ROOT = Path(__file__).parents[2]
END_SECS_MAX = 120.0


class Process(Task):
    """`exporter run`, or another verb, in a session of its own; its log and its scratch files are in the root."""

    SCRATCH = ".it's scratch"

    def __init__(
        self,
        export: Export,
        *flags: str,
        faults: str = "",
        env: Mapping[str, str] | None = None,
        verb: str = "run",
        prelude: str = "",
    ) -> None:
        name, extra = fresh_name("run"), {"PYTHONPATH": str(ROOT), **(env or {})}
        arguments = [*verb.split(), "--config", str(export.write()), *flags]
        log = export.root / f"{name}.log"
        super().__init__(name, arguments, log, faults, extra, prelude, Path(extra["PYTHONPATH"]))

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def signal_group(self, number: int) -> None:
        """To the driver and its JVM, as a terminal or a scheduler sends it."""
        os.killpg(self.pid, number)

    def killed(self) -> None:
        """kill -9 of the driver alone, at work."""
        self.kill(whole=False)
        assert self.ended() == -signal.SIGKILL, self.text[-4000:]

    def works_for(self, secs: float) -> None:
        """It does, and commits after that."""
        self.join(secs)
        landed = self.count("commit_landed")
        wait_until(lambda: self.ended() is not None or self.count("commit_landed") > landed, 60, "a commit")
        assert self.ended() is None, self.text[-4000:]

    def wait(self, secs: float = END_SECS_MAX) -> int:
        """The exit code; negative for a signal."""
        code = self.join(secs)
        assert code is not None, f"still running after {secs} s\n{self.text[-4000:]}"
        return code

    def wait_for(self, text: str, secs: float = END_SECS_MAX) -> None:
        """Until its log holds `text`."""

        def seen() -> bool:
            assert text in self.text or self.ended() is None, f"ended without {text!r}\n{self.text[-4000:]}"
            return text in self.text

        wait_until(seen, secs, f"{text!r} in the log of the task\n{self.text[-2000:]}")

    def quiet_events(self, *allowed: str) -> list[dict[str, Any]]:
        """What it has said, if each line is an event and none but the allowed ones is a warning or holds a trace."""
        events = [json.loads(line) for line in self.text.splitlines()]
        loud = [one for one in events if one["level"] not in ("debug", "info") and one["event"] not in allowed]
        assert loud == []
        assert "Traceback" not in self.text and "\\tat " not in self.text
        return events

    def java(self) -> list[int]:
        """Its JVM, and the one before it that makes the command line."""
        return [pid for pid in descendants(self.pid) if command_of(pid).startswith("java")]


@contextmanager
def running(
    export: Export,
    *flags: str,
    faults: str = "",
    env: Mapping[str, str] | None = None,
    verb: str = "run",
    prelude: str = "",
) -> Iterator[Process]:
    """A task of its own process; nothing of it is left afterwards."""
    process = Process(export, *flags, faults=faults, env=env, verb=verb, prelude=prelude)
    try:
        yield process
    finally:
        process.close()


def outlives_a_kill(e: Export, env: Mapping[str, str] | None = None) -> None:
    """kill -9 after a first commit: the next task completes the work, of more records too, and the audit agrees."""
    e.send({0: mixed(250), 1: mixed(150, first=1000)})
    with running(e.with_(round_records_max=100, roll_records_max=100), env=env) as task:
        task.wait_for("commit_landed")
        task.killed()
    e.send({0: mixed(50, first=2000)})
    with running(e.with_(group=fresh_name("group")), "--until-caught-up", env=env) as again:
        assert again.wait() == 0, again.text
    with running(e, verb="audit", env=env) as audit:
        assert audit.wait() == 0, audit.text


def living(pids: set[int]) -> list[int]:
    """Those that are there and no zombies."""
    return [pid for pid in pids if state_of(pid) not in ("", psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)]


def state_of(pid: int) -> str:
    """One of psutil's; empty for a process that is gone."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return ""


def command_of(pid: int) -> str:
    """The name of its program; empty for a process that is gone."""
    try:
        return psutil.Process(pid).name()
    except psutil.NoSuchProcess:
        return ""


def descendants(pid: int) -> list[int]:
    """Living processes that have `pid` among their ancestors."""
    try:
        found = [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    return living({*found})
