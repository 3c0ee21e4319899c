"""Rows that are read again for new columns (protocol 3.1)."""

from __future__ import annotations

from dataclasses import replace

from exporter.core.read_again import TIMES_MAX, ReadAgain
from exporter.core.writers import PartitionPlan
from offsets.ranges import TopicPartition

P0 = TopicPartition("t", 0)
PLAN = PartitionPlan(P0, 1, 0, 5, 10, {"order": 4, "click": 9})


def test_rows_are_read_again_to_the_same_end() -> None:
    """What came meanwhile, with fields that nobody has seen, waits for the next plan."""
    again, longer = ReadAgain(), replace(PLAN, end=50)
    assert again.cut(longer) == longer and not again
    assert again.once_more(PLAN, "order") and again
    assert again.cut(longer) == PLAN
    assert again.cut(replace(PLAN, end=7)).end == 7, "a plan of less is no longer for it"
    of_other_rows = [replace(longer, bounds={"order": 9, "click": 9}), replace(longer, bounds={"click": 9})]
    assert [again.cut(plan) for plan in of_other_rows] == of_other_rows
    other = replace(longer, tp=TopicPartition("t", 1))
    assert again.cut(other) == other
    again.taken(PLAN, "order")
    assert again.cut(longer) == longer and not again


def test_the_same_rows_wait_a_few_times() -> None:
    """Then they are taken as they are, and what follows counts anew."""
    again = ReadAgain()
    assert [again.once_more(PLAN, "order") for _ in range(TIMES_MAX + 2)] == [*[True] * TIMES_MAX, False, True]


def test_what_was_read_before_an_accident_is_no_time_of_what_is_read_after_it() -> None:
    """The rows that were to be read again were lost, by a refusal or a gap: others have been read once."""
    again = ReadAgain()
    for bound in range(0, 40, 4):
        later = replace(PLAN, start=bound + 1, end=bound + 10, bounds={"order": bound})
        assert [again.once_more(later, "order") for _ in range(TIMES_MAX)] == [True] * TIMES_MAX
    assert again.cut(replace(PLAN, end=50)).end == 50, "nothing is kept of rows of long ago"


def test_a_plan_behind_another_is_no_time_of_it() -> None:
    """Both may be read before the columns of the first are planned; the one behind is of other rows."""
    again, behind = ReadAgain(), replace(PLAN, start=10, end=20, bounds={"order": 9})
    for _ in range(TIMES_MAX):
        assert again.once_more(PLAN, "order")
        assert again.once_more(behind, "order")
    assert again.cut(replace(PLAN, end=50)) == PLAN


def test_a_type_that_nobody_knew_has_all_rows_of_the_plan() -> None:
    """It is in no bounds: the plan that reads them again is made with its writer."""
    again = ReadAgain()
    assert again.once_more(PLAN, "met")
    assert again.cut(replace(PLAN, end=50, bounds={**PLAN.bounds, "met": 4})) == replace(
        PLAN, bounds={**PLAN.bounds, "met": 4}
    )
