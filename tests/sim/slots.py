"""The tasks of a world as their scheduler sees them, and what the world has met."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.sim.kernel import Process


@dataclass
class Slot:
    """One task of the group, as a scheduler sees it. share: its own, where assignments are fixed. changes: its settings
    are those after so many."""

    name: str
    share: str = ""
    process: Process | None = None
    service: Any = None
    starts: int = 0
    changes: int = 0


@dataclass
class Seen:
    """What one world has met."""

    kills: Counter[str] = field(default_factory=Counter)
    exits: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
