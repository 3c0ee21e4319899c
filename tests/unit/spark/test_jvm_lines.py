"""What the JVM says is in our log: each event one line, whatever it holds, and nothing of what it says anyway."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator

import pytest

from exporter import log
from exporter.spark.jvm_lines import JvmLines, entries

TRACE = "java.lang.IllegalStateException: gone\n\tat a.B.c(B.java:1)\n"


def event(level: str, name: str, text: str) -> str:
    """A line as log4j2.properties has it made."""
    return f"log4j {level} {name} {json.dumps(text)}"


def said(text: str) -> list[tuple[str, str, str]]:
    return [(level, name, told) for name, level, told in entries(text)]


def test_an_event_of_log4j_is_one_entry_with_its_trace() -> None:
    """Under its logger's name and with its level."""
    assert said(event("ERROR", "TaskSchedulerImpl", f"Lost executor\n{TRACE}")) == [
        ("ERROR", "java.TaskSchedulerImpl", f"Lost executor\n{TRACE}".rstrip())
    ]
    assert said(event("FATAL", "x", "50 % full"))[0] == ("FATAL", "java.x", "50 % full")


def test_java_s_own_words_are_warnings_and_those_that_come_together_are_one() -> None:
    """Such as the one with which it ends for want of memory, or a worker's traceback."""
    text = "\n".join([event("WARN", "x", "w"), "Terminating due to java.lang.OutOfMemoryError", "more"])
    assert said(text) == [
        ("WARN", "java.x", "w"),
        ("WARN", "java", "Terminating due to java.lang.OutOfMemoryError\nmore"),
    ]


@pytest.mark.parametrize(
    "line",
    ["", "NOTE: Picked up JDK_JAVA_OPTIONS: -X", "Picked up JAVA_TOOL_OPTIONS: -X",
     "WARNING: Using incubator modules: jdk.incubator.vector",
     "WARNING: package sun.security.action not in java.base"],
)  # fmt: skip
def test_what_java_says_because_it_was_told_to_is_not_told(line: str) -> None:
    """The environment's options, and the modules and packages that Spark asks for."""
    assert said(line) == []


@pytest.fixture
def restored() -> Iterator[None]:
    """Logging as it was before the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_each_line_that_comes_is_a_line_of_the_log(restored: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one that comes in two parts, the last one without an end, and two that differ in what they say only."""
    log.configure(json=True)
    with JvmLines.reading() as writing:
        for part in ("log4j ERROR a.B ", '"one\\nx"\nlog4j ERROR a.B "two"\n', "the end"):
            os.write(writing, part.encode())
    JvmLines.last_words()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["level"], one["logger"], one["event"]) for one in lines] == [
        ("error", "java.a.B", "one\nx"), ("error", "java.a.B", "two"), ("warning", "java", "the end"),
    ]  # fmt: skip
