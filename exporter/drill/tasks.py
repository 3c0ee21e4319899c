"""Exporters as child processes of a drill: started as a user starts them, killed, stopped, and listened to."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

from exporter import faults
from exporter.local.children import EXPORTER, ChildProcess, kill_quietly, quick_java, session_members

GONE_SECS_MAX = 15.0
"""How long what a killed driver started may live on."""


class Task(ChildProcess):
    """`exporter <arguments>`; stdout and stderr go to one file.

    prelude: Python that runs before the exporter is imported. folder: where it runs.
    """

    def __init__(
        self,
        name: str,
        arguments: list[str],
        log: Path,
        armed: str = "",
        environment: Mapping[str, str] | None = None,
        prelude: str = "",
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.armed = armed
        fault = {faults.VARIABLE: armed} if armed else {}
        added = {**quick_java(), **(environment or {}), **fault}
        super().__init__([prelude + EXPORTER, *arguments], added, log, folder=folder)

    def signal(self, sent: signal.Signals, whole: bool = False) -> None:
        """To the driver, or to all that it started as well."""
        for pid in session_members(self.pid) if whole else [self.pid]:
            kill_quietly(pid, sent)
