"""How long is waited between two tries."""

from __future__ import annotations

import pytest

from exporter.core.backoff import Backoff


@pytest.mark.parametrize(("failures", "secs"), [(0, 0.5), (1, 1.0), (2, 2.0), (5, 16.0), (6, 30.0), (10_000, 30.0)])
def test_the_wait_doubles_up_to_its_limit(failures: int, secs: float) -> None:
    """However many failures there are: a power that no float holds is never taken."""
    assert Backoff(0.5, 30.0).after(failures) == secs


def test_a_wait_without_a_limit_is_a_number_all_the_same() -> None:
    """Where something else ends it, such as the budget of a stop."""
    endless = Backoff(0.5, float("inf"))
    assert [endless.after(offers) for offers in (1, 2, 11)] == [1.0, 2.0, 1024.0]
    assert endless.after(10_000) < float("inf")


@pytest.mark.parametrize(("lasted", "secs"), [(0.0, 1.0), (40.0, 5.0), (1000.0, 30.0)])
def test_in_an_outage_a_share_of_it_is_waited(lasted: float, secs: float) -> None:
    """Between the first and the greatest wait."""
    assert Backoff(1.0, 30.0).lasting(lasted, 1 / 8) == secs
