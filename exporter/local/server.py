"""A Java server as a child process that never outlives the process that started it.

How it dies with its parent: java is started by a shell that first forks a watcher and then becomes java
(exec, so the process id is java's). The watcher reads a pipe whose other end only the parent holds. A
line says "stopped, go"; the end of the pipe says that the parent is gone, whatever killed it, and the
watcher kills java. PR_SET_PDEATHSIG would not do: it fires when the starting *thread* ends, exists on Linux
only, and from Python needs a preexec_fn, which may deadlock in a process with threads.
"""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.errors import ConfigError, DependencyUnreachable
from exporter.local.patience import StartPatience

if TYPE_CHECKING:
    from typing_extensions import Self

STOP_SECS_MAX = 15.0
"""How long a server may take to stop after SIGTERM before it is killed."""

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "us-east-1",
}  # fmt: skip
"""Environment variables for clients of those that stand for AWS; they take any, of letters and digits."""

QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.awt.headless=true")
"""For small servers."""

PORTS = range(20_000, 32_000)
"""Below the range from which systems take the local ports of connections (Linux: from 32768). There, a client
that keeps trying the port of a stopped server may connect to itself, and the server could not come back."""

_CLAIMS: list[socket.socket] = []
"""Of the same numbers, for datagrams: no other process is given a port whose server is down for a while."""

_WATCH = 'exec 3<&0; ( read line <&3 && exit 0; kill -9 $$ ) & exec "$@" </dev/null 3<&-'
"""The shell command described above: `$$` is the shell's process id, which becomes java's."""


class LocalServer(ABC):
    """One server over its starts and ends; as a context manager it runs inside the block.

    Not for use from several threads at once.
    """

    def __init__(self, name: str, log: str, folder: Path | None = None, ports: int = 1) -> None:
        """name: as an error calls it. log: without its suffix, what it says, in its folder. ports: how many it needs.

        folder: where it runs, and what is kept; None: one of its own, which close() removes.
        """
        self._name = name
        self._keep = folder is not None
        self._folder = (folder or Path(tempfile.mkdtemp(prefix=f"exporter-{log}-"))).absolute()
        self.log_path = self._folder / f"{log}.log"
        self._port, *self._ports = free_ports(ports)
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

    @property
    def endpoint(self) -> str:
        """Address for clients; the same over restarts."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start, or start again on the same port; returns when it answers. Does nothing if it runs.

        Raises DependencyUnreachable with the end of its log if it ends or gets no further, and what its jars raise.
        """
        if self.running:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._begin()
        except BaseException:
            self.kill()
            raise

    def _begin(self) -> None:
        """Run it, and wait until it answers."""
        self._run(self._command())
        self._wait_until(self._ready, self._not_started)

    @abstractmethod
    def _command(self) -> list[str]:
        """The command line; what else it needs is in its folder then."""

    def _ready(self) -> bool:
        """Whether the server answers by now."""
        return accepts(self._port)

    @property
    def _not_started(self) -> str:
        """What an error says of a start that fails."""
        return f"{self._name} did not start on {self.endpoint}"

    def stop(self) -> None:
        """SIGTERM, after STOP_SECS_MAX SIGKILL. Does nothing if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what clients see of a server whose machine is lost."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop, and remove its folder unless it is kept."""
        self.stop()
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, command: Sequence[str]) -> None:
        """Run it in its folder, adding to its log. It must not be running."""
        self._end(signal.SIGKILL)  # lets the watcher go of one that ended by itself
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for the exporter: the server must outlive its last commit
            )

    def _wait_until(self, ready: Callable[[], bool], failed: str) -> None:
        """Return when it is ready.

        Raises DependencyUnreachable, with what failed and the end of its log, if it has ended or makes no progress.
        """
        self._wait(lambda: not self.running or ready(), failed)
        if not self.running:
            raise self._failed(f"{failed}: it ended while starting")

    def _wait_for_end(self, failed: str) -> int:
        """The exit code of what has its work to do and ends. Raises DependencyUnreachable if it makes no progress."""
        self._wait(lambda: not self.running, failed)
        return 0 if self._process is None else self._process.returncode

    def _wait(self, done: Callable[[], bool], failed: str) -> None:
        patience = StartPatience(self.pid, self.log_path)
        while not done():
            if why := patience.over():
                raise self._failed(f"{failed}: {why}")
            time.sleep(0.05)  # pace of the polling, bounded by patience

    def _failed(self, what: str) -> DependencyUnreachable:
        """An error with the end of its log."""
        hint = f"read {self.log_path}" if self._keep else "the lines above are the end of its log"
        return DependencyUnreachable("\n    ".join([what, *log_tail(self.log_path)]), hint)

    def _end(self, sent: signal.Signals) -> None:
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
    """Different ports of PORTS on which 127.0.0.1 can listen now, and which are this process's while it lives.

    ConfigError if there are none.
    """
    found: list[int] = []
    for port in random.sample(PORTS, 200):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                claim.bind(("127.0.0.1", port))
                listener.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
        _CLAIMS.append(claim)
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
