"""Announcing beside the export, each sink in a thread of its own: nothing waits for it, and no failure ends anything.

    the start   every task makes sure that it is kept where announcing begins, before it commits anything
    is_mine()   who leads goes on from what is kept; the others wait
    the end     what is left is announced once more, within a bound
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from exporter import threads
from exporter.announce.follower import Follower, Passed
from exporter.announce.seams import Trouble
from exporter.aside import aside
from exporter.clock import monotonic
from exporter.core.backoff import Backoff
from exporter.core.coordination import Leadership
from exporter.core.sink_state import SinkState
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.text import first_line

log = get_logger(__name__)

BEGIN_SECS = 15.0
"""How long a start waits until it is kept where announcing begins."""
LOOK_SECS = 1.0
LOOK_REST = 4.0
"""Turns over many tables rest longer: they take a fifth of the time at most."""
PAUSE = Backoff(1.0, 60.0)
"""From what went wrong to the next try."""


class Announcing:
    """Of one task; leadership stays the caller's."""

    def __init__(self, made: Mapping[str, Follower], leadership: Leadership) -> None:
        """made: sink -> its follower, which is used and closed by a thread of this one's alone."""
        self._leadership = leadership
        self._states = dict.fromkeys(made, SinkState())
        self._begun = {sink: threads.event() for sink in made}
        self._stop, self._until = threads.event(), float("-inf")
        self._crowded: dict[str, tuple[str, ...]] = {}
        self._running: list[Future[None]] = [
            aside(f"announce-{sink}", partial(self._work, sink, follower)) for sink, follower in made.items()
        ]

    @property
    def states(self) -> Mapping[str, SinkState]:
        """How each sink fares; a copy."""
        return dict(self._states)

    def wait_begun(self) -> None:
        """Until every sink knows where it begins, or for a while."""
        deadline = monotonic() + BEGIN_SECS
        for begun in self._begun.values():
            begun.wait(max(0.0, deadline - monotonic()))

    def close(self, budget_secs: float = 0.0) -> None:
        """End; what is left is announced first, if that takes no longer than a budget."""
        deadline = self._until = monotonic() + budget_secs
        self._stop.set()
        threads.wait(self._running, max(0.0, deadline - monotonic()))

    def _work(self, sink: str, follower: Follower) -> None:
        """What a sink's thread does: follow and send until it is stopped."""
        failures = 0
        while True:
            last, began = self._stop.is_set(), monotonic()
            error = self._tried(sink, follower)
            self._tell(sink, error)
            failures = failures + 1 if error else 0
            if last:
                break
            spent = monotonic() - began
            self._stop.wait(PAUSE.after(failures - 1) if error else max(LOOK_SECS, LOOK_REST * spent))
        follower.close()

    def _tried(self, sink: str, follower: Follower) -> str:
        """Pass once, if it is this task's; what was in the way, or empty."""
        try:
            if not self._begun[sink].is_set() or self._leadership.is_mine():
                if (began := follower.begin()) is not None:
                    log.info(Event.EVENTS_BEGUN, sink=sink, versions=began)
                self._begun[sink].set()
            if not self._leadership.is_mine():
                follower.forget()
                return ""
            passed = follower.passed(self._may_go_on)
            self._count(sink, passed)
            return passed.trouble
        except Trouble as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the export goes on
            return f"{type(error).__name__}: {first_line(error)}"

    def _may_go_on(self) -> bool:
        if self._stop.is_set() and monotonic() >= self._until:
            return False
        return self._leadership.is_mine()

    def _count(self, sink: str, passed: Passed) -> None:
        before = self._states[sink]
        announced, skipped = before.announced + passed.messages, before.skipped + passed.skipped
        self._states[sink] = replace(before, announced=announced, skipped=skipped)
        if passed.skipped:
            log.warning(Event.EVENTS_SKIPPED, sink=sink, messages=passed.skipped)
        if passed.left_out != self._crowded.get(sink, ()):
            self._crowded[sink] = passed.left_out
            log.warning(Event.EVENTS_CROWDED, sink=sink, tables=[*passed.left_out])

    def _tell(self, sink: str, error: str) -> None:
        """Once, until it goes again."""
        before = self._states[sink]
        if error and not before.error:
            log.warning(Event.EVENTS_HELD_UP, sink=sink, error=error)
        if before.error and not error:
            log.info(Event.EVENTS_RESUMED, sink=sink)
        self._states[sink] = replace(before, error=error)
