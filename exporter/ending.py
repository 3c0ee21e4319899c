"""How a task ends: on request, by itself or by an error, and always.

    nothing held yet   a signal ends the process at once, exit code 0: nobody waits for anything that it has
    hold()             from here on a signal is noted: what others wait for is about to be held, such as partitions
    stopping(stop)     a signal, or one that was noted, asks for `stop`
    leave()            the way out: what it may take is bounded, for a JVM that does not answer would keep the process

A second signal ends the process at once, whatever it does. Signals are handled in a thread of their own: a handler
runs in the middle of whatever the main thread does, and what it did with a lock that is held there would never end.
Only light modules are imported here, for all this is to be in force before anything else is loaded.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

LEAVE_SECS = 10.0
"""What the way out may take: leave the group, give leases back, end Spark."""
TELL_SECS = 1.0
HANGS = 69
"""The exit code of a stop that does not end: something that it waits for does not answer."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
TASKS = ("run", "maintain", "derive run")
"""The verbs that a signal stops; the others it just ends."""


def say_nothing(_error: BaseException | None) -> int | None:
    """Until somebody knows better how an error is told."""
    return None


def at_once(code: int) -> None:
    """End the process; a terminal gets its cursor back, which a bar of progress hides."""
    if os.isatty(2):
        os.write(2, b"\x1b[?25h")
    os._exit(code)


class Ending:
    """How this process ends: once, in time, with its exit code."""

    def __init__(self, end: Callable[[int], object] = at_once) -> None:
        """end: ends the process with an exit code, at once."""
        self.tell: Callable[[BaseException | None], int | None] = say_nothing
        """Says that the way out takes too long, and because of what it was taken; the exit code of that, if any."""
        self._end = end
        self._lock = threading.RLock()
        self._stop: Callable[[], None] | None = None
        self._asked = False
        self._deadline: float | None = None
        self._error: BaseException | None = None
        self._code = 0
        self._budget_secs: float | None = None
        self._pid = os.getpid()
        self._wake: int | None = None

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._asked

    @property
    def installed(self) -> bool:
        """Whether this process is a task, which a signal stops."""
        return self._wake is not None

    def install(self, words: Sequence[str] = TASKS) -> None:
        """Take the signals over, in the main thread, if these words of a command line begin with a verb of TASKS."""
        if self.installed or not any(" ".join([*words[:2], ""]).startswith(f"{task} ") for task in TASKS):
            return
        reading, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        threading.Thread(target=self._listen, args=(reading,), name="ending", daemon=True).start()
        for number in SIGNALS:
            signal.signal(number, self._signalled)

    def hold(self) -> None:
        """From here on a signal is noted, and stopping() acts on it."""
        with self._lock:
            self._stop = self._stop or _later

    @contextmanager
    def stopping(self, stop: Callable[[], None], budget_secs: float | None = None) -> Iterator[None]:
        """While this lasts a signal asks for `stop`, which may take budget_secs; what comes later changes nothing."""
        with self._lock:
            self._budget_secs, self._stop = budget_secs, stop
            asked = self._asked
        if asked:
            self._ask()
        try:
            yield
        finally:
            with self._lock:
                self._stop = _later

    def leave(self) -> None:
        """The way out begins, because of the error that is on its way, if one is."""
        if self.installed:
            self._within(LEAVE_SECS, sys.exc_info()[1], 0)

    def exit(self, code: int) -> None:
        """End the process, without waiting for any thread if it is a task."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if self.installed:
            self._end(code)
        sys.exit(code)

    def _signalled(self, number: int, _frame: object) -> None:
        """The handler. A child that has not become another program yet is not this process."""
        if self._wake is not None and os.getpid() == self._pid:
            os.write(self._wake, bytes([number]))

    def _listen(self, reading: int) -> None:
        """The thread: signals as they come, and the deadline."""
        while True:
            deadline = self._deadline
            secs = None if deadline is None else max(0.0, deadline - time.monotonic())
            if select.select([reading], [], [], secs)[0]:
                for number in os.read(reading, 64):
                    if number:
                        self._came(number)
            elif deadline == self._deadline:
                self._overdue()
                return

    def _came(self, number: int) -> None:
        with self._lock:
            second, self._asked = self._asked, True
            unheld = self._stop is None
        if second:
            self._end(128 + number)
        elif unheld:
            self._end(0)
        else:
            self._ask()

    def _ask(self) -> None:
        with self._lock:
            stop, budget_secs = self._stop, self._budget_secs
        if budget_secs is not None:
            self._within(budget_secs + LEAVE_SECS, None, HANGS)
        if stop is not None:
            stop()

    def _within(self, secs: float, error: BaseException | None, code: int) -> None:
        """Be gone after so many seconds; the first deadline counts, and the first error."""
        deadline = time.monotonic() + secs
        with self._lock:
            self._error = self._error or error
            if self._deadline is None or deadline < self._deadline:
                self._deadline, self._code = deadline, code
        if self._wake is not None:
            os.write(self._wake, b"\0")

    def _overdue(self) -> None:
        """Tell and end; to tell may hang as well, where nobody reads what is written."""
        codes = [self._code]

        def tell() -> None:
            code = self.tell(self._error)
            codes.append(self._code if code is None else code)

        telling = threading.Thread(target=tell, daemon=True)
        telling.start()
        telling.join(TELL_SECS)
        self._end(codes[-1])


def _later() -> None:
    """What was noted is acted upon later, or does not matter any more."""


ending = Ending()
"""This process's."""
