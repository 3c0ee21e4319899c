"""Questions that are asked at once."""

from __future__ import annotations

import threading

import pytest

from exporter.stores.many import AT_ONCE, each


def test_answers_come_in_the_order_of_what_was_asked_and_several_at_a_time() -> None:
    """So many wait together that none of them could be answered alone."""
    together = threading.Barrier(AT_ONCE)

    def ask(number: int) -> int:
        together.wait(30)
        return number * 2

    assert each(ask, range(2 * AT_ONCE)) == [*range(0, 4 * AT_ONCE, 2)]
    assert each(ask, []) == []


def test_the_first_that_cannot_be_answered_is_raised() -> None:
    """Also where there is only one."""

    def ask(number: int) -> int:
        if number in (2, 3):
            raise OSError(number)
        return number

    for of in ([2], [0, 1, 2, 3]):
        with pytest.raises(OSError, match="2"):
            each(ask, of)
