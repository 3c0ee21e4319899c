"""The tests' Spark session: what would end it, what is left in it, and whether it has ended."""

from __future__ import annotations

import gc
import sys
from typing import Any

HEAP_FULL = 3
"""Exit code of a JVM that ends once its heap is full."""
LEFT_MAX = 100
"""Objects of the JVM that this process may still hold after a test."""


class Kept:
    """The session for verbs that stop theirs."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        """It goes on."""


def settle() -> None:
    """What is there by now stays: no collection of Python's needs to look at it again."""
    gc.collect()
    gc.freeze()


def let_go() -> None:
    """Let go of the queries, and with them of the broadcasts, that a test has left in the JVM.

    py4j's objects are in cycles, and Python collects these by how many there are, not by what each holds there.
    """
    py4j = sys.modules.get("py4j.finalizer")
    if py4j is not None and len(py4j.ThreadSafeFinalizer.finalizers) > LEFT_MAX:
        gc.collect()


def end_of_jvm() -> str:
    """How the JVM of this process has ended; empty as long as it has not, or if there is none."""
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark is not None else None
    code = gateway.proc.poll() if gateway is not None else None
    if code is None:
        return ""
    return "its heap was full" if code == HEAP_FULL else f"exit code {code}"
