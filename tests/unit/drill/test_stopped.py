"""Tasks of a drill that are stopped, as processes of their own, without any service."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.drill.run import Run

HEARS = "import signal, time; signal.signal(15, lambda *_: exit()); print(flush=True); time.sleep(60)"
DEAF = "import time; print(flush=True); time.sleep(60)"


@pytest.mark.parametrize(("program", "codes"), [(HEARS, {0}), (DEAF, {0, -15})])
def test_a_task_ends_with_0_once_it_hears_a_stop(program: str, codes: set[int]) -> None:
    """Before that SIGTERM ends it, as it ends whatever has no handler: nothing is wrong with it."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        taken: list[set[int]] = []
        run: Any = SimpleNamespace(ends=lambda task, *right: taken.append({int(code) for code in right}))
        task: Any = SimpleNamespace(pid=process.pid, signal=lambda sent, whole: process.send_signal(sent))
        Run.stop(run, task)
        assert process.wait(20) in codes
    assert taken == [codes]
