"""A task in coordinated mode: one thread hears the control topic, and feeds the task's member and its leader.

    the loop ── occasion, submit, rolled ──> RoundMember ──┐
                                                           ├── say ──> Channel ── hear ──┬──> RoundMember
                                                  Leader ──┘                             └──> Leader
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future

from exporter import threads
from exporter.clock import monotonic
from exporter.coordinate.leader import Leader
from exporter.coordinate.member import RoundMember
from exporter.core.coordination import Channel, CoordinationState, Leadership
from exporter.core.due import Occasion
from exporter.core.outcome import Report
from exporter.core.writers import Claim
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.text import first_line
from offsets.ranges import TopicPartition

log = get_logger(__name__)

HEAR_SECS = 0.1
"""How long the thread waits for messages before it looks at its clock: less than what an offer waits for others."""
CLOSE_SECS = 2.0
"""How long the end of the thread is waited for."""


class CoordinatedCommits:
    """The Commits of a task in coordinated mode."""

    def __init__(
        self,
        channel: Channel,
        member: RoundMember,
        leader: Leader,
        leadership: Leadership,
        grace_secs: float,
        clock: Callable[[], float] = monotonic,
        release: Callable[[], None] = lambda: None,
        threaded: bool = True,
    ) -> None:
        """grace_secs: as in Occasion. release: lets go of what it was made with. threaded: False for tests that call
        step() themselves.
        """
        self._channel = channel
        self._member = member
        self._leader = leader
        self._leadership = leadership
        self._clock = clock
        self._release = release
        self._grace_secs = grace_secs
        self._asked_by = self._rolled_for = ""
        self._rolled_of = frozenset[TopicPartition]()
        self._ended = threads.event()
        self._trouble = ""
        self._thread = threads.started(self._run, "coordinate") if threaded else None

    def occasion(self, flushing: bool) -> Occasion:
        self._asked_by = self._member.begun()
        return Occasion(flushing, bool(self._asked_by), self._grace_secs, self._member.is_lively)

    def submit(self, event_type: str, claims: Sequence[Claim], in_hurry: bool) -> Future[Report]:
        return self._member.submit(event_type, claims, "" if in_hurry else self._asked_by)

    def rolled(self, partitions: Collection[TopicPartition]) -> None:
        """A round is told so, whatever the loop had for it: nothing else comes. If partitions came since, again."""
        if self._asked_by or (self._rolled_for and {*partitions} - self._rolled_of):  # it is waited for
            self._rolled_for, self._rolled_of = self._asked_by or self._rolled_for, frozenset(partitions)
            self._member.rolled(self._rolled_for, self._rolled_of)

    def hurry(self) -> None:
        self._member.hurry()

    def state(self) -> CoordinationState:
        """What there is to tell of it; callable from every thread."""
        led = self._leader.led
        return CoordinationState(
            leads=self._leader.leads,
            open_offers=self._member.pending,
            ended=dict(self._member.ended),
            rounds=self._leader.rounds_closed,
            commits=led.commits,
            merged=led.offers,
            left_out=led.left_out,
            failed=led.failed,
            trouble=self._channel.trouble,
        )

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECS)
        self._leadership.close()
        self._channel.close()
        self._release()

    def step(self, timeout_secs: float) -> None:
        """Hear what has come, for so long at most, and do what is due."""
        messages = self._channel.hear(timeout_secs)
        now = self._clock()
        for message in messages:
            if message.app == self._member.app:
                self._member.hear(message, now)
                self._leader.hear(message, now)
        self._member.tick(now)
        self._leader.tick(now)
        self._tell_of_trouble(self._channel.trouble)

    def _tell_of_trouble(self, trouble: str) -> None:
        """Once, and of its end."""
        if trouble and not self._trouble:
            log.warning(Event.CONTROL_SILENT, error=trouble)
        elif self._trouble and not trouble:
            log.info(Event.CONTROL_REACHED)
        self._trouble = trouble

    def _run(self) -> None:
        """Whatever goes wrong in a step, the next one is made: without it tasks would wait for time-outs only."""
        while not self._ended.is_set():
            try:
                self.step(HEAR_SECS)
            except Exception as error:  # noqa: BLE001 - a hint that is lost costs a commit, and no record
                log.error(Event.COORDINATION_FAILED, error=first_line(error))
                self._ended.wait(HEAR_SECS)
