"""Simulated time, processes and threads: greenlets in one thread of the system, of which a seed picks the next.

    Kernel ── at(when, what) ── a heap by time; who is due at the same moment is drawn
      └─ Process ── Fiber, Fiber ...   killed: they unwind and reach nothing any more; paused: they stand still

What the code under test takes for threads and for the clock is SimThreads and the kernel's clock, by the seams of
exporter/threads.py and exporter/clock.py. A fiber gives way only where it sleeps, waits or calls something outside.
"""

from __future__ import annotations

import heapq
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet

from exporter.clock import Clock
from exporter.threads import Thread, Threads
from tests.sim.futures import Inline, SimFuture, waited_for

ASKING = "ask"
"""Name of the pools of stores/many.py."""
BEGAN = 1_767_268_800.0
"""The wall clock at the beginning: 2026-01-01T12:00:00Z."""


class Killed(BaseException):
    """The fiber's process is no more: whatever it still tries fails, and nothing of it reaches the world."""


class Process:
    """One simulated process. ended: called once, with what ended it: an exception, or None."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.paused_until = 0.0
        self.fibers: dict[Fiber, None] = {}
        self.told: dict[str, Any] = {}

    def __str__(self) -> str:
        return self.name


class Fiber(greenlet):
    """A simulated thread. ticket: of its present wait; what was to wake an earlier one comes too late."""

    def __init__(self, process: Process, name: str, run: Callable[[], Any]) -> None:
        super().__init__(self._live, process.kernel.hub)
        self.process = process
        self.name = name
        self.ticket = 0
        self._what = run

    def _live(self, *_: object) -> None:
        if (trace := self.process.kernel.trace) is not None:
            sys.settrace(trace)
        try:
            self._what()
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001 - a thread of the code under test has died: the world is told
            self.process.kernel.died(self, error)
        finally:
            self.process.fibers.pop(self, None)


class Kernel:
    """One world's time. rng: draws all that is left to chance. died: told of threads that end by an error.
    trace: watches what fibers run, as sys.settrace() has it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.hub = getcurrent()
        self.now = 0.0
        self.current: Fiber | None = None
        self.steps = 0
        self.died: Callable[[Fiber, Exception], None] = _raised
        self.trace: Any = None
        self._heap: list[tuple[float, float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._pushed = 0
        self.clock = Clock(
            monotonic=lambda: self.now, wall=lambda: BEGAN + self.now, sleep=self.sleep, core_secs=self._busy
        )
        self._core_secs = 0.0

    def _busy(self) -> float:
        """Each look at it finds a tenth of a second more: a loop that rests by what it took then rests for long."""
        self._core_secs += 0.1
        return self._core_secs

    # The heap

    def at(self, when: float, what: Callable[..., Any], *args: Any) -> None:
        """Let something happen at a time, in no fiber. Of what is due at once any may be first."""
        self._pushed += 1
        heapq.heappush(self._heap, (when, self.rng.random(), self._pushed, what, args))

    def after(self, secs: float, what: Callable[..., Any], *args: Any) -> None:
        """The same, so many seconds from now."""
        self.at(self.now + secs, what, *args)

    def run(self, until: float, stops: Callable[[], bool] = lambda: False) -> None:
        """Let everything happen up to a time, or until something is so."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until and not stops():
            when, _, _, what, args = pop(heap)
            if when > self.now:
                self.now = when
            self.steps += 1
            what(*args)
        if not stops():
            self.now = max(self.now, until)

    # Processes and fibers

    def started(self, process: Process, name: str, run: Callable[[], Any]) -> Fiber:
        """A new fiber of a process; it runs when it is its turn."""
        fiber = Fiber(process, name, run)
        process.fibers[fiber] = None
        self.at(self.now, self.resume, fiber, fiber.ticket, None)
        return fiber

    def resume(self, fiber: Fiber, ticket: int, answer: Any) -> None:
        """Let a fiber go on, unless it has gone on since, or its process is no more or stands still."""
        process = fiber.process
        if fiber.ticket != ticket or fiber.dead or not process.alive:
            return
        if process.paused_until > self.now:
            self.at(process.paused_until, self.resume, fiber, ticket, answer)
            return
        fiber.ticket += 1
        before, self.current = self.current, fiber
        try:
            fiber.switch(answer)
        finally:
            self.current = before

    def kill(self, process: Process) -> None:
        """End a process between two steps of the world: no fiber of it does anything any more."""
        process.alive = False
        if self.current is not None:  # who unwinds a fiber has to be the hub, which is where it goes on then
            self.at(self.now, self._unwind, process)
        else:
            self._unwind(process)

    def _unwind(self, process: Process) -> None:
        for fiber in [*process.fibers]:
            if fiber:  # it has begun and not ended
                before, self.current = self.current, fiber
                try:
                    fiber.throw(Killed)
                finally:
                    self.current = before
        process.fibers.clear()

    def pause(self, process: Process, secs: float) -> None:
        """Let a process stand still for a time, as SIGSTOP, a frozen machine or a long collection of garbage do."""
        process.paused_until = self.now + secs

    def here(self) -> Fiber:
        """The fiber that runs. Raises Killed if its process is no more."""
        fiber = self.current
        if fiber is None:
            raise RuntimeError("no fiber runs")
        if not fiber.process.alive:
            raise Killed
        return fiber

    def park(self, secs: float | None = None) -> Any:
        """Give way until resumed under the present ticket; None if so many seconds have passed before."""
        fiber = self.here()
        if secs is not None:
            self._pushed += 1
            due = self.now + secs, self.rng.random(), self._pushed, self.resume, (fiber, fiber.ticket, None)
            heapq.heappush(self._heap, due)
        answer = self.hub.switch()
        if not fiber.process.alive:
            raise Killed
        return answer

    def sleep(self, secs: float) -> None:
        """Give way for so many seconds."""
        self.park(secs if secs > 0.0 else 0.0)


def _raised(fiber: Fiber, error: Exception) -> None:
    raise error


class SimEvent(threading.Event):
    """threading.Event for fibers."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._is_set = False
        self._waiting: list[tuple[Fiber, int]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for fiber, ticket in waiting:
            self._kernel.at(self._kernel.now, self._kernel.resume, fiber, ticket, True)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        fiber = self._kernel.here()
        if not self._is_set:
            self._waiting.append((fiber, fiber.ticket))
            self._kernel.park(timeout)
        return self._is_set


class SimPool(Executor):
    """A pool of so many fibers at most, of the process that made it."""

    def __init__(self, kernel: Kernel, most: int, name: str) -> None:
        self._kernel = kernel
        self._most = most
        self._name = name
        self._process = kernel.here().process
        self._running = 0
        self._queue: deque[tuple[SimFuture, Callable[[], Any]]] = deque()
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> SimFuture:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = SimFuture(self._kernel)
        self._queue.append((future, lambda: fn(*args, **kwargs)))
        if self._running < self._most:
            self._running += 1
            self._kernel.started(self._process, self._name, self._work)
        return future

    def _work(self) -> None:
        try:
            while self._queue:
                future, call = self._queue.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    answer = call()
                except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
                    future.set_exception(error)
                else:
                    future.set_result(answer)
        finally:
            self._running -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True
        if cancel_futures:
            for future, _ in [*self._queue]:
                future.cancel()
        while wait and (self._running or self._queue):
            self._kernel.sleep(0.001)


class SimLock:
    """A lock that the fiber that holds it may take again."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._holder: Fiber | None = None
        self._depth = 0
        self._waiting: deque[tuple[Fiber, int]] = deque()

    def __enter__(self) -> None:
        fiber = self._kernel.current
        while self._holder is not None and self._holder is not fiber:
            if fiber is None:
                raise RuntimeError("a lock is held, and no fiber runs that could wait")
            self._waiting.append((fiber, fiber.ticket))
            self._kernel.park()
        self._holder = fiber
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = None
            if self._waiting:
                fiber, ticket = self._waiting.popleft()
                self._kernel.at(self._kernel.now, self._kernel.resume, fiber, ticket, True)


class SimThread:
    """A fiber, as code sees a thread."""

    def __init__(self, kernel: Kernel, fiber: Fiber) -> None:
        self._kernel = kernel
        self._fiber = fiber

    def join(self, timeout: float | None = None) -> None:
        deadline = None if timeout is None else self._kernel.now + timeout
        while not self._fiber.dead and (deadline is None or self._kernel.now < deadline):
            self._kernel.sleep(0.05)


class SimThreads(Threads):
    """All threads of the code under test."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def pool(self, most: int, name: str) -> Executor:
        return Inline() if name == ASKING else SimPool(self._kernel, most, name)

    def started(self, run: Callable[[], Any], name: str) -> Thread:
        return SimThread(self._kernel, self._kernel.started(self._kernel.here().process, name, run))

    def event(self) -> threading.Event:
        return SimEvent(self._kernel)

    def lock(self) -> AbstractContextManager[Any]:
        return SimLock(self._kernel)

    def wait(self, running: Collection[Future[Any]], secs: float) -> None:
        waited_for(running, self._kernel, secs)
