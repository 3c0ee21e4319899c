"""What does not answer, and for how long: told once a minute, given up after `give_up_secs`.

    seen ── told once a minute ──> over, or DependencyUnreachable (exit 69) when it has lasted too long

Belongs to the loop's thread. An outage never decides where anything goes on: after it positions come from the tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.core.backoff import Backoff
from exporter.errors import DependencyUnreachable
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.snapshot import Outage

log = get_logger(__name__)

TELL_SECS = 60.0
PAUSE = Backoff(1.0, 30.0)
PAUSE_SHARE = 1 / 8
"""Of what an outage has lasted; so long is waited for the next try."""

KAFKA, GROUP, STORAGE, WAL = "kafka", "consumer group", "storage", "write-ahead log"
REGISTRY = "schema registry"
SPARK = "Spark's cluster"


class Outages:
    """The dependencies that are out now. All times are monotonic seconds."""

    def __init__(self, give_up_secs: float = float("inf")) -> None:
        self._give_up_secs = give_up_secs
        self._open: dict[str, Outage] = {}
        self._told_at: dict[str, float] = {}

    @property
    def open(self) -> Mapping[str, Outage]:
        """A copy that nobody changes."""
        return dict(self._open)

    def seen(self, name: str, error: str, now: float) -> None:
        """Note that it does not answer. Raises DependencyUnreachable if it has not for `give_up_secs`."""
        since = self._open[name].since if name in self._open else now
        self._open[name] = Outage(since, error)
        secs = now - since
        if secs > self._give_up_secs:
            raise DependencyUnreachable(
                f"{name} has not answered for {secs:.0f} s: {error}",
                "start again when it does: everything goes on from the tables; `give_up_secs` says how long to wait",
            )
        if now - self._told_at.get(name, float("-inf")) >= TELL_SECS:
            self._told_at[name] = now
            log.warning(Event.OUTAGE_SEEN, dependency=name, secs=round(secs), error=error)

    def over(self, name: str, now: float) -> None:
        """Note that a dependency answers again."""
        trouble = self._open.pop(name, None)
        self._told_at.pop(name, None)
        if trouble is not None:
            log.info(Event.OUTAGE_ENDED, dependency=name, secs=round(now - trouble.since))

    def pause_secs(self, name: str, now: float) -> float:
        """How long to wait for the next try; the longer, the longer it has lasted."""
        secs = now - self._open[name].since if name in self._open else 0.0
        return PAUSE.lasting(secs, PAUSE_SHARE)
