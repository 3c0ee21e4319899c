"""Writers: what is integrated, dropped, parked, frozen and landed (protocol, sections 3 and 4)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.writers import (
    Claim,
    Fragment,
    Integrated,
    Parked,
    PartitionPlan,
    StagedFile,
    Writer,
    WriterKey,
    drop,
    freeze,
    integrate,
    landed,
    missing_anchors,
    offered,
    park,
    staged_range_error,
)
from exporter.errors import InvariantBroken
from offsets import Invariant
from offsets.ranges import OffsetRange, TopicPartition

TP = TopicPartition("orders", 0)
A, B = WriterKey("A", TP), WriterKey("B", TP)


def file(first: int, last: int, day: str = "2026-11-01", rows: int = 1) -> StagedFile:
    return StagedFile(f"day={day}/{first}-{last}.parquet", OffsetRange(first, last), rows, 100 * rows)


def writer(key: WriterKey = A, covered: int = 9, frontier: int = 9, **changes: object) -> Writer:
    return replace(Writer(key, 0, 1, covered, frontier), **changes)


def writers(*each: Writer) -> dict[WriterKey, Writer]:
    return {one.key: one for one in each}


def plan(
    start: int = 10, end: int = 20, ownership: int = 1, parked: Parked | None = None, **bounds: int
) -> PartitionPlan:
    return PartitionPlan(TP, ownership, 0, start, end, bounds, parked)


# --- integrating: protocol 3.1 and 3.2


def test_3_1_a_fresh_fragment_moves_files_and_frontier_in_one_step():
    """A listed type whose bound is its frontier takes its files; covered stays until a commit."""
    result = integrate(writers(writer()), Fragment(plan(A=9), {"A": (file(10, 15),)}), now=5.0)
    assert result.discarded == {}
    assert result.writers[A] == writer(frontier=19, staged=(file(10, 15),), oldest_at=5.0, behind_at=5.0)


def test_3_6_a_type_whose_files_could_not_be_written_stays_where_it_is():
    """The others move on; one that is met for the first time still has to be anchored first (ANCHOR)."""
    before = writers(writer(), writer(B))
    fragment = Fragment(plan(A=9, B=9), {"B": (file(12, 12),)}, {"A": "disk full", "new": "disk full"})
    result = integrate(before, fragment, 0.0)
    assert result.writers[A] == before[A]
    assert result.writers[B].frontier == 19
    assert result.discarded == {"A": "disk full", "new": "it has no position yet"}
    assert missing_anchors(before, fragment) == ("new",)


def test_3_1_a_bound_behind_the_frontier_of_now_is_stale():
    """An overlapping round already integrated through 14: these files would double 10..14."""
    before = writers(writer(frontier=14))
    result = integrate(before, Fragment(plan(A=9), {"A": (file(10, 15),)}), 0.0)
    assert result.writers == before
    assert "its frontier is 14, the plan's bound was 9" in result.discarded["A"]


def test_3_1_a_bound_beyond_the_frontier_of_now_is_stale():
    """The writer was dropped since the plan: what lies between would be lost."""
    before = writers(writer(frontier=9))
    result = integrate(before, Fragment(plan(start=15, A=14), {"A": (file(15, 19),)}), 0.0)
    assert result.writers == before
    assert set(result.discarded) == {"A"}


def test_3_1_a_plan_that_starts_beyond_its_bound_is_refused():
    """start - 1 <= bound: offsets between the frontier and the start were never read for this type."""
    before = writers(writer())
    result = integrate(before, Fragment(plan(start=11, A=9), {"A": (file(11, 15),)}), 0.0)
    assert result.writers == before
    assert set(result.discarded) == {"A"}


def test_3_1_a_bound_beyond_the_start_is_normal():
    """A type that is ahead of the common start skips what it has and takes the rest."""
    before = writers(writer(frontier=14), writer(B))
    result = integrate(before, Fragment(plan(A=14, B=9), {"A": (file(15, 18),), "B": (file(11, 17),)}), 0.0)
    assert result.discarded == {}
    assert [result.writers[key].frontier for key in (A, B)] == [19, 19]


@pytest.mark.parametrize("ownership", [0, 2])
def test_3_1_a_fragment_of_another_ownership_is_discarded(ownership):
    """The partition went away and came back while the round ran: nothing of it counts."""
    before = writers(writer())
    result = integrate(before, Fragment(plan(ownership=ownership, A=9), {"A": (file(10, 15),)}), 0.0)
    assert result.writers == before
    assert "assigned anew" in result.discarded["A"]


def test_3_1_a_fragment_of_another_epoch_is_discarded():
    """Its files carry the epoch of the plan in their names; under another appId the sweep would misjudge them."""
    before = writers(writer(epoch=1))
    assert integrate(before, Fragment(plan(A=9), {"A": (file(10, 15),)}), 0.0).writers == before


@pytest.mark.parametrize(
    "then, now",
    [(None, Parked("x", 1.0)), (Parked("x", 1.0), None), (Parked("x", 1.0), Parked("x", 2.0))],
    ids=["parked since", "freed since", "parked again since"],
)
def test_3_1_a_changed_parked_state_discards(then, now):
    """Parked, freed or parked again since the plan: the type is read again."""
    before = writers(writer(parked=now))
    result = integrate(before, Fragment(plan(parked=then, A=9), {"A": (file(10, 15),)}), 0.0)
    assert result.writers == before
    assert "parked or retried" in result.discarded["A"]


def test_3_6_a_catch_up_that_succeeds_frees_the_type():
    """Its own plan's result arrives: the type is listed in the common plan from the next plan on."""
    parked = Parked("x", 1.0)
    result = integrate(writers(writer(parked=parked)), Fragment(plan(parked=parked, A=9)), 0.0)
    assert result.writers[A].parked is None
    assert result.writers[A].frontier == 19


