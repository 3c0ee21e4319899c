"""Logs: one event, one line, on stderr, in one form for us and for the libraries."""

from __future__ import annotations

import ast
import inspect
import io
import json
import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import kafka.cluster
import pytest
from kafka.coordinator.consumer import ConsumerCoordinator
from py4j import java_gateway

from exporter.log import OURS, Repeats, configure, get_logger
from exporter.log_events import Event
from tests.support.lakes import wait_until

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
    log.info(Event.COMMIT_LANDED, event_type="a\nb", version=3, root=Path("/x"))
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
    log.warning(Event.COMMIT_REFUSED, event_type="a\nb", version=3)
    (line,) = lines(capsys)
    assert "commit_refused" in line
    assert r"event_type='a\nb' version=3" in line
    assert "\x1b" not in line


def test_json_is_the_form_where_stderr_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """json=None looks at the terminal and at nothing else."""
    configure()
    log.info(Event.TASK_STARTED)
    (line,) = lines(capsys)
    assert json.loads(line)["event"] == "task_started"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    configure()
    log.info(Event.TASK_STARTED)
    (line,) = lines(capsys)
    assert not line.startswith("{")


@pytest.mark.parametrize(
    "name", ["kafka.net.manager", "py4j.clientserver", "apscheduler.scheduler", "botocore.credentials"]
)
def test_libraries_go_the_same_way_from_warning_on(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Their warnings are events like ours; their chatter is left out."""
    configure(json=True)
    logging.getLogger(name).info("chatter %s", 1)
    logging.getLogger(name).warning("lost %s", "node")
    (line,) = lines(capsys)
    event = json.loads(line)
    assert (event["level"], event["logger"], event["event"]) == ("warning", name, "lost node")


def test_what_a_library_warns_of_in_an_ordinary_life_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A group's first member on a new cluster asks for its coordinator once more; everything else about it is told."""
    configure(json=True)
    text = "Marking the coordinator dead (node %s) for group %s: %s."
    for reason in ("[Error 16] NotCoordinatorError", "Node Disconnected"):
        logging.getLogger("kafka.coordinator").warning(text, "coordinator-1", "g", reason)
    (line,) = lines(capsys)
    assert "Node Disconnected" in json.loads(line)["event"]


def test_a_rebalance_is_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """A partition that is taken away is committed first, which kafka-python takes for a slow listener."""
    configure(json=True)
    text = inspect.getsource(ConsumerCoordinator)
    for part in ("Sync listeners block the consumer event loop", "Rebalance listener %s.%s for group"):
        assert part in text, "kafka-python words it in another way now"
    logger = logging.getLogger(ConsumerCoordinator.__module__)
    logger.warning("Rebalance listener %s took %.3fs. Sync listeners block the consumer event loop (...", "x", 2.0)
    assert not list(lines(capsys))


def test_the_loop_of_a_client_that_nobody_holds_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Other errors of such a loop are."""
    configure(json=True)
    text = "Metadata refresh loop error: %s"
    assert text in inspect.getsource(kafka.cluster), "kafka-python words it in another way now"
    for error in (ReferenceError("weakly-referenced object no longer exists"), OSError("it is closed")):
        logging.getLogger("kafka.cluster").error(text, error)
    (line,) = lines(capsys)
    assert json.loads(line)["event"] == "Metadata refresh loop error: it is closed"


def test_a_jvm_that_is_gone_is_told_by_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """py4j logs the stack trace that it raises as well; who catches it says what is the matter."""
    configure(json=True)
    text = "Exception while sending command."
    assert text in inspect.getsource(java_gateway), "py4j words it in another way now"
    try:
        raise ConnectionError("Answer from Java side is empty")
    except ConnectionError:
        logging.exception(text)
    assert not list(lines(capsys))


def test_python_warnings_are_events(capsys: pytest.CaptureFixture[str]) -> None:
    """A library's deprecation notice does not break the one-line form.

    A thread that an earlier test left in this process may be within catch_warnings() just then, and puts back who takes
    warnings: then once more.
    """

    def warned() -> list[str]:
        logging.captureWarnings(False)
        configure(json=True)
        warnings.simplefilter("always", FutureWarning)
        warnings.warn("old", FutureWarning, stacklevel=1)
        return lines(capsys)

    (line,) = wait_until(warned, 10, "the warning")
    assert "FutureWarning: old" in json.loads(line)["event"]


def test_a_traceback_stays_within_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An exception is a field of its event."""
    configure(json=True)
    try:
        raise ValueError("bad")
    except ValueError:
        log.error(Event.ROUND_FAILED, exc_info=True)
    (line,) = lines(capsys)
    assert json.loads(line)["exception"].endswith("ValueError: bad")


def test_configuring_again_does_not_double_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The last call counts."""
    configure(json=False)
    configure(json=True)
    log.info(Event.TASK_STARTED)
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


def test_a_warning_about_the_same_thing_is_shown_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    """With the number of those held back; about another partition, or as information, it is shown."""
    now = [0.0]
    configure(json=True)
    (handler,) = (one for one in logging.getLogger().handlers if one.get_name() == "exporter.log")
    handler.filters[:] = [Repeats(10, lambda: now[0], 60)]
    for second in range(125):
        now[0] = float(second)
        log.warning(Event.GROUP_POLL_FAILED, error=f"try {second}")
    log.warning(Event.COMMIT_UNKNOWN, table="order", partition="events-0")
    log.warning(Event.COMMIT_UNKNOWN, table="order", partition="events-1")
    log.info(Event.ROUND_READ, records=1)
    log.info(Event.ROUND_READ, records=2)
    events = [json.loads(line) for line in lines(capsys)]
    polls = [(event["error"], event.get("held_back")) for event in events if event["event"] == "group_poll_failed"]
    assert polls == [("try 0", None), ("try 60", 59), ("try 120", 59)]
    assert [event["event"] for event in events[3:]] == ["commit_unknown"] * 2 + ["round_read"] * 2


def logged_names() -> Iterator[tuple[str, str]]:
    """(file:line, name of the member) of every call of a module's `log`; the name is empty where it is none."""
    root = Path(__file__).parents[3]
    for path in sorted([*(root / "exporter").rglob("*.py"), *(root / "offsets").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value) != "log" or node.func.attr not in ("info", "warning", "error"):
                continue
            named = re.fullmatch(r"Event\.(\w+)", ast.unparse(node.args[0])) if node.args else None
            yield f"{path.name}:{node.lineno}", named[1] if named else ""


def test_every_event_is_logged_somewhere() -> None:
    """The type of a logger lets no other text through; a member that nobody logs is dead."""
    found = list(logged_names())
    assert len(found) > 40
    assert [where for where, name in found if not name] == []
    assert {event.name for event in Event} == {name for _, name in found}


def test_nobody_logs_past_the_one_way() -> None:
    """No module of ours but log.py takes a logger of the standard library."""
    root = Path(__file__).parents[3] / "exporter"
    takers = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if "getLogger(" in path.read_text()}
    assert takers == {"log.py"}


def test_stdout_stays_empty_even_if_nobody_configures_logs() -> None:
    """structlog's own default would print to stdout, which is for data."""
    code = "from exporter.log import get_logger; from exporter.log_events import Event; "
    code += "get_logger('exporter.x').warning(Event.ROUND_FAILED, a=1)"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "round_failed" in done.stderr


@pytest.mark.parametrize("json", [False, True])
def test_a_line_of_the_log_is_one_that_every_stream_takes(json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that refuses what it cannot encode."""
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="strict", write_through=True)
    monkeypatch.setattr("sys.stderr", stream)
    configure(json)
    log.warning(Event.ROUND_FAILED, error="a \ud800 b")
    text = stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert text.count("\n") == 1 and "round_failed" in text and "ud800" in text
