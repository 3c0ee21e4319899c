"""When a leader commits what: its rounds, by a clock of the test's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.coordinate.rounds import LINGER_SECS, LITTLE_BYTES, SECOND_SHARE, YOUNG_SECS, LeaderRounds
from exporter.core.coordination import Begin, Merged, Offer, Ready
from offsets.ranges import TopicPartition

P = [TopicPartition("events", number) for number in range(4)]
INTERVAL, WINDOW, TIMEOUT = 10.0, 8.0, 30.0


def offer(name: str, round_id: str = "", table: str = "order", owner: str = "a") -> Offer:
    return Offer("app", name, owner, table, "id", round_id, 0, ())


def begun(rounds: LeaderRounds, now: float) -> Begin:
    begin = rounds.begin(now)
    assert begin is not None
    return begin


def ids(due: dict[str, tuple[Offer, ...]]) -> dict[str, list[str]]:
    return {table: [one.id for one in offers] for table, offers in due.items()}


@pytest.fixture
def rounds() -> LeaderRounds:
    return LeaderRounds("app", "leader", INTERVAL, TIMEOUT)


def test_a_round_is_closed_when_all_partitions_are_ready(rounds: LeaderRounds) -> None:
    """All that was offered for a table goes together, whichever task it is of; idle partitions count as ready."""
    begin = begun(rounds, 0.0)
    for name, owner in (("o1", "a"), ("o2", "b")):
        rounds.take(offer(name, begin.round_id, owner=owner), 0.1)
    rounds.take(offer("o3", begin.round_id, table="click"), 0.1)
    rounds.take(Ready("app", "a", begin.round_id, (P[0], P[1])), 0.2)
    assert not rounds.close_due(5.0, P) and not rounds.due(5.0)
    rounds.take(Ready("app", "b", begin.round_id, (P[2], P[3])), 5.0)
    assert rounds.close_due(5.0, P)
    assert ids(rounds.due(5.0)) == {"order": ["o1", "o2"], "click": ["o3"]}
    assert rounds.closed == {"ready": 1, "late": 0} and not rounds.due(5.0)


def test_a_round_does_not_wait_for_ever(rounds: LeaderRounds) -> None:
    """Half of the time-out after its beginning, or before the next one: tasks must not commit by themselves."""
    begin = begun(rounds, 0.0)
    rounds.take(offer("o1", begin.round_id), 0.1)
    rounds.take(Ready("app", "a", begin.round_id, (P[0],)), 0.2)
    assert not rounds.close_due(WINDOW - 0.1, P)
    assert rounds.close_due(WINDOW, P) and rounds.closed["late"] == 1
    assert ids(rounds.due(WINDOW)) == {"order": ["o1"]}
    assert LeaderRounds("app", "l", 60.0, TIMEOUT)._window_secs == TIMEOUT / 2


def test_a_round_is_not_closed_by_the_ready_of_another_one_nor_while_no_partitions_are_known(
    rounds: LeaderRounds,
) -> None:
    """Both would cut it short, and tasks that are slower would be late in every round."""
    begin = begun(rounds, 0.0)
    rounds.take(Ready("app", "a", "another", tuple(P)), 0.1)
    assert not rounds.close_due(0.2, P)
    rounds.take(Ready("app", "a", begin.round_id, tuple(P)), 0.3)
    assert not rounds.close_due(0.4, []) and rounds.close_due(0.4, P)


def test_rounds_begin_an_interval_apart_and_never_beside_an_open_one(rounds: LeaderRounds) -> None:
    """By their beginnings: a round that closes soon does not bring the next one forward.

    But for a leader's second one: its first settles what was open, and only then are the partitions of the leader
    before it read.
    """
    early = INTERVAL * SECOND_SHARE
    found: list[Begin] = []
    for begins in (0.0, early, early + INTERVAL):
        assert not found or rounds.begin(begins - 0.1) is None
        found.append(begun(rounds, begins))
        rounds.take(Ready("app", "a", found[-1].round_id, tuple(P)), begins + 0.1)
        rounds.close_due(begins + 0.2, P)
    assert [one.number for one in found] == [1, 2, 3] and len({one.round_id for one in found}) == 3


def test_a_beginning_that_may_be_lost_is_said_once_more(rounds: LeaderRounds) -> None:
    """Half way: who has not heard it, or was not heard, is in time after all."""
    first = begun(rounds, 0.0)
    assert rounds.begin(WINDOW / 2 - 0.1) is None
    assert rounds.begin(WINDOW / 2) == first and rounds.begin(WINDOW / 2 + 1) is None


def test_what_is_in_a_hurry_is_committed_at_once_with_all_that_waits_for_no_open_round(rounds: LeaderRounds) -> None:
    """A moment later, in which others join. What was said for the open round waits for its end."""
    begin = begun(rounds, 0.0)
    rounds.take(offer("of_round", begin.round_id), 3.0)
    rounds.take(offer("late", "an earlier one"), 3.0)
    rounds.take(offer("prompt"), 3.0)
    assert not rounds.due(3.0 + LINGER_SECS - 0.01)
    assert ids(rounds.due(3.0 + LINGER_SECS)) == {"order": ["late", "prompt"]}
    rounds.done("order", (), Merged())
    rounds.close_due(INTERVAL, P)
    assert not rounds.due(INTERVAL), "a table is committed by one at a time"


def test_what_is_in_a_hurry_goes_with_a_round_that_has_just_begun(rounds: LeaderRounds) -> None:
    """It is closed a moment later, mostly; if not, the hurry is over."""
    begin = begun(rounds, 0.0)
    rounds.take(offer("prompt"), 0.1)
    rounds.take(offer("of_round", begin.round_id), 0.2)
    assert not rounds.due(YOUNG_SECS - 0.1)
    rounds.take(Ready("app", "a", begin.round_id, tuple(P)), 0.5)
    rounds.close_due(0.5, P)
    assert ids(rounds.due(0.5)) == {"order": ["prompt", "of_round"]}
    begun(rounds, INTERVAL)
    rounds.take(offer("another", table="click"), INTERVAL + 0.1)
    assert ids(rounds.due(INTERVAL + YOUNG_SECS)) == {"click": ["another"]}


def test_a_partition_that_leaves_brings_the_next_round_forward(rounds: LeaderRounds) -> None:
    """Others leave at that time too, and all of it is one version. What has reached a task's limits waits for none."""
    first = begun(rounds, 0.0)
    rounds.take(Ready("app", "a", first.round_id, tuple(P)), 0.1)
    rounds.close_due(0.2, P)
    rounds.take(Ready("app", "a", begun(rounds, INTERVAL * SECOND_SHARE).round_id, tuple(P)), 5.1)
    rounds.close_due(5.1, P)
    much = replace(offer("much"), adds=({"size": LITTLE_BYTES},))
    rounds.take(much, 8.0)
    rounds.take(replace(offer("listed", table="click"), manifest="_exporter/offers/listed.json"), 8.0)
    assert rounds.begin(8.0) is None and len(rounds.due(8.0 + LINGER_SECS)) == 2
    rounds.take(replace(offer("leaves", table="payment"), adds=({"size": "no number"}, {"size": 100})), 8.5)
    second = begun(rounds, 8.5)
    assert not rounds.due(9.0), "it waits for the end of that round"
    rounds.take(offer("too", second.round_id, table="payment"), 9.0)
    rounds.take(Ready("app", "a", second.round_id, tuple(P)), 9.1)
    rounds.close_due(9.1, P)
    assert ids(rounds.due(9.1)) == {"payment": ["leaves", "too"]}
    rounds.take(offer("again", table="refund"), 9.2)
    assert rounds.begin(8.5 + INTERVAL / 4 - 0.1) is None, "not one round after the other"
    assert begun(rounds, 8.5 + INTERVAL / 4).number == 4


