"""Threads for whose end no end of the process waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from exporter import threads

T = TypeVar("T")


def aside(name: str, call: Callable[[], T]) -> Future[T]:
    """Call it in such a thread of this name."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)

    threads.started(run, name)
    return future
