"""A process that the demo starts, and what its events tell of its progress."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from exporter.errors import FoundProblem
from exporter.local.children import ChildProcess

EXPORT_SECS_MAX = 600.0
"""Deadline of each child's work."""
GONE_SECS_MAX = 10.0
"""How long the JVM of a killed exporter may live on before it is killed too."""
POLL_SECS = 0.05
LAST_WORDS = 6
"""Lines of its log that an error quotes."""


class DemoChild(ChildProcess):
    """An exporter, the audit or the producer: stderr goes to <name>.log, stdout to <name>.json.

    The counters are those of the exporter's events up to the last look at its state.
    """

    def __init__(
        self, name: str, code: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> None:
        """environment: added to what it inherits."""
        self.name = name
        self.read = self.committed = self.commits = 0
        self.tables = 0
        self.acknowledged: set[tuple[str, int]] = set()
        self.floors: dict[str, int] = {}
        self.finished: list[str] = []
        self._taken = 0
        self._closed = False
        self._answer = folder / f"{name}.json"
        super().__init__([code, *arguments], environment, folder / f"{name}.log", self._answer)

    def state(self) -> Literal["running", "stopped", "ended"]:
        """Whether the child runs, is stopped or has ended."""
        ended, stopped = self.ended() is not None, self.stopped()
        self._take()
        return "ended" if ended else "stopped" if stopped else "running"

    def wait(self, deadline: float) -> None:
        """Until it has ended well. Raises FoundProblem if it has not, or at the deadline."""
        while self.state() != "ended":
            nap(deadline, f"{self.name} was not done")
        self.require_success()

    def require_success(self) -> None:
        """Raises FoundProblem with its last words if its exit code is not 0."""
        if code := self.ended():
            raise self.failed(f"ended with exit code {code}")

    def failed(self, what: str) -> FoundProblem:
        """An error that tells what the child said last, other than events."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        said = [line for line in lines if line and not line.startswith("{")][-LAST_WORDS:]
        return FoundProblem(f"{self.name} {what}" + "".join(f"\n    {line[:200]}" for line in said), f"read {self.log}")

    def output(self) -> str:
        """What it wrote to stdout."""
        return self._answer.read_text("utf-8")

    def progress(self, records: int) -> str:
        """Of an exporter: how far it is."""
        if not self.read:
            starting = f"{self.tables} tables created" if self.tables else "the exporter starts"
            return "positions are known, the first records are read" if self.floors else starting
        of = f" of {records:,}" if self.read <= records else ""
        return f"{self.read:,}{of} read, {self.committed:,} rows committed in {self.commits} commits"

    def end(self) -> list[int]:
        """SIGKILL, then wait until all that it started is gone. The ids of those that had to be killed too."""
        if self._closed:
            return []
        self._closed = True
        if self.ended() is None:
            self.kill(whole=False)
        deadline = time.monotonic() + GONE_SECS_MAX
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(POLL_SECS)
        self._take()
        self.close()
        return left

    def _take(self) -> None:
        """Count what its new events tell."""
        said = self.events()
        for event in said[self._taken :]:
            told = event.fields
            if event.name == "round_read":
                self.read += int(told.get("records", 0))
            elif event.name == "positions_anchored":
                self.tables += bool(told.get("created"))
            elif event.name == "positions_recovered":
                self.floors |= told.get("floors", {})
            elif event.name == "wal_finished":
                self.finished += told.get("says", [])
            elif event.name == "commit_landed":
                self.commits += 1
                self.committed += int(told.get("rows", 0))
                self.acknowledged.add((str(told.get("table")), int(told.get("version", -1))))
        self._taken = len(said)


def nap(deadline: float, what: str) -> None:
    """The pace of all polling. Raises FoundProblem past the deadline."""
    if time.monotonic() > deadline:
        raise FoundProblem(f"{what} within {EXPORT_SECS_MAX:.0f} s", "read the logs in the demo's folder")
    time.sleep(POLL_SECS)
