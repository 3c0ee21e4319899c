"""`exporter check` on a cluster: executors come or do not, and their Python can do its work or cannot."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.operate.check import executors
from exporter.operate.check.executors import check_executors
from exporter.settings.load import load
from exporter.settings.model import Settings
from tests.support.settings import TOML

SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=6))


@pytest.fixture
def cluster(tmp_path: Path) -> Settings:
    path = tmp_path / "exporter.toml"
    path.write_text(TOML)
    return load(path, {"spark_master": "spark://m:7077", "driver_host": "d"}, {})


def test_executors_that_do_their_tasks_are_counted_by_cores(cluster: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """They import what a round needs, and nothing is read."""
    monkeypatch.setattr(executors, "warm", lambda session: None)
    found = check_executors(cluster, SESSION)
    assert found is not None and (found.level, found.says) == ("ok", "6 cores on spark://m:7077")


def test_executors_that_do_not_come_are_not_waited_for_for_ever(
    cluster: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark itself would wait."""
    monkeypatch.setattr(executors, "warm", lambda session: threading.Event().wait(60))
    monkeypatch.setattr(executors, "EXECUTORS_SECS_MAX", 0.01)
    found = check_executors(cluster, SESSION)
    assert found is not None and found.level == "error" and "no task was done" in found.says


def test_a_python_without_the_exporter_is_found(cluster: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint names the setting."""

    def warm(session: Any) -> None:
        raise RuntimeError("in a worker\nTraceback (most recent call last):\nImportError: No module named 'exporter'")

    monkeypatch.setattr(executors, "warm", warm)
    found = check_executors(cluster, SESSION)
    assert found is not None and found.level == "error"
    assert "No module named 'exporter'" in found.says and "worker_python" in found.hint


def test_settings_of_a_cluster_without_one_are_told(tmp_path: Path) -> None:
    """They may be meant for tasks elsewhere, so nothing is refused."""
    path = tmp_path / "exporter.toml"
    path.write_text(TOML)
    found = check_executors(load(path, {"driver_host": "d", "driver_port": "7"}, {}), SESSION)
    assert found is not None
    assert found.level == "warn" and found.says.startswith("driver_host, driver_port: of no effect")
    assert check_executors(load(path, {}, {}), SESSION) is None
