"""Untrusted text for a terminal: it moves no cursor, changes no colour, turns no writing around. Errors, in a line."""

from __future__ import annotations

import re

from exporter.secrets import masked


def readable(raw: bytes | None, bytes_max: int) -> str | None:
    """Bytes as text that no terminal acts upon: what is no UTF-8, and what is not printed, stands as an escape."""
    if raw is None:
        return None
    text = escaped(raw[:bytes_max].decode("utf-8", "backslashreplace"))
    return text if len(raw) <= bytes_max else f"{text}... ({len(raw):,} bytes)"


def escaped(text: str) -> str:
    """Text with what is not printed as an escape: control characters, ends of lines, marks that turn writing around."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def encodable(text: str) -> str:
    """Text that UTF-8 has, so that every table, log, metric and stream takes it: lone surrogates stand as escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def told(error: BaseException) -> str:
    """An error's class and what it says, encodable. Also of one whose own method fails."""
    try:
        says = str(error)
    except Exception as another:  # noqa: BLE001 - it is anybody's code
        says = f"(its text cannot be told: {type(another).__name__})"
    return encodable(f"{type(error).__name__}: {says}")


_SHOWN_MAX = 120


def shorten(text: str) -> str:
    """Text of a record as it may stand in a reason."""
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def first_line(error: BaseException) -> str:
    """The telling line of an error: a Java exception without its stack, of a Python traceback the last; no secret."""
    java = getattr(error, "java_exception", None)
    text = encodable(str(java.toString())) if java is not None else told(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    traceback = [index for index, line in enumerate(lines) if line.startswith("Traceback")]
    if not traceback:
        return masked(lines[0])
    tail = [line for line in lines[traceback[-1] + 1 :] if not line.startswith(("File ", "at ", "^", "~"))]
    telling = (line for line in reversed(tail) if "Error" in line or "Exception" in line)
    return masked(next(telling, tail[-1] if tail else ""))


def all_lines(error: BaseException) -> str:
    """All that an error says, in one line: a Java exception without its stack; no secret."""
    java = getattr(error, "java_exception", None)
    return masked(" ".join(str(java.toString()).split())) if java is not None else first_line(error)


_RAISED = re.compile(r"^\s*([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)(?::.*)?)$", re.MULTILINE)
"""The line that ends a traceback of Python's."""


def why(error: BaseException) -> str:
    """What ended a job, in a line: what was raised in its Python worker, else the last cause that Java names."""
    text = told(error).partition(": ")[2]
    if (at := text.rfind("Traceback (most recent")) >= 0 and (raised := _RAISED.search(text, at)):
        return masked(raised[1])
    causes = [line.removeprefix("Caused by: ") for line in text.splitlines() if line.startswith("Caused by: ")]
    return masked(causes[-1]) if causes and "Traceback" not in text else first_line(error)
