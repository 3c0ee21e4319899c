"""What drills share: moments that are drawn, and can be drawn again."""

from __future__ import annotations

import os
import random

import pytest


@pytest.fixture
def rng() -> random.Random:
    """Of DRILL_SEED, or a seed of its own, which it prints."""
    seed = int(os.environ.get("DRILL_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"DRILL_SEED={seed}")
    return random.Random(seed)
