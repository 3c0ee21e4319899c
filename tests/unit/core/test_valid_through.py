"""valid_through: how times come to a commit, and what it may say (protocol 4.12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.user_metadata import claimed
from exporter.core.valid_through import ALL, as_ms, as_text, idle, latest, silent, time_of, valid_through
from exporter.core.writers import Claim, Fragment, PartitionPlan, Writer, WriterKey, drop, freeze, integrate, landed
from offsets.ranges import TopicPartition

P = [TopicPartition("events", number) for number in range(4)]
A = WriterKey("A", P[0])
NOON = 1_795_694_400_000


def read(writer: Writer, end: int, **times: int) -> Writer:
    """Integrate a round that ends there. times: by event type; `all`: of all records."""
    plan = PartitionPlan(P[0], 1, 0, writer.frontier + 1, end, {"A": writer.frontier})
    told = {ALL if name == "all" else name: time for name, time in times.items()}
    return integrate({A: writer}, Fragment(plan, times=told), 0.0).writers[A]


def test_a_claim_has_the_time_of_what_was_read_when_it_was_frozen() -> None:
    """What is integrated later is said by the next claim; a drop takes the time away with the frontier."""
    writer = read(read(Writer(A, 0, 1, -1, -1), 10, all=100), 12, all=90)
    writer = freeze(writer, 0)
    assert writer.claim is not None
    assert (writer.claim.new, writer.claim.time_ms) == (11, 100)
    later = read(writer, 20, all=130)
    assert later.claim is not None
    assert later.claim.time_ms == 100
    after = landed(later, later.claim, 0.0)
    assert freeze(after, 0).claim == Claim(A, 0, 11, 19, (), 0, time_ms=130)
    assert drop(after).time_ms == 0


def test_holes_alone_leave_the_time_as_it_was() -> None:
    """A range of markers of transactions: the position moves, the greatest time through it does not."""
    writer = read(read(Writer(A, 0, 1, -1, -1), 10, all=100), 15)
    assert (writer.frontier, writer.time_ms) == (14, 100)


@pytest.mark.parametrize(("times", "of_a"), [({}, 0), ({ALL: 7}, 7), ({"A": 5, "B": 9}, 5), ({"B": 9}, 0)])
def test_a_type_has_its_own_time_or_that_of_all_records(times: dict[str, int], of_a: int) -> None:
    """By event time each type has its own, by record time there is one for all."""
    assert time_of(times, "A") == of_a


def test_a_claim_without_a_time_says_what_it_always_said() -> None:
    """With the setting off nothing stored changes; with it on the time is text that a person can read."""
    assert "time" not in claimed(Claim(A, 0, -1, 9, (), 0))
    assert claimed(Claim(A, 0, -1, 9, (), 0, time_ms=NOON + 7))["time"] == "2026-11-26T12:00:00.007Z"


@given(st.integers(1, 253_402_300_799_999))
def test_texts_of_times_are_read_back(time_ms: int) -> None:
    """To the millisecond, all years that a table can hold; of equal length, so that they sort as the times do."""
    assert as_ms(as_text(time_ms)) == time_ms
    assert len(as_text(time_ms)) == len("2026-11-26T12:00:00.007Z")


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-26", None])
def test_a_text_that_is_no_such_time_is_none(text: str) -> None:
    """A person may have written the property; nothing is made of it."""
    assert as_ms(text) == 0


@pytest.mark.parametrize(
    ("times", "left_out", "before", "said"),
    [
        ({0: 50, 1: 40, 2: 60}, (), 0, 39),  # the least, less one: a record of the same millisecond may follow
        ({0: 50, 1: 40}, (), 0, 0),  # strict: one takes no part
        ({0: 50, 1: 40}, (2,), 0, 39),  # idle_aware: nothing is there beyond its position
        ({0: 50, 1: 40, 2: 0}, (2,), 0, 39),  # it moved over holes alone
        ({0: 50, 1: 40, 2: 0}, (), 0, 0),
        ({0: 50, 1: 40, 2: 60}, (), 45, 45),  # never back
        ({0: 50, 1: 40, 2: 60}, (1,), 0, 39),  # idle or not, who has a time counts
        ({}, (0, 1, 2), 45, 0),
        ({0: 50, 1: 40, 2: 60, 3: 10}, (), 0, 39),  # of a topic that is exported no longer
    ],
)
def test_a_commit_says_the_least_of_all_partitions(
    times: dict[int, int], left_out: tuple[int, ...], before: int, said: int
) -> None:
    """Of three partitions; times, those that are idle, and what was said before."""
    told = {P[number]: time for number, time in times.items()}
    assert valid_through(told, P[:3], [P[number] for number in left_out], before) == said


def test_a_partition_is_idle_if_nothing_is_there_beyond_its_position() -> None:
    """Of one whose end is not known nobody can tell; of one without a record there is nothing to wait for."""
    ends = {P[0]: 10, P[1]: 11, P[2]: 0}
    assert idle(P, {P[0]: 9, P[1]: 9, P[3]: 9}, ends) == {P[0], P[2]}
    assert silent({P[0]: 5, P[1]: 0}, P[:3]) == {P[1], P[2]}


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Records in the order of production, as (partition, time); times never go back."""
    steps = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=25))
    found, now = [], 1
    for partition, pause in steps:
        now += pause
        found.append((partition, now))
    return found


@given(histories(), st.data())
def test_no_later_row_has_a_time_at_or_below_it_in_ordered_input(
    history: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Any interleaving of producing, freezing, looking at the ends and committing; strict and idle_aware."""
    logs: dict[TopicPartition, list[int]] = {tp: [] for tp in P[:3]}
    positions = dict.fromkeys(logs, -1)
    said, left = 0, list(history)
    while left:
        for _ in range(data.draw(st.integers(1, len(left)), label="produced before the freeze")):
            partition, time = left.pop(0)
            logs[P[partition]].append(time)
        claims = {
            tp: data.draw(st.integers(positions[tp] + 1, len(log) - 1), label=f"position of {tp}")
            for tp, log in logs.items()
            if len(log) - 1 > positions[tp] and data.draw(st.booleans(), label=f"{tp} takes part")
        }
        for _ in range(data.draw(st.integers(0, len(left)), label="produced before the look")):
            partition, time = left.pop(0)
            logs[P[partition]].append(time)
        for tp, new in claims.items():
            assert all(time > said for time in logs[tp][positions[tp] + 1 : new + 1])
        positions |= claims
        times = {tp: max(logs[tp][: new + 1]) for tp, new in claims.items()}
        ends = {tp: len(log) for tp, log in logs.items()}
        aware = data.draw(st.booleans(), label="idle_aware")
        left_out = idle(silent(times, P[:3]), positions, ends) if aware else set()
        said = valid_through(times, P[:3], left_out, said) or said
    for tp, log in logs.items():
        assert all(time > said for time in log[positions[tp] + 1 :])


def test_the_greater_time_of_each_name_counts() -> None:
    """Of several tasks that share a partition."""
    assert latest({"A": 5, "B": 1}, {"A": 3, "C": 2}) == {"A": 5, "B": 1, "C": 2}
