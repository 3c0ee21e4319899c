"""What the JVM that runs Spark says, on both of its outputs, as lines of our log, one for each.

The JVM writes to a pipe. log4j2.properties makes one line of an event, behind a mark; what comes without it - words of
Java's own, or of Python workers - is told as a warning. What the JVM says while Spark is ended is told to nobody.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from exporter.log import relay

MARK = "log4j"
HARMLESS = (
    "NOTE: Picked up ",
    "Picked up ",
    "WARNING: Using incubator modules",
    "WARNING: package sun.security.action not in java.base",
)
"""Beginnings of lines that Java writes because it was told to do something; the last one Java 24 and later ones, as
Spark's launcher opens a package that they do not have."""
LAST_WORDS_SECS = 1.0
_EVENT = re.compile(rf'{MARK} (\w+) (\S*) (".*")')


class JvmLines:
    """The thread that reads the lines of the JVM."""

    latest: JvmLines | None = None
    hushed = False
    """Whether nothing is told, because Spark is being ended: what is at work there just then complains at length."""

    def __init__(self, reading: int) -> None:
        self._reading = reading
        self._thread = threading.Thread(target=self._read, name="jvm-lines", daemon=True)
        self._thread.start()

    @classmethod
    @contextmanager
    def reading(cls) -> Iterator[int]:
        """The end of the pipe to give to the JVM, started in here."""
        reading, writing = os.pipe()
        cls.latest = cls(reading)
        try:
            yield writing
        finally:
            os.close(writing)

    @classmethod
    def last_words(cls) -> None:
        """After the end of the JVM: wait until all that it has said is told."""
        if cls.latest is not None:
            cls.latest._thread.join(LAST_WORDS_SECS)

    def _read(self) -> None:
        """Lines that come at once and are no event of log4j's are one: a trace of Java's or of a Python worker's."""
        with os.fdopen(self._reading, "rb", buffering=0) as pipe:
            rest = b""
            while chunk := pipe.read(1 << 16):
                whole, _, rest = (rest + chunk).rpartition(b"\n")
                _tell(whole)
            _tell(rest)


def _tell(lines: bytes) -> None:
    if JvmLines.hushed:
        return
    for name, level, text in entries(lines.decode("utf-8", "replace")):
        relay(name, level, text)


def entries(text: str) -> Iterator[tuple[str, str, str]]:
    """What the lines say: logger, level and text of each."""
    plain: list[str] = []
    for line in text.splitlines():
        if (event := _EVENT.fullmatch(line)) is None:
            plain.append(line)
            continue
        yield from _plain(plain)
        plain = []
        yield f"java.{event[2]}", event[1], json.loads(event[3]).rstrip()
    yield from _plain(plain)


def _plain(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    told = [line for line in lines if line.strip() and not line.startswith(HARMLESS)]
    if told:
        yield "java", "WARN", "\n".join(told)
