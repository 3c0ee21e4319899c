"""Exporters as child processes of a drill: started as a user starts them, killed, stopped, and listened to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from exporter import faults
from exporter.children import EXPORTER, inherited_environment, kill_quietly, quick_java, session_members

GONE_SECS_MAX = 15.0
"""How long what a killed driver started may live on."""


@dataclass(frozen=True)
class Said:
    """One event of a task's log. at: seconds since 1970, by its own clock."""

    at: float
    name: str
    fields: Mapping[str, Any]


class Task:
    """`exporter <arguments>` in a session of its own; stdout and stderr go to one file.

    prelude: Python that runs before the exporter is imported.
    """

    def __init__(
        self,
        name: str,
        arguments: list[str],
        log: Path,
        armed: str = "",
        environment: Mapping[str, str] | None = None,
        prelude: str = "",
    ) -> None:
        self.name = name
        self.log = log
        self.armed = armed
        self.started_at = time.time()
        self.ended_at: float | None = None
        self._read = 0
        self._events: list[Said] = []
        self._stopped = False
        env = {**inherited_environment(), **quick_java(), **(environment or {})}
        if armed:
            env[faults.VARIABLE] = armed
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", prelude + EXPORTER, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=env,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> int | None:
        """Its exit code (negative: the signal that ended it); None while it lives, stopped or not."""
        if self._process.returncode is None:
            changed, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if changed and os.WIFSTOPPED(status):
                self._stopped = True
            elif changed and os.WIFCONTINUED(status):
                self._stopped = False
            elif changed:
                self._process.returncode = os.waitstatus_to_exitcode(status)  # reaped here, not by Popen
        if self._process.returncode is not None and self.ended_at is None:
            self.ended_at = time.time()
        return self._process.returncode

    def stopped(self) -> bool:
        """Whether it is held by SIGSTOP."""
        return self.ended() is None and self._stopped

    def signal(self, sent: signal.Signals, whole: bool = False) -> None:
        """To the driver, or to all that it started as well."""
        for pid in session_members(self.pid) if whole else [self.pid]:
            kill_quietly(pid, sent)

    def kill(self, whole: bool) -> float:
        """SIGKILL; the moment of it, in seconds since 1970. All at once: the driver last, so that none is missed."""
        if whole:
            kill_quietly(self.pid, signal.SIGSTOP)
            for pid in session_members(self.pid):
                kill_quietly(pid)
        at = time.time()
        kill_quietly(self.pid)
        while self.ended() is None:
            time.sleep(0.005)  # a killed process ends at once
        return at

    def left(self) -> list[int]:
        """Processes that it started and that still live."""
        return session_members(self.pid)

    def close(self) -> None:
        """SIGKILL to all that is left of it."""
        if self.ended() is None:
            self.kill(whole=True)
        for pid in self.left():
            kill_quietly(pid)
        if self._process.stdin is not None:
            self._process.stdin.close()

    def events(self) -> list[Said]:
        """Everything that it has said so far, in order."""
        with self.log.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        whole = new.rpartition(b"\n")[0]
        self._read += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            try:
                said = json.loads(line) if line.startswith(b"{") else None
            except ValueError:
                said = None
            if isinstance(said, dict) and "event" in said and "time" in said:
                at = datetime.fromisoformat(said["time"].replace("Z", "+00:00")).timestamp()
                self._events.append(Said(at, said["event"], said))
        return self._events

    def first(self, name: str) -> Said | None:
        """The first event of this name."""
        return next((said for said in self.events() if said.name == name), None)

    def count(self, name: str) -> int:
        return sum(said.name == name for said in self.events())

    def tail(self) -> str:
        """Its last words."""
        return self.log.read_text("utf-8", "replace")[-2500:]
