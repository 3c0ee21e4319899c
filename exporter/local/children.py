"""Python processes that the demo and the drills start: their first lines, their environment, their log, who is left.

Each is in a session of its own, so that all that it started can be found, and ends by itself when its parent is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from exporter.errors import ConfigError

FOLLOW_PARENT = """import os, threading
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
"""
"""First lines of a child: its standard input is a pipe that only the parent holds; the end of it is the parent's."""
EXPORTER = FOLLOW_PARENT + "from exporter.entry import main; main()"

_JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
"""Read by java itself. JVMs that live for seconds spend most of them in their second compiler."""


def quick_java() -> dict[str, str]:
    """Environment for a child whose JVM will live for a minute or two."""
    return {_JAVA_OPTIONS: f"{os.environ.get(_JAVA_OPTIONS, '')} -XX:TieredStopAtLevel=1".strip()}


def inherited_environment() -> dict[str, str]:
    """This process's, without what would change a child's settings; the cache of jars is wanted."""
    return {
        name: text
        for name, text in os.environ.items()
        if not name.upper().startswith("EXPORTER_") or name == "EXPORTER_CACHE_DIR"
    }


@dataclass(frozen=True)
class LoggedEvent:
    """One event of an exporter's log. at: seconds since 1970, by its own clock; 0 if it tells no time."""

    at: float
    name: str
    fields: Mapping[str, Any]


class ChildProcess:
    """A Python process in a session of its own. Ctrl-C does not reach it; `close` does, and all that it started.

    Its temporary files stand in a folder beside its log, which goes with it: a killed one leaves them there.
    """

    SCRATCH = ".tmp"
    """In place of its log's suffix, the folder of its temporary files."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        answer: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        """command: Python text and its arguments. environment: added to what it inherits.

        log: what it writes to stderr, and to stdout without `answer`. folder: where it runs; None: where this one does.
        """
        self.log = log
        self.started_at = time.time()
        self.ended_at: float | None = None
        self._stopped = False
        self._read = 0
        self._events: list[LoggedEvent] = []
        self.scratch = log.with_suffix(self.SCRATCH)
        self.scratch.mkdir(exist_ok=True)
        with log.open("wb") as errors, answer.open("wb") if answer else nullcontext(errors) as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                env={**inherited_environment(), "TMPDIR": str(self.scratch), **environment},
                cwd=folder,
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

    def join(self, secs: float) -> int | None:
        """Wait so long for its end; its exit code, None if it lives on."""
        deadline = time.monotonic() + secs
        while self.ended() is None and time.monotonic() < deadline:
            time.sleep(0.01)  # pace of the looks, bounded by the deadline
        return self.ended()

    def left(self) -> list[int]:
        """Processes that it started and that still live."""
        return session_members(self.pid)

    def close(self) -> None:
        """Kill all that is left of it, and remove its temporary files."""
        if self.ended() is None:
            self.kill(whole=True)
        for pid in self.left():
            kill_quietly(pid)
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def events(self) -> list[LoggedEvent]:
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
            if isinstance(said, dict) and "event" in said:
                self._events.append(LoggedEvent(_epoch_secs(said.get("time", "")), said["event"], said))
        return self._events

    def first(self, name: str) -> LoggedEvent | None:
        """The first event of this name."""
        return next((said for said in self.events() if said.name == name), None)

    def count(self, name: str) -> int:
        return sum(said.name == name for said in self.events())

    def tail(self) -> str:
        """The last lines that it has written."""
        return self.log.read_text("utf-8", "replace")[-2500:]


def _epoch_secs(text: str) -> float:
    """An ISO time as seconds since 1970; 0 for none."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else 0.0


def session_members(session: int) -> list[int]:
    """Process ids that live in a session (zombies do not); without /proc, the group as a negative id."""
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        try:
            os.killpg(session, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [-session]
    found: list[int] = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # pid (name) state parent group session ...; the name may hold anything
            fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(entry.name))
    return found


def kill_quietly(pid: int, sent: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that may have ended meanwhile."""
    try:
        os.kill(pid, sent)
    except ProcessLookupError:
        return


def hears(pid: int, sent: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal; False where the system does not tell."""
    try:
        told = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return False
    caught = next((line.split()[1] for line in told.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (sent - 1) & 1)


def made_empty(folder: Path) -> bool:
    """Make a folder if it is not there; whether nothing is in it. Raises ConfigError if it cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return not any(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"the folder {folder} cannot be used: {error.strerror}", "choose another --folder") from error


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGINT end what runs in here by unwinding, so that everything it started is ended.

    SIGINT also where the shell that started this process in the background had it ignored.
    """

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
