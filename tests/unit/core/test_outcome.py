"""What became of a commit is found by looking at the table (protocol 4.4)."""

from __future__ import annotations

import pytest

from exporter.core.outcome import Landed, Refused, Unknown, resolve
from exporter.core.writers import Claim, StagedFile, WriterKey
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition

KEY = WriterKey("A", TopicPartition("orders", 0))
FILES = (StagedFile("day=2026-11-01/x.parquet", OffsetRange(50, 60), 11, 1),)
EXPECTED, NEW = Position(2, 49), Position(2, 60)


def claim(*offers: str) -> Claim:
    return Claim(KEY, 2, 49, 60, FILES, base_version=7, offers=offers)


def test_a_commit_whose_id_is_in_the_log_has_landed():
    """The normal case, and the lost reply: whatever exception came, the id is there (traps 15)."""
    assert resolve(claim("c1"), {"c1", "other"}, NEW) == Landed(NEW)


def test_any_of_the_offers_of_the_same_files_counts():
    """The first offer landed late, after the second was made: nothing is offered a third time."""
    assert resolve(claim("c1", "c2"), {"c1"}, NEW) == Landed(NEW)
    assert resolve(claim("c1", "c2"), {"c2"}, NEW) == Landed(NEW)


@pytest.mark.parametrize("now", [Position(2, 99), Position(3, 10)], ids=["moved on", "next epoch"])
def test_a_landed_commit_has_landed_also_if_another_owner_went_on(now):
    """The position is already past ours: our rows are in the table, and the caller learns where it stands."""
    assert resolve(claim("c1"), {"c1"}, now) == Landed(now)


def test_a_landed_commit_whose_position_cannot_be_seen_stands_at_its_own():
    """A closed epoch shows no live position; what landed, landed."""
    assert resolve(claim("c1"), {"c1"}, None) == Landed(NEW)


@pytest.mark.parametrize("ids", [set(), {"other"}])
def test_a_commit_that_left_no_trace_is_unknown(ids):
    """No id, position as expected: the same files may be offered again, and nothing is deleted (TEMP)."""
    assert resolve(claim("c1"), ids, EXPECTED) == Unknown()


def test_a_second_refusal_without_a_trace_is_still_unknown():
    """Two offers, no id, position as expected."""
    assert resolve(claim("c1", "c2"), set(), EXPECTED) == Unknown()


@pytest.mark.parametrize("offset", [48, 55, 61, -1])
def test_another_owner_at_another_place_refuses_us(offset):
    """FENCE: the position is neither expected nor ours, lower or higher (traps 14)."""
    assert resolve(claim("c1"), {"other"}, Position(2, offset)) == Refused(Position(2, offset))


def test_another_owner_in_the_very_same_place_refuses_us():
    """The position equals our new one but the id is another's: its rows are there, ours must not follow."""
    assert resolve(claim("c1"), {"other"}, NEW) == Refused(NEW)


def test_the_expected_offset_in_another_epoch_refuses_us():
    """A rewind or a switch closed our epoch: the same number means something else (ABA)."""
    assert resolve(claim("c1"), set(), Position(3, 49)) == Refused(Position(3, 49))


def test_a_position_that_vanished_refuses_us():
    """Nothing is offered to a table that no longer knows the partition."""
    assert resolve(claim("c1"), set(), None) == Refused(None)


def test_a_claim_that_was_never_offered_cannot_have_landed():
    """Without a commit id only the position decides."""
    assert resolve(claim(), {"c1"}, EXPECTED) == Unknown()
    assert resolve(claim(), {"c1"}, NEW) == Refused(NEW)
