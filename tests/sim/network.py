"""What lies between a task and the services that it calls: delays, losses, refusals, and who is cut off from what.

A call that only reads is made when its answer is due. One that writes arrives by itself: its process may be no more by
then, its answer may be lost, and a late one may arrive long after its caller has given it up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.sim.kernel import Kernel, Process

STORE, LOG, BROKER, CONTROL, REGISTRY = "store", "log", "broker", "control", "registry"
SERVICES = (STORE, LOG, BROKER, CONTROL)
"""What every world has."""

TRIES = 3
"""So often a call that is refused is made again; the client of a real store goes on for some seconds."""

Answer = TypeVar("Answer")
Failed = Callable[[str], Exception]


@dataclass
class Weather:
    """Chances of one call, and what it takes. slow: of a call that takes a second or more.

    batch_secs: what comes in within so long comes at once.
    """

    secs: float = 0.004
    slow: float = 0.002
    refused: float = 0.0
    lost_request: float = 0.0
    lost_reply: float = 0.0
    late: float = 0.0
    timeout_secs: float = 4.0
    batch_secs: float = 0.0


@dataclass
class Network:
    """One world's. cut: (process, service) -> until when; met: how often something went wrong, by what it was.

    calls: how often each service was asked, by the kind of the request where it is told.
    """

    kernel: Kernel
    weather: dict[str, Weather] = field(default_factory=lambda: {name: Weather() for name in (*SERVICES, REGISTRY)})
    cut: dict[tuple[Process | None, str], float] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def cut_off(self, process: Process | None, service: str, secs: float) -> None:
        """A process, or all of them, reaches a service no more for a time."""
        until = self.kernel.now + secs
        self.cut[process, service] = max(until, self.cut.get((process, service), 0.0))

    def is_cut(self, process: Process, service: str) -> bool:
        now = self.kernel.now
        return self.cut.get((process, service), 0.0) > now or self.cut.get((None, service), 0.0) > now

    def _secs(self, weather: Weather) -> float:
        rng = self.kernel.rng
        if rng.random() < weather.slow:
            return 1.0 + rng.random() * 5.0
        return weather.secs * (0.5 + rng.random())

    def read(self, service: str, effect: Callable[[], Answer], failed: Failed, kind: str = "") -> Answer:
        """A call that changes nothing. failed: the error of one that does not come through.

        Who is told to slow down asks again, as the clients of real services do.
        """
        kernel, weather = self.kernel, self.weather[service]
        self.calls[kind or service] += 1
        if self.cut and self.is_cut(kernel.here().process, service):
            self.met[f"{service}: no answer"] += 1
            kernel.sleep(weather.timeout_secs)
            raise failed("no answer")
        kernel.park(self._secs(weather))
        for tries in range(TRIES):
            if not weather.refused or kernel.rng.random() >= weather.refused:
                return effect()
            self.met[f"{service}: refused"] += 1
            kernel.sleep(0.1 * 2**tries)
        raise failed("told to slow down")

    def write(self, service: str, effect: Callable[[], Answer], failed: Failed, may_be_late: bool = False) -> Answer:
        """A call that changes something. may_be_late: it may arrive after the caller has been told that it failed."""
        kernel, weather = self.kernel, self.weather[service]
        self.calls[f"{service}: write"] += 1
        fiber = kernel.here()
        if self.is_cut(fiber.process, service):
            self.met[f"{service}: no answer"] += 1
            kernel.sleep(weather.timeout_secs)
            raise failed("no answer")
        for tries in range(TRIES):
            if not weather.refused or kernel.rng.random() >= weather.refused:
                break
            self.met[f"{service}: refused"] += 1
            kernel.sleep(0.1 * 2**tries)
        else:
            raise failed("told to slow down")
        drawn, secs = kernel.rng.random(), self._secs(weather)
        late = weather.late if may_be_late else 0.0
        for chance, what in (
            (weather.lost_request, "request lost"),
            (weather.lost_reply, "reply lost"),
            (late, "late"),
        ):
            if drawn < chance:
                self.met[f"{service}: {what}"] += 1
                return self._spoiled(what, effect, failed, weather)
            drawn -= chance
        ticket = fiber.ticket

        def arrive() -> None:
            kernel.after(secs / 2, kernel.resume, fiber, ticket, tried(effect))

        kernel.after(secs / 2, arrive)
        return _told(kernel.park())

    def _spoiled(self, what: str, effect: Callable[[], Answer], failed: Failed, weather: Weather) -> Answer:
        kernel, rng = self.kernel, self.kernel.rng
        if what == "reply lost":
            kernel.after(self._secs(weather), tried, effect)
        if what == "late":
            kernel.after(weather.timeout_secs + rng.random() * 20.0, tried, effect)
        kernel.sleep(weather.timeout_secs * (0.2 + rng.random()))
        raise failed("the reply was lost")


def tried(effect: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a service answers: a value, or the error that it answers with."""
    try:
        return effect(), None
    except Exception as error:  # noqa: BLE001 - the caller gets it, as over any wire
        return None, error


def _told(answer: tuple[Any, Exception | None]) -> Any:
    value, error = answer
    if error is not None:
        raise error
    return value
