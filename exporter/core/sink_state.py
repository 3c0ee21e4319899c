"""How the announcing of versions to one sink fares in this process. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SinkState:
    """announced: messages that were acknowledged. skipped: of these, those that say that versions cannot be told of.

    error: why nothing, or not all, can be announced right now; empty if it can, or if another task does it.
    """

    announced: int = 0
    skipped: int = 0
    error: str = ""
