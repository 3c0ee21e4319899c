"""How a round becomes tasks: every offset once, no core without work, no task for next to nothing."""

from __future__ import annotations

import pytest

from exporter.core.slices import SLICE_RECORDS_MIN, Slices, slices

MANY = 40 * SLICE_RECORDS_MIN


@pytest.mark.parametrize(
    "sizes, cores, cut",
    [
        pytest.param([MANY], 2, Slices(records_max=MANY // 2), id="one partition"),
        pytest.param([MANY, MANY], 8, Slices(records_max=MANY // 4), id="more cores than partitions"),
        pytest.param([MANY, 10, 10, 10], 2, Slices(records_max=MANY // 2 + 15), id="one fat partition"),
        pytest.param([MANY, MANY // 2], 2, Slices(), id="not worth a cut"),
        pytest.param([MANY] * 12, 2, Slices(tasks=2), id="many alike"),
        pytest.param([MANY, MANY, *[10] * 10], 2, Slices(), id="two large ones, which one task is not to have both"),
        pytest.param([SLICE_RECORDS_MIN // 2, *[0] * 11], 2, Slices(tasks=2), id="many with next to nothing"),
        pytest.param([MANY, *[10] * 31], 2, Slices(records_max=MANY // 2 + 155), id="one fat partition of 32"),
        pytest.param([MANY, *[10] * 32], 2, Slices(tasks=32), id="one fat partition of more than tasks pay for"),
        pytest.param([*range(1, 1_001)], 2, Slices(tasks=2), id="a thousand, alike"),
        pytest.param([*range(0, 100_000, 100), MANY], 4, Slices(tasks=64), id="a thousand, of any size"),
        pytest.param([SLICE_RECORDS_MIN], 8, Slices(), id="too few to be cut"),
        pytest.param([1], 2, Slices(), id="one record"),
    ],
)
def test_a_round_is_cut_and_shared_by_the_sizes_of_its_partitions(sizes: list[int], cores: int, cut: Slices) -> None:
    """Fat partitions are cut; many small or similar ones share tasks; all else stays a task per partition."""
    assert slices(sizes, cores) == cut
