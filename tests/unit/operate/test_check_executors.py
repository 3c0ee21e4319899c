"""`exporter check` on a cluster: executors come or do not, and their Python can do its work or cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.operate.check import executors
from exporter.operate.check.executors import check_executors
from exporter.settings.load import load
from tests.support.settings import written

SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=6))


def lacks_the_exporter(_session: Any) -> None:
    raise RuntimeError("in a worker\nTraceback (most recent call last):\nImportError: No module named 'exporter'")


@pytest.mark.parametrize(
    ("warm", "level", "says", "hint"),
    [
        (lambda session: None, "ok", "6 cores on spark://m:7077", ""),
        (lambda session: threading.Event().wait(60), "error", "no task was done on spark://m:7077", "`driver_host`"),
        (lacks_the_exporter, "error", "No module named 'exporter'", "`worker_python`"),
    ],
    ids=["they do their tasks", "they do not come", "a Python without the exporter"],
)
def test_executors_have_done_tasks_of_nothing_or_it_is_told_what_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: Callable[[Any], Any], level: str, says: str, hint: str
) -> None:
    """They import what a round needs, and nothing is read. Spark itself would wait for them for ever."""
    monkeypatch.setattr(executors, "warm", warm)
    monkeypatch.setattr(executors, "EXECUTORS_SECS_MAX", 60.0 if level == "ok" else 0.5)
    cluster = load(written(tmp_path), {"spark_master": "spark://m:7077", "driver_host": "d"}, {})
    found = check_executors(cluster, SESSION)
    assert found is not None and found.level == level and says in found.says and hint in found.hint


def test_settings_of_a_cluster_without_one_are_told(tmp_path: Path) -> None:
    """They may be meant for tasks elsewhere, so nothing is refused."""
    path = written(tmp_path)
    found = check_executors(load(path, {"driver_host": "d", "driver_port": "7"}, {}), SESSION)
    assert found is not None
    assert found.level == "warn" and found.says.startswith("driver_host, driver_port: of no effect")
    assert check_executors(load(path, {}, {}), SESSION) is None
