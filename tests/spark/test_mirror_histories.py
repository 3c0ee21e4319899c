"""Mirrors (protocol 9.5) against a plain program: random histories of every kind of source, read by three readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.lake.lake import Lake
from tests.support.mirror_kinds import KINDS
from tests.support.mirror_story import tell

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [2, 6])
def test_a_mirror_is_what_a_plain_program_makes_of_all_rows(spark: Any, tmp_path: Path, seed: int) -> None:
    """Patches that come late, and late changes of an envelope: a short history of each."""
    tell(Lake(spark, tmp_path / "lake", "mirrored", sync=False), spark, seed, steps=3)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_long_a_mirror_is_what_a_plain_program_makes_of_all_rows(spark: Any, tmp_path: Path, first: int) -> None:
    """200 histories of all kinds, with new columns, kills, accidents of both tables and rebuilds in between."""
    assert len(KINDS) < 20
    for seed in range(first, first + 20):
        tell(Lake(spark, tmp_path / f"lake{seed}", "mirrored", sync=False), spark, seed)
