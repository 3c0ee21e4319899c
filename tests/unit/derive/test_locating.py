"""derive/locating.py: which record a query fails on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from exporter.derive.locating import failing
from offsets.cursors import Slice
from offsets.ranges import TopicPartition

TPS = [TopicPartition("t", number) for number in range(3)]
SLICES = [Slice(TPS[0], -1, 99), Slice(TPS[1], 49, 50), Slice(TPS[2], 7, 1000)]


@pytest.mark.parametrize(
    "bad, found",
    [
        ({(0, 0)}, (0, 0)),
        ({(0, 99)}, (0, 99)),
        ({(1, 50)}, (1, 50)),
        ({(2, 1000), (2, 8)}, (2, 8)),
        ({(0, 41), (0, 40), (2, 9)}, (0, 40)),
        (set(), None),
        ({(1, 49)}, None),
    ],
)
def test_the_first_offset_that_fails_is_found_in_few_steps(
    bad: set[tuple[int, int]], found: tuple[int, int] | None
) -> None:
    """Of several partitions one that fails; None where nothing fails any more, as after an outage."""
    asked = []

    def fails(some: Sequence[Slice]) -> bool:
        asked.append(some)
        return any(one.tp.partition == at and one.after < offset <= one.through for one in some for at, offset in bad)

    one = failing(SLICES, fails)
    assert (one and (one.tp.partition, one.through, one.offsets)) == (found and (*found, 1))
    assert len(asked) <= 13
    assert failing([], fails) is None
