"""A process that begins anew because its JVM ran out of memory while it read."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from exporter.settings.load import OTHER_VARIABLES
from exporter.task import again
from offsets.ranges import TopicPartition

T0, T1 = TopicPartition("orders.v1", 0), TopicPartition("orders.v1", 1)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The programs that the process has become."""
    found: list[tuple[str, list[str]]] = []

    def become(path: str, words: list[str]) -> None:
        found.append((path, words))

    monkeypatch.setattr(os, "execv", become)
    monkeypatch.delenv(again.VARIABLE, raising=False)
    return found


def test_the_fresh_process_has_the_same_words_and_knows_what_to_read_with_care(begun: Any) -> None:
    """What an earlier one knew too; the greater offset counts."""
    assert again.careful_until() == {}
    again.begin_anew({T0: 100, T1: 7})
    assert again.careful_until() == {T0: 100, T1: 7}
    again.begin_anew({T0: 50, T1: 90})
    assert again.careful_until() == {T0: 100, T1: 90}
    assert begun == [(sys.executable, [sys.executable, *sys.orig_argv[1:]])] * 2
    assert again.VARIABLE in OTHER_VARIABLES


def test_a_task_that_was_told_to_stop_or_was_reading_nothing_ends(begun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the exit code says that a JVM has ended, as for any other reason."""
    again.begin_anew({})
    monkeypatch.setattr(type(again.ending), "asked", True)
    again.begin_anew({T0: 100})
    assert not begun and again.careful_until() == {}