def test_3_1_a_type_unknown_to_the_plan_is_taken_if_its_anchor_is_just_before_the_start():
    """The whole range was read for it, so nothing is missing and nothing is double."""
    result = integrate(writers(writer(), writer(B)), Fragment(plan(A=9), {"B": (file(12, 12),)}), 0.0)
    assert result.discarded == {}
    assert result.writers[B].frontier == 19
    assert result.writers[B].staged == (file(12, 12),)


@pytest.mark.parametrize(
    "late",
    [
        writer(B, 8, 8),
        writer(B, 10, 10),
        writer(B, 9, 14),
        writer(B, 3, 9, staged=(file(5, 9),)),
        writer(B, 9, 9, staged=(file(5, 9),)),
    ],
)
def test_3_1_a_type_unknown_to_the_plan_is_discarded_at_any_other_anchor(late):
    """Anchored elsewhere, or read on since: its files are thrown away and read again."""
    before = writers(writer(), late)
    result = integrate(before, Fragment(plan(A=9), {"B": (file(12, 12),)}), 0.0)
    assert result.writers[B] == late
    assert "became active since" in result.discarded["B"]
    assert result.writers[A].frontier == 19


def test_3_2_a_type_without_an_anchor_is_not_integrated():
    """ANCHOR: the fragment names it, there is no writer: it is discarded, and missing_anchors asks for it first."""
    fragment = Fragment(plan(A=9), {"new": (file(12, 12),), "B": (file(13, 13),), "A": (file(10, 10),)})
    assert missing_anchors(writers(writer()), fragment) == ("B", "new")
    assert integrate(writers(writer()), fragment, 0.0).discarded == {
        "B": "it has no position yet",
        "new": "it has no position yet",
    }


def test_3_2_a_type_that_is_listed_but_gone_is_discarded():
    """A plan may outlive the writer it was made for."""
    assert integrate({}, Fragment(plan(A=9)), 0.0).discarded == {"A": "it has no position yet"}


