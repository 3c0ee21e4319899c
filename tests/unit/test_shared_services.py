"""The services that the test processes of a run share (tests/support/shared.py)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import services, shared


def ask(address: str) -> str:
    """As a test process of that keeper does."""
    config: Any = SimpleNamespace(workerinput={shared.KEEPER: address})
    with shared.service("kafka", config) as found:
        return found


def test_a_service_is_started_once_for_all_test_processes_and_ends_with_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the first start fails: whoever asked is told why, and the next one who asks has it started."""
    steps: list[str] = []

    @contextmanager
    def broker() -> Iterator[str]:
        steps.append("starts")
        if len(steps) == 1:
            raise OSError("no memory")
        yield "host:1"
        steps.append("ends")

    monkeypatch.setitem(services.ADDRESSES, "kafka", broker)
    keeper = shared.Keeper()
    try:
        with pytest.raises(RuntimeError, match="kafka did not start: OSError: no memory"):
            ask(keeper.address)
        with ThreadPoolExecutor(8) as processes:
            assert {*processes.map(ask, [keeper.address] * 8)} == {"host:1"}
        assert steps == ["starts", "starts"]
    finally:
        keeper.close()
    assert steps == ["starts", "starts", "ends"]
