"""Which record a query fails on: the offsets are halved until one is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from offsets.cursors import Slice

Fails = Callable[[Sequence[Slice]], bool]
"""Whether some offsets, taken together, fail."""


def failing(among: Sequence[Slice], fails: Fails) -> Slice | None:
    """A single offset that fails, the first of its partition; None if all of them together do not fail now."""
    some = [*among]
    if not some or not fails(some):
        return None
    while len(some) > 1:
        half = some[: len(some) // 2]
        some = half if fails(half) else some[len(half) :]
    one = some[0]
    while one.offsets > 1:
        middle = (one.after + one.through) // 2
        left = replace(one, through=middle)
        one = left if fails([left]) else replace(one, after=middle)
    return one
