"""Logs: one event, one line, on stderr, in one form for us and for the libraries."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from exporter.log import OURS, Repeats, configure, get_logger

log = get_logger("exporter.test_log")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Logging as it was before the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.NOTSET)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What stands on stderr; stdout must be empty."""
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def test_an_event_is_one_json_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Time in UTC, level, logger, event, then the fields; line breaks in values stay within the line."""
    configure(json=True)
    log.info("commit_landed", event_type="a\nb", version=3, root=Path("/x"))
    (line,) = lines(capsys)
    event: dict[str, Any] = json.loads(line)
    time = datetime.fromisoformat(event.pop("time").replace("Z", "+00:00"))
    assert time.utcoffset() == timedelta(0)
    assert list(json.loads(line))[:4] == ["time", "level", "logger", "event"]
    assert event == {
        "level": "info",
        "logger": "exporter.test_log",
        "event": "commit_landed",
        "event_type": "a\nb",
        "version": 3,
        "root": "/x",
    }


def test_an_event_is_one_readable_line_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """Without colours where stderr is no terminal."""
    configure(json=False)
    log.warning("commit_refused", event_type="a\nb", version=3)
    (line,) = lines(capsys)
    assert "commit_refused" in line
    assert r"event_type='a\nb' version=3" in line
    assert "\x1b" not in line


def test_json_is_the_form_where_stderr_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """json=None looks at the terminal and at nothing else."""
    configure()
    log.info("started")
    (line,) = lines(capsys)
    assert json.loads(line)["event"] == "started"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    configure()
    log.info("started")
    (line,) = lines(capsys)
    assert not line.startswith("{")


@pytest.mark.parametrize("name", ["kafka.net.manager", "py4j.clientserver", "apscheduler.scheduler"])
def test_libraries_go_the_same_way_from_warning_on(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Their warnings are events like ours; their chatter is left out."""
    configure(json=True)
    logging.getLogger(name).info("chatter %s", 1)
    logging.getLogger(name).warning("lost %s", "node")
    (line,) = lines(capsys)
    event = json.loads(line)
    assert (event["level"], event["logger"], event["event"]) == ("warning", name, "lost node")


def test_python_warnings_are_events(capsys: pytest.CaptureFixture[str]) -> None:
    """A library's deprecation notice does not break the one-line form."""
    configure(json=True)
    warnings.warn("old", FutureWarning, stacklevel=1)
    (line,) = lines(capsys)
    assert "FutureWarning: old" in json.loads(line)["event"]


def test_a_traceback_stays_within_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An exception is a field of its event."""
    configure(json=True)
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("round_failed")
    (line,) = lines(capsys)
    assert json.loads(line)["exception"].endswith("ValueError: bad")


def test_configuring_again_does_not_double_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The last call counts."""
    configure(json=False)
    configure(json=True)
    log.info("started")
    assert len(lines(capsys)) == 1


def test_an_outage_does_not_flood_the_log() -> None:
    """A library's line shows once per period, then tells how many were held back; another line is not concerned."""
    now = [0.0]
    repeats = Repeats(10, lambda: now[0])

    def shown(second: float, name: str = "kafka.net", lineno: int = 1) -> str | None:
        now[0] = second
        record = logging.LogRecord(name, logging.WARNING, "x.py", lineno, "lost %s", ("node",), None)
        return record.getMessage() if repeats.filter(record) else None

    assert [shown(at) for at in (0, 1, 9.9)] == ["lost node", None, None]
    assert shown(5, lineno=2) == "lost node"
    assert shown(10) == "lost node (2 more held back)"
    assert [shown(at) for at in (11, 20, 40)] == [None, "lost node (1 more held back)", "lost node"]
    assert [shown(40, "exporter.group") for _ in range(3)] == ["lost node"] * 3


def test_stdout_stays_empty_even_if_nobody_configures_logs() -> None:
    """structlog's own default would print to stdout, which is for data."""
    code = "from exporter.log import get_logger; get_logger('exporter.x').warning('round_failed', a=1)"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "round_failed" in done.stderr
