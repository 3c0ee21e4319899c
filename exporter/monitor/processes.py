"""What the processes of a task use, as the operating system tells it; nothing where it tells nothing (macOS)."""

from __future__ import annotations

from prometheus_client import ProcessCollector

CPU, MEMORY, FILES, FILES_MAX = "cpu_seconds", "resident_memory_bytes", "open_fds", "max_fds"
"""CPU in seconds since the start, memory in bytes, files that are open and that may be."""


def used(pid: int) -> dict[str, float]:
    """Of one process; nothing if there is none. Reads /proc."""
    families = ProcessCollector(pid=lambda: pid, registry=None).collect()
    return {family.name.removeprefix("process_"): family.samples[0].value for family in families}
