"""Whether a job failed with its executors: by what Java says, as Spark 4.0 words it."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.spark.executors import lost

HEAD = "Job aborted due to stage failure: Task 0 in stage 4.0 failed 4 times, most recent failure: Lost task 0.3 in "
KILLED = "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: Command exited"
RAISED = "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  ValueError: "


class Thrown:
    """A throwable of Java's."""

    def __init__(self, message: str | None, cause: Thrown | None = None) -> None:
        self.getMessage, self.getCause = lambda: message, lambda: cause


def failed(says: str, of: str = "java_exception") -> Any:
    """What Python raises of a job whose last task failed with these words."""
    cause = Thrown(f"{HEAD}stage 4.0 (TID 9) (127.0.0.1 executor 1): {says}\nDriver stacktrace:")
    error: Any = RuntimeError("Exception thrown in awaitResult")
    setattr(error, of, Thrown("Exception thrown in awaitResult: ", cause))
    return error


@pytest.mark.parametrize("of", ["java_exception", "_origin"])
@pytest.mark.parametrize("says", [KILLED, "FetchFailed(BlockManagerId(1, 127.0.0.1, 4040, None), shuffleId=0)"])
def test_the_cause_is_found_behind_what_is_raised(says: str, of: str) -> None:
    """py4j has the first exception of the chain only, pyspark's own another attribute."""
    assert lost(failed(says, of))


@pytest.mark.parametrize(
    "error",
    [
        failed(f"{RAISED}no"),
        failed(f"{RAISED}{KILLED}"),
        failed(f"{RAISED}x\n{HEAD}stage 9.0 (TID 1) (h executor 1): {KILLED}"),
        failed("java.lang.ArithmeticException: long overflow"),
        RuntimeError(f"{HEAD}stage 4.0 (TID 9) (127.0.0.1 executor 1): {KILLED}"),
    ],
    ids=["a worker's error", "with a record's words", "with all of them", "the source's error", "Python's own"],
)
def test_a_record_cannot_pass_for_a_lost_executor(error: Any) -> None:
    """Else one that says so would never be poison, and its partition stand still."""
    assert not lost(error)