def test_3_2_a_range_without_a_record_of_the_type_moves_its_frontier():
    """Traps 6: only holes, other types, filtered or bad records: the frontier moves, nothing is staged."""
    result = integrate(writers(writer()), Fragment(plan(A=9)), 5.0)
    assert result.writers[A] == writer(frontier=19, oldest_at=5.0, behind_at=5.0)
    later = integrate(result.writers, Fragment(plan(20, 30, A=19)), 8.0)
    assert (later.writers[A].frontier, later.writers[A].behind_at) == (29, 5.0), "it is behind since the first of them"


def test_3_2_a_type_that_is_not_listed_stays_where_it_is():
    """It became active since, or is parked: the plan dropped its records."""
    late = writer(B, 9, 9)
    assert integrate(writers(writer(), late), Fragment(plan(A=9)), 0.0).writers[B] == late


def test_3_2_one_stale_type_does_not_hold_back_the_others():
    """A is stale and stays; B takes its part of the same fragment."""
    before = writers(writer(frontier=14), writer(B))
    result = integrate(before, Fragment(plan(A=9, B=9), {"A": (file(10, 11),), "B": (file(12, 12),)}), 0.0)
    assert (result.writers[A], result.writers[B].frontier) == (before[A], 19)
    assert set(result.discarded) == {"A"}


def test_3_2_a_frontier_never_goes_back():
    """MONOTONE: a type ahead of the plan's end keeps its frontier."""
    result = integrate(writers(writer(frontier=50)), Fragment(plan(A=50)), 0.0)
    assert result.writers[A].frontier == 50


def test_3_8_a_fragment_that_ended_at_its_first_record_changes_nothing():
    """COVER: no frontier moves, back or forth, and a parked type stays parked: nothing of it was tried."""
    parked = Parked("no", 5.0)
    before = writers(writer(frontier=14, staged=(file(10, 14),)), writer(B, parked=parked))
    for ended in (plan(15, 15, A=14), plan(10, 10, parked=parked, B=9)):
        assert integrate(before, Fragment(ended, missing=frozenset({7})), 0.0) == Integrated(before, {})


def test_integrating_changes_nothing_that_was_passed_in():
    """Values in, values out: the caller's mapping stays as it was."""
    before = writers(writer())
    integrate(before, Fragment(plan(A=9), {"A": (file(10, 15),)}), 0.0)
    assert before == writers(writer())


def test_the_age_of_staged_files_is_that_of_the_oldest():
    """A second round adds files and leaves the age; the first one after nothing starts it."""
    once = integrate(writers(writer(oldest_at=1.0)), Fragment(plan(A=9), {"A": (file(10, 15),)}), 5.0).writers
    twice = integrate(once, Fragment(plan(20, 30, A=19), {"A": (file(20, 25),)}), 8.0).writers
    assert (once[A].oldest_at, twice[A].oldest_at) == (5.0, 5.0)
    assert twice[A].staged == (file(10, 15), file(20, 25))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["plan", "integrate", "drop"]), st.integers(1, 5)), max_size=14))
def test_overlapping_rounds_and_drops_never_lose_or_double_an_offset(script):
    """COVER: in any order of planning, integrating and dropping, staged offsets are exactly (covered, frontier]."""
    state = writers(writer(covered=-1, frontier=-1))
    running: list[PartitionPlan] = []
    for action, size in script:
        frontier = state[A].frontier
        if action == "plan":
            running.append(plan(frontier + 1, frontier + 1 + size, A=frontier))
        elif action == "integrate" and running:
            one = running.pop(size % len(running))
            state = integrate(state, Fragment(one, {"A": (file(one.start, one.end - 1),)}), 0.0).writers
        elif action == "drop":
            state = writers(drop(state[A]))
    held = [offset for one in state[A].staged for offset in range(one.offsets.first_offset, one.offsets.next_offset)]
    assert held == list(range(state[A].covered + 1, state[A].frontier + 1))


# --- dropping and parking: protocol 3.3 and 3.6


def test_3_3_dropping_sets_the_frontier_back_to_covered():
    """The next plan reads again all that is not committed."""
    assert drop(writer(frontier=30, staged=(file(10, 15),), oldest_at=3.0)) == writer()