def test_who_is_late_joins_the_next_round(rounds: LeaderRounds) -> None:
    """Alone it is committed only where none comes in time for its task's patience."""
    first = begun(rounds, 0.0)
    rounds.close_due(INTERVAL, P)
    late = offer("late", first.round_id)
    rounds.take(late, INTERVAL + 0.1)
    second = begun(rounds, INTERVAL + 0.2)
    rounds.take(offer("in_time", second.round_id), INTERVAL + 0.3)
    assert not rounds.due(INTERVAL + 0.4)
    rounds.take(Ready("app", "a", second.round_id, tuple(P)), INTERVAL + 0.5)
    rounds.close_due(INTERVAL + 0.5, P)
    assert ids(rounds.due(INTERVAL + 0.5)) == {"order": ["late", "in_time"]}
    alone = LeaderRounds("app", "l", 60.0, TIMEOUT)
    alone.take(late, 0.0)
    assert not alone.due(TIMEOUT / 4 - 0.1) and ids(alone.due(TIMEOUT / 4)) == {"order": ["late"]}


def test_an_offer_counts_once_however_often_it_is_said(rounds: LeaderRounds) -> None:
    """While it waits, while it is committed, and afterwards: then its outcome is said again."""
    rounds.take(offer("o1"), 0.0)
    rounds.take(offer("o1"), 0.1)
    (offers,) = rounds.due(1.0).values()
    assert len(offers) == 1
    assert rounds.take(offer("o1"), 1.1) is None and not rounds.due(2.0)
    outcome = rounds.done("order", offers, Merged(7, 3, ("o1",)))
    assert outcome is not None and (outcome.version, outcome.rows, outcome.landed) == (7, 3, ("o1",))
    assert rounds.take(offer("o1"), 3.0) == outcome and not rounds.due(9.0) and rounds.pending == 0


def test_what_is_unknown_is_told_to_nobody_and_may_be_offered_again(rounds: LeaderRounds) -> None:
    """Whoever says that it is dropped would have its task commit beside a commit that may still land."""
    for name in ("o1", "o2"):
        rounds.take(offer(name), 0.0)
    (offers,) = rounds.due(1.0).values()
    outcome = rounds.done("order", offers, Merged(None, 0, dropped={"o2": "gone"}))
    assert outcome is not None and (outcome.landed, dict(outcome.dropped)) == ((), {"o2": "gone"})
    rounds.take(offer("o1"), 2.0)
    assert ids(rounds.due(3.0)) == {"order": ["o1"]}
    assert rounds.done("order", [offer("o1")], Merged()) is None


def test_who_leads_no_more_forgets_what_is_left(rounds: LeaderRounds) -> None:
    """It is said again to the next one. When it leads again it begins at once."""
    begun(rounds, 0.0)
    rounds.take(offer("o1"), 0.0)
    rounds.forget()
    assert rounds.pending == 0 and not rounds.due(5.0)
    assert begun(rounds, 1.0).number == 2
