"""When a drill strikes: pure functions of the seed, the scenario and the number of the run. The same seed, the same
schedule, also for a run that is done again alone."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

KILLS = 10
"""Of a run of `random-kills`, unless told otherwise."""
RECOVERY_SECS_MAX = 12.0
WORK_SECS_MAX = 4.0


@dataclass(frozen=True)
class Kill:
    """One kill -9. after_commit: `secs` count from the first commit of this life, else from its start.

    whole: all processes of the task at once; else the driver alone, and its JVM ends by itself a moment later.
    """

    after_commit: bool
    secs: float
    whole: bool


def random_of(seed: int, scenario: str, run: int) -> Random:
    """A generator of the run's own: what other runs draw does not change it."""
    return Random(f"{seed}/{scenario}/{run}")


def kills(rng: Random, count: int) -> tuple[Kill, ...]:
    """Moments over whole lives: half of them while a task recovers, half of them while it works."""
    drawn = []
    for _ in range(count):
        after_commit = rng.random() < 0.5
        secs = rng.uniform(0, WORK_SECS_MAX if after_commit else RECOVERY_SECS_MAX)
        drawn.append(Kill(after_commit, round(secs, 3), rng.random() < 0.5))
    return tuple(drawn)
