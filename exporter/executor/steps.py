"""What a task of a round spends its time on. Runs on Spark executors."""

from __future__ import annotations

from time import perf_counter

from exporter.core.manifest import MICROS, STEPS


class Steps:
    """How long a task has been at each of STEPS, by the clock; one step at a time."""

    def __init__(self) -> None:
        self._secs = dict.fromkeys(STEPS, 0.0)
        self._now, self._since = STEPS[0], perf_counter()

    def now(self, step: str) -> None:
        """Count time for this step from here on."""
        at = perf_counter()
        self._secs[self._now] += at - self._since
        self._now, self._since = step, at

    def counts(self) -> dict[str, int]:
        """As counts of the manifest."""
        self.now(self._now)
        return {MICROS + step: int(secs * 1e6) for step, secs in self._secs.items()}
