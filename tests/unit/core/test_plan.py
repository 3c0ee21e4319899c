"""Plans: where reading starts, for whom, and how much one round takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.plan import PROBE_RECORDS, Budget, expected, plan_round, spare
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import Fragment, Parked, PartitionPlan, Writer, WriterKey, drop, integrate
from offsets.ranges import TopicPartition

T0, T1, T2 = (TopicPartition("orders", number) for number in range(3))
PLENTY = Budget(1_000_000)


def writer(event_type: str, frontier: int, tp: TopicPartition = T0, **changes: object) -> Writer:
    return replace(Writer(WriterKey(event_type, tp), 2, 3, min(frontier, 0), frontier), **changes)


def writers(*each: Writer) -> dict[WriterKey, Writer]:
    return {one.key: one for one in each}


def test_a_plan_starts_just_after_the_least_frontier():
    """FLOOR: min(frontier) + 1, through the last readable record; bounds, ownership and epoch are echoed."""
    found = plan_round(writers(writer("A", 40), writer("B", 9), writer("C", 90)), {T0: 100}, PLENTY, 0.0)
    assert found == (PartitionPlan(T0, 3, 2, 10, 100, {"A": 40, "B": 9, "C": 90}),)


def test_the_frontier_counts_and_not_the_position():
    """Staged but uncommitted records are not read a second time."""
    one = replace(writer("A", 40), covered=3)
    assert plan_round(writers(one), {T0: 100}, PLENTY, 0.0)[0].start == 41


def test_a_new_topic_is_read_from_offset_0():
    """Anchored before offset 0 is frontier -1."""
    assert plan_round(writers(writer("A", -1)), {T0: 1}, PLENTY, 0.0)[0].start == 0


@given(st.integers(0, 20), st.integers(1, 20), st.sets(st.integers(0, 45)))
def test_no_poison_record_is_ever_asked_for_and_every_other_one_is(start, span, poison):
    """Plan after plan: a run of poison records is passed without a read, and a read never goes beyond the next."""
    end, asked, passed = start + span, [], start
    while passed < end:
        plan = spare(PartitionPlan(T0, 3, 2, passed, end, {"A": passed - 1}), poison)
        assert passed == plan.start < plan.end <= end
        offsets = range(plan.start, plan.end)
        assert len({offset in poison for offset in offsets}) == 1
        asked += [offset for offset in offsets if offset not in poison]
        passed = plan.end
    assert asked == [offset for offset in range(start, end) if offset not in poison]


@pytest.mark.parametrize("end", [0, 1, 41])
def test_nothing_new_makes_no_plan(end):
    """An end at or below the next offset: no job, also if the log was cut."""
    assert plan_round(writers(writer("A", 40)), {T0: end}, PLENTY, 0.0) == ()


def test_one_new_offset_makes_a_plan():
    """The end is exclusive."""
    found = plan_round(writers(writer("A", 40)), {T0: 42}, PLENTY, 0.0)
    assert [(plan.start, plan.end) for plan in found] == [(41, 42)]


def test_a_partition_without_a_known_end_is_left_alone():
    """Traps 4: unknown ends are no ends of 0; a partition without writers is not ours."""
    assert plan_round(writers(writer("A", 40)), {T1: 100}, PLENTY, 0.0) == ()
    assert plan_round({}, {T0: 100}, PLENTY, 0.0) == ()


def test_partitions_are_planned_apart():
    """A type that is behind in one partition holds back no other partition."""
    found = plan_round(writers(writer("A", 5), writer("B", 50), writer("A", 70, T1)), {T0: 100, T1: 100}, PLENTY, 0.0)
    assert [(plan.tp, plan.start, dict(plan.bounds)) for plan in found] == [
        (T0, 6, {"A": 5, "B": 50}),
        (T1, 71, {"A": 70}),
    ]


def test_a_round_is_cut_at_its_budget():
    """Traps 29: a backlog of any size is read in bounded rounds."""
    found = plan_round(writers(writer("A", 9)), {T0: 1_000_000}, Budget(100), 0.0)
    assert [(plan.start, plan.end) for plan in found] == [(10, 110)]


def test_the_budget_is_shared_and_leftovers_are_used():
    """A quiet partition takes what it needs; the busy ones share the rest evenly."""
    found = plan_round(
        writers(writer("A", -1, T0), writer("A", -1, T1), writer("A", -1, T2)),
        {T0: 10_000, T1: 10, T2: 10_000},
        Budget(1000),
        0.0,
    )
    assert {plan.tp: plan.end - plan.start for plan in found} == {T0: 495, T1: 10, T2: 495}


def test_every_partition_makes_progress_under_any_budget():
    """A budget smaller than the number of partitions still reads one record of each."""
    state = writers(writer("A", -1), writer("A", -1, T1), writer("A", -1, T2))
    found = plan_round(state, dict.fromkeys((T0, T1, T2), 99), Budget(1), 0.0)
    assert [plan.end - plan.start for plan in found] == [1, 1, 1]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 50), st.integers(0, 90)), min_size=1, max_size=6), st.integers(1, 200))
def test_a_round_never_exceeds_its_budget_and_never_passes_an_end(partitions, records):
    """At most max(budget, partitions) records; each range lies within what is readable, in order of partition."""
    tps = [TopicPartition("t", number) for number in range(len(partitions))]
    state = writers(*(writer("A", frontier, tp) for tp, (frontier, _) in zip(tps, partitions, strict=True)))
    ends = {tp: end for tp, (_, end) in zip(tps, partitions, strict=True)}
    found = plan_round(state, ends, Budget(records), 0.0)
    assert sum(plan.end - plan.start for plan in found) <= max(records, len(found))
    assert [plan.tp for plan in found] == [tp for tp in tps if state[WriterKey("A", tp)].frontier + 1 < ends[tp]]
    for plan in found:
        assert plan.start == state[WriterKey("A", plan.tp)].frontier + 1
        assert plan.start < plan.end <= ends[plan.tp]


def test_a_parked_type_does_not_hold_back_the_others():
    """Protocol 3.6: it is out of the common minimum and not listed, until its time has come."""
    found = plan_round(writers(writer("A", 50), writer("B", 3, parked=Parked("x", 10.0))), {T0: 100}, PLENTY, 9.9)
    assert found == (PartitionPlan(T0, 3, 2, 51, 100, {"A": 50}, unlisted=("B",)),)


def test_a_parked_type_catches_up_by_a_plan_of_its_own():
    """Protocol 3.6: from its own frontier, alone, and the plan remembers the state in which it was parked."""
    parked = Parked("x", 10.0)
    found = plan_round(writers(writer("A", 50), writer("B", 3, parked=parked)), {T0: 100}, PLENTY, 10.0)
    assert found == (PartitionPlan(T0, 3, 2, 4, 100, {"B": 3}, parked, ("A",)),)


def test_a_catch_up_is_cut_at_the_budget_too():
    """A type that was parked for a day comes back in bounded rounds."""
    parked = writer("B", 3, parked=Parked("x", 0.0))
    assert plan_round(writers(parked), {T0: 10**9}, Budget(50), 1.0)[0].end == 54


def test_a_parked_type_with_nothing_to_catch_up_does_not_stop_the_common_plan():
    """Its time has come but there is no record for it: the others are planned."""
    found = plan_round(writers(writer("A", 50), writer("B", 99, parked=Parked("x", 0.0))), {T0: 100}, PLENTY, 1.0)
    assert [dict(plan.bounds) for plan in found] == [{"A": 50}]


def test_two_parked_types_catch_up_one_after_the_other():
    """One plan moves one parked type alone; the first in order of name whose time has come."""
    state = writers(writer("B", 3, parked=Parked("x", 5.0)), writer("A", 3, parked=Parked("x", 9.0)))
    assert [dict(plan.bounds) for plan in plan_round(state, {T0: 100}, PLENTY, 6.0)] == [{"B": 3}]
    assert [dict(plan.bounds) for plan in plan_round(state, {T0: 100}, PLENTY, 9.0)] == [{"A": 3}]


def test_a_partition_whose_types_are_all_parked_waits():
    """Nobody to read for: no plan, and no error from an empty minimum."""
    assert plan_round(writers(writer("A", 3, parked=Parked("x", 9.0))), {T0: 100}, PLENTY, 1.0) == ()


def test_the_first_round_probes():
    """Traps 30: as long as no record was seen, a round is small."""
    assert Budget.of(1_000_000, 10**9, 0.0) == Budget(PROBE_RECORDS)
    assert Budget.of(500, 10**9, 0.0) == Budget(500)


@pytest.mark.parametrize(
    "records_max, bytes_max, each, expected",
    [(1000, 10**9, 100.0, 1000), (1000, 50_000, 100.0, 500), (1000, 10, 1e6, 1), (1000, 1050, 100.0, 10)],
)
def test_a_budget_obeys_records_and_bytes(records_max, bytes_max, each, expected):
    """Traps 30: 1 MB records bound a round by bytes; one record at least, so that it moves."""
    assert Budget.of(records_max, bytes_max, each) == Budget(expected)


def test_a_round_behind_another_begins_where_that_ends():
    """FLOOR: every type is expected at the end of the running plans, those of partitions without one where they are."""
    state = writers(writer("A", 40), writer("B", 9), writer("A", 7, T1))
    running = plan_round(state, {T0: 1_000}, Budget(100), 0.0)
    behind = plan_round(expected(state, running, 0.0), {T0: 1_000, T1: 20}, Budget(100), 0.0)
    assert [(plan.start, plan.end) for plan in running] == [(10, 110)]
    assert [(plan.tp, plan.start, plan.end, dict(plan.bounds)) for plan in behind] == [
        (T0, 110, 198, {"A": 109, "B": 109}),
        (T1, 8, 20, {"A": 7}),
    ]


def test_a_type_that_the_running_plan_is_no_longer_for_is_not_expected_to_move():
    """It was dropped or parked since: the round behind begins at its own frontier."""
    state = writers(writer("A", 40), writer("B", 40))
    running = plan_round(state, {T0: 60}, PLENTY, 0.0)
    moved = writers(replace(writer("A", 40), frontier=3, covered=3), writer("B", 40))
    assert plan_round(expected(moved, running, 0.0), {T0: 100}, PLENTY, 0.0)[0].bounds == {"A": 3, "B": 59}


def test_what_is_dropped_meanwhile_discards_both_rounds():
    """Protocol 3.1: a round behind one that came to nothing for a type comes to nothing for it too."""
    state = writers(writer("A", 40), writer("B", 40))
    running = plan_round(state, {T0: 60}, PLENTY, 0.0)
    behind = plan_round(expected(state, running, 0.0), {T0: 100}, PLENTY, 0.0)
    after = {**state, WriterKey("A", T0): drop(state[WriterKey("A", T0)])}
    for plan in (*running, *behind):
        found = integrate(after, Fragment(plan), 0.0)
        assert list(found.discarded) == ["A"]
        after = found.writers
    assert {key.event_type: one.frontier for key, one in after.items()} == {"A": 0, "B": 99}


@pytest.mark.parametrize(("name", "bound"), [(DEAD_LETTERS, 3), ("A", None)])
def test_the_catch_up_of_dead_letters_alone_lists_types_that_nobody_has_met(name: str, bound: int | None) -> None:
    """Protocol 3.6: such a type is anchored where they are."""
    parked = writer(name, 3, parked=Parked("x", 0.0))
    (plan,) = plan_round(writers(writer("B", 50), parked), {T0: 100}, PLENTY, 1.0)
    assert (plan.start, plan.end, plan.parked) == (4, 100, parked.parked)
    assert (plan.bound("new"), plan.bound("B")) == (bound, None)
