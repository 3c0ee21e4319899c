"""Futures without locks: in a world one thread of the system runs, and gives way only where the kernel says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.kernel import Kernel

WAITING, RUNNING, CANCELLED, DONE = "waiting", "running", "cancelled", "done"


class SimFuture(Future):  # type: ignore[type-arg]
    """A future that fibers wait for. Those of Python make a lock each, which is half of what a call in a pool costs."""

    def __init__(self, kernel: Kernel | None = None) -> None:
        """kernel: by which its fibers wait; None for one that has ended by the time that anybody sees it."""
        self.kernel = kernel
        self._now = WAITING
        self._value: Any = None
        self._error: BaseException | None = None
        self._told: list[Callable[[Future[Any]], Any]] = []

    def cancel(self) -> bool:
        if self._now in (RUNNING, DONE):
            return False
        if self._now == WAITING:
            self._ends(CANCELLED)
        return True

    def cancelled(self) -> bool:
        return self._now == CANCELLED

    def running(self) -> bool:
        return self._now == RUNNING

    def done(self) -> bool:
        return self._now in (DONE, CANCELLED)

    def set_running_or_notify_cancel(self) -> bool:
        if self._now == CANCELLED:
            return False
        self._now = RUNNING
        return True

    def set_result(self, result: Any) -> None:
        self._value = result
        self._ends(DONE)

    def set_exception(self, exception: BaseException | None) -> None:
        self._error = exception
        self._ends(DONE)

    def _ends(self, how: str) -> None:
        self._now = how
        told, self._told = self._told, []
        for tell in told:
            tell(self)

    def add_done_callback(self, fn: Callable[[Future[Any]], Any]) -> None:
        if self.done():
            fn(self)
        else:
            self._told.append(fn)

    def result(self, timeout: float | None = None) -> Any:
        error = self.exception(timeout)
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # else the traceback holds what holds it

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.done() and self.kernel is not None:
            waited_for([self], self.kernel, timeout)
        if not self.done():
            raise TimeoutError
        if self._now == CANCELLED:
            raise CancelledError
        return self._error


def waited_for(futures: Collection[Future[Any]], kernel: Kernel, secs: float | None) -> None:
    """Wait until all have ended, for so long at most."""
    deadline = None if secs is None else kernel.now + secs
    for future in futures:
        while not future.done():
            fiber = kernel.here()
            left = None if deadline is None else deadline - kernel.now
            if left is not None and left <= 0:
                return
            future.add_done_callback(
                lambda _, fiber=fiber, ticket=fiber.ticket: kernel.at(kernel.now, kernel.resume, fiber, ticket, True)
            )
            kernel.park(left)


class Inline(Executor):
    """A pool whose calls are made by who hands them in: for questions, which nobody sees to be asked at once.

    A fiber for each would be a tenth of all that a world costs.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> SimFuture:
        future = SimFuture()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)
        return future

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """All are asked, whatever one of them says."""
        return iter([future.result() for future in [self.submit(fn, *one) for one in zip(*iterables, strict=False)]])