def test_3_3_dropping_makes_running_rounds_stale():
    """A round planned before the drop echoes a bound that is no longer the frontier."""
    dropped = writers(drop(writer(frontier=19, staged=(file(10, 15),))))
    result = integrate(dropped, Fragment(plan(20, 30, A=19), {"A": (file(22, 22),)}), 0.0)
    assert result.writers == dropped
    assert set(result.discarded) == {"A"}


def test_3_3_dropping_keeps_ownership_epoch_and_parked_state():
    """Only what was read is forgotten."""
    parked = Parked("x", 1.0)
    assert drop(writer(ownership=7, epoch=2, parked=parked, failures=3)) == writer(
        ownership=7, epoch=2, parked=parked, failures=3
    )


def test_3_6_parking_drops_what_is_staged():
    """A parked type holds no files in memory and is read again by its own catch-up."""
    parked = park(writer(frontier=30, staged=(file(10, 15),)), "NOT NULL", now=100.0)
    assert (parked.staged, parked.frontier, parked.claim) == ((), 9, None)
    assert parked.parked == Parked("NOT NULL", 101.0)


@pytest.mark.parametrize("failures, wait", [(0, 1), (1, 2), (2, 4), (8, 256), (9, 300), (30, 300)])
def test_3_6_the_back_off_doubles_up_to_five_minutes(failures, wait):
    """1 s after the first failure, 300 s at most."""
    parked = park(writer(failures=failures), "x", now=1000.0)
    assert parked.parked.retry_at == 1000.0 + wait
    assert parked.failures == failures + 1


def test_3_6_a_type_that_is_parked_for_weeks_does_not_end_the_process():
    """1,024 failures at 5 min are 85 hours; the back-off is still 300 s."""
    assert park(writer(failures=1024), "x", now=0.0).parked.retry_at == 300.0


# --- freezing: protocol 4.1


def test_4_1_a_claim_freezes_files_and_frontier_in_one_step():
    """What the commit says is fixed: what is integrated later is not in it."""
    before = writer(frontier=19, staged=(file(10, 15),))
    frozen = freeze(before, base_version=6)
    assert frozen.claim == Claim(A, 0, 9, 19, (file(10, 15),), 6)
    later = integrate(writers(frozen), Fragment(plan(20, 30, A=19), {"A": (file(20, 22),)}), 0.0).writers[A]
    assert later.claim == frozen.claim
    assert later.staged == (file(10, 15), file(20, 22))


def test_4_1_a_writer_has_at_most_one_unresolved_commit():
    """COVER: a second claim would name the same files or pass the first one."""
    with pytest.raises(InvariantBroken, match="COVER") as caught:
        freeze(freeze(writer(frontier=19), 0), 0)
    assert caught.value.exit_code == 70


@pytest.mark.parametrize("frontier", [9, 8])
def test_4_1_a_claim_moves_the_position_strictly(frontier):
    """FENCE: new > expected, also for an empty marker."""
    with pytest.raises(InvariantBroken) as caught:
        freeze(writer(frontier=frontier), 0)
    assert caught.value.invariant is Invariant.FENCE


def test_4_1_a_re_offer_has_a_commit_id_of_its_own():
    """The claim remembers every id under which its files were offered."""
    frozen = freeze(writer(frontier=19), 0)
    once = offered(frozen, replace(frozen.claim, offers=("c1",)))
    twice = offered(once, replace(once.claim, offers=(*once.claim.offers, "c2")))
    assert twice.claim.offers == ("c1", "c2")


def test_4_1_a_writer_that_was_dropped_does_not_take_its_claim_back():
    """An offer that comes too late finds no open claim and leaves the writer as it is."""
    dropped = drop(freeze(writer(frontier=19), 0))
    assert offered(dropped, Claim(A, 0, 9, 19, (), 0, ("c1",))) == dropped


# --- landing


