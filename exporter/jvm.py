"""A Java server as a child process that never outlives the process that started it.

How it dies with its parent: java is started by a shell that first forks a watcher and then becomes java
(exec, so the process id is java's). The watcher reads a pipe whose other end only the parent holds. A
line says "stopped, go"; the end of the pipe says that the parent is gone, whatever killed it, and the
watcher kills java. PR_SET_PDEATHSIG would not do: it fires when the starting *thread* ends, exists on Linux
only, and from Python needs a preexec_fn, which may deadlock in a process with threads.
"""

from __future__ import annotations

import random
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from exporter.errors import ConfigError

STOP_SECS_MAX = 15.0
"""How long a server may take to stop after SIGTERM before it is killed."""

QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.awt.headless=true")
"""For small servers."""

PORTS = range(20_000, 32_000)
"""Below the range from which systems take the local ports of connections (Linux: from 32768). There, a client
that keeps trying the port of a stopped server may connect to itself, and the server could not come back."""

_WATCH = 'exec 3<&0; ( read line <&3 && exit 0; kill -9 $$ ) & exec "$@" </dev/null 3<&-'
"""The shell command described above: `$$` is the shell's process id, which becomes java's."""


class Jvm:
    """One server over its starts and ends. Not for use from several threads at once."""

    def __init__(self, name: str) -> None:
        """name: as an error calls it."""
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id, for drills that stop or kill it. ConfigError if it was never started."""
        if self._process is None:
            raise ConfigError(f"the {self._name} has not been started", "call start() first")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it lives; a stopped (SIGSTOP) one does."""
        return self._process is not None and self._process.poll() is None

    def start(self, command: Sequence[str], folder: Path, log: Path) -> None:
        """Run it in `folder`, adding to `log`. It must not be running."""
        self.end(signal.SIGKILL)  # lets the watcher go of one that ended by itself
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,  # Ctrl-C is for the exporter: the server must outlive its last commit
            )

    def end(self, sent: signal.Signals) -> None:
        """Signal it, wait for its end, then let the watcher go: from then on the process id is not ours."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.closed:
            return
        process.send_signal(sent)
        try:
            process.wait(STOP_SECS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        try:
            process.stdin.write(b"stopped\n")
            process.stdin.close()
        except BrokenPipeError:
            process.stdin.close()


def free_ports(count: int) -> list[int]:
    """Different ports of PORTS on which 127.0.0.1 can listen now. ConfigError if there are none."""
    found: list[int] = []
    for port in random.sample(PORTS, 200):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ConfigError(f"no free port found in {PORTS.start}-{PORTS.stop - 1}", "stop what listens there")


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something takes connections there."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


def log_tail(log: Path) -> list[str]:
    """The last lines of a server's log."""
    return log.read_text("utf-8", "replace").splitlines()[-15:] if log.exists() else []
