"""Sums of a task, and their copies for whoever asks."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields

from exporter.core.manifest import COPIES, FILTERED, TOMBSTONES
from exporter.monitor.totals import Spread, Totals


def test_a_copy_of_the_totals_stays_as_it_was() -> None:
    """Whatever the loop counts afterwards; of every field, also of those that are added one day."""
    totals = Totals(1, 2, 3, 4, 5)
    totals.committed["order"] = totals.counts["records"] = totals.rebalances["lost"] = 6
    totals.outcomes["order", "landed"] = 7
    totals.took("read", 0.2)
    totals.round_records.add(8)
    taken, expected = totals.copy(), deepcopy(totals)
    assert taken == expected
    for field in fields(Totals):
        value = getattr(totals, field.name)
        if isinstance(value, Spread):
            value.add(1)
        elif isinstance(value, dict):
            value.clear()
        else:
            setattr(totals, field.name, value + 1)
    assert taken == expected


def test_a_spread_in_a_copy_is_its_own() -> None:
    """Seconds of a stage that are added later are not in it."""
    totals = Totals()
    totals.took("commit", 0.1)
    taken = totals.copy()
    totals.took("commit", 0.1)
    assert sum(taken.stages["commit"].counts) == 1


def test_what_is_skipped_is_what_stands_nowhere() -> None:
    """A record of several tables is one, and so is one of which a table has a row and another a filter."""
    totals = Totals(records=10, staged_rows=9)
    totals.counts.update({COPIES: 5, f"{FILTERED}order": 2, f"{FILTERED}dead_letters": 1, TOMBSTONES: 1})
    assert totals.skipped == 2
