"""What a failure of Spark's says, in one line: its innermost cause, which is about the data or the query."""

from __future__ import annotations

from typing import Any

from exporter.text import first_line


class _Java(Exception):
    """A Java exception as first_line() takes it."""

    def __init__(self, java: Any) -> None:
        super().__init__("")
        self.java_exception = java


def told(error: BaseException) -> str:
    """The innermost cause's line. error: of Python, of py4j, or one that pyspark made of a Java exception."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return first_line(error)
    while java.getCause() is not None:
        java = java.getCause()
    return first_line(_Java(java)).partition(": ")[2] or first_line(_Java(java))
