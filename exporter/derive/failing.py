"""What a failure of Spark's says, in one line: its innermost cause, which is about the data or the query."""

from __future__ import annotations

from exporter.secrets import masked
from exporter.text import first_line


def told(error: BaseException) -> str:
    """The innermost cause's line; no secret. error: of Python, of py4j, or what pyspark made of a Java exception."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return first_line(error)
    while java.getCause() is not None:
        java = java.getCause()
    lines = (line.strip() for line in str(java.getMessage() or "").splitlines())
    return masked(next(filter(None, lines), str(java.getClass().getName())))
