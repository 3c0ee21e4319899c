"""Exceptions of Java's as py4j raises them, without a JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def java(name: str, cause: Any = None, says: str = "") -> Any:
    """An exception, by its class."""
    cls = SimpleNamespace(getName=lambda: name)
    return SimpleNamespace(getClass=lambda: cls, getCause=lambda: cause, toString=lambda: f"{name}: {says}")


def raised(java_exception: Any) -> Exception:
    """As Python meets it."""
    error: Any = RuntimeError()
    error.java_exception = java_exception
    return error  # type: ignore[no-any-return]
