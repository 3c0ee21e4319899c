"""The process that Spark forks its workers from."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.executor.daemon import silent


@pytest.mark.parametrize("gone", [BrokenPipeError, ConnectionResetError])
def test_a_worker_whose_answer_nobody_waits_for_ends_in_silence(gone: type[OSError]) -> None:
    """Its code says that it is of no more use; whatever else ends a worker is told by Spark."""

    def worker(sock: Any, authenticated: bool) -> int:
        raise sock

    assert silent(lambda sock, authenticated: 0)(None, True) == 0
    assert silent(worker)(gone("nobody reads"), True) == 1
    for told in ValueError("no such thing"), OSError("the disk is full"), SystemExit(3):
        with pytest.raises(type(told)):
            silent(worker)(told, True)
