"""How long the start of a server is waited for: as long as it makes progress, within a bound.

On a loaded machine a start takes minutes, and each one that is given up fails a whole demo. Progress is what can be
seen from outside: its log grows, or it computes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

IDLE_SECS_MAX = 60.0
"""Without any progress."""
START_SECS_MAX = 600.0
"""In all, whatever its progress."""
CPU_SECS = 1.5
"""So much computed is progress: more than an idle broker computes in IDLE_SECS_MAX, a fortieth of a core."""


class StartPatience:
    """With one start of one process. log: what it writes to; need not be there yet."""

    def __init__(self, pid: int, log: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._pid = pid
        self._log = log
        self._clock = clock
        self._began = self._progress_at = clock()
        self._said, self._computed = _bytes_of(log), cpu_secs(pid)

    def over(self) -> str:
        """Why it is waited for no longer; empty while it is."""
        now, said, computed = self._clock(), _bytes_of(self._log), cpu_secs(self._pid)
        if said != self._said or computed - self._computed >= CPU_SECS:
            self._said, self._computed, self._progress_at = said, computed, now
        if now - self._began > START_SECS_MAX:
            return f"it was not up after {START_SECS_MAX:.0f} s"
        if now - self._progress_at > IDLE_SECS_MAX:
            return f"no answer, and no progress for {IDLE_SECS_MAX:.0f} s"
        return ""


def cpu_secs(pid: int) -> float:
    """What a process has computed so far, in seconds; 0 where that cannot be told: it is gone, or there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _bytes_of(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0
