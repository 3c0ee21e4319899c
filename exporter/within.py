"""A call of somebody else's code that is given up after a while, where the interpreter gets to it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_SECS = 1.0
"""Code that catches everything is told again so often."""


class TooLong(BaseException):
    """No Exception: code that catches those goes on past it nowhere."""


@contextmanager
def within(secs: float) -> Iterator[None]:
    """Raises TooLong in the block after so many seconds. In the main thread only; elsewhere it takes what it takes.

    What waits in a library of C that does not come back to the interpreter is not ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_on = True

    def over(number: int, frame: FrameType | None) -> None:
        if is_on:
            raise TooLong

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, secs, AGAIN_SECS)
    try:
        yield
    finally:
        while is_on:
            try:
                is_on = False
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except TooLong:
                is_on = True
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)
