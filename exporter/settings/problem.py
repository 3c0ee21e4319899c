"""One thing that is wrong with the settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """What is wrong and what to do; neither holds a value from a table, which may be a secret."""

    what: str
    hint: str
