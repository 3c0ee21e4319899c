"""What a process and all that it started use: CPU by group of threads over time, and the peak of their memory.

Reads /proc (Linux). Whoever is watched has a session of its own, by which its descendants are found. What ends
between two looks keeps what it had used at the last one.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from pathlib import Path

from exporter.local.children import session_members
from tests.bench.figures import Sample, cpu_between, group_of

LOOK_SECS = 0.5
MEMORY_SECS = 1.0
"""The kernel walks all pages of a process to sum its PSS: even so seldom it takes 2 to 3 % of two cores."""
_TICKS = os.sysconf("SC_CLK_TCK")


class Usage:
    """Watches in a thread from start() to stop(). PSS: proportional set size, so that shared pages count once."""

    def __init__(self, pid: int, weighed: bool = False) -> None:
        """pid: of the leader of a session. weighed: whether memory is told, too; what is timed does better without."""
        self.samples: list[Sample] = [Sample(time.time(), {})]
        self.pss_bytes = 0
        self.pss_parts: dict[str, int] = {}
        self._pid, self._weighed = pid, weighed
        self._used: dict[tuple[int, int], tuple[str, float]] = {}
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._enough.set()
        self._thread.join()

    def total(self) -> float:
        """CPU seconds in all."""
        return sum(self.samples[-1].cpu.values())

    def between(self, since: float, until: float) -> dict[str, float]:
        """CPU seconds by group between two times in seconds since 1970."""
        return cpu_between(self.samples, since, until)

    def _watch(self) -> None:
        memory_at = 0.0
        while True:
            pids = session_members(self._pid)
            for pid in pids:
                self._look(pid)
            self.samples.append(Sample(time.time(), self._summed()))
            if self._weighed and time.monotonic() - memory_at >= MEMORY_SECS:
                memory_at = time.monotonic()
                self._weigh(pids)
            if self._enough.wait(LOOK_SECS):
                return

    def _summed(self) -> dict[str, float]:
        cpu: dict[str, float] = defaultdict(float)
        for group, secs in self._used.values():
            cpu[group] += secs
        return dict(cpu)

    def _look(self, pid: int) -> None:
        """CPU of one process; of a JVM thread by thread, as all other threads do what their process is for."""
        place = Path(f"/proc/{pid}")
        if _kind(pid, self._pid) != "jvm":
            if (found := _stat(place)) is not None:
                self._used[pid, 0] = (_kind(pid, self._pid), found[1])
            return
        try:
            threads = [int(entry.name) for entry in (place / "task").iterdir()]
        except OSError:
            return
        for tid in threads:
            if (found := _stat(place / "task" / str(tid))) is not None:
                self._used[pid, tid] = (group_of(found[0]), found[1])

    def _weigh(self, pids: list[int]) -> None:
        """Sum the PSS of all; the parts are kept of the greatest sum."""
        parts: dict[str, int] = defaultdict(int)
        for pid in pids:
            parts[_kind(pid, self._pid)] += _pss(pid)
        if sum(parts.values()) > self.pss_bytes:
            self.pss_bytes, self.pss_parts = sum(parts.values()), dict(parts)


def _kind(pid: int, leader: int) -> str:
    if pid == leader:
        return "driver"
    try:
        return "jvm" if Path(f"/proc/{pid}/comm").read_text().strip() == "java" else "workers"
    except OSError:
        return "workers"


def _stat(place: Path) -> tuple[str, float] | None:
    """Name and CPU seconds of a process or thread; None if it has ended."""
    try:
        head, _, tail = (place / "stat").read_text("utf-8", "replace").rpartition(")")
    except OSError:
        return None
    fields = tail.split()
    return head.partition("(")[2], (int(fields[11]) + int(fields[12])) / _TICKS


def _pss(pid: int) -> int:
    """Bytes; 0 if it has ended."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
