"""Processes that are started are ended, whatever a signal interrupts."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.drill import helper
from exporter.drill.helper import Helper
from exporter.local.children import ended_by_signals
from exporter.stores.stores import open_store

WAITING = """
from exporter.local.children import ended_by_signals
try:
    with ended_by_signals():
        print("waiting", flush=True)
        input()
except KeyboardInterrupt:
    print("unwound", flush=True)
"""
IN_THE_BACKGROUND = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh"]
"""As a script's `nohup command &` starts it."""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("shell", [[], IN_THE_BACKGROUND], ids=["terminal", "nohup"])
def test_a_signal_unwinds_what_runs_in_the_background_too(sent: signal.Signals, shell: list[str]) -> None:
    """There the shell has SIGINT ignored, which Python leaves as it is."""
    with subprocess.Popen(
        [*shell, sys.executable, "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout
        assert child.stdout.readline() == "waiting\n"
        child.send_signal(sent)
        said, _ = child.communicate(timeout=60)
    assert said == "unwound\n"


def test_a_helper_that_is_interrupted_in_a_statement_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed: a statement may take for ever, and nobody will read its answer."""
    monkeypatch.setattr(
        helper, "_SERVE", "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(600)"
    )
    monkeypatch.setattr(helper, "STOP_SECS_MAX", 600.0)
    asked = Helper(tmp_path / "log", open_store(tmp_path.as_uri(), {}))
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        asked.sql("SELECT 1")
    process = asked._process
    asked.close()
    assert process is not None and process.returncode == -signal.SIGKILL
