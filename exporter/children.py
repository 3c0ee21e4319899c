"""Python processes that the demo and the drills start: their first lines, their environment, who is left of them.

Each is in a session of its own, so that all that it started can be found, and ends by itself when its parent is gone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLLOW_PARENT = """import os, threading
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
"""
"""First lines of a child: its standard input is a pipe that only the parent holds; the end of it is the parent's."""
EXPORTER = FOLLOW_PARENT + "from exporter.cli import main; main()"

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
    """A signal to what may have ended meanwhile."""
    try:
        os.kill(pid, sent)
    except ProcessLookupError:
        return


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM ends what runs in here as Ctrl-C does: by unwinding, so that everything it started is ended."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
