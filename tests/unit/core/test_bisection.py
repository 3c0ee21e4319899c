"""How a partition is read whose rounds fail, down to a record that nothing survives (protocol 3.7)."""

from __future__ import annotations

from exporter.core.bisection import FREE_SPAN, LOSSES_MAX, SINGLE_FAILURES_MAX, STUCK_FAILURES, Bisection
from exporter.core.writers import PartitionPlan
from offsets.ranges import TopicPartition

GOOD, BAD = TopicPartition("t", 0), TopicPartition("t", 1)


def plan(tp: TopicPartition, start: int, end: int) -> PartitionPlan:
    return PartitionPlan(tp, 1, 0, start, end, {"a": start - 1})


def test_a_failed_round_of_several_partitions_is_repeated_one_by_one():
    """A healthy partition never waits for long behind a troubled one, and the other way round."""
    both = (plan(GOOD, 0, 100), plan(BAD, 0, 100))
    trouble = Bisection().failed(both, True)
    seen = [trouble.limit(both, turn) for turn in range(4)]
    assert all(len(plans) == 1 for plans in seen)
    assert {plans[0].tp for plans in seen} == {GOOD, BAD}


def test_healthy_and_troubled_partitions_take_turns():
    """Neither starves while both have a backlog."""
    trouble = Bisection().failed((plan(BAD, 0, 100),), True)
    both = (plan(GOOD, 0, 100), plan(BAD, 0, 100))
    turns = [{p.tp for p in trouble.limit(both, turn)} for turn in range(2)]
    assert turns == [{GOOD}, {BAD}]


def played(bad: set[int], end: int) -> tuple[list[int], int]:
    """Read offsets 0..end-1, of which those of `bad` cannot be passed: (poison, rounds)."""
    start, trouble, poison, rounds = 0, Bisection(), [], 0
    while start < end:
        if trouble.poison():
            poison.append(start)
            trouble, start = trouble.passed((plan(BAD, start, start + 1),)), start + 1
            continue
        (now,) = trouble.limit((plan(BAD, start, end),), rounds)
        rounds += 1
        assert rounds < 100_000
        if bad & set(range(now.start, now.end)):
            trouble = trouble.failed((now,), True)
        else:
            trouble, start = trouble.passed((now,)), now.end
    return poison, rounds


def test_what_nothing_can_read_is_poison_and_nothing_else() -> None:
    """Each by itself, neighbours too, and all that lies between them is read."""
    poison, rounds = played({7, 8, 60_123}, 100_000)
    assert poison == [7, 8, 60_123] and rounds < 200


def test_a_partition_of_which_nothing_passes_is_stuck_and_says_why():
    """Until a round of it passes, whichever way it is read."""
    trouble = Bisection()
    for _ in range(STUCK_FAILURES):
        assert not trouble.stuck()
        trouble = trouble.failed((plan(BAD, 0, 100),), False, "crc")
    assert trouble.stuck() == {BAD: "crc"}
    assert not trouble.passed((plan(BAD, 0, 5),)).stuck()


def test_bisection_ends_at_exactly_the_poisoned_record_and_reads_all_before_it():
    """Every range without the record passes, every range with it fails; the search isolates that one offset."""
    poison, start, end, trouble, rounds = 70_123, 0, 300_000, Bisection(), 0
    while not trouble.poison():
        (now,) = trouble.limit((plan(BAD, start, end),), rounds)
        rounds += 1
        if now.start <= poison < now.end:
            trouble = trouble.failed((now,), True)
        else:
            trouble, start = trouble.passed((now,)), now.end
    assert trouble.poison() == {BAD: start} == {BAD: poison}
    assert rounds < 200


def test_one_failure_makes_nothing_poison():
    """A record is poison only after it has failed on its own several times."""
    trouble = Bisection()
    for _ in range(SINGLE_FAILURES_MAX - 1):
        trouble = trouble.failed((plan(BAD, 5, 6),), True)
        assert not trouble.poison()
    assert trouble.failed((plan(BAD, 5, 6),), True).poison() == {BAD: 5}


def test_a_record_is_not_poison_for_what_its_neighbour_did() -> None:
    """A type that was parked has a plan of its own, which begins at another record of the same partition."""
    trouble = Bisection()
    for _ in range(SINGLE_FAILURES_MAX):
        trouble = trouble.failed((plan(BAD, 7, 8),), True)
    assert trouble.poison() == {BAD: 7}
    assert not trouble.failed((plan(BAD, 5, 6),), True).poison()


def test_a_partition_is_healthy_again_after_it_was_read_at_length():
    """Spans grow with each good round until the partition joins the common rounds again."""
    trouble = Bisection().failed((plan(BAD, 0, 2),), True)
    for _ in range(20):
        trouble = trouble.passed((plan(BAD, 0, 1),))
    assert not trouble.ailing
    assert trouble.limit((plan(BAD, 0, 10 * FREE_SPAN),), 0)[0].end == 10 * FREE_SPAN


def test_an_outage_makes_nothing_poison():
    """While the record cannot be read raw either, its failures do not count, and earlier ones are forgotten."""
    trouble = Bisection()
    for readable in [True, True, False, True, True] + [False] * 10:
        trouble = trouble.failed((plan(BAD, 5, 6),), readable)
        assert not trouble.poison()


def test_executors_that_are_lost_count_against_no_record():
    """A machine that is taken away while a single record is read alone, twice failed before, makes none poison."""
    one = (plan(BAD, 5, 6),)
    trouble = Bisection().failed(one, True).failed(one, True)
    while trouble.ailing[BAD].alone < SINGLE_FAILURES_MAX - 1:
        trouble = trouble.failed(one, True)
    for _ in range(LOSSES_MAX):
        trouble = trouble.lost(one, "gone")
        assert not trouble.poison()
        assert trouble.ailing[BAD].alone == SINGLE_FAILURES_MAX - 1
    assert trouble.lost(one).poison() == {}
    assert trouble.failed(one, True).poison() == {BAD: 5}, "its own failures do"


def test_a_round_whose_executors_are_lost_is_read_again_as_it_was():
    """Its partitions are in no trouble; a round that passes ends the count."""
    both = (plan(GOOD, 0, 100), plan(BAD, 0, 100))
    trouble = Bisection()
    for _ in range(LOSSES_MAX):
        trouble = trouble.lost(both, "gone")
    assert trouble.limit(both, 0) == both and not trouble.stuck()
    assert trouble.passed(both) == Bisection()


def test_what_ends_its_executors_again_and_again_is_read_apart_and_never_poison() -> None:
    """A record that is more than an executor can hold: all before it is read, and its partition says it is stuck."""
    start, end, deadly, trouble = 0, 100, 40, Bisection()
    for number in range(200):
        (now,) = trouble.limit((plan(BAD, start, end),), number)
        assert not trouble.poison()
        if now.start <= deadly < now.end:
            trouble = trouble.lost((now,), "gone")
        else:
            trouble, start = trouble.passed((now,)), now.end
    assert start == deadly and trouble.stuck() == {BAD: "gone"}