def test_what_was_staged_after_the_freeze_stays_after_landing():
    """Rounds and commits overlap: the claim's files leave, later ones wait for the next commit."""
    before = freeze(writer(frontier=19, staged=(file(10, 15),), failures=2), 0)
    later = integrate(writers(before), Fragment(plan(20, 30, A=19), {"A": (file(20, 22),)}), 3.0).writers[A]
    after = landed(later, later.claim, now=8.0)
    assert (after.covered, after.frontier, after.staged, after.claim) == (19, 29, (file(20, 22),), None)
    assert (after.behind_at, after.failures) == (8.0, 0)


def test_an_empty_marker_lands_without_rows():
    """Traps 26: the position moves, no file and no row with it."""
    frozen = freeze(writer(frontier=19), 0)
    assert (frozen.claim.files, frozen.claim.rows) == ((), 0)
    assert landed(frozen, frozen.claim, 8.0) == writer(covered=19, frontier=19, behind_at=8.0)


def test_files_staged_after_the_freeze_keep_their_age_after_landing():
    """A slow commit must not make what waits behind it younger: the age limits would count from the landing."""
    before = freeze(writer(frontier=19, staged=(file(10, 15),), oldest_at=1.0), 0)
    later = integrate(writers(before), Fragment(plan(20, 30, A=19), {"A": (file(20, 22),)}), 3.0).writers[A]
    assert landed(later, later.claim, now=500.0).oldest_at <= 3.0


def test_landing_after_a_drop_never_puts_covered_beyond_the_frontier():
    """covered <= frontier: otherwise the next plan reads below covered and its claim can never be frozen."""
    frozen = freeze(writer(frontier=19, staged=(file(10, 15),)), 0)
    after = landed(drop(frozen), frozen.claim, 0.0)
    assert after.covered <= after.frontier


# --- the claim's ranges: protocol 4.2


def claim(*files: StagedFile, expected: int = 9, new: int = 19) -> Claim:
    return Claim(A, 0, expected, new, files, 0)


@pytest.mark.parametrize(
    "one",
    [
        claim(),
        claim(file(10, 10)),
        claim(file(10, 19)),
        claim(file(10, 12), file(13, 19)),
        claim(file(13, 19), file(10, 12)),
        claim(file(10, 15, "2026-11-01"), file(12, 19, "2026-11-02")),
        claim(file(0, 0), expected=-1, new=0),
    ],
)
def test_4_2_a_claim_within_its_positions_is_offered(one):
    """Ranges of two days may overlap (out-of-order event times); a marker has no ranges at all."""
    assert staged_range_error(one) == ""


@pytest.mark.parametrize("new", [9, 8, -1])
def test_4_2_a_claim_that_does_not_move_the_position_is_not_offered(new):
    """FENCE: new > expected."""
    assert "not beyond 9" in staged_range_error(claim(new=new))


@pytest.mark.parametrize("one", [file(9, 12), file(10, 20), file(5, 8), file(20, 25), file(9, 20)])
def test_4_2_a_file_outside_the_claimed_offsets_is_not_offered(one):
    """COVER: first > expected and last <= new, for every file."""
    error = staged_range_error(claim(file(10, 10), one))
    assert one.path in error
    assert "outside (9, 19]" in error


@pytest.mark.parametrize("one", [file(12, 13), file(10, 10), file(15, 19), file(10, 19)])
def test_4_2_files_of_one_day_never_share_an_offset(one):
    """NAMES: two files of a day that overlap would double a record."""
    error = staged_range_error(claim(file(10, 15, "2026-11-02"), file(16, 16), replace_day(one)))
    assert "2026-11-02" in error


def replace_day(one: StagedFile) -> StagedFile:
    return replace(one, path=one.path.replace("2026-11-01", "2026-11-02"))


def test_rows_and_bytes_are_the_sums_over_files():
    """Limits and reports count all staged files; a claim counts its own."""
    both = (file(10, 12, rows=3), file(13, 19, rows=4))
    assert (writer(staged=both).staged_rows, writer(staged=both).staged_bytes, claim(*both).rows) == (7, 700, 7)
    assert file(1, 2, day="2026-11-05").folder == "day=2026-11-05"
