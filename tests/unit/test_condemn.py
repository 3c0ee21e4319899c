"""The bisection down to a record that no decoder survives (protocol 3.7)."""

from __future__ import annotations

from exporter.condemn import FREE_SPAN, SINGLE_FAILURES_MAX, Trouble
from exporter.writers import PartitionPlan
from offsets.ranges import TopicPartition

GOOD, BAD = TopicPartition("t", 0), TopicPartition("t", 1)


def plan(tp: TopicPartition, start: int, end: int) -> PartitionPlan:
    return PartitionPlan(tp, 1, 0, start, end, {"a": start - 1})


def test_a_failed_round_of_several_partitions_is_repeated_one_by_one():
    """A healthy partition never waits for long behind a troubled one, and the other way round."""
    both = (plan(GOOD, 0, 100), plan(BAD, 0, 100))
    trouble = Trouble().failed(both, True)
    seen = [trouble.limit(both, turn) for turn in range(4)]
    assert all(len(plans) == 1 for plans in seen)
    assert {plans[0].tp for plans in seen} == {GOOD, BAD}


def test_healthy_and_troubled_partitions_take_turns():
    """Neither starves while both have a backlog."""
    trouble = Trouble().failed((plan(BAD, 0, 100),), True)
    both = (plan(GOOD, 0, 100), plan(BAD, 0, 100))
    turns = [{p.tp for p in trouble.limit(both, turn)} for turn in range(2)]
    assert turns == [{GOOD}, {BAD}]


def test_bisection_ends_at_exactly_the_poisoned_record_and_reads_all_before_it():
    """Every range without the record passes, every range with it fails; the search isolates that one offset."""
    poison, start, end, trouble, rounds = 70_123, 0, 300_000, Trouble(), 0
    while trouble.poison() is None:
        (now,) = trouble.limit((plan(BAD, start, end),), rounds)
        rounds += 1
        if now.start <= poison < now.end:
            trouble = trouble.failed((now,), True)
        else:
            trouble, start = trouble.passed((now,)), now.end
    assert (trouble.poison(), start) == (BAD, poison)
    assert rounds < 200


def test_one_failure_condemns_nothing():
    """A record is condemned only after it has failed on its own several times."""
    trouble = Trouble()
    for _ in range(SINGLE_FAILURES_MAX - 1):
        trouble = trouble.failed((plan(BAD, 5, 6),), True)
        assert trouble.poison() is None
    assert trouble.failed((plan(BAD, 5, 6),), True).poison() == BAD


def test_a_partition_is_healthy_again_after_it_was_read_at_length():
    """Spans grow with each good round until the partition joins the common rounds again."""
    trouble = Trouble().failed((plan(BAD, 0, 2),), True)
    for _ in range(20):
        trouble = trouble.passed((plan(BAD, 0, 1),))
    assert not trouble.spans and not trouble.singles
    assert trouble.limit((plan(BAD, 0, 10 * FREE_SPAN),), 0)[0].end == 10 * FREE_SPAN


def test_an_outage_condemns_nothing():
    """While the record cannot be read raw either, its failures do not count, and earlier ones are forgotten."""
    trouble = Trouble()
    for readable in [True, True, False, True, True] + [False] * 10:
        trouble = trouble.failed((plan(BAD, 5, 6),), readable)
        assert trouble.poison() is None
